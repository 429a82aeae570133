"""The option `errors` of `decode`: what happens if an utterance has values that cannot be decoded, such as NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import Utterances

ERRORS = ("raise", "return")


def check_errors(errors: Any) -> None:
    """Raises ValueError unless it is one of `ERRORS`."""
    if not isinstance(errors, str) or errors not in ERRORS:
        raise ValueError(f"errors: expected 'raise' or 'return', got {errors!r}")


def are_log_probs(values: npt.NDArray[np.floating[Any]]) -> bool:
    """Whether none of them is NaN or +inf; the largest one is NaN if any is."""
    return bool(values.max(initial=-np.inf) < np.inf)


def are_finite(values: npt.NDArray[np.floating[Any]]) -> bool:
    """Whether none of them is NaN or an infinity."""
    return are_log_probs(values) and bool(values.min(initial=np.inf) > -np.inf)


def log_prob_errors(bad: Sequence[tuple[Any, ...]], utterances: Utterances, errors: str) -> dict[int, ValueError]:
    """The errors, by utterance, for values that are no log-probs; with ``errors="raise"`` the first one is raised.

    Parameters
    ----------
    bad : sequence of (utterance, frame, column) or (utterance, frame, column, value)
        As engines report it, by utterance.
    utterances : Utterances
        The batch, from which a value is read that the engine does not report.
    """
    found = {}
    for i, frame, column, *told in bad:
        value = told[0] if told else utterances.value(i, frame, column)
        found[i] = ValueError(
            f"log_probs: expected finite values or -inf, got {value} in utterance {i}, frame {frame}, column {column}"
        )
    return _raised(found, errors)


def encoder_output_errors(bad: Sequence[tuple[Any, ...]], utterances: Utterances, errors: str) -> dict[int, ValueError]:
    """The same for transducers; (utterance, frame) if the network computed a value that is not finite."""
    found = {}
    for i, frame, *column in bad:
        if column:
            value = column[1] if len(column) > 1 else utterances.value(i, frame, column[0])
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
