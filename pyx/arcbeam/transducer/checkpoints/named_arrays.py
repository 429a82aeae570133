"""Reads transducers whose weights have the names of `TransducerDecoder.from_arrays`: ``.npz`` files and mappings."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from arcbeam.files.kinds import refuse_other
from arcbeam.files.numpy_files import Archive
from arcbeam.transducer.checkpoints.checkpoint import Source, file_source
from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction, from_mapping
from arcbeam.transducer.text import warn_of_other_pieces

# Options that may be among the arrays: what an error calls them, the kinds of their values, and their dimensions.
OPTIONS: dict[str, tuple[str, str, int]] = {
    "blank_id": ("a whole number", "iu", 0),
    "activation": ("text", "U", 0),
    "relu": ("a boolean", "b", 0),
    "durations": ("whole numbers [durations]", "iu", 1),
    "max_symbols": ("a whole number", "iu", 0),
    "frame_shift": ("a number", "fiu", 0),
    "tokenizer": ("pieces that are text [tokens]", "U", 1),
}


class NamedModel(NamedTuple):
    """A transducer of named arrays, and all options that the caller or the arrays give."""

    source: Source
    names: Collection[str]  # what a file has, whose errors name it
    prediction: LstmPrediction | StatelessPrediction
    joint: Joint
    options: dict[str, Any]


@contextmanager
def named_file(source: Source, names: Collection[str]) -> Iterator[None]:
    """A context in which an error about one of these names also names the source, and is of its kind."""
    try:
        yield
    except (TypeError, ValueError) as error:
        name = re.match(r"\w+", str(error))
        if name is None or name[0] not in names:
            raise
        kind = TypeError if isinstance(error, TypeError) and source.error is ValueError else source.error
        raise kind(f"{source.name}: {error}") from None


def read_arrays(source: Any, given: dict[str, Any], max_bytes: int | str | None) -> NamedModel:
    """The model of an ``.npz`` file or a mapping; `given` options override its own."""
    if isinstance(source, Mapping):
        made_of, arrays = Source("arrays"), dict(source)
    elif isinstance(source, (str, os.PathLike)):
        made_of = file_source(source, max_bytes)
        refuse_other(source, "an .npz of NumPy", "an .npz of NumPy", "a zip archive")
        with Archive(Path(made_of.name), max_bytes) as archive:
            arrays = {name: archive.read(name) for name in archive}
    else:
        expected = "a mapping of names to arrays, or the path of an .npz file"
        raise TypeError(f"arrays: expected {expected}, got {type(source).__name__}")
    # A mapping's arrays are those of the caller, whose errors need no other name.
    names = set() if made_of.budget is None else {"arrays", *arrays} - given.keys()
    stored = {name: arrays.pop(name) for name in OPTIONS if name in arrays}
    own, blank = np.asarray(stored.get("blank_id")), given.get("blank_id")
    if own.dtype.kind in "iu" and own.ndim == 0 and blank is not None and own != blank:
        raise ValueError(f"blank_id: expected {own}, which {made_of.name} has, or None, got {blank}")
    with named_file(made_of, names):
        options = {name: _value(name, value) for name, value in stored.items() if name not in given} | given
        pieces = np.asarray(stored.get("tokenizer"))
        if "tokenizer" in given and pieces.dtype.kind == "U" and pieces.ndim == 1:
            warn_of_other_pieces(made_of.name, pieces.tolist(), given["tokenizer"])
        activation, relu = options.pop("activation", "tanh"), options.pop("relu", False)
        prediction, joint = from_mapping(arrays, activation, relu)
    made_of.check_tables(prediction)
    if "blank_id" not in options:
        raise made_of.error(f"{made_of.name}: expected an array blank_id, the blank's token, got none; give blank_id=")
    return NamedModel(made_of, names, prediction, joint, options)


def _value(name: str, value: Any) -> Any:
    """The option that an array holds, as the decoder takes it."""
    expected, kinds, dimensions = OPTIONS[name]
    array = np.asarray(value)
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        raise ValueError(f"{name}: expected {expected}, got {array.dtype} of shape {list(array.shape)}")
    return array.tolist()
