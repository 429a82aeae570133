"""A round of streams of a transducer: their chunks are decoded together, and sentences end where rules say so.

Chunks are decoded whole; frames up to an end are decoded again for the state there. No end: one call of the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.arrays.batches import Utterances
from arcbeam.arrays.on_device import copied_to_host
from arcbeam.core.errors import Fault
from arcbeam.streams.waiting import Waiting
from arcbeam.transducer.hypothesis import TransducerHypothesis, TransducerState
from arcbeam.transducer.search import GreedySearch
from arcbeam.transducer.streams.endpoint import End
from arcbeam.transducer.streams.sentence import Sentence


class Round:
    """The chunks of streams that are in these sentences, as the engine takes them."""

    def __init__(
        self, search: GreedySearch, sentences: Sequence[Sentence], utterances: Utterances, on_host: bool
    ) -> None:
        self._search, self._sentences = search, sentences
        self._utterances, self._on_host = utterances, on_host

    def decoded(self, ends: Sequence[bool], refused: dict[int, Fault]) -> tuple[list[Sentence], dict[int, Fault]]:
        """The sentences after their chunks, which are as before for chunks that are refused; and why those are."""
        sentences = self._sentences
        stopped = [at for at, one in enumerate(sentences) if one.fired and at not in refused]
        found = self._found(stopped, refused)
        wrong: dict[int, Fault] = {at: one.error for at, one in enumerate(found) if one.error is not None}
        wrong |= refused
        sentence_ends: dict[int, End] = {}
        for at, sentence in enumerate(sentences):
            if sentence.rules is None or at in refused or at in stopped:
                continue
            if at in wrong:
                self._decoded_by_checks(at, found, wrong, sentence_ends)
            elif (end := sentence.first_end(found[at])) is not None:
                sentence_ends[at] = end
        self._cut(sentence_ends, found)
        for at in stopped:
            if (error := self._not_finite(at)) is not None:
                wrong[at] = error
        waits_from = {at: 0 for at in stopped if at not in wrong}
        waits_from |= {at: end.frames - sentences[at].frames for at, end in sentence_ends.items()}
        after = list(sentences)
        for at, sentence in enumerate(sentences):
            if at in wrong:
                continue
            if at not in stopped:
                fired = sentence_ends[at].fired if at in sentence_ends else 0
                sentence = sentence.after(found[at], ends[at], fired)
            if at in waits_from:
                waits = waits_from[at] < self._utterances.table[at, 2]
                sentence = sentence.with_waiting([Waiting(self._rows(at, waits_from[at]))] if waits else [], ends[at])
            after[at] = sentence
        return after, {at: wrong[at] for at in sorted(wrong)}

    def _found(self, stopped: Sequence[int], refused: Collection[int]) -> list[TransducerHypothesis]:
        """The hypotheses of all chunks: of nothing for those that were refused, and for streams that have stopped."""
        utterances = self._utterances
        if stopped or refused:
            table = utterances.table.copy()
            table[[*stopped, *refused], 2] = 0
            utterances = replace(utterances, table=table)
        states = [None if at in refused else one.state for at, one in enumerate(self._sentences)]
        boosts = [None if at in refused else one.boost for at, one in enumerate(self._sentences)]
        return self._search.decode(utterances, self._on_host, states, boosts, "return")

    def _of(self, at: int, first: int, end: int, state: TransducerState | None) -> TransducerHypothesis:
        """That of some frames of one chunk."""
        row = self._utterances.table[at : at + 1].copy()
        row[0, 0] += (2 if row[0, 3] else 4) * row[0, 1] * first
        row[0, 2] = end - first
        one = replace(self._utterances, table=row)
        return self._search.decode(one, self._on_host, [state], [self._sentences[at].boost], "return")[0]

    def _cut(self, ends: dict[int, End], found: list[TransducerHypothesis]) -> None:
        """Decodes the frames before the ends once more, all together, where frames follow."""
        taken = {at: end.frames - self._sentences[at].frames for at, end in ends.items()}
        cut = [at for at, frames in taken.items() if frames < self._utterances.table[at, 2]]
        if not cut:
            return
        table = self._utterances.table[cut]
        table[:, 2] = [taken[at] for at in cut]
        again = self._search.decode(
            replace(self._utterances, table=table), self._on_host, [self._sentences[at].state for at in cut],
            [self._sentences[at].boost for at in cut], "return",
        )  # fmt: skip
        for at, one in zip(cut, again, strict=True):
            found[at] = one

    def _decoded_by_checks(
        self,
        at: int,
        found: list[TransducerHypothesis],
        wrong: dict[int, Fault],
        ends: dict[int, End],
    ) -> None:
        """After a value that is not finite: decodes from check to check up to an end, whatever the chunks."""
        sentence = self._sentences[at]
        if sentence.rules is None or self._not_finite(at) is not None:
            return
        frames = int(self._utterances.table[at, 2])
        every, before = sentence.rules.every, sentence.frames
        for checked_at in range((before // every + 1) * every - before, frames + 1, every):
            one = self._of(at, 0, checked_at, sentence.state)
            if one.error is not None:
                return
            if (end := sentence.first_end(one)) is not None:
                del wrong[at]
                found[at], ends[at] = one, end
                return

    def _rows(self, at: int, first: int) -> npt.NDArray[np.float32]:
        """A copy of the frames of a chunk from one on, in the host's memory."""
        features = self._search.spec.columns
        if self._on_host:
            return self._utterances.rows(at, first, features)
        one = replace(self._utterances, table=self._utterances.table[at : at + 1])
        return copied_to_host(one, self._search.engine.stream).rows(0, first, features)

    def _not_finite(self, at: int) -> ValueError | None:
        """What is wrong with a chunk that waits, as the engine would say it."""
        rows = self._rows(at, 0)
        places = np.argwhere(~np.isfinite(rows))
        if not len(places):
            return None
        frame, column = places[0].tolist()
        bad = [(at, frame, column, rows[frame, column])]
        return encoder_output_errors(bad, self._utterances, "return")[at]
