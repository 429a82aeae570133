"""Forced alignment: one search over the graph of all texts, repeated with a wider beam where that is needed.

A path that a beam has dropped costs, to the frame where it was dropped, more than the best one there plus the beam, and
afterwards at least the smallest cost of each frame. So it costs more than the sum of the smallest costs of all frames
plus the beam. Where the path that was found costs no more than that, it is the best of all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import one_or_many
from arcbeam.core.checks import LARGEST, check_float32, check_real
from arcbeam.core.errors import InputError
from arcbeam.ctc.align.alignment import NO_FRAMES, Alignment, FramePath
from arcbeam.ctc.align.texts import SpelledTexts, labels_of, spelled, spellings_of, words_of
from arcbeam.ctc.engines import make_engine
from arcbeam.ctc.stats import DecoderMemory
from arcbeam.graph.text_graph import text_graph

if TYPE_CHECKING:
    import os

    from arcbeam.arrays.batches import Inputs
    from arcbeam.ctc.boost.spellings import Pronounced
    from arcbeam.ctc.search import BeamSearch

FIRST_BEAM = 17.0  # at least; the default of a decoder
WIDER = 4.0  # times as wide is the next beam where no path has reached the end, and at most that of a proof
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
    text = spelled(labels_of(search.graph), words, given, has_star)
    faults = _faults(text, inputs)
    if faults and call.errors == "raise":
        raise faults[min(faults)]
    found = _Aligner(search, ordinal, inputs.without(list(faults)) if faults else inputs, text, call).alignments(faults)
    return found[0] if is_one else found


def _faults(text: SpelledTexts, inputs: Inputs) -> dict[int, InputError]:
    """Why texts cannot be aligned: of words without a spelling, or because there are too few frames."""
    faults = dict(text.faults)
    for i, (frames, needed) in enumerate(zip(inputs.table[:, 2].tolist(), text.fewest_frames, strict=True)):
        if needed > frames and i not in faults:
            reason = f"expected a text of at most {frames:,} frames, got one that takes at least {needed:,}"
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
        self._smallest: dict[int, npt.NDArray[np.float32]] = {}  # costs of each frame

    def alignments(self, faults: dict[int, InputError]) -> list[Alignment]:
        """The alignments of all utterances but those with faults, which have an error."""
        count = len(self._frames)
        self._faults = dict(faults)
        proven = self._searched([i for i in range(count) if i not in faults])
        return [self._alignment(i, i in proven) for i in range(count)]

    def _searched(self, utterances: list[int]) -> set[int]:
        """Searches until each has reached its end, and returns those whose path is proven to be the best."""
        beam = max(self._search.options.beam, FIRST_BEAM)
        proven = self._decode(utterances, beam)
        cheap = {i for i in utterances if self._work(i) <= PROVEN_WORK}
        if not math.isinf(beam):
            proven |= self._decode_again(cheap - proven)
        others = set(utterances) - cheap
        while not math.isinf(beam) and (lost := [i for i in utterances if i in others and not self._reached(i)]):
            beam = WIDER * beam if WIDER * beam <= WIDEST else math.inf
            proven |= self._decode(lost, beam)
        return proven | self._decode_again(
            {i for i in others - proven if self._wider_beam(i) <= min(WIDER * beam, LARGEST)}
        )

    def _reached(self, i: int) -> bool:
        """Whether an utterance has a path to the end of its text, or an error."""
        return i in self._faults or self._found[i].reached_end

    def _decode_again(self, utterances: set[int]) -> set[int]:
        """As `_decode`, with the beams that prove the paths; where there is none, without a beam."""
        beams = {i: self._wider_beam(i) for i in sorted(utterances - self._faults.keys())}
        narrow = [i for i in beams if beams[i] < math.inf]
        proven = self._decode(narrow, max((beams[i] for i in narrow), default=0.0))
        return proven | self._decode([i for i in beams if beams[i] == math.inf], math.inf)

    def _wider_beam(self, i: int) -> float:
        """The beam that proves the path of an utterance, or a little wider, as float32 has it; infinite without one."""
        if i in self._faults or not self._found[i].reached_end:
            return math.inf
        return float(np.float32(self._needed_beam(i) * (1.0 + ROUNDING)))

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
        engine = make_engine(self._graph.graph, options, None, self._ordinal)
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
        cost = self._found[i].cost
        if i not in self._smallest:
            self._smallest[i] = self._smallest_costs(i)
        smallest = self._smallest[i]
        rounding = ROUNDING * (abs(cost) + float(np.abs(smallest).sum(dtype=np.float64)))
        excess = max(cost - float(smallest.sum(dtype=np.float64)) + rounding, 0.0)
        kept = 1.0 - ROUNDING * (1 + len(smallest))  # of a beam that is added to costs, frame after frame
        return excess / kept if kept > 0.5 else math.inf

    def _smallest_costs(self, i: int) -> npt.NDArray[np.float32]:
        """float32 [frames]: the smallest cost that the text may take in each frame, in the search's arithmetic."""
        options, blank, star = self._search.options, self._search.graph.blank, self._call.star
        rows = self._rows(i)
        scale, penalty = np.float32(options.acoustic_scale), np.float32(options.blank_penalty)
        own, has_star = self._graph.columns_of(i)
        costs = _smallest(rows, own, scale, blank, penalty)
        if star is None or not has_star:
            return costs
        every = np.arange(self._search.graph.num_columns)
        return np.minimum(costs, _smallest(rows, every, scale, blank, penalty) + np.float32(star))

    def _rows(self, i: int) -> npt.NDArray[np.floating[Any]]:
        """The log-probs of an utterance, in the host's memory; those of a GPU are copied to it once."""
        if not self._inputs.on_host:
            self._inputs = self._inputs.copied_to_host()
        return self._inputs.view(i)

    def _alignment(self, i: int, is_proven: bool) -> Alignment:
        search, error = self._search, self._faults.get(i)
        tokens = None if search.graph.tokens is None else search.graph.tokens.tokens
        names = (tokens, search.graph.blank), search.options.frame_shift
        if error is not None or not self._found[i].reached_end:
            return Alignment(self._text.names[i], NO_FRAMES, -math.inf, False, error, *names)
        found = self._found[i]
        path = self._graph.frame_path(found.arcs)
        columns = path[0]
        scores = self._rows(i)[np.arange(len(columns)), columns].astype(np.float32)
        return Alignment(self._text.names[i], FramePath(*path, scores), 0.0 - found.cost, is_proven, None, *names)


def _smallest(
    rows: npt.NDArray[np.floating[Any]],
    columns: npt.NDArray[np.int64],
    scale: np.float32,
    blank: int | None,
    penalty: np.float32,
) -> npt.NDArray[np.float32]:
    """float32 [frames]: the smallest cost among some columns, by law 1; +inf where there are none."""
    costs = np.full(len(rows), np.inf, np.float32)
    others = columns if blank is None else columns[columns != blank]
    if len(others):
        best = (rows if len(others) == rows.shape[1] else rows[:, others]).max(axis=1).astype(np.float32)
        costs = -(scale * best)
    if blank is not None and blank in columns:
        costs = np.minimum(costs, -(scale * rows[:, blank].astype(np.float32)) + penalty)
    return costs
