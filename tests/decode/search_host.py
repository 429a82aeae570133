"""A host for the search kernel under the emulator: lanes, room that grows, launches until all is decoded."""

import ctypes
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam.ctc.gpu.searches import graph_layout
from tests.decode.host_lattices import Lattices
from tests.decode.search_layout import (
    DECODED,
    LANE,
    LINE_BYTES,
    NEED_ANSWERS,
    NEED_LAUNCH,
    NEED_LINKS,
    NEED_LOG,
    NEED_LOG_PROBS,
    NEED_PATHS,
    NEED_REQUEST_ROOM,
    NEED_SPILL,
    NEED_STREAM_ROOM,
    NONE,
    RESULT,
    STREAM,
    UTTERANCE,
    padded,
    tokens_bytes,
    workspace_bytes,
)
from tests.simt import build


@dataclass(frozen=True)
class Room:
    """How much there is of everything at first: little, so that tests see it grow."""

    capacity: int = 8
    candidates: int = 16
    table_size: int = 16
    spill_capacity: int = 8
    log: int = 64
    paths: int = 16
    links: int = 16
    lattice_pool: int = 64
    prune_above: int = 0


@dataclass(frozen=True)
class Shape:
    """The kernel and its launch: lanes, threads of a block, and from where on a cluster works as one."""

    kernel: str = "wide"
    lanes: int = 2
    block: int = 64
    cluster: int = 1
    team_tokens: int = 0
    hot_tokens: int = 0
    hot_lanes: int = 0


def as_launched(launch, lanes=1, **options):
    """The shape of a launch of the engine, as `arcbeam.gpu.tuned.search_plan` has it."""
    return Shape(launch.kernel, lanes, launch.threads, launch.cluster, **options)


