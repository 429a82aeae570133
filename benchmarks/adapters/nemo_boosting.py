"""NeMo's boosting trees in its greedy CTC decoding and in its batched CTC beam search, on the CPU.

Every utterance has a tree of its own. NeMo's CTC decoders take one tree for a batch, its transducers take many, as a
`GPUBiasingMultiModel`; that is what the CTC decoders get here. A listed word is spelled in the columns of the
log-probs, if wanted with the separator of words before it. NeMo's decoders have no lexicon and no language model of
words, but the beam search may have an n-gram model of letters, see `benchmarks.data.letters_lm`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.adapters import Answer, SearchOptions, nemo_sources, nemo_trees
from benchmarks.adapters.nemo import COMPUTER, language_model
from benchmarks.data import letters_lm
from benchmarks.data.graphs import GraphFiles

GREEDY = nemo_sources.load("nemo.collections.asr.parts.submodules.ctc_greedy_decoding").GreedyBatchedCTCInfer


class NemoBoosting:
    """Texts with lists of words, each utterance its own.

    beam_size : hypotheses; 0 decodes greedily
    context_score, depth_scaling, unk_score : as NeMo has them
    separator_first : whether a word is spelled with the separator before it
    lm_weight : of the n-gram model of letters; 0 is without one
    """

    name = "NeMo boosting tree"
    device = "cpu"

    def __init__(
        self,
        files: GraphFiles,
        options: SearchOptions,
        beam_size: int = 0,
        *,
        context_score: float = nemo_trees.CONTEXT_SCORE,
        depth_scaling: float = nemo_trees.DEPTH_SCALING,
        unk_score: float = nemo_trees.UNK_SCORE,
        separator_first: bool = False,
        lm_weight: float = 0.0,
    ) -> None:
        tokens, separator = files.tokens, files.graph.separator_column
        if tokens.blank != len(tokens) - 1:
            raise ValueError(f"{files.name}: NeMo's decoders want the blank last, got column {tokens.blank}")
        if separator is None:
            raise ValueError(f"{files.name}: expected log-probs of letters with a separator between words")
        self.blank, self.beam_size, self.batch = tokens.blank, beam_size, options.batch
        self.names = [" " if column == separator else tokens.tokens[column] for column in range(self.blank)]
        self.column_of = {name: column for column, name in enumerate(self.names)}
        self.shape = (context_score, depth_scaling, unk_score)
        self.before = " " * separator_first
        self.models: list[Any] = []
        self.weights: list[float] = []
        if lm_weight:
            if not beam_size:
                raise ValueError("lm_weight: expected beam_size, too; greedy decoding is without a language model here")
            self.models.append(language_model(str(letters_lm.get(self.names)), self.blank))
            self.weights.append(lm_weight)
        self.settings = (
            f"context_score {context_score:g}, depth_scaling {depth_scaling:g}, unk_score {unk_score:g}"
            + ", words with a space before them" * separator_first
            + f", beam_size {beam_size}" * bool(beam_size)
            + f", {letters_lm.ORDER}-gram of letters by {lm_weight:g}" * bool(lm_weight)
        )

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        """Batches of utterances of about the same length: their places, padded log-probs, lengths."""
        order = sorted(range(len(utterances)), key=lambda i: len(utterances[i]))
        batches = []
        for first in range(0, len(order), self.batch):
            places = order[first : first + self.batch]
            part = [torch.from_numpy(np.array(utterances[i], np.float32)) for i in places]
            padded = torch.nn.utils.rnn.pad_sequence(part, batch_first=True)
            batches.append((places, padded, torch.tensor([len(u) for u in part])))
        return batches

    def decode(self, prepared: Any) -> Any:
        return self._decode(prepared, None, 0.0)

    def decode_with_hotwords(self, prepared: Any, lists: Sequence[Sequence[str]], weight: float) -> Any:
        """The same with words that are made likelier, for each utterance its own; weight : `boosting_tree_alpha`."""
        return self._decode(prepared, lists, weight)

    def answers(self, decoded: Any) -> list[Answer]:
        return [Answer(self.text(columns), -score, True) for columns, score in decoded]

    def text(self, columns: Sequence[int]) -> str:
        return " ".join("".join(self.names[column] for column in columns).split())

    def spelled(self, words: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.column_of[letter] for letter in self.before + word) for word in words)

    def _decode(self, prepared: Any, lists: Sequence[Sequence[str]] | None, weight: float) -> Any:
        decode = self._beams if self.beam_size else self._greedy
        found: dict[int, tuple[list[int], float]] = {}
        with torch.inference_mode():
            for places, log_probs, lengths in prepared:
                models, weights = list(self.models), list(self.weights)
                if lists is not None:
                    spelled = tuple(self.spelled(lists[place]) for place in places)
                    models.append(nemo_trees.trees(spelled, self.blank, self.shape))
                    weights.append(weight)
                fusion = {"fusion_models": models or None, "fusion_models_alpha": weights or None}
                found |= zip(places, decode(log_probs, lengths, fusion), strict=True)
        return [found[place] for place in sorted(found)]

    def _greedy(
        self, log_probs: torch.Tensor, lengths: torch.Tensor, fusion: dict[str, Any]
    ) -> Iterator[tuple[list[int], float]]:
        decoder = GREEDY(self.blank)
        vars(decoder).update(fusion)
        for hyp in decoder._greedy_decode_logprobs_batched(log_probs, lengths):
            frames = hyp.y_sequence  # a column for each
            begun = [column for column, last in zip(frames, [self.blank, *frames], strict=False) if column != last]
            yield [column for column in begun if column != self.blank], float(hyp.score)

    def _beams(
        self, log_probs: torch.Tensor, lengths: torch.Tensor, fusion: dict[str, Any]
    ) -> Iterator[tuple[list[int], float]]:
        computer = COMPUTER(self.blank, self.beam_size, allow_cuda_graphs=False, **fusion)
        for hyp in computer(log_probs, lengths).to_hyps_list(score_norm=False)[: len(lengths)]:
            yield [int(column) for column in hyp.y_sequence], float(hyp.score)


ADAPTER = NemoBoosting
