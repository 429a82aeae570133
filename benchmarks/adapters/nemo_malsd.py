"""NeMo's batched beam searches of transducers on the weights of a transducer that is named arrays.

The searches are NeMo's own, untouched; their networks are those of `nemo_transducer`. On a GPU `malsd_batch` is the
best that NeMo has: a graph with the loop in it, which decodes a batch in one launch. NeMo keeps scores in the precision
of the networks.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.adapters import nemo_sources, nemo_transducer

PARTS = "nemo.collections.asr.parts.submodules"
MAES_STEPS, MAES_BETA, MAES_GAMMA = 2, 2, 2.3  # NeMo's defaults


@cache
def ngram_model(arpa: Path, tokens: int) -> Any:
    """NeMo's own form (NGPU-LM) of a model whose words are NeMo's characters of tokens, in PyTorch alone; a minute for
    five million n-grams, and kept."""
    module = nemo_sources.load(f"{PARTS}.ngram_lm.ngram_lm_batched")
    return module.NGramGPULanguageModel.from_file(arpa, vocab_size=tokens, use_triton=False)


class Decoder(nemo_transducer.Decoder):
    def batch_aggregate_states_beam(
        self, src_states: Any, batch_size: int, beam_size: int, indices: torch.Tensor, dst_states: Any = None
    ) -> Any:
        """The states of the hypotheses from which those of the next step come, [layers, batch * beam, units]."""
        shape = (self.layers, batch_size, beam_size, self.units)
        rows = indices[None, :, :, None].expand(shape)
        chosen = dst_states or tuple(torch.empty_like(state) for state in src_states)
        for source, target in zip(src_states, chosen, strict=True):
            torch.gather(source.view(shape), 2, rows, out=target.view(shape))
        return chosen


class NemoMalsd:
    """`malsd_batch`: decodes padded batches of encoder output; `durations` of a TDT, which NeMo's search takes for 0,
    1, 2, ...

    device : "cpu", or "cuda" for CUDA graphs
    precision : of the networks and the encoder output: "float32", without TF32, or "bfloat16"
    ngram_lm : of :func:`ngram_model`, with its factor and NeMo's default rule for the blank and for pruning
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        blank: int,
        durations: Sequence[int] | None,
        beam_size: int,
        *,
        device: str = "cpu",
        precision: str = "float32",
        ngram_lm: Any = None,
        ngram_lm_alpha: float = 0.0,
    ) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.blank, self.device, self.dtype = blank, device, getattr(torch, precision)
        joint = nemo_transducer.Joint(arrays).to(device, self.dtype).eval()
        joint.num_extra_outputs = len(durations or ())  # type: ignore[assignment]
        decoder = Decoder(arrays).to(device, self.dtype).eval()
        options = {"decoder": decoder, "joint": joint, "blank_index": blank, "beam_size": beam_size}
        self.computer = self.search(options, durations, ngram_lm, ngram_lm_alpha)
        if device == "cuda":
            self.computer.force_cuda_graphs_mode("full_graph")

    def search(self, options: dict[str, Any], durations: Sequence[int] | None, ngram_lm: Any, alpha: float) -> Any:
        """NeMo's computer with these options."""
        kind, name = ("rnnt", "RNNT") if durations is None else ("tdt", "TDT")
        if durations is not None:
            options["durations"] = list(durations)
        if ngram_lm is not None:
            rule = {"blank_lm_score_mode": "lm_weighted_full", "pruning_mode": "late"}
            options |= {"fusion_models": [ngram_lm], "fusion_models_alpha": [alpha], **rule}
        module = nemo_sources.load(f"{PARTS}.{kind}_malsd_batched_computer")
        computer = getattr(module, f"ModifiedALSDBatched{name}Computer")
        return computer(max_symbols_per_step=10, allow_cuda_graphs=self.device == "cuda", **options)

    def prepare(
        self, frames: npt.NDArray[np.float32], lengths: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Encoder output [batch, frames, features] and its lengths, on the device."""
        counts = [frames.shape[1]] * len(frames) if lengths is None else list(lengths)
        return torch.from_numpy(frames).to(self.device, self.dtype), torch.tensor(counts, device=self.device)

    @torch.inference_mode()
    def decode(self, prepared: tuple[torch.Tensor, torch.Tensor]) -> Any:
        """NeMo's hypotheses, which lie on the device as a tree."""
        hyps = self.computer(*prepared)[0]
        if self.device == "cuda":
            torch.cuda.synchronize()
        return hyps

    @torch.inference_mode()
    def nbest(self, hyps: Any, *, normalized: bool) -> list[list[list[int]]]:
        """Token lists of each utterance, the best first; `normalized` ranks by score / (labels + 1), NeMo's default.

        It sorts what it is given in place, so that it takes the hypotheses of a call once.
        """
        hyps.flatten_sort_(score_norm=normalized)
        labels = hyps.transcript_wb[..., : int(hyps.current_lengths_wb.max())]
        written = (labels >= 0) & (labels != self.blank)
        tokens, ends = labels[written].tolist(), written.sum(-1).flatten().cumsum(0).tolist()
        texts = [tokens[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        found, at = [], 0
        for live in torch.isfinite(hyps.scores).tolist():
            found.append([text for text, alive in zip(texts[at : at + len(live)], live, strict=True) if alive])
            at += len(live)
        return found

    def texts(
        self, encoded: Sequence[npt.NDArray[np.float32]], batch: int, *, normalized: bool
    ) -> list[list[list[int]]]:
        """The distinct ones of :meth:`nbest`, of utterances of any length in batches."""
        found: list[list[list[int]]] = []
        for first in range(0, len(encoded), batch):
            some = encoded[first : first + batch]
            lengths = [len(frames) for frames in some]
            padded = np.zeros((len(some), max(lengths), some[0].shape[1]), np.float32)
            for row, frames in zip(padded, some, strict=True):
                row[: len(frames)] = frames
            lists = self.nbest(self.decode(self.prepare(padded, lengths)), normalized=normalized)
            found += [[list(text) for text in dict.fromkeys(map(tuple, one))] for one in lists]
        return found


class NemoMaes(NemoMalsd):
    """`maes_batch`, adaptive expansion, which NeMo has for an RNN-T and without CUDA graphs; use the device "cpu"."""

    def search(self, options: dict[str, Any], durations: Sequence[int] | None, ngram_lm: Any, alpha: float) -> Any:
        """NeMo's computer with these options."""
        if ngram_lm is not None:
            rule = {"blank_lm_score_mode": "lm_weighted_full", "pruning_mode": "late"}
            options |= {"ngram_lm_model": ngram_lm, "ngram_lm_alpha": alpha, **rule}
        computer = nemo_sources.load(f"{PARTS}.rnnt_maes_batched_computer").ModifiedAESBatchedRNNTComputer
        return computer(
            maes_num_steps=MAES_STEPS, maes_expansion_beta=MAES_BETA, maes_expansion_gamma=MAES_GAMMA,
            allow_cuda_graphs=False, **options,
        )  # fmt: skip
