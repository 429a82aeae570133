"""How the search is laid out on a device: every figure that was found by measurement, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SHARED_STEP = 64
"""The number of states of a frame in shared memory is a multiple of this."""
SHARED_BYTES = 164 << 10
"""Bytes that the blocks of a multiprocessor take together; the other part is their L1 cache."""
RESCORING_SHARED_BYTES = 100 << 10
"""`SHARED_BYTES` with a large language model, whose kernel spills more registers to that cache."""
BOOSTED_SHARED_BYTES = SHARED_BYTES
"""`SHARED_BYTES` with a boost and without a model, whose kernel spills no more than the plain search."""
RESERVED_SHARED_BYTES = 1024
"""Bytes of a multiprocessor's shared memory that the device keeps for itself, for each block."""

# Log-probs from host memory.
FIRST_PART_BYTES, LARGEST_PART_BYTES = 2 << 20, 8 << 20
"""Bytes copied to the device at a time: few at first, because lanes wait for them, then twice as many each time."""
PIECES_BYTES = 4 << 20
"""Bytes of the pieces that all lanes wait for at a time; a lane decodes one piece while the next are under way."""
PIECE_BYTES = 256 << 10
"""Bytes of the largest piece; a piece is copied by one thread."""
ALONE_BYTES = 256 << 10
"""Up to this many bytes the calling thread copies alone: other threads would wake later than it is done."""
GATHERING_THREADS = 8
"""More threads gain little, because they share the memory's bandwidth."""
LOG_SOFTMAX_THREADS, LOG_SOFTMAX_BLOCKS = 256, 16
"""Threads of a block that makes log-probs of logits, a warp for each row; the most such blocks of a multiprocessor."""
WAIT_CYCLES = 1 << 28
"""Clock cycles (one or two tenths of a second) after which a lane stops if its log-probs have not arrived."""
REQUEST_ENTRIES = 1 << 12
"""Entries that the table for the host's answers has in each lane at first; a multiple of 16."""
ANSWERING_THREADS = 32
"""The most threads that look words up for a GPU; without any, lanes stop for every answer."""
FETCHING_THREADS = 4
"""The most threads if they only fetch arcs: 15 threads were at work 3 % of the time (H200, beam 17)."""
REQUEST_HISTORIES = 1 << 20
"""Histories of a KenLM for which there is room at first."""
REQUEST_HISTORIES_BYTES = 512 << 20
"""Bytes of the host that these histories may take from batch to batch; a single batch may need more."""


PINNED_MODEL_BYTES = 512 << 20
"""Up to this size, a model that kernels read in the host's memory is pinned, which cannot hang a device, is not limited
by what the device has free, and lets copies be asynchronous. A larger one is in managed memory, where an H200 makes 7.6
times as many random reads per second of 2 GiB; of 256 MiB it makes 1.3 times as many (docs/design/memory.md)."""


class LaunchShape(NamedTuple):
    """The search kernel's entry, threads per block, blocks per multiprocessor, and blocks of the cluster of a lane."""

    kernel: str
    threads: int
    blocks_per_multiprocessor: int
    cluster: int = 1


WIDE = LaunchShape("wide", threads=512, blocks_per_multiprocessor=1)
DENSE = LaunchShape("dense", threads=256, blocks_per_multiprocessor=2)
CROWDED = LaunchShape("dense", threads=128, blocks_per_multiprocessor=4)
FEW_TOKENS = 48
"""The average number of tokens in a frame up to which small blocks suffice."""
FEWER_TOKENS = 24
CROWD, CROWD_OF_MORE = 4, 6
"""Utterances per multiprocessor from which on the shape ``CROWDED`` is tried first: with up to `FEWER_TOKENS` in a
frame, and with more. (688 of letters at beam 17, with 33 tokens: 13.7 ms in ``DENSE`` and 18.0 in ``CROWDED``; 1,032:
30.9 and 27.3. H200.)"""
SMALL_FRAME = 32
"""The number of tokens up to which one warp decodes a frame; at most 32. 0: none."""
CLUSTER = LaunchShape("cluster", threads=512, blocks_per_multiprocessor=1, cluster=8)
TEAM_TOKENS = 256
"""The number of tokens from which on the whole cluster works on a frame."""
HOT_TOKENS, HOT_AMONG_MANY = 512, 64
"""The average number of tokens in a frame from which on an utterance is worth a cluster: in a batch of few utterances,
and in one of many, whose blocks are smaller."""
HOT_FRAMES = 32
"""The number of frames that it has to have left: the stop of all lanes and another launch take as long as some."""
HOT_LANES = 8
"""Utterances get clusters once at most this many are left."""
RESCORING_CLUSTER = LaunchShape("cluster", threads=512, blocks_per_multiprocessor=1, cluster=4)
RESCORING_TEAM_TOKENS, RESCORING_HOT_TOKENS, RESCORING_HOT_LANES = 512, 128, 32
"""The three figures above with a large language model, for batches of any size."""


