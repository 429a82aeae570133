"""The stages of the search that rescores on a GPU, one frame long: `rescoring_stages.cuh`.

As `tests.stages.stage_kernel`, whose machines run it, but that tokens have histories and words are looked up.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam import _stages
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.lm import lm_file
from benchmarks.engine.placements import BUCKETED
from tests.stages.stage_kernel import (
    NONE,
    ROOMS,
    ROOT,
    Frame,
    Layout,
    Machine,
    NoRoom,
    costs_of,
    length_of_path,
    pack_search,
    pack_spill,
    padded,
    same,
    table_of,
    token_log,
    tokens_bytes,
)

SOURCE = ROOT / "tests" / "stages" / "rescoring_stages.cu"
KERNEL = "arcbeam_rescoring_stages"
BUCKETED_SOURCE = SOURCE.with_name("bucketed_rescoring_stages.cu")
BUCKETED_KERNEL = "arcbeam_bucketed_rescoring_stages"
STAGES = ("lookup", "rescore", "recombine", "closure", "prune", "backtrack")
COLUMNS = (
    "labels.low", "labels.high", "first.offsets", "first.bases", "first.wide", "backoff.steps", "backoff.bases",
    "backoff.wide", "arcs", "backoff.weights",
)  # fmt: skip
IN_BUCKETS = ("chains", "words", "entries")  # instead of them
NO_PACKED = np.uint64(0xFFFFFFFFFFFFFFFF)
KEY = ["state", "large", "small"]
ANSWERED = np.dtype(
    [("packed", "u8"), ("state", "u4"), ("source", "u4"), ("large", "u4"), ("small", "u4"), ("deviation", "f4"),
     ("word", "u4")]
)  # fmt: skip
HYPOTHESIS = np.dtype([("packed", "u8"), ("large", "u4"), ("small", "u4"), ("state", "u8")])
SURVIVED = np.dtype([("state", "u4"), ("cost", "f4"), ("large", "u4"), ("small", "u4")])
CANDIDATE = np.dtype(
    [("cost", "f4"), ("arc", "u4"), ("state", "u4"), ("source", "u4"), ("large", "u4"), ("small", "u4"),
     ("deviation", "f4")]
)  # fmt: skip
RESULT = np.dtype(
    [("cycles", "u8", len(STAGES)), ("all_cycles", "u8"), ("end", "u8"), ("cutoff", "f4"), ("lookup_bound", "f4"),
     ("bound", "f4"), ("best", "f4"), ("num_candidates", "u4"), ("num_with_words", "u4"), ("num_winners", "u4"),
     ("num_hypotheses", "u4"), ("num_tokens", "u4"), ("reached_final", "u4"), ("ended", "u4"), ("distinct", "u4"),
     ("misses", "u4"), ("reads", "u4")]
)  # fmt: skip
COUNTERS = ("lookups", "distinct", "misses", "reads", "worked", "waited", "stamps")
LOOKED_UP = ("distinct", "misses", "reads")


@dataclass(frozen=True, kw_only=True)
class RescoringFrame(Frame):
    """One frame as it begins.

    Attributes
    ----------
    rescoring : Rescoring
        Both models.
    histories : HISTORY [n]
        Of the tokens.
    hypotheses_per_state : int
        0 for no limit.
    """

    rescoring: Rescoring
    histories: npt.NDArray[Any]
    hypotheses_per_state: int = 0

    def cutoff(self) -> tuple[float, npt.NDArray[np.bool_]]:
        """The twin's cut-off, and which tokens leave."""
        return _stages.cutoff(self.tokens, self.beam, self.max_active, self.histories)


@dataclass(frozen=True)
class Lookup:
    """Where the large model is, entries of the arc cache, whether it is emptied before each turn.

    ``apart``: lookup and rescore are stages of their own; otherwise the frame goes through both as a search does, which
    rescores few words as they are looked up, and both together take the lookup's time.
    """

    placement: str = "resident"
    cache: int = 0
    cold: bool = False
    apart: bool = True

    def on_host(self) -> tuple[str, ...]:
        """Columns of the large model that the host's memory has, or what is in the buckets."""
        every: dict[str, tuple[str, ...]] = {
            "resident": (), "host-direct": tuple(n for n in COLUMNS if n not in lm_file.INDEX), BUCKETED: IN_BUCKETS,
        }  # fmt: skip
        return every[self.placement]

    @property
    def compiled(self) -> dict[str, Any]:
        """Source and name of the kernel."""
        if self.placement == BUCKETED:
            return {"source": BUCKETED_SOURCE, "kernel": BUCKETED_KERNEL}
        return {"source": SOURCE, "kernel": KERNEL}


