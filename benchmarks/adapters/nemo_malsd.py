"""NeMo's batched beam search of transducers (`malsd_batch`) on the weights of a transducer that is named arrays.

The search is NeMo's own, untouched, without CUDA graphs on a CPU; its networks are those of `nemo_transducer`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.adapters import nemo_sources, nemo_transducer

MODULE = "nemo.collections.asr.parts.submodules.{}_malsd_batched_computer"


class Decoder(nemo_transducer.Decoder):
    def batch_aggregate_states_beam(
        self, src_states: Any, batch_size: int, beam_size: int, indices: torch.Tensor, dst_states: Any = None
    ) -> Any:
        """The states of the hypotheses from which those of the next step come, [layers, batch * beam, units]."""
        rows = (indices + beam_size * torch.arange(batch_size, device=indices.device)[:, None]).flatten()
        chosen = tuple(state[:, rows] for state in src_states)
        for source, target in zip(chosen, dst_states or (), strict=False):
            target.copy_(source)
        return chosen if dst_states is None else dst_states


class NemoMalsd:
    """Decodes padded batches of encoder output; `durations` of a TDT, which NeMo's search takes for 0, 1, 2, ..."""

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        blank: int,
        durations: Sequence[int] | None,
        beam_size: int,
    ) -> None:
        kind, name = ("rnnt", "RNNT") if durations is None else ("tdt", "TDT")
        module = nemo_sources.load(MODULE.format(kind))
        joint = nemo_transducer.Joint(arrays).eval()
        joint.num_extra_outputs = len(durations or ())  # type: ignore[assignment]
        options: dict[str, Any] = {} if durations is None else {"durations": list(durations)}
        self.computer = getattr(module, f"ModifiedALSDBatched{name}Computer")(
            decoder=Decoder(arrays).eval(), joint=joint, blank_index=blank, beam_size=beam_size,
            max_symbols_per_step=10, allow_cuda_graphs=False, **options,
        )  # fmt: skip
        self.blank = blank

    @torch.inference_mode()
    def decode(
        self, encoded: Sequence[npt.NDArray[np.float32]], batch: int, *, normalized: bool
    ) -> list[list[list[int]]]:
        """Token lists of each utterance, the best first; `normalized` ranks by score / (labels + 1), NeMo's default."""
        found: list[list[list[int]]] = []
        for first in range(0, len(encoded), batch):
            some = encoded[first : first + batch]
            lengths = torch.tensor([len(frames) for frames in some])
            padded = torch.zeros(len(some), int(lengths.max()), some[0].shape[1])
            for row, frames in zip(padded, some, strict=True):
                row[: len(frames)] = torch.from_numpy(frames)
            hyps = self.computer.modified_alsd_torch(padded, lengths)[0]
            hyps.flatten_sort_(score_norm=normalized)
            for row, scores in zip(hyps.transcript_wb.tolist(), hyps.scores.tolist(), strict=True):
                texts = [
                    tuple(token for token in one if token >= 0 and token != self.blank)
                    for one, score in zip(row, scores, strict=True)
                    if score > -1e30
                ]
                found.append([list(text) for text in dict.fromkeys(texts)])
        return found
