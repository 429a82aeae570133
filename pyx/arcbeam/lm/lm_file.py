"""The file format of language models: a file of sections (`arcbeam.files.section_file`), written and read as arrays."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files import section_file
from arcbeam.files.reading import reading
from arcbeam.lm._language_model import ARC, validate

KIND = section_file.Kind(
    name="a language model of arcbeam",
    magic=b"\x93ARCBLM\n",
    version=2,
    sections={
        "labels.low": np.dtype("<u2"),
        "labels.high": np.dtype("<u4"),
        "first.offsets": np.dtype("u1"),
        "first.bases": np.dtype("<u4"),
        "first.wide": np.dtype("<u4"),
        "backoff.steps": np.dtype("<u8"),
        "backoff.bases": np.dtype("<u4"),
        "backoff.wide": np.dtype("<u4"),
        "arcs": ARC,
        "backoff.weights": np.dtype("<f4"),
        "lengths": np.dtype("<u4"),
        "words.ends": np.dtype("<u8"),
        "words.text": np.dtype("u1"),
        "about": np.dtype("u1"),
    },
    about={
        "high_bits": (int,),
        "start": (int,),
        "num_labels": (int,),
        "ngrams": (list,),
        "digest": (str,),
        "notes": (list,),
    },
    again="build it again from its ARPA with this arcbeam",
)
COLUMNS = tuple(name for name in KIND.sections if name != "about")
#: The columns that a search reads to find the arc of a word; it reads the other columns after that.
INDEX = tuple(name for name in COLUMNS if name.startswith(("labels.", "first.")) or name in (
    "backoff.steps", "backoff.bases", "backoff.wide"
))  # fmt: skip
MOST_STATES = 2**31 - 1


def write(
    path: str | os.PathLike[str],
    columns: dict[str, npt.NDArray[Any]],
    about: dict[str, Any],
    check_source: Callable[[], None],
) -> None:
    """Writes a language model; the file appears under its name only when it is complete and `check_source` agrees."""
    section_file.write(path, KIND, columns, about, check_source)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any], section_file.Mapped]:
    """Maps and checks a file; returns its columns, which lie in the map, what it says of them, and the map."""
    with reading(path, KIND.name):
        columns, about, data = section_file.read(path, KIND)
        for name in COLUMNS:
            if name not in columns:
                raise FormatError(f"section {name!r} is missing")
        check(columns, about)
    return columns, about, data


def check(columns: dict[str, npt.NDArray[Any]], about: dict[str, Any]) -> None:
    """FormatError unless the columns are a language model that can be searched without further checks."""
    states, labels = len(columns["backoff.weights"]), len(columns["words.ends"]) + 1
    if not 0 < states <= MOST_STATES or len(columns["arcs"]) > MOST_STATES:
        raise FormatError(f"{states} states and {len(columns['arcs'])} arcs are more than a language model can have")
    if about["num_labels"] != labels:
        raise FormatError(f"num_labels is {about['num_labels']}, expected {labels}")
    if about["high_bits"] not in (0, 1, 2, 4, 8, 16) or labels >> 16 >> about["high_bits"]:
        raise FormatError(f"high_bits is {about['high_bits']}, which does not fit {labels} labels")
    if not 0 <= about["start"] < states:
        raise FormatError(f"the start is state {about['start']} of {states}")
    if not all(isinstance(n, int) for n in about["ngrams"]) or not all(isinstance(n, str) for n in about["notes"]):
        raise FormatError("expected numbers as ngrams and texts as notes, got other values")
    lengths = columns["lengths"].astype(np.int64)
    if len(lengths) < 2 or lengths[0] != 0 or lengths[-1] != states or np.any(np.diff(lengths) < 0):
        raise FormatError(f"the lengths of histories do not ascend from 0 to {states}")
    ends, text = columns["words.ends"], columns["words.text"]
    if np.any(np.diff(ends.astype(np.int64)) <= 0) or (len(ends) and (ends[0] < 1 or ends[-1] != len(text))):
        raise FormatError("the words do not fit their text")
    try:
        text.tobytes().decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"the words are not UTF-8: {error}") from None
    validate(columns, about)
