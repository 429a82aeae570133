"""A round of streams of a transducer: their chunks are decoded together, and sentences end where rules say so.

Each chunk is decoded as a whole, whatever its sentence's end. Where one ends within, its frames up to there are decoded
once more, for the state behind them; the others wait. So a round without an end takes one call of the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.arrays.batches import Utterances
from arcbeam.arrays.on_device import copied_to_host
from arcbeam.core.errors import Fault
from arcbeam.transducer.hypothesis import TransducerHypothesis, TransducerState
from arcbeam.transducer.sentences import End

if TYPE_CHECKING:
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.stream import TransducerPartial, TransducerStream


class Round:
    """The chunks of some streams, as the engine takes them.

    Parameters
    ----------
    decoder : TransducerDecoder
    streams : sequence of TransducerStream
    utterances : Utterances
        A chunk of each.
    on_host : bool
        Whether they lie in the host's memory.
    """

    def __init__(
        self, decoder: TransducerDecoder, streams: Sequence[TransducerStream], utterances: Utterances, on_host: bool
    ) -> None:
        self._decoder, self._streams = decoder, streams
        self._utterances, self._on_host = utterances, on_host
        self.wrong: dict[int, Fault] = {}

    def decoded(self, ends: Sequence[bool], refused: dict[int, Fault]) -> list[TransducerPartial]:
        """The results of all streams, which have taken their chunks; `wrong` says whose chunks were refused."""
        streams = self._streams
        stopped = [at for at, stream in enumerate(streams) if stream._is_stopped and at not in refused]
        found = self._found(stopped, refused)
        wrong: dict[int, Fault] = {at: one.error for at, one in enumerate(found) if one.error is not None}
        wrong |= refused
        sentence_ends: dict[int, End] = {}
        for at, stream in enumerate(streams):
            if stream._rules is None or at in refused or at in stopped:
                continue
            if at in wrong:
                self._decoded_by_looks(at, found, wrong, sentence_ends)
            elif (end := stream._first_end(found[at])) is not None:
                sentence_ends[at] = end
        self._cut(sentence_ends, found)
        for at in stopped:
            if (error := self._not_finite(at)) is not None:
                wrong[at] = error
        behind = {at: 0 for at in stopped if at not in wrong}
        behind |= {at: end.frames - streams[at]._sentence_frames for at, end in sentence_ends.items()}
        rest = {at: self._rows(at, taken) for at, taken in behind.items() if taken < self._utterances.table[at, 2]}
        self.wrong = {at: wrong[at] for at in sorted(wrong)}
        partials = []
        for at, stream in enumerate(streams):  # from here on nothing can fail
            if at in wrong:
                partials.append(stream._refused(wrong[at]))
                continue
            if at in rest:
                stream._waiting.append(rest[at])
            if at in stopped:
                stream._last_came |= ends[at]
                partials.append(stream.partial)
            else:
                fired = sentence_ends[at].fired if at in sentence_ends else 0
                partials.append(stream._take(found[at], ends[at], fired))
        return partials

    def _found(self, stopped: Sequence[int], refused: Collection[int]) -> list[TransducerHypothesis]:
        """The hypotheses of all chunks: of nothing for those that were refused, and for streams that have stopped."""
        utterances = self._utterances
        if stopped or refused:
            table = utterances.table.copy()
            table[[*stopped, *refused], 2] = 0
            utterances = replace(utterances, table=table)
        taking = [None if at in refused else stream for at, stream in enumerate(self._streams)]
        states = [None if one is None else one._state for one in taking]
        boosts = [None if one is None else one.boost for one in taking]
        return self._decoder._decode(utterances, self._on_host, states, boosts, "return")

    def _of(self, at: int, first: int, end: int, state: TransducerState | None) -> TransducerHypothesis:
        """That of some frames of one chunk."""
        row = self._utterances.table[at : at + 1].copy()
        row[0, 0] += (2 if row[0, 3] else 4) * row[0, 1] * first
        row[0, 2] = end - first
        one = replace(self._utterances, table=row)
        return self._decoder._decode(one, self._on_host, [state], [self._streams[at].boost], "return")[0]

    def _cut(self, ends: dict[int, End], found: list[TransducerHypothesis]) -> None:
        """Decodes the frames before the ends once more, all together, where frames lie behind."""
        taken = {at: end.frames - self._streams[at]._sentence_frames for at, end in ends.items()}
        cut = [at for at, frames in taken.items() if frames < self._utterances.table[at, 2]]
        if not cut:
            return
        table = self._utterances.table[cut]
        table[:, 2] = [taken[at] for at in cut]
        again = self._decoder._decode(
            replace(self._utterances, table=table), self._on_host, [self._streams[at]._state for at in cut],
            [self._streams[at].boost for at in cut], "return",
        )  # fmt: skip
        for at, one in zip(cut, again, strict=True):
            found[at] = one

    def _decoded_by_looks(
        self,
        at: int,
        found: list[TransducerHypothesis],
        wrong: dict[int, Fault],
        ends: dict[int, End],
    ) -> None:
        """Where a network's output was not finite, perhaps behind an end: decodes from look to look, up to the first.

        So it does not depend on chunks whether that is met.
        """
        stream = self._streams[at]
        if stream._rules is None or self._not_finite(at) is not None:
            return
        frames = int(self._utterances.table[at, 2])
        every, before = stream._rules.every, stream._sentence_frames
        for look in range((before // every + 1) * every - before, frames + 1, every):
            one = self._of(at, 0, look, stream._state)
            if one.error is not None:
                return
            if (end := stream._first_end(one)) is not None:
                del wrong[at]
                found[at], ends[at] = one, end
                return

    def _rows(self, at: int, first: int) -> npt.NDArray[np.float32]:
        """A copy of the frames of a chunk from one on, in the host's memory."""
        features = self._decoder.features
        if self._on_host:
            return self._utterances.rows(at, first, features)
        one = replace(self._utterances, table=self._utterances.table[at : at + 1])
        return copied_to_host(one, self._decoder._engine.stream).rows(0, first, features)

    def _not_finite(self, at: int) -> ValueError | None:
        """What is wrong with a chunk that waits, as the engine would say it."""
        rows = self._rows(at, 0)
        places = np.argwhere(~np.isfinite(rows))
        if not len(places):
            return None
        frame, column = places[0].tolist()
        bad = [(at, frame, column, rows[frame, column])]
        return encoder_output_errors(bad, self._utterances, "return")[at]
