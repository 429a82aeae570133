"""Forced alignment: one search over the graph of all texts, repeated with a wider beam where that is needed.

A path that a beam has dropped costs, to the frame where it was dropped, more than the best one there plus the beam, and
afterwards at least the smallest cost of each frame. So it costs more than the sum of the smallest costs of all frames
plus the beam. Where the path that was found costs no more than that, it is the best of all.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import one_or_many
from arcbeam.core.checks import LARGEST, check_float32, check_real
from arcbeam.core.errors import InputError
from arcbeam.ctc.align._frame_costs import log_probs_along, smallest_sums
from arcbeam.ctc.align.alignment import NO_PATH, Alignment, FramePath, WordPlaces, word_places
from arcbeam.ctc.align.texts import SpelledTexts, labels_of, spelled, spellings_of, words_of
from arcbeam.ctc.engines import make_engine
from arcbeam.ctc.stats import DecoderMemory
from arcbeam.graph.text_graph import Rules, text_graph, too_few_frames

if TYPE_CHECKING:
    import os

    from arcbeam.arrays.batches import Inputs
    from arcbeam.ctc.boost.spellings import Pronounced
    from arcbeam.ctc.search import BeamSearch

FIRST_BEAM = 17.0  # at least; the default of a decoder
WIDER = 5.0  # times as wide is the next beam where no path has reached the end, and at most that of a proof
WIDEST = 4096.0  # beyond it a beam is infinite
PROVEN_WORK = 1 << 25  # frames times states of a text up to which its path is proven at any beam
ROUNDING = 2.0**-21  # of all costs of a path, at least what float32 arithmetic adds or takes away


class AlignCall(NamedTuple):
    """The options of a call of align, checked."""

    pronunciations: Pronounced | str | os.PathLike[str] | None
    star: float | None
    cuda_stream: Any
    errors: str
    logits: bool


class Found(NamedTuple):
    """The path of an utterance in the graph of the texts."""

    arcs: npt.NDArray[np.uint32]
    cost: float
    reached_end: bool


def check_star(star: float | None) -> None:
    """TypeError or ValueError unless it is None or a cost."""
    if star is not None:
        check_real("star", star, "of at least 0", above=0.0, inclusive=True)
        check_float32("star", star)


def align(
    search: BeamSearch, ordinal: int | None, log_probs: Any, texts: Any, lengths: Any, call: AlignCall
) -> Alignment | list[Alignment]:
    """Alignments of a batch, or of one array; `CtcDecoder.align` documents them."""
    given, has_star = spellings_of(call.pronunciations), call.star is not None
    search.check_files()
    log_probs, lengths, is_one = one_or_many(log_probs, lengths)
    inputs = search.intake.take(log_probs, lengths, call.cuda_stream, call.logits)
    words = words_of(texts, len(inputs.table), is_one, has_star)
    labels = labels_of(search.graph)
    text = spelled(labels, words, given, has_star)
    faults = _faults(text, inputs, Rules.of(labels))
    if faults and call.errors == "raise":
        raise faults[min(faults)]
    found = _Aligner(search, ordinal, inputs.without(list(faults)) if faults else inputs, text, call).alignments(faults)
    return found[0] if is_one else found


def _faults(text: SpelledTexts, inputs: Inputs, rules: Rules) -> dict[int, InputError]:
    """Why texts cannot be aligned: of words without a spelling, or because there are too few frames."""
    faults, frames = dict(text.faults), inputs.table[:, 2].tolist()
    for i, needed in too_few_frames(text.texts, rules, frames).items():  # none has a fault already: its text is empty
        reason = f"expected a text of at most {frames[i]:,} frames, got one that takes at least {needed:,}"
        hint = "does it belong to other log-probs, or are these too short?"
        faults[i] = InputError("texts", reason, hint, utterance=i)
    return faults


class _Aligner:
    """The searches of one call."""

    def __init__(
        self, search: BeamSearch, ordinal: int | None, inputs: Inputs, text: SpelledTexts, call: AlignCall
    ) -> None:
        self._search, self._ordinal, self._inputs, self._text, self._call = search, ordinal, inputs, text, call
        self._graph = text_graph(labels_of(search.graph), text.texts, call.star or 0.0)
        self._frames = inputs.table[:, 2]
        self._found: dict[int, Found] = {}
        self._faults: dict[int, InputError] = {}

    def alignments(self, faults: dict[int, InputError]) -> list[Alignment]:
        """The alignments of all utterances but those with faults, which have an error."""
        count = len(self._frames)
        self._faults = dict(faults)
        proven = self._searched([i for i in range(count) if i not in faults])
        paths = self._paths([i for i in range(count) if i not in self._faults and self._found[i].reached_end])
        return [self._alignment(i, paths.get(i, NO_PATH), i in proven) for i in range(count)]

    def _searched(self, utterances: list[int]) -> set[int]:
        """Searches until each has reached its end, and returns those whose path is proven to be the best.

        What an utterance gets does not depend on the others: these only widen the beam of a proof.
        """
        beam = max(self._search.options.beam, FIRST_BEAM)
        proven = self._decode(utterances, beam)
        widest = {i: math.inf if self._work(i) <= PROVEN_WORK else min(WIDER * beam, LARGEST) for i in utterances}
        while not math.isinf(beam) and (lost := [i for i in utterances if not self._reached(i)]):
            beam = WIDER * beam if WIDER * beam <= WIDEST else math.inf
            widest |= {i: min(WIDER * beam, LARGEST) for i in lost if widest[i] < math.inf}
            near = [i for i, of in self._beams_of_proofs(widest, proven).items() if of <= beam]
            proven |= self._decode([*lost, *near], beam)
        beams = self._beams_of_proofs(widest, proven)
        narrow = [i for i in beams if beams[i] < math.inf]
        proven |= self._decode(narrow, max((beams[i] for i in narrow), default=0.0))
        return proven | self._decode([i for i in beams if beams[i] == math.inf], math.inf)

    def _beams_of_proofs(self, widest: dict[int, float], proven: set[int]) -> dict[int, float]:
        """The beams that prove paths, or a little wider, as float32 has them, up to the widest that is worth it."""
        paths = [i for i in widest if i not in proven and i not in self._faults and self._found[i].reached_end]
        beams = {i: float(np.float32(self._needed_beam(i) * (1.0 + ROUNDING))) for i in paths}
        return {i: beams[i] for i in paths if beams[i] <= widest[i]}

    def _reached(self, i: int) -> bool:
        """Whether an utterance has a path to the end of its text, or an error."""
        return i in self._faults or self._found[i].reached_end

    def _work(self, i: int) -> int:
        """The most tokens of a search."""
        return int(self._frames[i]) * int(self._graph.num_states[i])

    def _decode(self, utterances: list[int], beam: float) -> set[int]:
        """Searches some utterances within a beam, and returns those whose path is proven to be the best.

        Those with values that are no log-probs get an error.
        """
        if not utterances:
            return set()
        options = replace(self._search.options, beam=beam, max_active=None, memory_limit=self._memory_limit())
        engine = make_engine(self._graph.graph, options, None, self._ordinal, self._search.reader.engine)
        intake = self._search.intake.with_engine(engine)
        inputs = self._inputs.at(utterances)
        if inputs.reader is not None and engine.stream is not None:  # which what writes the arrays comes before
            engine.stream.wait_for_stream(inputs.reader.address)
        found, _, refused = intake.decode(inputs, "return", starts=self._graph.starts[utterances])
        intake.warn()
        arcs, begins, lengths, costs, reached_final, complete = found
        for at, i in enumerate(utterances):
            if at in refused:
                self._faults[i] = refused[at].at(utterance=i)
                continue
            path = arcs[begins[at] : begins[at] + lengths[at]]
            self._found[i] = Found(path, float(costs[at]), bool(complete[at] and reached_final[at]))
        if refused and self._call.errors == "raise":
            raise self._faults[min(self._faults)]
        beam = float(np.float32(beam))
        return {
            i
            for i in utterances
            if i not in self._faults and self._found[i].reached_end and self._needed_beam(i) <= beam
        }

    def _memory_limit(self) -> int | None:
        """What the decoder's own engine, which gives back what it can, leaves of the memory that it may take."""
        limit = self._search.options.memory_limit
        if not isinstance(limit, int):
            return None
        self._search.engine.release()
        return max(1, limit - DecoderMemory(**self._search.engine.memory()).device_bytes)

    def _needed_beam(self, i: int) -> float:
        """The smallest beam with which the path of an utterance is proven to be the best."""
        cost, frames = self._found[i].cost, int(self._frames[i])
        smallest, magnitudes = self._smallest[i]
        rounding = ROUNDING * (abs(cost) + magnitudes)
        excess = max(cost - smallest + rounding, 0.0)
        kept = 1.0 - ROUNDING * (1 + frames)  # of a beam that is added to costs, frame after frame
        return excess / kept if kept > 0.5 else math.inf

    @cached_property
    def _on_host(self) -> Inputs:
        """The log-probs in the host's memory."""
        return self._inputs.copied_to_host()

    @cached_property
    def _smallest(self) -> list[list[float]]:
        """[utterances]: the sum of the smallest costs that the text may take in each frame, and of their magnitudes."""
        options, graph = self._search.options, self._search.graph
        reads, has_star = self._graph.columns_read()
        reads = np.pad(reads, ((0, 0), (0, self._on_host.columns - reads.shape[1])))
        star = np.where(has_star, self._call.star or 0.0, np.inf).astype(np.float32)
        blank = -1 if graph.blank is None else graph.blank
        scale, penalty = options.acoustic_scale, options.blank_penalty
        return smallest_sums(self._on_host.table, reads.view(np.uint8), star, scale, penalty, blank).tolist()

    def _paths(self, utterances: list[int]) -> dict[int, tuple[FramePath, WordPlaces]]:
        """What the paths do in each frame, and their words, of those that have reached their end."""
        if not utterances:
            return {}
        inputs = self._on_host.at(utterances)
        arcs = np.concatenate([self._found[i].arcs for i in utterances])
        columns, states, items, is_star = self._graph.frame_path(arcs)
        scores = log_probs_along(inputs.table, inputs.columns, columns)
        every, ends = FramePath(columns, states, items, is_star, scores), np.cumsum(inputs.table[:, 2])
        parts = [every.part(*frames) for frames in itertools.pairwise([0, *ends.tolist()])]
        return dict(zip(utterances, zip(parts, word_places(every, ends), strict=True), strict=True))

    def _alignment(self, i: int, path: tuple[FramePath, WordPlaces], is_proven: bool) -> Alignment:
        search, error = self._search, self._faults.get(i)
        tokens = None if search.graph.tokens is None else search.graph.tokens.tokens
        names = (tokens, search.graph.blank), search.options.frame_shift
        score = -math.inf if path is NO_PATH else 0.0 - self._found[i].cost
        return Alignment(self._text.names[i], *path, score, is_proven and path is not NO_PATH, error, *names)
