"""Hypotheses of a beam search, and the n-best lists of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arcbeam.core.errors import Fault, UnsupportedError
from arcbeam.transducer.beam.word_posteriors import word_posteriors
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm, Left, TransducerHypothesis
from arcbeam.words import Word, finite

if TYPE_CHECKING:
    from arcbeam.ctc.lattice.lattice import Lattice

AS_A_STREAM = (
    "with a beam, a chunk has no tokens of its own, because later ones may take tokens back; decode it with "
    "stream = decoder.stream(), stream.decode_chunk(chunk), and save the state of that with stream.save()"
)
Entry: TypeAlias = tuple[tuple[np.ndarray, ...], float, float, tuple[float, float, float, float]]
"""Labels, score, posterior, and the parts of the n-gram model, the tree, LODR and the internal language model."""
SCORES = ("network_score", "lm_score", "boost_score", "lodr_score", "ilm_score")  # which add up to the score
NO_LABELS = tuple(np.empty(0, dtype) for dtype in FIELDS.values())
FAILED: Entry = (NO_LABELS, -math.inf, 0.0, (0.0, 0.0, 0.0, 0.0))  # of what could not be decoded


class BeamHypothesis(TransducerHypothesis):
    """The tokens of one utterance as a beam search finds them, or one entry of its n-best list."""

    def __init__(
        self,
        take: Callable[[int], tuple[Iterable[Entry]]],
        place: int,
        form: HypothesisForm,
        nbest: int | None = None,
        error: Fault | None = None,
        left: Left | None = None,
        make_lattice: Callable[[], Lattice] | None = None,
        has_posteriors: bool = False,
    ) -> None:
        super().__init__(take, place, form, error)
        self._wanted, self._leaves, self._make_lattice = nbest, left, make_lattice
        self._has_posteriors = has_posteriors  # of words

    def _fill(self, entries: Iterable[Entry]) -> None:  # type: ignore[override]
        labels, self._score, self._posterior, self._shares = next(iter(entries))
        tokens, self.frames, durations, self.log_probs, confidence = labels
        self.durations = durations if self._form.has_durations else None
        self.confidence = confidence if self._form.has_confidence else None
        self._nbest: list[BeamHypothesis] | None = None if self._wanted is None else []
        if self._nbest is not None and self.error is None:
            self._nbest += (_one(entry, self._form) for entry in islice(entries, self._wanted))
        self._found = entries if self._leaves is not None or self._has_posteriors else ()
        self.tokens = tokens  # the last, by which `_filled` knows that all is there, in any thread
        self._take = None

    def _filled(self, name: str) -> Any:
        _ = self.tokens
        return self.__dict__[name]

    @property
    def score(self) -> float:
        """Natural log of the probability of the tokens, and what models added; -inf if the frames were not decoded."""
        return self._filled("_score")

    @property
    def posterior(self) -> float:  # type: ignore[override]
        """The probability of the tokens among all hypotheses that the search ended with."""
        return self._filled("_posterior")

    @property
    def nbest(self) -> list[BeamHypothesis] | None:  # type: ignore[override]
        """The best distinct sequences of tokens; None if not requested."""
        return self._filled("_nbest")

    @cached_property
    def lattice(self) -> Lattice | None:  # type: ignore[override]
        """The paths that the search has kept, as links between tokens; None if not requested."""
        return None if self._make_lattice is None else self._make_lattice()

    @cached_property
    def words(self) -> list[Word]:
        """The words with their times, and with confidences if requested, or if the tokens have them."""
        words = super().words
        if not self._has_posteriors or self.error is not None:
            return words
        all_words = [([word.word for word in _one(entry, self._form).words], entry[2]) for entry in self._entries()]
        confidences = word_posteriors([word.word for word in words], all_words)
        return [word._replace(confidence=one) for word, one in zip(words, confidences, strict=True)]

    def __getstate__(self) -> dict[str, Any]:
        _ = self.lattice
        return {**super().__getstate__(), "_make_lattice": None, "_found": tuple(self._found)}

    @property
    def lm_score(self) -> float:  # type: ignore[override]
        """The part of the n-gram model."""
        return self._filled("_shares")[0]

    @property
    def boost_score(self) -> float:  # type: ignore[override]
        """The part of the boosting tree."""
        return self._filled("_shares")[1]

    @property
    def lodr_score(self) -> float:  # type: ignore[override]
        """The part of the second n-gram model (LODR)."""
        return self._filled("_shares")[2]

    @property
    def ilm_score(self) -> float:  # type: ignore[override]
        """The part of the internal language model."""
        return self._filled("_shares")[3]

    @property
    def network_score(self) -> float:  # type: ignore[override]
        """The part of the network: what the other parts leave of the score."""
        return self.score - self.lm_score - self.boost_score - self.lodr_score - self.ilm_score

    @property
    def state(self) -> Any:  # type: ignore[override]
        """None of a beam search: reading it raises an :class:`arcbeam.UnsupportedError`, which names streams."""
        raise UnsupportedError(f"state: {AS_A_STREAM}")

    @property
    def _left(self) -> Left:
        """What it leaves to the next chunk."""
        assert self._leaves is not None  # it is a chunk's
        return self._leaves

    def _entries(self) -> Iterable[Entry]:
        """Of a chunk all that the search has ended with, the best first."""
        return self._filled("_found")

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON, as of a greedy search; and the n-best list if requested."""
        nbest = {} if self.nbest is None else {"nbest": [entry.to_dict() for entry in self.nbest]}
        parts = {name: finite(getattr(self, name)) for name in SCORES}
        return {**super().to_dict(), **parts, "posterior": self.posterior, **nbest}


def failed(
    form: HypothesisForm,
    nbest: int | None,
    error: Fault,
    left: Left | None,
    make_lattice: Callable[[], Lattice] | None,
) -> BeamHypothesis:
    """The hypothesis of an utterance that could not be decoded."""
    return BeamHypothesis([((FAILED,),)].__getitem__, 0, form, nbest, error, left, make_lattice)


def _one(entry: Entry, form: HypothesisForm) -> BeamHypothesis:
    """An entry of a list."""
    return BeamHypothesis([((entry,),)].__getitem__, 0, form)
