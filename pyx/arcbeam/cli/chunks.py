"""Frames in chunks: of files, or of the standard input as they come; in real time with --real-time."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import numpy as np
import typer

from arcbeam.cli.console import Failure
from arcbeam.cli.options import STDIN
from arcbeam.files.kinds import known_kind
from arcbeam.files.log_probs import Input, Utterance, find_inputs, read_all

NAME_IT = "give the file's name instead of -"
NO_AUDIO = "these values are the output of a model; arcbeam transcribe takes audio"
FILES = {b"\x93NUMPY": NAME_IT, b"PK\x03\x04": NAME_IT, b"RIFF": NO_AUDIO, b"fLaC": NO_AUDIO, b"OggS": NO_AUDIO}
"""How files begin that are not read from the standard input, and what to do instead."""
OTHERS = {"<f2": "float16", "<f8": "float64", ">f4": "float32 of the other byte order"}
ODD = 1e3  # in size; log-probs and logits are smaller
ODD_SHARE = 0.02  # of float32 values that are halves of float64, at least
FEWEST_DOUBLES = 8  # by which float64 is recognised
NEAR_ONE = 0.05  # how far from 1 the probabilities of a frame sum up at most


def find_frames(inputs: list[str], max_bytes: str | None, *, may_be_missing: bool = False) -> list[Input]:
    """The files that are named; none for the standard input, which excludes files."""
    if STDIN not in inputs:
        return find_inputs(inputs, max_bytes, may_be_missing=may_be_missing)
    if len(inputs) > 1:
        raise typer.BadParameter("expected - alone, without files", param_hint="'INPUT'")
    return []


def cut(
    found: list[Input],
    frames: int,
    *,
    width: int,
    check: Callable[[list[Utterance]], None],
    seconds: float | None = None,
) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """Yields each utterance's name and its chunks of `frames`, as fast as speech if `seconds` of a frame are given."""
    if not found:
        yield STDIN, _paced(_from_pipe(sys.stdin.buffer, frames, width), seconds)
        return
    for utterance in read_all(found):
        check([utterance])
        rows = utterance.log_probs
        yield utterance.id, _paced((rows[at : at + frames] for at in range(0, len(rows), frames)), seconds)


def _paced(chunks: Iterable[np.ndarray], seconds: float | None) -> Iterator[np.ndarray]:
    began, frames = time.monotonic(), 0
    for chunk in chunks:
        if seconds is not None:
            frames += len(chunk)
            time.sleep(max(0.0, began + seconds * frames - time.monotonic()))
        yield chunk


def _from_pipe(source: BinaryIO, frames: int, width: int) -> Iterator[np.ndarray]:
    """Chunks of float32 frames without a header, each as soon as it is there; Failure if there is none."""
    size, is_first = 4 * width, True
    while data := source.read(size * frames):
        if is_first:
            _refuse_others(data, width)
        is_first = False
        whole = len(data) // size
        if whole:
            yield np.frombuffer(data, "<f4", whole * width).reshape(-1, width)
        if more := len(data) - whole * size:
            raise Failure(
                f"standard input: expected frames of {width} float32 values, {size} bytes each, got {more} bytes more "
                "after the last; is it float16, or of another model? Write values.astype('float32')"
            )
    if is_first:
        raise Failure("the input contains no frames")


def _refuse_others(data: bytes, width: int) -> None:
    """Failure if the first bytes are those of a file with a header, or values of another type."""
    if data.startswith(tuple(FILES)):
        cure = next(cure for beginning, cure in FILES.items() if data.startswith(beginning))
        raise Failure(f"standard input: expected float32 values without a header, got {known_kind(data)}; {cure}")
    if other := _other_type(data, width):
        raise Failure(
            f"standard input: expected float32 values, got what seem to be values of {other}; write "
            "values.astype('<f4').tobytes()"
        )


def _other_type(data: bytes, width: int) -> str | None:
    """The type of which these values seem to be: as float32 they are odd, and as that type log-probs, or not odd."""
    values = np.frombuffer(data, "<f4", len(data) // 4)
    odd = _are_odd(values)  # as logits and features are not
    found = next((name for kind, name in OTHERS.items() if odd.any() and _are_log_probs(data, kind, width)), None)
    return found or ("float64" if _is_float64(data, odd) else None)


def _are_odd(values: np.ndarray) -> np.ndarray:
    """Of values [n], those whose size no output of a model has; zeros and infinities are not odd."""
    size = np.abs(values)
    return (size > ODD) & (size < np.inf) | (size > 0) & (size < 1 / ODD**3)


def _is_float64(data: bytes, odd: np.ndarray) -> bool:
    """Whether values are usual as float64, while as float32 every second one is odd, or 0 as after rounding."""
    with np.errstate(all="ignore"):
        doubles = np.frombuffer(data, "<f8", len(data) // 8)
        if _are_odd(doubles).any() or not np.isfinite(doubles).all() or np.count_nonzero(doubles) < FEWEST_DOUBLES:
            return False
    halves = np.frombuffer(data, "<u4", 2 * len(doubles))[::2]
    return not halves.any() or bool(odd.mean() > ODD_SHARE)


def _are_log_probs(data: bytes, kind: str, width: int) -> bool:
    """Whether the whole frames of values of this type are log-probs."""
    size = np.dtype(kind).itemsize * width
    return are_log_probs(np.frombuffer(data, kind, len(data) // size * width).reshape(-1, width))


def are_log_probs(rows: np.ndarray) -> bool:
    """Whether rows [frames, columns] are log-probs: the probabilities of each frame sum up to about 1."""
    with np.errstate(all="ignore"):
        sums = np.exp(rows.astype(np.float64)).sum(axis=1)
    return len(rows) > 0 and bool((np.abs(sums - 1.0) < NEAR_ONE).all())
