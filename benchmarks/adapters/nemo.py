"""NeMo's batched CTC beam search with CUDA graphs and its n-gram language model on the GPU.

The LM is one of SentencePiece pieces, the ARPA file that the graph without a lexicon was built from, too. NeMo's score
of a hypothesis is its log-prob plus `lm_weight` times that of the LM; it keeps the best alignment of a hypothesis, as a
graph search does. What it is given lies padded on the GPU: [batch, longest, columns].
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.adapters import Answer, SearchOptions, nemo_sources
from benchmarks.data.graphs import GraphFiles

os.environ.setdefault("TQDM_DISABLE", "1")  # reading the LM would draw a bar into the log
MODULES = "nemo.collections.asr.parts.submodules"
COMPUTER = nemo_sources.load(f"{MODULES}.ctc_batched_beam_decoding").BatchedBeamCTCComputer
WORD_START = "▁"


@lru_cache(maxsize=1)
def language_model(arpa: str, pieces: int) -> Any:
    """NeMo's LM of the file; half a minute for a million n-grams, so one for all beams."""
    return nemo_sources.load(f"{MODULES}.ngram_lm").NGramGPULanguageModel.from_arpa(arpa, vocab_size=pieces)


class Nemo:
    """Hypotheses of a beam: `beam_size`. On a machine without a GPU it runs on the CPU, slowly, for tests."""

    name = "NeMo batched CTC beam search"
    device = "cuda"

    def __init__(self, files: GraphFiles, options: SearchOptions, beam_size: int = 8) -> None:
        tokens = files.tokens
        if tokens.blank != len(tokens) - 1:
            raise ValueError(f"{files.name}: NeMo's search wants the blank last, got column {tokens.blank}")
        self.where = "cuda" if torch.cuda.is_available() else "cpu"
        self.names = [tokens.tokens[c] for c in range(len(tokens))]
        self.batch = options.batch
        self.computer = COMPUTER(
            blank_index=tokens.blank,
            beam_size=beam_size,
            fusion_models=[language_model(str(files.arpa()), tokens.blank).to(self.where)],
            fusion_models_alpha=[options.lm_weight],
        )
        graphs = "full_graph" if self.where == "cuda" else None
        self.computer.force_cuda_graphs_mode(graphs)
        self.settings = f"beam_size {beam_size}, alpha {options.lm_weight:g}, CUDA graphs {graphs}, batch {self.batch}"

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        batches = []
        for first in range(0, len(utterances), self.batch):
            part = [torch.from_numpy(np.array(u, np.float32)) for u in utterances[first : first + self.batch]]
            padded = torch.nn.utils.rnn.pad_sequence(part, batch_first=True).to(self.where)
            batches.append((padded, torch.tensor([len(u) for u in part], device=self.where)))
        return batches

    def search(self, prepared: Any) -> None:
        """The search alone: its hypotheses stay on the GPU, as back-pointers."""
        with torch.inference_mode():
            for log_probs, lengths in prepared:
                self.computer(log_probs, lengths)
        if self.where == "cuda":
            torch.cuda.synchronize()

    def decode(self, prepared: Any) -> Any:
        found = []
        with torch.inference_mode():
            for log_probs, lengths in prepared:
                best = self.computer(log_probs, lengths).to_hyps_list(score_norm=False)
                found += best[: len(lengths)]
        return found

    def answers(self, decoded: Any) -> list[Answer]:
        return [Answer(self.text(h.y_sequence), -float(h.score), True) for h in decoded]

    def text(self, pieces: Sequence[int]) -> str:
        return "".join(self.names[int(piece)] for piece in pieces).replace(WORD_START, " ").strip()


ADAPTER = Nemo
