"""Checks the states that chunks of streams go on from, and takes them apart for the engines."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from arcbeam.transducer.hypothesis import TransducerState

State: TypeAlias = tuple[np.ndarray, np.ndarray, list[int], int, int]
"""Hidden state, cell, context, skip and frames, as engines take them."""


def states_of(state: Any, batch: int, shapes: Mapping[str, tuple[int, ...]], tokens: int) -> list[State | None]:
    """The states in the engines' form, one an utterance; `shapes` are those of hidden, cell and context."""
    if state is None:
        return [None] * batch
    if isinstance(state, TransducerState) or not isinstance(state, Sequence):
        raise TypeError(f"state: expected a sequence with one for each utterance, got {type(state).__name__}")
    if len(state) != batch:
        raise ValueError(f"state: expected one for each utterance, {batch}, got {len(state)}")
    return [None if item is None else _checked(item, i, shapes, tokens) for i, item in enumerate(state)]


def _checked(state: TransducerState, i: int, shapes: Mapping[str, tuple[int, ...]], tokens: int) -> State:
    if not isinstance(state, TransducerState):
        raise TypeError(f"state[{i}]: expected an arcbeam.TransducerState or None, got {type(state).__name__}")
    values = []
    for name, shape in shapes.items():
        array = np.asarray(getattr(state, name))
        if array.size and array.dtype.kind not in ("iu" if name == "context" else "f"):
            kind = "whole numbers" if name == "context" else "floats"
            raise TypeError(f"state[{i}]: expected {name} of {kind}, got {array.dtype}")
        if array.shape != shape:
            raise ValueError(
                f"state[{i}]: expected {name} of shape {list(shape)}, got {list(array.shape)}: it is of another network"
            )
        values.append(np.ascontiguousarray(array, dtype=np.int64 if name == "context" else np.float32))
    hidden, cell, context = values
    if not (np.isfinite(hidden).all() and np.isfinite(cell).all()):
        raise ValueError(f"state[{i}]: expected finite values, got NaN or infinite ones")
    if context.size and not (int(context.min()) >= -1 and int(context.max()) < tokens):
        raise ValueError(f"state[{i}]: expected a context of tokens below {tokens}, got {context.tolist()}")
    for name in ("skip", "frames"):
        value = getattr(state, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError(f"state[{i}]: expected {name} to be a whole number, got {type(value).__name__}")
    if min(state.skip, state.frames) < 0 or max(state.skip, state.frames) >= 2**62:
        raise ValueError(f"state[{i}]: expected frames of at least 0, got skip={state.skip}, frames={state.frames}")
    return hidden.reshape(-1), cell.reshape(-1), context.tolist(), int(state.skip), int(state.frames)