def shared_bytes(has_histories: bool, has_model: bool) -> int:
    """Bytes that the blocks of a multiprocessor take together; histories without a model are those of a boost."""
    if has_model:
        return RESCORING_SHARED_BYTES
    return BOOSTED_SHARED_BYTES if has_histories else SHARED_BYTES


def hot_tokens(utterances: int, multiprocessors: int) -> int:
    """Tokens from which on an utterance is worth a cluster."""
    return HOT_TOKENS if 4 * utterances <= multiprocessors else HOT_AMONG_MANY


def launch_shapes(utterances: int, multiprocessors: int, tokens: float | None = None) -> tuple[LaunchShape, ...]:
    """The shapes to try, in order; `tokens`: the average of a frame, if known from earlier batches."""
    # No launch begins in clusters: most utterances are faster without them.
    if tokens is None or tokens > FEW_TOKENS or utterances <= multiprocessors:
        return (WIDE,)
    crowd = CROWD if tokens <= FEWER_TOKENS else CROWD_OF_MORE
    return (CROWDED, DENSE, WIDE) if utterances >= crowd * multiprocessors else (DENSE, WIDE)


@dataclass(frozen=True)
class Room:
    """The room that a lane and a batch start with; all of it grows on demand."""

    spill_states: int  # tokens of a frame in device memory
    log_entries: int  # of a lane, 8 bytes each
    links: int = 1 << 17  # of a lane that lost, 16 bytes each, where lattices are requested
    lattice_bytes: int = 1 << 10  # host memory for each frame of the batch
    path_entries: int | None = None  # arcs of all paths, 4 bytes each; None: estimated from the frames
    window_bytes: int = 2 << 30  # log-probs from host memory, or made of logits, that are on the device at a time
    shared_states: int | None = None  # tokens of a frame in shared memory; None: as many as fit


def room_ahead(states: int, lane_bytes: float, lanes: int, memory: int) -> int:
    """States of a frame for which every lane gets room because some lane once needed as much."""
    # Lanes that stop for more room cost time, and in each batch they are other lanes. `memory` is the device's, or the
    # part of it that the decoder may take.
    return min(states, int(memory // (16 * lanes * lane_bytes)))


LEAN = Room(spill_states=2048, log_entries=1 << 14, links=1 << 12, window_bytes=1)


# The room that the state of a stream starts with, in a buffer of 64 KiB.
STREAM_TOKENS, STREAM_ENTRIES = 512, 5760

# The links that there is room for at first, where a lattice is requested; and the entries and links, twice as many as
# have been left by the last pruning or at least so many, above which a stream is pruned at the end of a chunk.
STREAM_LINKS, STREAM_PRUNE_ABOVE = 4096, 1 << 12


def first_room(max_active: int) -> Room:
    """The room to start with; `max_active` 0 means no limit."""
    states = 2 * max_active if max_active else 32768
    return Room(spill_states=min(max(states, 4096), 32768), log_entries=1 << 19)


def windows_of(utterance_bytes: np.ndarray, window_bytes: int) -> list[tuple[int, int]]:
    """Cuts a batch into windows ``[first, last)`` of at most `window_bytes`, but of at least one utterance."""
    ends = np.cumsum(utterance_bytes)
    windows, first, before = [], 0, 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, before + window_bytes, side="right")), first + 1)
        windows.append((first, last))
        first, before = last, int(ends[last - 1])
    return windows


def log_softmax_blocks(rows: int, multiprocessors: int) -> int:
    """Blocks that make log-probs of so many rows of logits."""
    return min(-(-rows * 32 // LOG_SOFTMAX_THREADS), LOG_SOFTMAX_BLOCKS * multiprocessors)


def piece_frames(row_bytes: int, lanes: int) -> int:
    """The number of frames that are sent in one piece, if this many lanes decode at a time."""
    share = PIECES_BYTES // max(1, lanes)
    return max(1, min(share, PIECE_BYTES) // row_bytes)


def lookup_threads(cores: int, of_kenlm: bool) -> int:
    """Threads that look words up for lanes. They seldom sleep, so some cores are left for other work."""
    return min(max(1, cores * 3 // 4), ANSWERING_THREADS if of_kenlm else FETCHING_THREADS)


def kept_histories(bytes_each: int) -> int:
    """Histories of a KenLM that may keep their room from batch to batch: a power of two times the number at first."""
    kept = REQUEST_HISTORIES
    while 2 * kept * bytes_each <= REQUEST_HISTORIES_BYTES:
        kept *= 2
    return kept


def gathering_threads(cores: int) -> int:
    """Threads that copy log-probs to pinned memory."""
    return min(cores, GATHERING_THREADS)
