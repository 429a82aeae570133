"""The open slot of a graph: where words that it lacks may stand (law 9 of ``docs/design/rules.md``)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import GraphError


@dataclass(frozen=True)
class OpenSlot:
    """Where new words of a request enter and leave a graph, which has no arcs of its own for that."""

    entrances: npt.NDArray[np.uint32]  # [E], ascending states
    weights: npt.NDArray[np.float32]  # [E]
    exits: npt.NDArray[np.uint32]

    def check(self, states: npt.NDArray[Any], num_states: int) -> None:
        """GraphError unless the arrays agree with each other and with the states of the graph."""
        for name, dtype in (("entrances", "<u4"), ("weights", "<f4"), ("exits", "<u4")):
            array = getattr(self, name)
            if array.dtype != np.dtype(dtype) or array.shape != (len(self.entrances),):
                raise GraphError(
                    f"open_slot.{name}: expected {np.dtype(dtype)} [{len(self.entrances)}], got {array.dtype} "
                    f"{list(array.shape)}"
                )
        if len(self.entrances) == 0:
            raise GraphError("open_slot: expected at least one entrance, got none")
        if np.any(self.entrances[1:] < self.entrances[:-1]):
            raise GraphError("open_slot.entrances: expected ascending states")
        last = max(int(self.entrances.max()), int(self.exits.max()))
        if last >= num_states:
            raise GraphError(f"open_slot: names state {last}, but the graph has states 0 to {num_states - 1}")
        if not np.all(np.isfinite(self.weights)):
            raise GraphError("open_slot.weights: expected finite costs")
        if not np.all(states["depth"][self.exits] > 0):
            raise GraphError("open_slot: an exit has the epsilon depth 0; make the graph with Graph.from_arcs")


def deepen(columns: dict[str, npt.NDArray[Any]], max_depth: int, exits: npt.NDArray[np.uint32]) -> int:
    """Makes the epsilon depths of exits, and after them, count an arc from depth 0 to them; returns the largest."""
    states, next_states = columns["states"], columns["targets"]["next_state"]
    depth = states["depth"]
    changed = np.unique(exits)
    changed = changed[depth[changed] == 0]
    depth[changed] = 1
    while len(changed):
        max_depth = max(max_depth, int(depth[changed].max()))
        arcs = [np.arange(*states[["first_arc", "first_emitting"]][s].item(), dtype=np.int64) for s in changed]
        needed = np.repeat(depth[changed] + 1, [len(own) for own in arcs])
        reached = next_states[np.concatenate(arcs)]
        raised = np.unique(reached[depth[reached] < needed])
        np.maximum.at(depth, reached, needed)
        changed = raised
    return max_depth
