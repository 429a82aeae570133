"""Frames in chunks: of files, or of the standard input as they come; in real time with --real-time."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import numpy as np
import typer

from arcbeam.cli.console import Failure
from arcbeam.cli.options import STDIN
from arcbeam.files.log_probs import Input, Utterance, find_inputs, read_all

NPY = b"\x93NUMPY"  # how such files begin
OTHERS = {"<f2": "float16", "<f8": "float64", ">f4": "float32 of the other byte order"}
ODD = 1e3  # in size; log-probs and logits are smaller
NEAR_ONE = 0.05  # how far from 1 the probabilities of a frame sum up at most


def find_frames(inputs: list[str], max_bytes: str | None) -> list[Input]:
    """The files that are named; none for the standard input, which excludes files."""
    if STDIN not in inputs:
        return find_inputs(inputs, max_bytes)
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
        if is_first and data.startswith(NPY):
            raise Failure(
                "standard input: expected float32 values without a header, got a .npy file; give the file's name "
                "instead of -"
            )
        if is_first and (other := _other_type(data, width)):
            raise Failure(
                f"standard input: expected float32 values, got what are log-probs as {other}; write "
                "values.astype('<f4').tobytes()"
            )
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


def _other_type(data: bytes, width: int) -> str | None:
    """The type as which these values are log-probs, whose probabilities sum to 1, if they are odd as float32."""
    size = np.abs(np.frombuffer(data, "<f4", len(data) // 4))
    if not np.any((size > ODD) & (size < np.inf) | (size > 0) & (size < 1 / ODD**3)):  # as logits are not
        return None
    return next((name for kind, name in OTHERS.items() if _are_log_probs(data, kind, width)), None)


def _are_log_probs(data: bytes, kind: str, width: int) -> bool:
    """Whether the whole frames of values of this type are log-probs."""
    size = np.dtype(kind).itemsize * width
    with np.errstate(all="ignore"):
        rows = np.frombuffer(data, kind, len(data) // size * width).reshape(-1, width).astype(np.float64)
        return len(rows) > 0 and bool((np.abs(np.exp(rows).sum(axis=1) - 1.0) < NEAR_ONE).all())
