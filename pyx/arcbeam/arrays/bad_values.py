"""The option `errors` of `decode`: what happens if an utterance has values that cannot be decoded, such as NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import Inputs
from arcbeam.core.errors import InputError

ERRORS = ("raise", "return")
Values: TypeAlias = npt.NDArray[np.floating[Any]]


def check_errors(errors: Any) -> None:
    """Raises ValueError unless it is one of `ERRORS`."""
    if not isinstance(errors, str) or errors not in ERRORS:
        raise ValueError(f"errors: expected 'raise' or 'return', got {errors!r}")


def fault_of_log_probs(values: Values) -> InputError | None:
    """The error of an array [frames, columns] that engines would refuse; None if there is no NaN or +inf in it."""
    if values.max(initial=-np.inf) < np.inf:  # the largest one is NaN if any is
        return None
    return log_prob_errors([(0, *_first(~(values < np.inf), values))], None, "return")[0]


def fault_of_encoder_output(values: Values) -> InputError | None:
    """The error of encoder output [frames, features] that engines would refuse; None if all values are finite."""
    if values.max(initial=-np.inf) < np.inf and values.min(initial=np.inf) > -np.inf:
        return None
    return encoder_output_errors([(0, *_first(~np.isfinite(values), values))], None, "return")[0]


def _first(is_bad: npt.NDArray[np.bool_], values: Values) -> tuple[int, int, Any]:
    """Frame, column and value of the first bad one."""
    frame, column = divmod(int(is_bad.argmax()), values.shape[1])
    return frame, column, values[frame, column]


def log_prob_errors(bad: Sequence[tuple[Any, ...]], inputs: Inputs | None, errors: str) -> dict[int, InputError]:
    """The errors by utterance; "raise": raises the first. `bad`: engines' (utterance, frame, column[, value])."""
    found = {}
    for i, frame, column, *reported in bad:
        value = reported[0] if reported or inputs is None else inputs.value(i, frame, column)
        reason = f"expected finite values or -inf, got {value}"
        found[i] = InputError("log_probs", reason, utterance=i, frame=frame, column=column)
    return _raised(found, errors)


def encoder_output_errors(bad: Sequence[tuple[Any, ...]], inputs: Inputs | None, errors: str) -> dict[int, InputError]:
    """`log_prob_errors` for transducers; `bad` has (utterance, frame) if the network's output was not finite."""
    found = {}
    for i, frame, *column in bad:
        if column:
            value = column[1] if len(column) > 1 or inputs is None else inputs.value(i, frame, column[0])
            reason = f"expected finite values, got {value}"
            found[i] = InputError("encoder_output", reason, utterance=i, frame=frame, feature=column[0])
        else:
            hint = "the values there, or the weights, are too large for float32"
            found[i] = InputError(
                "encoder_output", "the network's output is not finite", hint, utterance=i, frame=frame
            )
    return _raised(found, errors)


def _raised(found: dict[int, InputError], errors: str) -> dict[int, InputError]:
    if found and errors == "raise":
        raise next(iter(found.values()))
    return found
