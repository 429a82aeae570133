"""The lattices of search kernels under the emulator: the memory that they are written to, and what is read from it."""

from dataclasses import dataclass

import numpy as np

from tests.decode.search_layout import (
    DECODED,
    LATTICE_LANE,
    LATTICE_RESULT,
    LATTICE_STEP,
    LINK,
    STREAM_LINKS,
)  # fmt: skip
from tests.simt import build


@dataclass
class FoundLattice:
    """What a kernel writes to the pool, as `cuda/decode/lattice_room.hpp` has it."""

    steps: np.ndarray
    links: np.ndarray
    entries: np.ndarray
    costs: np.ndarray
    end_extras: np.ndarray
    best_end: int

    @classmethod
    def read(cls, result, pool):
        at = int(result["begin"])

        def take(dtype, n):
            nonlocal at
            found = np.frombuffer(pool, dtype, n, at).copy()
            at += found.nbytes
            return found

        steps, links = take(LATTICE_STEP, int(result["steps"])), take(LINK, int(result["links"]))
        entries = take(np.dtype([("source", "u4"), ("arc", "u4")]), int(result["entries"]))
        costs = take(np.dtype("f4"), len(entries))
        first_end = int(steps["entries_end"][-2]) if len(steps) > 1 else 0
        return cls(
            steps, links, entries, costs, take(np.dtype("f4"), len(entries) - first_end), int(result["best_end"])
        )

    def bytes(self):
        arrays = (self.steps, self.links, self.entries, self.costs, self.end_extras)
        return b"".join(array.tobytes() for array in arrays)


class Lattices:
    """The memory for lattices of a host under the emulator."""

    def __init__(self, batch, lanes, room, beam, streams=None):
        frames = [len(logp) + (0 if streams is None else streams[i].frames) for i, logp in enumerate(batch)]
        self.first_step = np.concatenate([[0], np.cumsum([n + 1 for n in frames])]).astype(np.uint32)
        self.lanes = np.zeros(lanes, LATTICE_LANE)
        self.results = np.zeros(len(batch), LATTICE_RESULT)
        self.steps = np.zeros(int(self.first_step[-1]) + 1, LATTICE_STEP)
        self.pool, self.used = np.zeros(room.lattice_pool, np.uint8), np.zeros(1, np.uint64)
        self.beam = np.float32(beam)
        self.keep = {}
        self.streams = None if streams is None else np.zeros(len(batch), STREAM_LINKS)
        for number, stream in enumerate(streams or ()):
            stream.view_links(number, self.streams[number], self.keep, frames[number] + 1)
        self.prune_above = room.prune_above
        self.read_early = 0
        self.taken: dict[int, FoundLattice] = {}
        self.early_results, self.early_pool = np.zeros_like(self.results), np.zeros_like(self.pool)
        for number in range(lanes):
            self.grow_links(number, room.links)

    def params(self):
        """The parameter in the memory of the device, and all arrays that a kernel may touch."""
        made = build.kernel_params(
            lanes=self.lanes, results=self.results, steps=self.steps, first_step=self.first_step, pool=self.pool,
            used=self.used, capacity=np.uint64(len(self.pool)),
            streams=np.uint64(0) if self.streams is None else self.streams, beam=self.beam,
            prune_above=np.uint32(self.prune_above),
        )  # fmt: skip
        memory = np.frombuffer(bytes(made), np.uint8)
        return memory, self.keep | {f"lattice.{name}": array for name, array in made.arrays.items()}

    def grow_costs(self, number, capacity, before):
        larger = np.zeros(2 * capacity, np.float32)
        old = self.keep.get(f"costs[{number}]")
        if old is not None:
            larger[:before] = old[:before]
        self.keep[f"costs[{number}]"] = larger
        self.lanes[number]["costs"] = larger.ctypes.data

    def grow_links(self, number, capacity):
        lane = self.lanes[number]
        larger = np.zeros(2 * capacity + (capacity + 31) // 32, np.uint64)
        old = self.keep.get(f"links[{number}]")
        if old is not None:
            larger[: 2 * int(lane["num_links"])] = old[: 2 * int(lane["num_links"])]
        self.keep[f"links[{number}]"] = larger
        lane["links"], lane["link_capacity"] = larger.ctypes.data, capacity

    def looking(self):
        """What looking.cpp looks at while a kernel runs; it reads what has been written so far."""
        return build.kernel_params(
            results=self.results, pool=self.pool, early_results=self.early_results, early_pool=self.early_pool,
            utterances=np.uint64(len(self.results)),
        )  # fmt: skip

    def take(self, results):
        """Reads what the last launch has written, and makes room for more."""
        for utterance, (result, place) in enumerate(zip(results, self.results, strict=True)):
            assert place["written"] == (result["outcome"] == DECODED) or self.streams is not None
            if place["written"] and utterance not in self.taken:
                told = (place["total_cost"], place["reached_final"], place["frames"])
                assert told == (result["total_cost"], result["reached_final"], result["frames"])
                assert place["alive"] == result["alive"]
                self.taken[utterance] = found = FoundLattice.read(place, self.pool)
                early = self.early_results[utterance]
                if early["written"]:
                    assert found.bytes() == FoundLattice.read(early, self.early_pool).bytes()
                    self.read_early += 1
                early["written"] = 1  # the next launch has another pool
        if self.used[0] > len(self.pool):
            self.pool = np.zeros(2 * int(self.used[0]), np.uint8)
            self.early_pool = np.zeros_like(self.pool)
        self.used[0] = 0
