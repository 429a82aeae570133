"""What becomes of a batch where an utterance has values that cannot be decoded, such as NaN: `errors` of `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ERRORS = ("raise", "return")


def check_errors(errors: Any) -> None:
    """Raises ValueError unless it is one of `ERRORS`."""
    if not isinstance(errors, str) or errors not in ERRORS:
        raise ValueError(f"errors: expected 'raise' or 'return', got {errors!r}")


def log_prob_errors(bad: Sequence[tuple[Any, ...]], arrays: Any, errors: str) -> dict[int, ValueError]:
    """The error of each utterance whose log-probs are none, by utterance; with ``errors="raise"`` the first is raised.

    Parameters
    ----------
    bad : sequence of (utterance, frame, column) or (utterance, frame, column, value)
        As engines tell it, by utterance.
    arrays : array [batch, frames, columns] or sequence of arrays [frames, columns]
        Where a value is that the engine does not tell.
    """
    found = {}
    for i, frame, column, *told in bad:
        value = told[0] if told else arrays[i][frame, column]
        found[i] = ValueError(
            f"log_probs: expected finite values or -inf, got {value} in utterance {i}, frame {frame}, column {column}"
        )
    return _raised(found, errors)


def encoder_output_errors(bad: Sequence[tuple[Any, ...]], arrays: Any, errors: str) -> dict[int, ValueError]:
    """The same of transducers, whose network may make of finite values others that are not: (utterance, frame)."""
    found = {}
    for i, frame, *column in bad:
        if column:
            value = column[1] if len(column) > 1 else arrays[i][frame, column[0]]
            what = f"expected finite values, got {value} in utterance {i}, frame {frame}, feature {column[0]}"
        else:
            what = (
                f"the network's output is not finite in utterance {i}, frame {frame}: "
                "the values there, or the weights, are too large for float32"
            )
        found[i] = ValueError(f"encoder_output: {what}")
    return _raised(found, errors)


def _raised(found: dict[int, ValueError], errors: str) -> dict[int, ValueError]:
    if found and errors == "raise":
        raise next(iter(found.values()))
    return found
