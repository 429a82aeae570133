"""The structs that search kernels share with their host, and the bytes of a lane's memory, spelled out once more."""

import numpy as np

NONE = 0xFFFFFFFF
UTTERANCE = np.dtype(
    [("log_probs", "u8"), ("row_stride", "i8"), ("frames", "u4"), ("is_half", "u4"), ("first_piece", "u4"),
     ("padding", "u4")]
)  # fmt: skip
RESULT = np.dtype(
    [("total_cost", "f8"), ("path_begin", "u4"), ("path_length", "u4"), ("end_state", "u4"), ("reached_final", "u4"),
     ("outcome", "u4"), ("bad_frame", "u4"), ("bad_column", "u4"), ("bad_value", "f4"), ("frames", "u8"),
     ("tokens", "u8"), ("leaving_arcs", "u8"), ("admitted", "u8"), ("settled", "u4"), ("alive", "u4"),
     ("taken", "u4"), ("fired", "u4"), ("next_look", "u4"), ("padding", "u4")]
)  # fmt: skip
LANE = np.dtype(
    [("memory", "u8"), ("tokens", "u8"), ("capacity", "u4"), ("candidates", "u4"),
     ("table_size", "u4"), ("spill_padding", "u4"), ("log", "u8"), ("log_capacity", "u4"), ("log_size", "u4"),
     ("settled", "u4"), ("utterance", "u4"), ("offset", "f8"), ("frame", "u4"), ("started", "u4"), ("alive", "u4"),
     ("num_tokens", "u4"), ("need", "u4"), ("need_padding", "u4"), ("tokens_seen", "u8"),
     ("leaving_arcs", "u8"), ("admitted", "u8"), ("stream", "u4"), ("known", "u4")]
)  # fmt: skip
DECODED, BAD_LOG_PROB = 1, 2
NEED_SPILL, NEED_LOG, NEED_PATHS, NEED_LOG_PROBS, NEED_LAUNCH = 1, 2, 3, 4, 5
NEED_ANSWERS, NEED_REQUEST_ROOM = 16, 17  # of lanes that ask the host
NEED_LINKS, NEED_LATTICE_POOL = 18, 19
NEED_STREAM_ROOM = 20
LATTICE_LANE = np.dtype([("costs", "u8"), ("links", "u8"), ("link_capacity", "u4"), ("num_links", "u4")])
LATTICE_RESULT = np.dtype(
    [("begin", "u8"), ("total_cost", "f8"), ("steps", "u4"), ("links", "u4"), ("entries", "u4"), ("best_end", "u4"),
     ("frames", "u4"), ("reached_final", "u4"), ("written", "u4"), ("alive", "u4")]
)  # fmt: skip
LATTICE_STEP = np.dtype([("offset", "f8"), ("entries_end", "u4"), ("links_end", "u4")])
STREAM = np.dtype(
    [("before", "u8"), ("after", "u8"), ("before_tokens", "u4"), ("before_entries", "u4"), ("after_tokens", "u4"),
     ("after_entries", "u4"), ("is_last", "u4"), ("shows_lattice", "u4"), ("fired", "u4"), ("next_look", "u4"),
     ("large_start", "u4"), ("padding", "u4"), ("frames", "u8"), ("columns", "u8"), ("rules", "u4", 36)]
)  # fmt: skip
LINK = np.dtype([("source", "u4"), ("target", "u4"), ("arc", "u4"), ("slack", "f4")])
STREAM_LINKS = np.dtype(
    [("before", "u8"), ("after", "u8"), ("before_links", "u4"), ("before_steps", "u4"), ("after_links", "u4"),
     ("after_steps", "u4")]
)  # fmt: skip
LINE_BYTES = 128


def padded(count):
    return (count + 15) // 16 * 16


def tokens_bytes(capacity):
    return 16 * capacity + 3 * padded(4 * capacity)


def workspace_bytes(capacity, candidates, table_size):
    table = padded(8 * table_size) + 2 * padded(4 * table_size)
    return table + 16 * candidates + 48 * capacity
