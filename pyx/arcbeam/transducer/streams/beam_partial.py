"""What is known of a sentence after a chunk if the search has a beam: the best hypothesis and the others."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from arcbeam.core.errors import Fault
from arcbeam.transducer.beam.hypothesis import FAILED, NO_LABELS, BeamHypothesis, Entry
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm
from arcbeam.transducer.streams.partial import TransducerPartial

if TYPE_CHECKING:
    from arcbeam.transducer.growing_words import GrowingWords

BEGINNING: Entry = (NO_LABELS, 0.0, 1.0, (0.0, 0.0, 0.0, 0.0))  # before the first frame of a sentence


class BeamPartial(TransducerPartial, BeamHypothesis):
    """A result of a stream that is decoded with a beam: a :class:`TransducerPartial` with all that its search gives."""

    def __init__(
        self,
        form: HypothesisForm,
        written: dict[str, np.ndarray],
        count: int,
        after: tuple[BeamHypothesis, int] | None,
        nbest: int | None,
        num_frames: int,
        is_final: bool,
        error: Fault | None = None,
        first_frame: int = 0,
        endpoint: str | None = None,
        spelled: GrowingWords | None = None,
    ) -> None:
        """`written`: the first `count` are settled. `after`: the last chunk's hypothesis, and how many of them it has.

        It is None before the first chunk.
        """
        found = partial(_entries, written, count, after, nbest, error)  # not of this object: two threads may read it
        BeamHypothesis.__init__(self, found, 0, form, nbest, error)
        self._spelled, self._count = spelled, count
        self._is_at(num_frames, is_final, first_frame, endpoint)

    @property
    def _num_settled(self) -> int:
        """Tokens, from the first, that no later frame changes."""
        return len(self.tokens) if self.is_final or self.error is not None else self._count


def _entries(
    written: dict[str, np.ndarray],
    count: int,
    after: tuple[BeamHypothesis, int] | None,
    nbest: int | None,
    error: Fault | None,
    _: int,
) -> tuple[tuple[Entry, ...]]:
    """The entries with all tokens of the sentence, in a tuple of their own: one, if there is to be no list."""
    if error is not None:
        return ((FAILED,),)
    entries, taken = ((BEGINNING,), 0) if after is None else (after[0]._entries(), after[1])
    before = [written[name][:count] if name in written else None for name in FIELDS]

    def joined(labels: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        both = zip(before, labels, strict=True)
        return tuple([array if one is None else np.concatenate((one, array[taken:])) for one, array in both])

    listed = islice(entries, None if nbest is not None else 1)
    return (tuple([(joined(labels), score, posterior, parts) for labels, score, posterior, parts in listed]),)
