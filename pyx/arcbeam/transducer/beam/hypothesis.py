"""Hypotheses of a beam search, and the n-best lists of them."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from arcbeam.core.errors import Fault, UnsupportedError
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm, TransducerHypothesis
from arcbeam.words import finite

ONLY_GREEDILY = "works with greedy search only, until beam search supports it; leave out beam= when the decoder is made"
Found: TypeAlias = tuple[tuple[np.ndarray, ...], float, float, tuple[float, float, float, float]]
"""Labels, score, posterior, and the parts of the n-gram model, the tree, LODR and the internal language model."""
SCORES = ("network_score", "lm_score", "boost_score", "lodr_score", "ilm_score")  # which add up to the score
NO_LABELS = tuple(np.empty(0, dtype) for dtype in FIELDS.values())


class BeamHypothesis(TransducerHypothesis):
    """The tokens of one utterance as a beam search finds them, or one entry of its n-best list."""

    lm_score: float
    boost_score: float
    lodr_score: float
    ilm_score: float

    def __init__(
        self,
        labels: tuple[np.ndarray, ...],
        score: float,
        posterior: float,
        shares: tuple[float, float, float, float],
        form: HypothesisForm,
        error: Fault | None = None,
    ) -> None:
        super().__init__(lambda _: labels, 0, form, error)
        self.tokens, self.frames, durations, self.log_probs, confidence = labels
        self.durations = durations if form.has_durations else None
        self.confidence = confidence if form.has_confidence else None
        self._take = None
        self._score, self.posterior, self.nbest = score, posterior, None
        self.lm_score, self.boost_score, self.lodr_score, self.ilm_score = shares

    @property
    def score(self) -> float:
        """Natural log of the probability of the tokens, and what models added; -inf if the frames were not decoded."""
        return self._score

    @property
    def network_score(self) -> float:  # type: ignore[override]
        """The part of the network: what the other parts leave of the score."""
        return self._score - self.lm_score - self.boost_score - self.lodr_score - self.ilm_score

    @property
    def state(self) -> Any:  # type: ignore[override]
        """None of a beam search yet: reading it raises an :class:`arcbeam.UnsupportedError`."""
        raise UnsupportedError(f"state: going on with the next chunk of a stream {ONLY_GREEDILY}")

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON, as of a greedy search; and the n-best list if requested."""
        nbest = {} if self.nbest is None else {"nbest": [entry.to_dict() for entry in self.nbest]}
        parts = {name: finite(getattr(self, name)) for name in SCORES}
        return {**super().to_dict(), **parts, "posterior": self.posterior, **nbest}


def hypothesis_of(found: list[Found], form: HypothesisForm, nbest: int | None) -> BeamHypothesis:
    """The hypothesis of an utterance, from those that the search ended with."""
    best = BeamHypothesis(*found[0], form)
    if nbest is not None:
        best.nbest = [BeamHypothesis(*entry, form) for entry in found[:nbest]]
    return best


def failed(form: HypothesisForm, nbest: int | None, error: Fault) -> BeamHypothesis:
    """The hypothesis of an utterance that could not be decoded."""
    made = BeamHypothesis(NO_LABELS, -math.inf, 0.0, (0.0, 0.0, 0.0, 0.0), form, error)
    made.nbest = None if nbest is None else []
    return made