@dataclass(frozen=True)
class Made:
    """What the stages made, but for the order of candidates and states.

    `winners` and `frontier` have no sources, which the GPU finds when it makes survivors of them; the frontier has
    what was cut, too, the survivors do not. Counts are those of all turns; of the twin there are none.
    """

    cutoff: np.float32
    lookup_bound: np.float32
    answered: npt.NDArray[Any] | None  # CANDIDATE before they are rescored; None where that is no stage of its own
    rescored: npt.NDArray[Any]  # CANDIDATE, without deviations
    bound: np.float32
    winners: npt.NDArray[Any]  # CANDIDATE, as the frontier
    frontier: npt.NDArray[Any]
    survivors: npt.NDArray[Any]  # SURVIVED
    entries: npt.NDArray[Any]  # LOG_ENTRY of the survivors
    best: np.float32
    path: npt.NDArray[np.uint32]
    end_cost: np.float32
    reached_final: bool
    words: int  # of the candidates
    cycles: dict[str, int]
    all_cycles: int
    counts: dict[str, int]
    looked_up: dict[str, int]  # by the stage lookup in the last turn: distinct words, misses of the cache, reads


def workspace_bytes(states: int) -> int:
    """rescoring_workspace_bytes() of cuda/rescore/rescoring_search.hpp."""
    return 24 * table_of(states) + 56 * states + 40 * 2 * states


def rescoring_tokens_bytes(states: int) -> int:
    return tokens_bytes(states) + padded(8 * states)


