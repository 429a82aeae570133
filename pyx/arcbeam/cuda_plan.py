"""How the search is laid out on a device: every figure that was found by measurement, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHARED_STEP = 128
"""Shared memory holds a multiple of so many states of a frame."""
RESERVED_SHARED_BYTES = 1024
"""What the device keeps for itself of the shared memory of a multiprocessor, for each block."""


@dataclass(frozen=True)
class LaunchShape:
    """The entry of the search kernel, threads a block, blocks a multiprocessor, and blocks of the cluster of a lane."""

    kernel: str
    threads: int
    blocks_per_multiprocessor: int
    cluster: int = 1


WIDE = LaunchShape("wide", threads=512, blocks_per_multiprocessor=1)
DENSE = LaunchShape("dense", threads=256, blocks_per_multiprocessor=2)


CLUSTERS = tuple(LaunchShape("cluster", threads=512, blocks_per_multiprocessor=1, cluster=size) for size in (8, 4, 2))
"""The largest that all lanes have room for is taken."""
TEAM_TOKENS = 1024
"""Tokens from which on a frame is worked on by the whole cluster."""
HOT_TOKENS = 4096
"""Tokens from which on an utterance is left to a cluster, once few are left."""


def launch_shapes(utterances: int, multiprocessors: int) -> tuple[LaunchShape, ...]:
    """What to try, in this order: dense blocks for more utterances than multiprocessors, clusters for few."""
    if utterances > multiprocessors:
        return (DENSE, WIDE)
    return (*CLUSTERS, WIDE) if 2 * utterances <= multiprocessors else (WIDE,)


@dataclass(frozen=True)
class Room:
    """What a lane and a batch start with; all of it grows on demand.

    Attributes
    ----------
    spill_states : int
        Tokens of a frame in device memory.
    log_entries : int
        Token-log entries of a lane, 8 bytes each.
    path_entries : int or None
        Arcs of all paths, 4 bytes each; None for what the frames suggest.
    part_bytes : int
        Log-probs from host memory that go to the device at a time.
    shared_states : int or None
        Tokens of a frame in shared memory; None for as many as fit.
    """

    spill_states: int
    log_entries: int
    path_entries: int | None = None
    part_bytes: int = 64 << 20
    shared_states: int | None = None


LEAN = Room(spill_states=2048, log_entries=1 << 14, part_bytes=1)


def first_room(max_active: int) -> Room:
    """The room to start with; `max_active` 0 means no limit."""
    wanted = 2 * max_active if max_active else 32768
    return Room(spill_states=min(max(wanted, 4096), 32768), log_entries=1 << 19)


def parts_of(utterance_bytes: np.ndarray, part_bytes: int) -> list[tuple[int, int]]:
    """Cuts a batch into parts ``[first, last)`` of at most `part_bytes`, and of one utterance at least."""
    ends = np.cumsum(utterance_bytes)
    parts, first, before = [], 0, 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, before + part_bytes, side="right")), first + 1)
        parts.append((first, last))
        first, before = last, int(ends[last - 1])
    return parts