class FromHost:
    """Log-probs on their way: pieces of so many frames, all first ones first, that come in parts.

    Parameters
    ----------
    piece_frames : int
    parts : list of float
        Where the pieces are cut, as shares of their number.
    steps : list of int
        When each part comes, in the scheduling points of a launch. What has not come when a launch ends comes, part by
        part, before the next ones.
    """

    def __init__(self, batch, piece_frames, parts, steps, wait_cycles=10**6):
        self.piece_frames, self.steps, self.wait_cycles = piece_frames, steps, wait_cycles
        pieces, first, place = [], 0, 0
        self.first_piece = []
        for logp in batch:
            self.first_piece.append(first)
            pieces += [(row, first + row // piece_frames, logp) for row in range(0, len(logp), piece_frames)]
            first += -(-len(logp) // piece_frames)
        pieces.sort(key=lambda piece: piece[:2])
        self.pieces = np.zeros(max(1, first), np.uint32)
        data, ends = [], [0]
        for row, number, logp in pieces:
            some = logp[row : row + piece_frames].tobytes()
            self.pieces[number] = place
            data.append(some + b"\xff" * (-len(some) % LINE_BYTES))
            place += len(data[-1]) // LINE_BYTES
            ends.append(place)
        self.source = np.frombuffer(b"".join(data) or b"\xff" * LINE_BYTES, np.uint8)
        self.memory = np.full(len(self.source), 0xFF, np.uint8)  # NaN, until the data comes
        self.marks = np.array([ends[int(share * len(pieces))] for share in sorted(parts)] + [place], np.uint32)
        self.arrived = np.zeros(1, np.uint32)
        self.come = 0

    def copies(self):
        """What is to come: for each part its data, and behind it the count."""
        while self.come < len(self.marks) and self.marks[self.come] <= self.arrived[0]:
            self.come += 1
        made = []
        for i in range(self.come, len(self.marks)):
            lines = slice(int(self.marks[i - 1]) * LINE_BYTES if i else 0, int(self.marks[i]) * LINE_BYTES)
            made.append(build.Copy(self.steps[i], self.memory[lines], self.source[lines]))
            made.append(build.Copy(self.steps[i], self.arrived, self.marks[i : i + 1], "released_word"))
        return made

    def come_on(self):
        """One more part, as if between two launches."""
        for copy in self.copies()[:2]:
            copy.to[:] = copy.source


@dataclass
class Found:
    arcs: np.ndarray
    total_cost: float
    end_state: int
    reached_final: bool
    outcome: int
    bad_frame: int
    bad_column: int
    work: tuple[int, int, int, int]
    lattice: Any = None  # FoundLattice, if one was asked for


class SearchHost:
    source, entry = "cuda/decode/kernels/search.cu", "arcbeam_search_{}"
    sources_of_the_host: tuple[Path, ...] = ()

    def __init__(
        self, graph: Any, *, beam, max_active=None, acoustic_scale=1.0, blank_penalty=0.0, room=None,
        lattice_beam=None, looks_every=0,
    ):  # fmt: skip
        """`looks_every`: scheduling points between the host's looks for lattices that have been written"""
        self.graph = graph
        self.room = room or Room()
        self.looks_every = looks_every
        if looks_every:
            self.sources_of_the_host = (Path(__file__).with_name("looking.cpp"),)
        self.options = (beam, acoustic_scale, blank_penalty, max_active or 0)
        self.lattice_beam = lattice_beam
        if lattice_beam is not None:
            self.source, self.entry = self.of_lattices(self.source, self.entry)
        self.kernels = build.load(self.source, *self.sources_of_the_host)
        self.of_stream_lattices = self.kernels, self.entry
        if lattice_beam is not None and self.streams_apart:
            self.of_stream_lattices = (
                build.load("cuda/decode/kernels/search_stream_lattice.cu"), "arcbeam_search_stream_lattice_{}"
            )  # fmt: skip
        self.launches = 0
        self.lanes = np.zeros(0, LANE)
        self.capacities: dict[int, int] = {}

    @staticmethod
    def of_lattices(source, entry):
        """The source that gives lattices, and its entries."""
        return source.replace(".cu", "_lattice.cu"), entry.replace("_{}", "_lattice_{}")

    # What a search with a large language model has otherwise.

    def params(self, search):
        """The kernel's parameters, around those of the search."""
        return search

    def beside(self):
        """What the host does while a kernel runs, if anything; see `tests.simt.build.Kernels.launch`."""
        return None

    def begin(self, lanes):
        """Before the first launch."""

    def answer(self, number, need):
        """What a lane needs of the host's model."""

    @staticmethod
    def tokens_bytes(capacity):
        return tokens_bytes(capacity)

    @staticmethod
    def workspace_bytes(capacity, candidates, table_size):
        return workspace_bytes(capacity, candidates, table_size)

    control_bytes = 208
    wait_cycles = 10**6
    has_clusters = True  # the kernel has an entry for them
    streams_apart = True  # their lattices come from kernels of their own

    @staticmethod
    def table_bytes(candidates, table_size):
        """Of a workspace's memory: what is all bits 1 in a free table."""
        return padded(8 * table_size) + padded(4 * table_size)

    @staticmethod
    def move_histories(larger, old, capacity, before, num_tokens):
        """Of tokens that wait."""

    def decode(self, batch, shape=None, *, from_host=None, streams=None, last=False, **schedule):
        """With `streams`, a HostStream for each, the utterances are their next chunks; paths follow what is settled."""
        room, graph = self.room, self.graph
        kernels, entry = self.of_stream_lattices if streams else (self.kernels, self.entry)
        shape = shape or Shape()
        columns = batch[0].shape[1] if batch else graph.num_columns
        utterances = np.zeros(len(batch), UTTERANCE)
        for row, logp in zip(utterances, batch, strict=True):
            row["log_probs"], row["row_stride"] = logp.ctypes.data, logp.strides[0] // logp.itemsize if len(logp) else 0
            row["frames"], row["is_half"], row["first_piece"] = len(logp), logp.dtype == np.float16, NONE
        coming = from_host or FromHost([], 1, [], [0], self.wait_cycles)
        if from_host:
            utterances["log_probs"], utterances["row_stride"] = coming.memory.ctypes.data, columns
            utterances["first_piece"] = coming.first_piece
        order = np.argsort([-len(logp) for logp in batch], kind="stable").astype(np.uint32)
        results = np.zeros(len(batch), RESULT)
        self.lanes = lanes = np.zeros(shape.lanes, LANE)
        lanes["utterance"] = NONE
        keep: dict[str, np.ndarray] = {}
        views = np.zeros(len(streams or ()), STREAM)
        for number, stream in enumerate(streams or ()):
            stream.view(number, views[number], self.tokens_bytes, keep, last, graph)
        rows = graph_layout.state_rows(graph.states, graph.targets, graph.words, graph.open_slot)
        labels = graph_layout.labels(graph.states, graph.targets, graph.columns, graph.num_columns)
        lattices = None
        if self.lattice_beam is not None:
            lattices = Lattices(batch, shape.lanes, room, self.lattice_beam, streams)
        for number, lane in enumerate(lanes):
            self._grow_spill(lane, number, room.spill_capacity, keep)
            self._grow_log(lane, number, room.log, keep, lattices)
        self.begin(shape.lanes)
        queue, used = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        pool = np.zeros(room.paths, np.uint32)
        beam, scale, penalty, max_active = self.options
        while True:
            resting, stop_soon = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
            view = build.kernel_params(
                states=rows, targets=graph.targets, labels=labels, finals=graph.finals, start=np.uint32(graph.start),
                column_bits=np.uint32(graph_layout.column_bits(graph.num_columns)),
            )  # fmt: skip
            lattice, of_lattices = (np.uint64(0), {}) if lattices is None else lattices.params()
            params = build.kernel_params(
                graph=view, utterances=utterances, order=order, results=results, lanes=lanes, queue=queue,
                resting=resting, stop_soon=stop_soon, pool=pool,
                used=used, pieces=coming.pieces, arrived=coming.arrived, piece_frames=np.uint32(coming.piece_frames),
                wait_cycles=np.uint32(coming.wait_cycles), pool_capacity=np.uint32(len(pool)),
                num_utterances=np.uint32(len(batch)), columns=np.uint32(columns),
                blank=np.int32(-1 if graph.blank is None else graph.blank),
                beam=np.float32(beam), scale=np.float32(scale), penalty=np.float32(penalty),
                max_active=np.uint32(max_active), shared_capacity=np.uint32(room.capacity),
                shared_candidates=np.uint32(room.candidates), shared_table_size=np.uint32(room.table_size),
                team_tokens=np.uint32(shape.team_tokens), hot_tokens=np.uint32(shape.hot_tokens),
                hot_lanes=np.uint32(shape.hot_lanes), lattice=lattice,
                streams=np.uint64(0) if streams is None else views,
            )  # fmt: skip
            shared = self.control_bytes + 1024 + 8 * 512 + (shape.block + 31) // 32 * 1408 + padded(4 * columns)
            shared += self.tokens_bytes(room.capacity)
            shared += self.workspace_bytes(room.capacity, room.candidates, room.table_size)
            host = self.beside()
            if lattices is not None and self.looks_every:
                looking = lattices.looking()
                look = ctypes.cast(kernels.library.look_for_lattices, ctypes.c_void_p).value
                host = (look, ctypes.addressof(looking), self.looks_every)
            arrays = keep | {f"log_probs[{i}]": logp for i, logp in enumerate(batch) if logp.size}
            if from_host:
                arrays = keep | {"log_probs": coming.memory}
            kernels.launch(
                entry.format(shape.kernel), self.params(params), grid=shape.lanes * shape.cluster,
                block=shape.block, cluster=shape.cluster, shared_bytes=shared, arrays=arrays | of_lattices,
                copies=coming.copies() if from_host else (), host=host, **schedule,
            )  # fmt: skip
            assert resting[0] == shape.lanes
            self.launches += 1
            if lattices is not None:
                lattices.take(results)
            stopped = [(number, lane) for number, lane in enumerate(lanes) if lane["need"]]
            if not stopped:
                break
            if any(lane["need"] == NEED_LOG_PROBS for lane in lanes):
                coming.come_on()
            for number, lane in stopped:
                if lane["need"] == NEED_LAUNCH:
                    shape = replace(shape, hot_lanes=0)
                    if self.has_clusters:
                        shape = replace(shape, kernel="cluster", cluster=2)
                elif lane["need"] == NEED_SPILL:
                    self._grow_spill(lane, number, 2 * int(lane["capacity"]), keep)
                elif lane["need"] == NEED_LOG:
                    self._grow_log(lane, number, 2 * int(lane["log_capacity"]), keep, lattices)
                elif lane["need"] == NEED_LINKS:
                    lattices.grow_links(number, 2 * int(lattices.lanes[number]["link_capacity"]))
                elif lane["need"] == NEED_STREAM_ROOM:
                    at = int(lane["utterance"])
                    streams[at].tokens, streams[at].entries = 2 * int(lane["num_tokens"]), 2 * int(lane["log_size"])
                    streams[at].view(at, views[at], self.tokens_bytes, keep, last, graph)
                    if lattices is not None:
                        streams[at].num_links = 2 * int(lattices.lanes[number]["num_links"])
                        steps = int(lattices.streams[at]["after_steps"])
                        streams[at].view_links(at, lattices.streams[at], lattices.keep, steps)
                elif lane["need"] in (NEED_ANSWERS, NEED_REQUEST_ROOM):
                    self.answer(number, int(lane["need"]))
                elif lane["need"] == NEED_PATHS:
                    larger = np.zeros(2 * max(len(pool), int(used[0])), np.uint32)
                    larger[: len(pool)] = pool
                    pool = larger
        found = [self._found(result, pool) for result in results]
        for utterance, lattice in lattices.taken.items() if lattices is not None else ():
            found[utterance].lattice = lattice
        self.read_early = lattices.read_early if lattices is not None else 0
        for stream, one, result in zip(streams or (), found, results, strict=False):
            if one.outcome == DECODED:
                stream.take(one, result)
        return found

    def _grow_spill(self, lane, number, capacity, keep):
        """New room for frames; the tokens that wait there move along."""
        table = 2 * capacity
        bytes_wanted = self.workspace_bytes(capacity, 2 * capacity, table)
        keep[f"memory[{number}]"] = memory = np.zeros(bytes_wanted, np.uint8)
        memory[: self.table_bytes(2 * capacity, table)] = 0xFF
        lane["memory"], lane["capacity"] = memory.ctypes.data, capacity
        lane["candidates"], lane["table_size"] = 2 * capacity, table
        larger = np.zeros(self.tokens_bytes(capacity), np.uint8)
        old = keep.get(f"tokens[{number}]")
        if old is not None:
            n, before = int(lane["num_tokens"]), self.capacities[number]
            larger[: 16 * n] = old[: 16 * n]
            larger[16 * capacity : 16 * capacity + 4 * n] = old[16 * before : 16 * before + 4 * n]
            self.move_histories(larger, old, capacity, before, n)
        self.capacities[number] = capacity
        keep[f"tokens[{number}]"] = larger
        lane["tokens"] = larger.ctypes.data

    def _grow_log(self, lane, number, capacity, keep, lattices):
        larger = np.zeros(capacity + (capacity + 31) // 32 + capacity // 16, np.uint64)  # entries, marks, milestones
        old = keep.get(f"log[{number}]")
        if old is not None:
            larger[: lane["log_capacity"]] = old[: lane["log_capacity"]]
        keep[f"log[{number}]"] = larger
        if lattices is not None:
            lattices.grow_costs(number, capacity, int(lane["log_capacity"]))
        lane["log"], lane["log_capacity"] = larger.ctypes.data, capacity

    @staticmethod
    def _found(result, pool):
        arcs = pool[result["path_begin"] : result["path_begin"] + result["path_length"]][::-1].copy()
        return Found(
            arcs, float(result["total_cost"]), int(result["end_state"]), bool(result["reached_final"]),
            int(result["outcome"]), int(result["bad_frame"]), int(result["bad_column"]),
            tuple(int(result[name]) for name in ("frames", "tokens", "leaving_arcs", "admitted")),
        )  # fmt: skip
