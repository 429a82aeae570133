"""The packed columns of a language model, taken apart and put together again in numpy: labels, first arcs, back-offs.

Their layout is that of `cuda/shared/lm_view.hpp`. Whoever makes a model larger, as `data/closed_lm.py`, changes arcs
and states, and so the columns that number them.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK, WIDE, MOST_OFFSET, MOST_STEP = 32, 0x80000000, 255, 3  # of the layout, see cuda/shared/lm_view.hpp
AT_A_TIME = 1 << 22  # n-grams


def labels_of(columns: dict[str, npt.NDArray[Any]], bits: int) -> npt.NDArray[np.uint32]:
    """The label of every arc."""
    low = columns["labels.low"].astype(np.uint32)
    return low if bits == 0 else low | unpack(columns["labels.high"], bits, len(low)) << np.uint32(16)


def unpack(words: npt.NDArray[np.uint32], bits: int, count: int) -> npt.NDArray[np.uint32]:
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return ((words[:, None] >> shifts) & np.uint32((1 << bits) - 1)).reshape(-1)[:count]


def pack(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    each = 32 // bits
    padded = np.zeros(-(-len(values) // each) * each, np.uint32)
    padded[: len(values)] = values
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1).astype(np.uint32)


def blocks_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[blocks, BLOCK], the last one filled up with its last number."""
    missing = -len(numbers) % BLOCK
    return np.append(numbers, np.repeat(numbers[-1:], missing)).reshape(-1, BLOCK)


def put(blocks: npt.NDArray[np.int64], is_wide: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The bases of blocks, and the table of those that are wide."""
    bases = blocks[:, 0].copy()
    bases[is_wide] = WIDE | BLOCK * np.arange(int(is_wide.sum()))
    return bases.astype("<u4"), blocks[is_wide].reshape(-1).astype("<u4")


def numbers_of(bases: npt.NDArray[Any], wide: npt.NDArray[Any], within: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What `put` has put away: [blocks, BLOCK], from what each number adds to the base of its block."""
    is_wide = (bases & WIDE) != 0
    numbers = within + bases.astype(np.int64)[:, None]
    numbers[is_wide] = wide.reshape(-1, BLOCK)
    return numbers


def first_arcs(columns: dict[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.int64]:
    within = blocks_of(columns["first.offsets"].astype(np.int64))
    return numbers_of(columns["first.bases"], columns["first.wide"], within).reshape(-1)[:count]


def backoff_states(columns: dict[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.int64]:
    steps = columns["backoff.steps"][:, None] >> np.arange(0, 2 * BLOCK, 2, dtype=np.uint64) & np.uint64(MOST_STEP)
    within = np.cumsum(steps.astype(np.int64), axis=1)
    return numbers_of(columns["backoff.bases"], columns["backoff.wide"], within).reshape(-1)[:count]


def index_of(first: npt.NDArray[np.int64], backoffs: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """The columns of first arcs, the end included, and of back-off states."""
    blocks = blocks_of(first)
    is_wide = blocks[:, -1] - blocks[:, 0] > MOST_OFFSET
    offsets = np.where(is_wide[:, None], 0, blocks - blocks[:, :1]).reshape(-1)[: len(first)]
    bases, wide = put(blocks, is_wide)
    columns = {"first.offsets": offsets.astype("u1"), "first.bases": bases, "first.wide": wide}
    blocks = blocks_of(backoffs)
    steps = np.diff(blocks, axis=1, prepend=blocks[:, :1])
    is_wide = ((steps < 0) | (steps > MOST_STEP)).any(axis=1)
    steps[is_wide] = 0
    packed = np.bitwise_or.reduce(steps.astype(np.uint64) << np.arange(0, 2 * BLOCK, 2, dtype=np.uint64), axis=1)
    bases, wide = put(blocks, is_wide)
    return columns | {"backoff.steps": packed.astype("<u8"), "backoff.bases": bases, "backoff.wide": wide}


def packed(values: npt.NDArray[Any], bits: int, workers: ThreadPoolExecutor) -> npt.NDArray[np.uint32]:
    """What `pack` makes of bytes, by several threads."""
    each = 32 // bits
    words = np.empty(-(-len(values) // each), "<u4")

    def one(begin: int) -> None:
        part = pack(values[begin : begin + AT_A_TIME].astype(np.uint32), bits)
        words[begin // each : begin // each + len(part)] = part

    list(workers.map(one, range(0, len(values), AT_A_TIME)))
    return words
