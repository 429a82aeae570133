"""A round of streams of a transducer: their chunks are decoded together, and sentences end where rules say so.

Greedy search decodes chunks whole, and frames up to an end again for the state there; without an end that is one call
of the engine. With a beam, later frames may take tokens back, so chunks are decoded from check to check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.arrays.batches import Inputs
from arcbeam.core.errors import Fault
from arcbeam.streams.waiting import Waiting
from arcbeam.transducer.hypothesis import TransducerHypothesis
from arcbeam.transducer.search import TransducerSearch
from arcbeam.transducer.streams.endpoint import End
from arcbeam.transducer.streams.sentence import Sentence


class Round:
    """The chunks of streams that are in these sentences, as the engine takes them."""

    def __init__(self, search: TransducerSearch, sentences: Sequence[Sentence], inputs: Inputs) -> None:
        self._search, self._sentences, self._inputs = search, sentences, inputs

    def decoded(self, ends: Sequence[bool], refused: dict[int, Fault]) -> tuple[list[Sentence], dict[int, Fault]]:
        """The sentences after their chunks, which are as before for chunks that are refused; and why those are."""
        sentences = self._sentences
        stopped = [at for at, one in enumerate(sentences) if one.fired and at not in refused]
        wrong, sentence_ends = dict(refused), dict[int, End]()
        decode = self._from_check_to_check if self._search.form.takes_back else self._whole
        reached, found = decode(stopped, wrong, sentence_ends)
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
                sentence = reached[at].after(found[at], ends[at], fired)
            if at in waits_from:
                waits = waits_from[at] < self._inputs.table[at, 2]
                sentence = sentence.with_waiting([Waiting(self._rows(at, waits_from[at]))] if waits else [], ends[at])
            after[at] = sentence
        return after, {at: wrong[at] for at in sorted(wrong)}

    def _whole(
        self, stopped: Sequence[int], wrong: dict[int, Fault], ends: dict[int, End]
    ) -> tuple[Sequence[Sentence], Mapping[int, TransducerHypothesis]]:
        """The sentences before their chunks, and the hypotheses of these up to where sentences end."""
        refused = set(wrong)
        found = self._found(stopped, refused)
        wrong |= {at: one.error for at, one in enumerate(found) if one.error is not None and at not in refused}
        for at, sentence in enumerate(self._sentences):
            if sentence.rules is None or at in refused or at in stopped:
                continue
            if at in wrong:
                self._decoded_by_checks(at, found, wrong, ends)
            elif (end := sentence.first_end(found[at])) is not None:
                ends[at] = end
        self._cut(ends, found)
        return self._sentences, dict(enumerate(found))

    def _from_check_to_check(
        self, stopped: Sequence[int], wrong: dict[int, Fault], ends: dict[int, End]
    ) -> tuple[Sequence[Sentence], Mapping[int, TransducerHypothesis]]:
        """The sentences before the last piece of their chunks that is decoded, and the hypotheses of those pieces."""
        reached, found = list(self._sentences), dict[int, TransducerHypothesis]()
        going = [at for at in range(len(reached)) if at not in stopped and at not in wrong]
        while going:
            taken = [reached[at].frames - self._sentences[at].frames for at in going]
            left = [int(self._inputs.table[at, 2]) - first for at, first in zip(going, taken, strict=True)]
            counts = [min(reached[at].frames_to_check, most) for at, most in zip(going, left, strict=True)]
            pieces = self._decoded(going, taken, counts, [reached[at] for at in going])
            goes_on = []
            for at, one, count, most in zip(going, pieces, counts, left, strict=True):
                end = None if one.error is not None else reached[at].first_end(one)
                if one.error is not None or (end is not None and count < most and self._not_finite(at) is not None):
                    wrong[at] = self._fault(at)
                elif end is None and count < most:
                    reached[at] = reached[at].after(one, False, 0)
                    goes_on.append(at)
                else:
                    found[at] = one
                    if end is not None:
                        ends[at] = end
            going = goes_on
        return reached, found

    def _decoded(
        self, at: Sequence[int], first: Sequence[int], counts: Sequence[int], sentences: Sequence[Sentence]
    ) -> Sequence[TransducerHypothesis]:
        """Those of so many frames of the chunks at these places, from these frames on, in these sentences."""
        inputs = self._inputs.part(at, first, counts)
        states, boosts = [one.state for one in sentences], [one.boost for one in sentences]
        return self._search.decode(inputs, states, boosts, "return", None)

    def _fault(self, at: int) -> Fault:
        """Why a chunk cannot be decoded, with the place in the whole of it."""
        if (not_finite := self._not_finite(at)) is not None:
            return not_finite
        others = [other for other in range(len(self._sentences)) if other != at]
        states = [one.state if i == at else None for i, one in enumerate(self._sentences)]
        boosts = [one.boost if i == at else None for i, one in enumerate(self._sentences)]
        error = self._search.decode(self._inputs.without(others), states, boosts, "return", None)[at].error
        assert error is not None  # a piece of it had one
        return error

    def _found(self, stopped: Sequence[int], refused: Collection[int]) -> list[TransducerHypothesis]:
        """The hypotheses of all chunks: of nothing for those that were refused, and for streams that have stopped."""
        inputs = self._inputs.without([*stopped, *refused]) if stopped or refused else self._inputs
        states = [None if at in refused else one.state for at, one in enumerate(self._sentences)]
        boosts = [None if at in refused else one.boost for at, one in enumerate(self._sentences)]
        return [*self._search.decode(inputs, states, boosts, "return")]

    def _beginnings(self, frames: Mapping[int, int]) -> Sequence[TransducerHypothesis]:
        """Those of so many frames of the chunks at these places."""
        sentences = [self._sentences[at] for at in frames]
        return self._decoded(list(frames), [0] * len(frames), list(frames.values()), sentences)

    def _cut(self, ends: dict[int, End], found: list[TransducerHypothesis]) -> None:
        """Decodes the frames before the ends once more, all together, where frames follow."""
        taken = {at: end.frames - self._sentences[at].frames for at, end in ends.items()}
        cut = {at: frames for at, frames in taken.items() if frames < self._inputs.table[at, 2]}
        if cut:
            for at, one in zip(cut, self._beginnings(cut), strict=True):
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
        frames = int(self._inputs.table[at, 2])
        every, before = sentence.rules.every, sentence.frames
        for checked_at in range((before // every + 1) * every - before, frames + 1, every):
            [one] = self._beginnings({at: checked_at})
            if one.error is not None:
                return
            if (end := sentence.first_end(one)) is not None:
                del wrong[at]
                found[at], ends[at] = one, end
                return

    def _rows(self, at: int, first: int) -> npt.NDArray[np.float32]:
        """A copy of the frames of a chunk from one on, in the host's memory."""
        return self._inputs.rows(at, first, self._search.spec.columns)

    def _not_finite(self, at: int) -> ValueError | None:
        """What is wrong with a chunk that waits, as the engine would say it."""
        rows = self._rows(at, 0)
        places = np.argwhere(~np.isfinite(rows))
        if not len(places):
            return None
        frame, column = places[0].tolist()
        return encoder_output_errors([(at, frame, column, rows[frame, column])], None, "return")[at]