def shared_bytes(layout: Layout, columns: int) -> int:
    warps = -(-layout.threads // 32)
    fixed = 240 + 160 + 1024 + 8 * 512 + 1408 * warps + padded(4 * columns)
    return fixed + rescoring_tokens_bytes(layout.shared) + workspace_bytes(layout.shared)


def pack_model(machine: Machine, name: str, model: "arcbeam.LanguageModel", on_host: tuple[str, ...] = ()) -> bytes:
    """LmView of cuda/shared/lm_view.hpp."""
    columns, about = model.columns, model.about
    at = [0] * len(COLUMNS) if on_host == IN_BUCKETS else []
    for column in COLUMNS[len(at) :]:
        put = machine.put_on_host if column in on_host else machine.put
        at.append(put(f"{name} {column}", np.ascontiguousarray(columns[column])))
    sizes = [len(columns[c]) for c in ("backoff.weights", "arcs", "first.wide", "backoff.wide")]
    return struct.pack("<10Q7I4x", *at, *sizes, about["high_bits"], about["start"], about["num_labels"])


def pack_buckets(machine: Machine, model: "arcbeam.LanguageModel", lookup: Lookup) -> bytes:
    """LmBuckets of cuda/shared/lm_buckets.hpp."""
    if lookup.placement != BUCKETED:
        return struct.pack("<3Q4I", *[0] * 7)
    from arcbeam.lm._lm_buckets import Buckets

    made = Buckets(model.columns, model.about)
    at = [machine.put_on_host(f"large {name}", getattr(made, name)) for name in IN_BUCKETS]
    return struct.pack("<3Q4I", *at, made.chains.shape[1], *made.entries.shape[:2], made.seed)


def epsilon_words(graph: "arcbeam.Graph") -> bool:
    """Whether any epsilon arc has a word."""
    states = graph.states
    is_epsilon = np.zeros(len(graph.words) + 1, np.int64)
    np.add.at(is_epsilon, states["first_arc"][:-1], 1)
    np.add.at(is_epsilon, states["first_emitting"][:-1], -1)
    return bool((graph.words[np.cumsum(is_epsilon)[:-1] > 0] != 0).any())


def keyed(candidates: Any, histories: Any, deviations: Any = 0.0) -> npt.NDArray[Any]:
    """The twin's candidates as CANDIDATE."""
    found = np.zeros(len(candidates), CANDIDATE)
    for name in ("cost", "arc", "state", "source"):
        found[name] = candidates[name]
    found["large"], found["small"], found["deviation"] = histories["large"], histories["small"], deviations
    return found


def from_packed(made: npt.NDArray[Any], source: Any = NONE) -> npt.NDArray[Any]:
    """The kernel's as CANDIDATE."""
    found = np.zeros(len(made), CANDIDATE)
    found["cost"], found["arc"] = costs_of(made["packed"]), made["packed"].astype(np.uint32)
    found["source"] = source
    for name in KEY:
        found[name] = made[name]
    return found


class RescoringStageKernel:
    """A frame on a machine; `run` may be called again and again, and finds the arc cache as it left it."""

    def __init__(self, machine: Machine, frame: RescoringFrame, layout: Layout, lookup: Lookup = Lookup()) -> None:
        self.machine, self.frame, self.layout, self.lookup = machine, frame, layout, lookup
        put, models, spilled = machine.put, frame.rescoring, layout.spilled
        is_near = lookup.placement == "host-direct"
        self.before = pack_search(put, frame, layout)
        self.before += pack_model(machine, "large", models.large, lookup.on_host())  # type: ignore[arg-type]
        self.before += pack_model(machine, "small", models.small) + struct.pack(
            "<2Q2fQ", put("large labels", models.large_labels), put("small labels", models.small_labels),
            models.large_scale, models.small_scale, put("words", frame.graph.words),
        )  # fmt: skip
        self.after = struct.pack(
            "<QI4x2Q4I", put("cache", np.zeros(4 * lookup.cache, np.uint64)), lookup.cache, 0, 0,
            frame.hypotheses_per_state, epsilon_words(frame.graph), is_near, 0,
        )  # fmt: skip
        self.after += pack_buckets(machine, models.large, lookup)  # type: ignore[arg-type]
        self.after += struct.pack("<Q2I", 0, 0, 0)  # no boosts
        self.after += pack_spill(put, layout, workspace_bytes(spilled), rescoring_tokens_bytes(spilled))
        for name, array in (
            ("log_probs", np.ascontiguousarray(frame.log_probs, np.float32)),
            ("tokens", np.ascontiguousarray(frame.tokens)),
            ("histories", np.ascontiguousarray(frame.histories)),
            ("log", token_log(frame, layout)),
            ("answered", np.zeros(2 * spilled, ANSWERED)),
            ("rescored", np.zeros(2 * spilled, ANSWERED)),
            ("winners", np.zeros(spilled, HYPOTHESIS)),
            ("frontier", np.zeros(spilled, HYPOTHESIS)),
            ("survivors", np.zeros(spilled, SURVIVED)),
        ):
            self.after += struct.pack("<Q", put(name, array))

    def run(self, turns: int = 1) -> Made:
        """Runs the frame so many times; what the last one made. Raises NoRoom."""
        frame, layout, get = self.frame, self.layout, self.machine.get
        counters = self.machine.put("counters", np.zeros(len(COUNTERS), np.uint64))
        result, first = self.machine.put("result", np.zeros(1, RESULT)), len(frame.entries)
        parameter = self.before + struct.pack("<Q", counters) + self.after + struct.pack(
            "<Q7I4x", result, len(frame.tokens), first, first + layout.spilled, turns, ROOMS.index(layout.room),
            self.lookup.apart, self.lookup.cold,
        )  # fmt: skip
        self.machine.launch(parameter, layout.threads, shared_bytes(layout, len(frame.log_probs)))
        (found,) = get("result", RESULT)
        if not found["ended"]:
            raise NoRoom(f"the frame died, or has no room in {layout}")
        tokens = int(found["num_tokens"])
        return Made(
            cutoff=found["cutoff"],
            lookup_bound=found["lookup_bound"],
            answered=self._candidates("answered", found, True) if self.lookup.apart else None,
            rescored=self._candidates("rescored", found, False),
            bound=found["bound"],
            winners=from_packed(get("winners", HYPOTHESIS)[: found["num_winners"]]),
            frontier=from_packed(get("frontier", HYPOTHESIS)[: found["num_hypotheses"]]),
            survivors=get("survivors", SURVIVED)[:tokens].copy(),
            entries=get("log", np.uint64)[first : first + tokens].copy().view(_stages.LOG_ENTRY),
            best=found["best"],
            path=get("path", np.uint32)[: length_of_path(get)][::-1].copy(),
            end_cost=costs_of(np.array([found["end"]], np.uint64))[0],
            reached_final=bool(found["reached_final"]),
            words=int(found["num_with_words"]),
            cycles=dict(zip(STAGES, found["cycles"].tolist(), strict=True)),
            all_cycles=int(found["all_cycles"]),
            counts=dict(zip(COUNTERS, get("counters", np.uint64).tolist(), strict=True)),
            looked_up={name: int(found[name]) for name in LOOKED_UP},
        )

    def _candidates(self, name: str, found: Any, with_deviations: bool) -> npt.NDArray[Any]:
        """Those within the lookup's bound. Where there is no word there is no deviation."""
        noted = self.machine.get(name, ANSWERED)[: found["num_candidates"]]
        noted = noted[noted["packed"] != NO_PACKED]
        candidates = from_packed(noted, noted["source"])
        if with_deviations:
            candidates["deviation"] = np.where(noted["word"] != 0, noted["deviation"], np.float32(0))
        return candidates


def by_key(made: Made, first: int) -> npt.NDArray[np.int64]:
    """Log entries of a frame by (state, history): whether the source is of this frame, the source or its key, arc."""
    keys = np.stack([made.survivors[name].astype(np.int64) for name in KEY], axis=1)
    source = made.entries["source"].astype(np.int64)
    own = (source >= first) & (source != NONE)
    named = np.stack([source, np.zeros_like(source), np.zeros_like(source)], axis=1)
    named[own] = keys[source[own] - first]
    rows = np.hstack([keys, own[:, None], named, made.entries["arc"][:, None]])
    return rows[np.lexsort(keys.T)]


def compare(frame: RescoringFrame, made: Made, wanted: Made) -> None:
    """AssertionError, naming the stage, unless each made the same bytes."""
    same("cutoff", made.cutoff, wanted.cutoff)
    same("expand", made.lookup_bound, wanted.lookup_bound)
    if made.answered is not None:
        same("lookup", made.answered, wanted.answered, ("arc", "source"))
    same("lookup", made.words, wanted.words)
    same("rescore", made.bound, wanted.bound)
    same("rescore", made.rescored, wanted.rescored, ("arc", "source"))
    same("recombine", made.winners, wanted.winners, KEY)
    same("closure", made.frontier, wanted.frontier, KEY)
    same("prune", made.best, wanted.best)
    same("prune", made.survivors, wanted.survivors, KEY)
    same("prune", *(by_key(m, len(frame.entries)) for m in (made, wanted)))
    same("backtrack", made.path, wanted.path)
    same("backtrack", made.end_cost, wanted.end_cost)
    same("backtrack", made.reached_final, wanted.reached_final)


class RescoringTwin:
    """The CPU's stages, frame by frame; ``options`` are those of a `RescoringFrame`."""

    def __init__(self, graph: "arcbeam.Graph", rescoring: Rescoring, **options: Any) -> None:
        self.graph, self.rescoring, self.options = graph, rescoring, options
        self.stages = _stages.HistoryStages(
            graph, rescoring, hypotheses_per_state=options.get("hypotheses_per_state", 0),
        )  # fmt: skip
        self.log = _stages.TokenLog(1 << 30)
        start = np.array([(0.0, NONE, graph.start, NONE)], _stages.CANDIDATE)
        begin = np.zeros(1, _stages.DEVIATION)
        begin["next"] = self.stages.start()
        self.stages.recombine(start, begin, options["beam"], np.zeros(0, _stages.HISTORY), 0)
        self.stages.closure()
        frontier, self.histories = self.stages.cut()
        self.tokens, _ = self.log.prune(frontier)

    def frame(self, log_probs: npt.NDArray[np.float32]) -> RescoringFrame:
        """The next frame as it begins."""
        return RescoringFrame(
            self.graph, log_probs, self.tokens, self.log.entries(), rescoring=self.rescoring, histories=self.histories,
            **self.options,
        )  # fmt: skip

    def make(self, frame: RescoringFrame) -> Made | None:
        """What its stages make of the frame, which it takes; None if the search dies."""
        first, first_log = len(frame.entries), len(frame.entries) - len(frame.tokens)
        cut, leave = frame.cutoff()
        acoustic = _stages.AcousticCosts(
            frame.log_probs, acoustic_scale=frame.acoustic_scale, blank_penalty=frame.blank_penalty, blank=frame.blank
        )
        candidates, lookup_bound, _ = _stages.expand(frame.graph, frame.tokens, first_log, leave, acoustic, frame.beam)
        kept, deviations, work = _stages.lookup(
            frame.graph, frame.rescoring, candidates, lookup_bound, frame.histories, first_log
        )
        rescored, bound, alive = _stages.rescore(kept, deviations, frame.beam)
        if not alive:
            return None
        winners = without_sources(*self.stages.recombine(rescored, deviations, bound, frame.histories, first))
        frontier = without_sources(*self.stages.closure())
        survivors, self.histories = self.stages.cut()
        self.tokens, best = self.log.prune(survivors)
        path, total, reached_final = self.stages.backtrack(self.log)
        survived = np.zeros(len(self.tokens), SURVIVED)
        survived["state"], survived["cost"] = self.tokens["state"], self.tokens["cost"]
        survived["large"], survived["small"] = self.histories["large"], self.histories["small"]
        return Made(
            cutoff=np.float32(cut),
            lookup_bound=np.float32(lookup_bound),
            answered=keyed(kept, deviations["next"], deviations["cost"]),
            rescored=keyed(rescored, deviations["next"]),
            bound=np.float32(bound),
            winners=winners,
            frontier=frontier,
            survivors=survived,
            entries=self.log.entries()[first:],
            best=np.float32(best),
            path=path,
            end_cost=np.float32(total),
            reached_final=reached_final,
            words=work["lookups"],
            cycles={},
            all_cycles=0,
            counts={},
            looked_up={},
        )


def without_sources(frontier: Any, histories: Any) -> npt.NDArray[Any]:
    found = keyed(frontier, histories)
    found["source"] = NONE
    return found
