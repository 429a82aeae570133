"""The saved state of a stream as bytes: little endian arrays and facts in the layout of `files.section_file`.

The same for all engines. The facts name what the stream was decoded with, so that errors can name what differs.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files import section_file
from arcbeam.streams.endpoints import Endpoint, of_facts

NAME = "stream state"  # what messages call the bytes
AGAIN = "save the stream with this version of arcbeam, or restore it with the other"
MOST_FRAMES = 2**53
Arrays = dict[str, npt.NDArray[Any]]


def pack(kind: section_file.Kind, arrays: Arrays, about: dict[str, Any]) -> bytes:
    """A state as bytes."""
    out = io.BytesIO()
    section_file.write_sections(out, kind, arrays | {"about": section_file.as_section(about)})
    return out.getvalue()


def unpack(kind: section_file.Kind, data: object) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the facts of a state; TypeError unless bytes, FormatError for another kind or damaged bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data: expected the bytes that stream.save() returned, got {type(data).__name__}")
    raw = bytes(data)
    if len(raw) < section_file.HEADER.size:
        raise FormatError(f"{NAME}: expected at least {section_file.HEADER.size} bytes, got {len(raw)}")
    arrays = section_file.read_sections(NAME, kind, raw, len(raw))
    return arrays, section_file.read_about(NAME, kind, arrays.pop("about").tobytes())


def check_sections(arrays: Arrays, expected: set[str]) -> None:
    """FormatError unless the arrays are these."""
    if set(arrays) != expected:
        raise FormatError(f"{NAME}: expected the sections {sorted(expected)}, got {sorted(arrays)}")


def endpoint_of(about: dict[str, Any]) -> Endpoint | None:
    """The rules that end sentences; FormatError if they cannot be read."""
    try:
        return None if about["endpoint"] is None else of_facts(about["endpoint"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"{NAME}: its endpoint cannot be read: {error}") from None


def waiting_of(
    arrays: Arrays,
    about: dict[str, Any],
    endpoint: Endpoint | None,
    columns: int,
    all_usable: Callable[[npt.NDArray[np.float32]], Any],
    sound: str,
) -> npt.NDArray[np.float32]:
    """float32[frames, columns]: frames that wait after the rule that ended the sentence; FormatError if wrong."""
    values = arrays["waiting"]
    if not 0 <= about["fired"] <= (0 if endpoint is None else len(endpoint.rules)):
        raise FormatError(f"{NAME}: expected the number of a rule, got {about['fired']}")
    frames = len(values) // max(columns, 1)  # a graph of epsilon arcs alone reads no column
    if len(values) != frames * columns:
        raise FormatError(f"{NAME}: expected waiting frames of {columns} columns, got {len(values)} values")
    if not np.all(all_usable(values)):
        raise FormatError(f"{NAME}: expected waiting frames of {sound}, got others")
    if len(values) and not about["fired"]:
        raise FormatError(f"{NAME}: expected no frame to wait where no sentence has ended")
    return values.reshape(frames, columns).astype(np.float32)


def check_options(theirs: dict[str, Any], ours: dict[str, Any], maker: str) -> None:
    """ValueError that names the first option of the stream that is not the decoder's, which `maker` makes."""
    for name, value in ours.items():
        if name not in theirs or theirs[name] != value:
            raise ValueError(
                f"{NAME}: expected a stream with {name}={value!r}, as this decoder has, got one with "
                f"{name}={theirs.get(name)!r}; restore it with {maker}(..., {name}={theirs.get(name)!r})"
            )
