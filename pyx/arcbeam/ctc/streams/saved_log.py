"""The log of a saved search: paths of a graph, which engines trust once they are known to be some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.ctc.cpu._decode import frames_along
from arcbeam.graph.new_words import Joined
from arcbeam.graph.openfst import EPSILON_COLUMN

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import NewWords

NONE = 0xFFFFFFFF  # source of the first entry of a log, and its arc
Ids = npt.NDArray[np.uint32]


class Arcs:
    """The arcs of a graph, and after them those of the new words of a request."""

    def __init__(self, graph: Graph, new_words: NewWords | None) -> None:
        self._graph, self._new = graph, new_words
        self.count = graph.num_arcs + (0 if new_words is None else len(new_words.columns))
        self.targets: Any = graph.targets if new_words is None else Joined(graph.targets, new_words.targets)
        self.columns: Any = graph.columns if new_words is None else Joined(graph.columns, new_words.columns)

    def origins(self, arcs: Ids) -> npt.NDArray[np.int64]:
        """The states that arcs leave."""
        of_graph: npt.NDArray[np.int64] = np.searchsorted(self._graph.states["first_arc"], arcs, side="right") - 1
        if self._new is None:
            return of_graph
        entrances, place = self._new.entrances, arcs.astype(np.int64) - self._graph.num_arcs
        inner = self._new.first_state + np.searchsorted(self._new.states["first_arc"], arcs, side="right") - 1
        entering = entrances[np.clip(place, 0, len(entrances) - 1)]
        return np.where(place < 0, of_graph, np.where(place < len(entrances), entering, inner))

    def reads(self, arcs: Ids) -> npt.NDArray[np.bool_]:
        """Whether arcs read a frame."""
        found: npt.NDArray[np.bool_] = self.columns[arcs] != EPSILON_COLUMN
        return found


class Log(NamedTuple):
    """A log that is in order."""

    of_graph: Arcs
    sources: Ids  # uint32[entries], as of SavedSearch
    arcs: Ids  # uint32[entries]
    states: Ids  # uint32[entries]: the graph's state at the end of each entry's path
    frames: npt.NDArray[np.int64]  # int64[entries]: that the path reads from the beginning of the sentence on


def checked_log(found: dict[str, Any], graph: Graph, new_words: NewWords | None) -> Log:
    """The log after the settled arcs; FormatError unless both are paths of this graph."""
    settled, sources, arcs = found["settled"], found["sources"], found["arcs"]
    if not 0 < len(sources) == len(arcs) < NONE:
        raise FormatError(f"stream state: expected a source for each arc of its log, got {len(sources)}, {len(arcs)}")
    numbers = np.arange(len(sources), dtype=np.int64)
    if sources[0] != NONE or arcs[0] != NONE or np.any(sources[1:] >= numbers[1:]):
        raise FormatError("stream state: expected a log in which each entry but the first follows one before it")
    of_graph = Arcs(graph, new_words)
    if np.any(settled >= of_graph.count) or np.any(arcs[1:] >= of_graph.count):
        raise FormatError(f"stream state: expected arcs below {of_graph.count}, which the graph has, got others")
    ends = np.append(np.uint32(graph.start), of_graph.targets[settled]["next_state"])
    if np.any(of_graph.origins(settled) != ends[:-1]):
        raise FormatError("stream state: the settled arcs are not a path of the graph")
    states = np.append(ends[-1], of_graph.targets[arcs[1:]]["next_state"])
    if np.any(of_graph.origins(arcs[1:]) != states[sources[1:]]):
        raise FormatError("stream state: the arcs of the log are not paths of the graph")
    reads = np.append(False, of_graph.reads(arcs[1:]))
    frames = frames_along(sources, reads.view(np.uint8), int(np.count_nonzero(of_graph.reads(settled))))
    return Log(of_graph, sources, arcs, states, frames)
