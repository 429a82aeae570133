"""The stages of the search on a GPU, one frame long: `stages.cu`, its inputs and what it made.

A machine takes arrays, launches and gives arrays back: a GPU, or the emulator.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam import _stages
from arcbeam.ctc.gpu.searches import graph_layout

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "stages" / "stages.cu"
KERNEL = "arcbeam_stages"
STAGES = ("cutoff", "expand", "recombine", "closure", "prune", "backtrack")
ROOMS = ("shared", "mixed", "spilled")
NONE = 0xFFFFFFFF
CANDIDATE = np.dtype([("packed", "u8"), ("state", "u4"), ("source", "u4")])
WINNER = np.dtype([("packed", "u8"), ("state", "u4"), ("unused", "u4")])
RESULT = np.dtype(
    [("cycles", "u8", len(STAGES)), ("all_cycles", "u8"), ("end", "u8"), ("cutoff", "f4"), ("bound", "f4"),
     ("best", "f4"), ("num_candidates", "u4"), ("num_winners", "u4"), ("num_states", "u4"),
     ("reached_final", "u4"), ("ended", "u4")]
)  # fmt: skip
UTTERANCE_RESULT_BYTES, PATH_LENGTH_AT = 80, 12


class Machine(Protocol):
    """Where the kernel runs."""

    def put(self, name: str, array: npt.NDArray[Any]) -> int:
        """The address of the array's bytes there."""

    def put_on_host(self, name: str, array: npt.NDArray[Any]) -> int:
        """The address of the array's bytes in the host's memory, where kernels can read them."""

    def get(self, name: str, dtype: Any) -> npt.NDArray[Any]:
        """The bytes of that name as they are now."""

    def launch(self, parameter: bytes, threads: int, shared_bytes: int) -> None:
        """Runs one block of the kernel to its end."""


@dataclass(frozen=True)
class Frame:
    """One frame as it begins.

    Attributes
    ----------
    graph : arcbeam.Graph
    log_probs : float32 [columns]
        Of this frame.
    tokens : TOKEN [n]
        Of the frame before, in the order of the log.
    entries : LOG_ENTRY [m]
        The log, which ends with the n of these tokens.
    """

    graph: "arcbeam.Graph"
    log_probs: npt.NDArray[np.float32]
    tokens: npt.NDArray[Any]
    entries: npt.NDArray[Any]
    beam: float
    max_active: int
    blank: int = -1
    acoustic_scale: float = 1.0
    blank_penalty: float = 0.0

    def cutoff(self) -> tuple[float, npt.NDArray[np.bool_]]:
        """The twin's cut-off, and which tokens leave."""
        return _stages.cutoff(self.tokens, self.beam, self.max_active)


@dataclass(frozen=True)
class Layout:
    """States of a frame that there is room for, in shared memory and beside it, and where the frame is made."""

    shared: int = 64
    spilled: int = 4096
    room: str = "shared"
    threads: int = 512


@dataclass(frozen=True)
class Made:
    """What the stages made, in the twin's arrays but for the order of states.

    ``cycles`` are the clock cycles of each stage over all turns, ``all_cycles`` those of the launch. `winners` and
    `frontier` have no sources, which the GPU finds when it makes survivors of them.
    """

    cutoff: np.float32
    candidates: npt.NDArray[Any]  # those within the bound
    bound: np.float32
    winners: npt.NDArray[Any]
    frontier: npt.NDArray[Any]
    survivors: npt.NDArray[Any]
    entries: npt.NDArray[Any]  # LOG_ENTRY of the survivors
    best: np.float32
    path: npt.NDArray[np.uint32]
    end_cost: np.float32
    reached_final: bool
    cycles: dict[str, int]
    all_cycles: int


class NoRoom(RuntimeError):
    """The frame died, or did not fit where it was to be made."""


