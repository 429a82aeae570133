"""What is known of a sentence after a chunk if the search has a beam: the best hypothesis, and those beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        settled: dict[str, np.ndarray],
        after: tuple[BeamHypothesis, int] | None,
        nbest: int | None,
        num_frames: int,
        is_final: bool,
        error: Fault | None = None,
        first_frame: int = 0,
        endpoint: str | None = None,
        spelled: GrowingWords | None = None,
    ) -> None:
        """`after`: the last chunk's hypothesis, and how many of its tokens are among `settled`; None before it."""
        BeamHypothesis.__init__(self, self._with_settled, 0, form, nbest, error)
        self._spelled, self._before, self._after = spelled, settled, after
        self._is_at(num_frames, is_final, first_frame, endpoint)
        self._count = len(settled["tokens"])

    def _with_settled(self, _: int) -> tuple[Entry, ...]:
        """The entries with all tokens of the sentence."""
        if self.error is not None:
            return (FAILED,)
        entries, taken = ((BEGINNING,), 0) if self._after is None else (self._after[0]._entries(), self._after[1])
        nothing = {name: np.empty(0, dtype) for name, dtype in FIELDS.items()}
        before = [self._before.get(name, nothing[name]) for name in FIELDS]
        entries = entries if self._wanted is not None else entries[:1]
        return tuple(
            (
                tuple(np.concatenate([b, array[taken:]]) for b, array in zip(before, labels, strict=True)),
                score,
                posterior,
                parts,
            )
            for labels, score, posterior, parts in entries
        )

    def _fill(self, *entries: Entry) -> None:  # type: ignore[override]
        super()._fill(*entries)
        self._before, self._after = {}, None  # they would keep the results of the other streams alive

    @property
    def _num_settled(self) -> int:
        return len(self.tokens) if self.is_final or self.error is not None else self._count

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_before": {}, "_after": None}
