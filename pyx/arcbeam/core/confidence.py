"""How sure a model is of a token or a frame: NeMo's measures, by NeMo's names."""

from __future__ import annotations

import math
from dataclasses import dataclass

from arcbeam.core.calls import lists_fields
from arcbeam.core.checks import check_real, keep_plain_values

NAMES = ("max_prob", "entropy")
ENTROPY_TYPES = ("gibbs", "tsallis", "renyi")
ENTROPY_NORMS = ("lin", "exp")
AGGREGATIONS = ("mean", "min", "max", "prod")


@lists_fields
@dataclass(frozen=True)
class ConfidenceMethod:
    """A measure of confidence, 1 for a certain token and 0 for a uniform distribution.

    The fields, their defaults and the formulas are those of NeMo's ``confidence_method_cfg`` (Laptev & Ginsburg 2023,
    *Fast Entropy-Based Methods of Word-Level Confidence Estimation*); the probabilities are those of all tokens, the
    blank included: of a transducer on the frame that wrote the token, with CTC on each frame.
    """

    name: str = "entropy"
    """``"max_prob"``: the largest probability; ``"entropy"``: the entropy of the distribution."""
    entropy_type: str = "tsallis"
    """``"gibbs"``, ``"tsallis"`` or ``"renyi"``; for ``"entropy"``."""
    alpha: float = 0.33
    """Power of the probabilities, above 0; at 1 every entropy is Shannon's."""
    entropy_norm: str = "exp"
    """``"lin"`` or ``"exp"``: how the entropy is mapped to 0 to 1; for ``"entropy"``."""

    def __post_init__(self) -> None:
        for field, known in (("name", NAMES), ("entropy_type", ENTROPY_TYPES), ("entropy_norm", ENTROPY_NORMS)):
            if getattr(self, field) not in known:
                raise ValueError(f"confidence {field}: expected {_either(known)}, got {getattr(self, field)!r}")
        check_real("confidence alpha", self.alpha, "above 0", above=0.0)
        keep_plain_values(self)


BY_NAME = {name: ConfidenceMethod(name=name) for name in NAMES}


@dataclass(frozen=True)
class Measure:
    """A method for a number of tokens, as the engine takes it: scale * f + shift."""

    # f, or its exponential, is factor * statistic + offset; the statistic is the "largest" log-prob x, the sum of
    # e^(alpha x) x ("weighted"), of e^(alpha x) ("power"), or the log of that ("log power").

    statistic: str
    exponential: bool
    alpha: float
    factor: float
    offset: float
    scale: float
    shift: float


def resolve(confidence: str | ConfidenceMethod | None, option: str = "confidence") -> ConfidenceMethod | None:
    """The method that the option with this name stands for."""
    if confidence is None or isinstance(confidence, ConfidenceMethod):
        return confidence
    if isinstance(confidence, str) and confidence in BY_NAME:
        return BY_NAME[confidence]
    raise ValueError(f"{option}: expected {_either(NAMES)}, an arcbeam.ConfidenceMethod or None, got {confidence!r}")


def check_aggregation(aggregation: object) -> None:
    """Raises ValueError unless it is the name of a way to make one confidence of several."""
    if aggregation not in AGGREGATIONS:
        raise ValueError(f"confidence_aggregation: expected one of {', '.join(AGGREGATIONS)}, got {aggregation!r}")


def measure(method: ConfidenceMethod, tokens: int) -> Measure:
    """The method's constants for this many tokens, the blank included."""
    if tokens < 2:
        raise ValueError(f"confidence: expected a vocabulary of at least 2 tokens, got {tokens}")
    try:
        found = _measure(method, float(tokens), float(method.alpha))
        numbers = (found.alpha, found.factor, found.offset, found.scale, found.shift)
        if all(abs(number) < 3e38 for number in numbers):
            return found
    except (OverflowError, ZeroDivisionError):
        pass
    raise ValueError(f"confidence alpha: expected a smaller number for {tokens} tokens, got {method.alpha!r}")


def _measure(method: ConfidenceMethod, v: float, t: float) -> Measure:
    if method.name == "max_prob":
        most = v**t
        return Measure("largest", True, t, t, 0.0, most / (most - 1), -1 / (most - 1))
    linear = method.entropy_norm == "lin"
    if t == 1.0 or method.entropy_type == "gibbs":
        if linear:
            return Measure("weighted", False, t, 1 / (math.log(v) * v ** (1 - t)), 0.0, 1.0, 1.0)
        least = v ** (-t * v ** (1 - t))
        return Measure("weighted", True, t, t, 0.0, 1 / (1 - least), -least / (1 - least))
    if method.entropy_type == "tsallis":
        if linear:
            span = v ** (1 - t) - 1
            return Measure("power", False, t, -1 / span, 1 / span, 1.0, 1.0)
        least = math.exp((1 - v ** (1 - t)) / (1 - t))
        return Measure("power", True, t, -1 / (1 - t), 1 / (1 - t), 1 / (1 - least), -least / (1 - least))
    if linear:
        return Measure("log power", False, t, 1 / ((t - 1) * math.log(v)), 0.0, 1.0, 1.0)
    return Measure("log power", True, t, 1 / (t - 1), 0.0, v / (v - 1), -1 / (v - 1))


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(f'"{name}"' for name in names)
