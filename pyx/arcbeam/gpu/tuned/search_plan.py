"""How the search is laid out on a device: every figure that was found by measurement, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHARED_STEP = 64
"""Shared memory holds a multiple of so many states of a frame."""
SHARED_BYTES = 164 << 10
"""Of a multiprocessor that blocks take together; the rest of it is a cache (L1) that they need."""
RESCORING_SHARED_BYTES = 100 << 10
"""The same with a large language model, whose kernel has more registers spilled to that cache."""
RESERVED_SHARED_BYTES = 1024
"""What the device keeps for itself of the shared memory of a multiprocessor, for each block."""

# Log-probs from host memory.
FIRST_PART_BYTES, LARGEST_PART_BYTES = 2 << 20, 8 << 20
"""What is copied to the device at a time: little at first, since lanes wait for it, then twice as much each time."""
PIECES_BYTES = 4 << 20
"""Of the pieces that all lanes wait for at a time; a lane decodes one while the next are under way."""
PIECE_BYTES = 256 << 10
"""The largest piece, which one thread copies."""
ALONE_BYTES = 256 << 10
"""What the calling thread copies itself, sooner than others would wake."""
GATHERING_THREADS = 8
"""More gain little: they share the memory's bandwidth."""
WAIT_CYCLES = 1 << 28
"""Clock cycles, a tenth of a second or two, after which a lane that hears nothing of its log-probs stops."""
REQUEST_ENTRIES = 1 << 12
"""Of the table in which a lane that asks the host keeps the answers, at first; a multiple of 16."""
ANSWERING_THREADS = 32
"""The most that look words up for a GPU; with none, lanes stop for every answer."""
FETCHING_THREADS = 4
"""As many as need only fetch arcs: 15 of them were at work 3 % of the time (H200, beam 17)."""
REQUEST_HISTORIES = 1 << 20
"""Histories of a KenLM for which there is room at first."""
REQUEST_HISTORIES_BYTES = 512 << 20
"""Of the host, that they may take from batch to batch; one batch may need more."""


PINNED_MODEL_BYTES = 512 << 20
"""Of a model that kernels read in the host's memory: more is managed memory, where an H200 reads at random as often a
second up to here, and four to ten times as often beyond (docs/design/memory.md)."""


@dataclass(frozen=True)
class LaunchShape:
    """The entry of the search kernel, threads a block, blocks a multiprocessor, and blocks of the cluster of a lane."""

    kernel: str
    threads: int
    blocks_per_multiprocessor: int
    cluster: int = 1


WIDE = LaunchShape("wide", threads=512, blocks_per_multiprocessor=1)
DENSE = LaunchShape("dense", threads=256, blocks_per_multiprocessor=2)
CROWDED = LaunchShape("dense", threads=128, blocks_per_multiprocessor=4)
FEW_TOKENS = 48
"""Tokens of a frame on average up to which small blocks suffice."""
CROWD = 4
"""Utterances a multiprocessor from which on they are a crowd."""
CLUSTER = LaunchShape("cluster", threads=512, blocks_per_multiprocessor=1, cluster=8)
TEAM_TOKENS = 256
"""Tokens from which on a frame is worked on by the whole cluster."""
HOT_TOKENS, HOT_AMONG_MANY = 512, 2048
"""Tokens of a frame on average from which on an utterance is worth a cluster: in a batch of few, and of many,"""
HOT_LANES = 8
"""once no more than so many are left."""
RESCORING_CLUSTER = LaunchShape("cluster", threads=512, blocks_per_multiprocessor=1, cluster=4)
RESCORING_TEAM_TOKENS, RESCORING_HOT_TOKENS, RESCORING_HOT_LANES = 512, 128, 32
"""The same with a large language model, for batches of any size."""


def hot_tokens(utterances: int, multiprocessors: int) -> int:
    """Where many lanes work, the stop for clusters costs all of them."""
    return HOT_TOKENS if 4 * utterances <= multiprocessors else max(HOT_TOKENS, HOT_AMONG_MANY)


def launch_shapes(utterances: int, multiprocessors: int, tokens: float | None = None) -> tuple[LaunchShape, ...]:
    """What to try, in this order. No launch begins in clusters, for most utterances are faster without.

    `tokens` are those of a frame on average, as far as is known from batches before.
    """
    if tokens is None or tokens > FEW_TOKENS or utterances <= multiprocessors:
        return (WIDE,)
    return (CROWDED, DENSE, WIDE) if utterances >= CROWD * multiprocessors else (DENSE, WIDE)


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
    window_bytes : int
        Log-probs from host memory that are on the device at a time.
    shared_states : int or None
        Tokens of a frame in shared memory; None for as many as fit.
    """

    spill_states: int
    log_entries: int
    path_entries: int | None = None
    window_bytes: int = 2 << 30
    shared_states: int | None = None


def room_ahead(states: int, lane_bytes: float, lanes: int, memory: int) -> int:
    """States of a frame that every lane gets room for because some lane once needed it.

    Lanes that stop for more room cost time, in every batch others; so all get it, as far as a sixteenth of `memory`
    goes, which is the device's or what the decoder may take.
    """
    return min(states, int(memory // (16 * lanes * lane_bytes)))


LEAN = Room(spill_states=2048, log_entries=1 << 14, window_bytes=1)


def first_room(max_active: int) -> Room:
    """The room to start with; `max_active` 0 means no limit."""
    wanted = 2 * max_active if max_active else 32768
    return Room(spill_states=min(max(wanted, 4096), 32768), log_entries=1 << 19)


def windows_of(utterance_bytes: np.ndarray, window_bytes: int) -> list[tuple[int, int]]:
    """Cuts a batch into windows ``[first, last)`` of at most `window_bytes`, and of one utterance at least."""
    ends = np.cumsum(utterance_bytes)
    windows, first, before = [], 0, 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, before + window_bytes, side="right")), first + 1)
        windows.append((first, last))
        first, before = last, int(ends[last - 1])
    return windows


def piece_frames(row_bytes: int, lanes: int) -> int:
    """Frames of a piece of log-probs on their way, for so many lanes that decode at a time."""
    wanted = PIECES_BYTES // max(1, lanes)
    return max(1, min(wanted, PIECE_BYTES) // row_bytes)


def lookup_threads(cores: int, of_kenlm: bool) -> int:
    """Threads that look words up for lanes. They seldom sleep, so some cores are left to others."""
    return min(max(1, cores * 3 // 4), ANSWERING_THREADS if of_kenlm else FETCHING_THREADS)


def kept_histories(bytes_each: int) -> int:
    """Histories of a KenLM for which there may be room from batch to batch: a power of two times those at first."""
    kept = REQUEST_HISTORIES
    while 2 * kept * bytes_each <= REQUEST_HISTORIES_BYTES:
        kept *= 2
    return kept


def gathering_threads(cores: int) -> int:
    """Threads that bring log-probs to pinned memory."""
    return min(cores, GATHERING_THREADS)