def padded(count: int) -> int:
    return -(-count // 16) * 16


def table_of(states: int) -> int:
    """Entries of a table for so many states."""
    return 2 * states


def workspace_bytes(states: int) -> int:
    table = table_of(states)
    return padded(8 * table) + 2 * padded(4 * table) + 16 * 2 * states + 48 * states


def tokens_bytes(states: int) -> int:
    return 16 * states + 3 * padded(4 * states)


def shared_bytes(layout: Layout, columns: int) -> int:
    warps = -(-layout.threads // 32)
    fixed = 240 + 1024 + 8 * 512 + 1408 * warps + padded(4 * columns)
    return fixed + tokens_bytes(layout.shared) + workspace_bytes(layout.shared)


def costs_of(packed: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32]:
    """from_ordered() of cuda/shared/tie_rule.hpp."""
    keys = (packed >> np.uint64(32)).astype(np.uint32)
    return np.where(keys & np.uint32(0x80000000), keys & np.uint32(0x7FFFFFFF), ~keys).view(np.float32)


def as_candidates(made: npt.NDArray[Any], source: npt.NDArray[Any] | int) -> npt.NDArray[Any]:
    found = np.empty(len(made), _stages.CANDIDATE)
    found["cost"] = costs_of(made["packed"])
    found["arc"] = made["packed"].astype(np.uint32)
    found["state"], found["source"] = made["state"], source
    return found


def token_log(frame: Frame, layout: Layout) -> npt.NDArray[np.uint64]:
    """Room for a frame more: entries, marks, milestones."""
    capacity = len(frame.entries) + layout.spilled
    log = np.zeros(capacity + -(-capacity // 32) + capacity // 16, np.uint64)
    log[: len(frame.entries)] = np.ascontiguousarray(frame.entries).view(np.uint64)
    return log


def pack_search(put: Callable[..., int], frame: Frame, layout: Layout) -> bytes:
    """SearchParams of cuda/decode/search.hpp, with all that it leads to put there."""
    graph, pool = frame.graph, np.zeros(len(frame.entries) + layout.spilled, np.uint32)
    rows = graph_layout.state_rows(graph.states, graph.targets, graph.words)
    labels = graph_layout.labels(graph.states, graph.targets, graph.columns, graph.num_columns)
    results = put("results", np.zeros(UTTERANCE_RESULT_BYTES, np.uint8))
    return struct.pack(
        "<4QIi", put("states", rows), put("targets", graph.targets), put("labels", labels),
        put("finals", graph.finals), graph.start, graph_layout.column_bits(graph.num_columns),
    ) + struct.pack(
        "<11Q5Ii3f8I4x2Q", 0, 0, results, 0, 0, 0, 0, put("path", pool), put("used", pool[:1]), 0, 0,
        1, 0, len(pool), 1, len(frame.log_probs), frame.blank, frame.beam, frame.acoustic_scale,
        frame.blank_penalty, frame.max_active, layout.shared, 2 * layout.shared, table_of(layout.shared),
        0, 0, 0, 0, 0, 0,
    )  # fmt: skip


def pack_spill(put: Callable[..., int], layout: Layout, workspace: int, tokens: int) -> bytes:
    """SpillView of cuda/decode/search.hpp; of so many bytes, the tables free."""
    return struct.pack(
        "<2Q3I4x", put("spill", np.full(workspace, 0xFF, np.uint8)), put("spilled tokens", np.zeros(tokens, np.uint8)),
        layout.spilled, 2 * layout.spilled, table_of(layout.spilled),
    )  # fmt: skip


def length_of_path(get: Callable[..., Any]) -> int:
    """As the kernel wrote it to the utterance's result."""
    return int(get("results", np.uint8)[PATH_LENGTH_AT : PATH_LENGTH_AT + 4].view(np.uint32)[0])


class StageKernel:
    """A frame on a machine; `run` may be called again and again."""

    def __init__(self, machine: Machine, frame: Frame, layout: Layout) -> None:
        self.machine, self.frame, self.layout = machine, frame, layout
        spilled, put = layout.spilled, machine.put
        self.parameter = pack_search(put, frame, layout)
        self.parameter += pack_spill(put, layout, workspace_bytes(spilled), tokens_bytes(spilled))
        for name, array in (
            ("log_probs", np.ascontiguousarray(frame.log_probs, np.float32)),
            ("tokens", np.ascontiguousarray(frame.tokens)),
            ("log", token_log(frame, layout)),
            ("candidates", np.zeros(2 * spilled, CANDIDATE)),
            ("winners", np.zeros(spilled, WINNER)),
            ("frontier", np.zeros(spilled, WINNER)),
            ("survivors", np.zeros(spilled, _stages.TOKEN)),
        ):
            self.parameter += struct.pack("<Q", put(name, array))

    def run(self, turns: int = 1) -> Made:
        """Runs the frame so many times; what the last one made. Raises NoRoom."""
        frame, layout, get = self.frame, self.layout, self.machine.get
        result = self.machine.put("result", np.zeros(1, RESULT))
        parameter = self.parameter + struct.pack(
            "<Q5I4x", result, len(frame.tokens), len(frame.entries), len(frame.entries) + layout.spilled, turns,
            ROOMS.index(layout.room),
        )  # fmt: skip
        self.machine.launch(parameter, layout.threads, shared_bytes(layout, len(frame.log_probs)))
        (found,) = get("result", RESULT)
        if not found["ended"]:
            raise NoRoom(f"the frame died, or has no room in {layout}")
        states, first = int(found["num_states"]), len(frame.entries)
        noted = get("candidates", CANDIDATE)[: found["num_candidates"]]
        candidates = as_candidates(noted, noted["source"])
        return Made(
            cutoff=found["cutoff"],
            candidates=candidates[candidates["cost"] <= found["bound"]],
            bound=found["bound"],
            winners=as_candidates(get("winners", WINNER)[: found["num_winners"]], NONE),
            frontier=as_candidates(get("frontier", WINNER)[:states], NONE),
            survivors=get("survivors", _stages.TOKEN)[:states].copy(),
            entries=get("log", np.uint64)[first : first + states].copy().view(_stages.LOG_ENTRY),
            best=found["best"],
            path=get("path", np.uint32)[: length_of_path(get)][::-1].copy(),
            end_cost=costs_of(np.array([found["end"]], np.uint64))[0],
            reached_final=bool(found["reached_final"]),
            cycles=dict(zip(STAGES, found["cycles"].tolist(), strict=True)),
            all_cycles=int(found["all_cycles"]),
        )


def by_state(entries: npt.NDArray[Any], first: int, states: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Log entries of a frame by state: (state, whether the source is of this frame, the source or its state, arc)."""
    own = entries["source"] >= first
    own &= entries["source"] != NONE
    named = entries["source"].astype(np.int64)
    named[own] = states[named[own] - first]
    rows = np.stack([states.astype(np.int64), own, named, entries["arc"]], axis=1)
    return rows[np.argsort(rows[:, 0])]


def same(stage: str, got: Any, wanted: Any, order: Any = None) -> None:
    """AssertionError, naming the first difference, unless both are the same bytes, sorted by `order` if it is given."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if order is not None:
        got, wanted = np.sort(got, order=order), np.sort(wanted, order=order)
    if got.dtype != wanted.dtype or got.tobytes() != wanted.tobytes():
        at = next((i for i, (a, b) in enumerate(zip(got.flat, wanted.flat, strict=False)) if a != b), None)
        few = (got.size, wanted.size) if at is None else (got.flat[at], wanted.flat[at])
        raise AssertionError(f"{stage}: {'size' if at is None else f'element {at}'} is {few[0]}, expected {few[1]}")


def compare(frame: Frame, made: Made, wanted: Made) -> None:
    """AssertionError, naming the stage, unless each made the same bytes."""
    first = len(frame.entries)
    same("cutoff", made.cutoff, wanted.cutoff)
    same("expand", made.bound, wanted.bound)
    same("expand", made.candidates, wanted.candidates, ("arc", "source"))
    same("recombine", made.winners, wanted.winners, "state")
    same("closure", made.frontier, wanted.frontier, "state")
    same("prune", made.best, wanted.best)
    same("prune", made.survivors, wanted.survivors, "state")
    entries = [by_state(m.entries, first, m.survivors["state"]) for m in (made, wanted)]
    same("prune", *entries)
    same("backtrack", made.path, wanted.path)
    same("backtrack", made.end_cost, wanted.end_cost)
    same("backtrack", made.reached_final, wanted.reached_final)


class Twin:
    """The CPU's stages, frame by frame."""

    def __init__(self, graph: "arcbeam.Graph", **options: Any) -> None:
        self.graph, self.options = graph, options
        self.log = _stages.TokenLog(1 << 30)
        start = np.array([(0.0, NONE, graph.start, NONE)], _stages.CANDIDATE)
        self.tokens, _ = self.log.prune(_stages.closure(graph, start, options["beam"], 0))

    def frame(self, log_probs: npt.NDArray[np.float32]) -> Frame:
        """The next frame as it begins."""
        return Frame(self.graph, log_probs, self.tokens, self.log.entries(), **self.options)

    def make(self, frame: Frame) -> Made | None:
        """What its stages make of the frame, which it takes; None if the search dies."""
        first, first_log = len(frame.entries), len(frame.entries) - len(frame.tokens)
        cut, leave = frame.cutoff()
        acoustic = _stages.AcousticCosts(
            frame.log_probs, acoustic_scale=frame.acoustic_scale, blank_penalty=frame.blank_penalty, blank=frame.blank
        )
        candidates, bound, _ = _stages.expand(frame.graph, frame.tokens, first_log, leave, acoustic, frame.beam)
        if len(candidates) == 0:
            return None
        winners = _stages.recombine(candidates, bound)
        frontier = _stages.closure(frame.graph, winners, bound, first)
        self.tokens, best = self.log.prune(frontier)
        path, total, reached_final = self.log.backtrack(frame.graph)
        winners["source"] = frontier["source"] = NONE
        return Made(
            cutoff=np.float32(cut),
            candidates=candidates[candidates["cost"] <= bound],  # the others were noted before the bound was known
            bound=np.float32(bound),
            winners=winners,
            frontier=frontier,
            survivors=self.tokens,
            entries=self.log.entries()[first:],
            best=np.float32(best),
            path=path,
            end_cost=np.float32(total),
            reached_final=reached_final,
            cycles={},
            all_cycles=0,
        )
