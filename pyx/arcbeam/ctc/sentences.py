"""What the sentences of a stream hand on to each other, and what a search is saved as in the middle of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.ctc._decode import frames_along
from arcbeam.errors import FormatError
from arcbeam.graph.new_words import Joined

if TYPE_CHECKING:
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import NewWords

NONE = 0xFFFFFFFF  # source of the first entry of a log, and its arc
EPSILON_COLUMN = 0xFFFF
Ids = npt.NDArray[np.uint32]


class Heard(NamedTuple):
    """What a large language model still sees of the sentences before one: their last words.

    Attributes
    ----------
    words : tuple of int
        Output labels of the graph; new words of a request are one, as models see them.
    after_start : bool
        Whether these words, or none, follow the beginning of a sentence; otherwise they follow nothing.
    """

    words: tuple[int, ...] = ()
    after_start: bool = True

    def after(self, words: Ids, rescoring: Rescoring) -> Heard:
        """What is heard after more words."""
        known = np.minimum(words, len(rescoring.large_labels) - 1)  # the last label is that of all new words
        together = (*self.words, *known.tolist())
        seen = rescoring.large.order - 1
        if len(together) < seen:
            return Heard(together, self.after_start)
        return Heard(together[len(together) - seen :], False)


class Before(NamedTuple):
    """What came before a sentence of a stream.

    Attributes
    ----------
    frames : int
        Of the sentences before.
    heard : Heard or None
        None for the beginning of a sentence.
    """

    frames: int = 0
    heard: Heard | None = None


NOTHING_BEFORE = Before()


class SavedSearch(NamedTuple):
    """What a search knows between two chunks, the same whatever engine led to it (law 10).

    ``cpu_reference/decode/saved_search.hpp`` draws it.

    Attributes
    ----------
    settled : uint32[n]
        The arcs that all paths begin with.
    sources, arcs : uint32[log]
        Entries of the unsettled log: the entry that a path comes from, and the arc that it takes. The first one has
        neither.
    states : uint32[tokens]
        Tokens are sorted by graph state, then by history.
    costs : float32[tokens]
        Above the smallest.
    entries : uint32[tokens]
        Where each token's path ends in the log.
    offset : float
        What the costs are relative to.
    frames, dead_frames : int
        Of the sentence so far, and of these since the search died.
    fired : int
        The number of the rule that has ended the sentence, from 1; 0 if it goes on.
    alive : bool
    """

    settled: Ids
    sources: Ids
    arcs: Ids
    states: Ids
    costs: npt.NDArray[np.float32]
    entries: Ids
    offset: float
    frames: int
    dead_frames: int
    fired: int
    alive: bool


def checked_search(found: dict[str, Any], graph: Graph, new_words: NewWords | None) -> SavedSearch:
    """The search with these fields but `dead_frames`, once it is known to be one of this graph.

    Raises
    ------
    FormatError
        An array has another length or other values than a search could have written: engines trust them.
    """
    sources, arcs, entries, states = (found[name] for name in ("sources", "arcs", "entries", "states"))
    settled, costs = found["settled"], found["costs"]
    if not 0 < len(sources) == len(arcs) < NONE:
        raise FormatError(f"stream state: expected a source for each arc of its log, got {len(sources)}, {len(arcs)}")
    if not 0 < len(states) == len(costs) == len(entries):
        raise FormatError(
            f"stream state: expected as many states, costs and entries of tokens, got {len(states)}, {len(costs)} and "
            f"{len(entries)}"
        )
    numbers = np.arange(len(sources), dtype=np.int64)
    if sources[0] != NONE or arcs[0] != NONE or np.any(sources[1:] >= numbers[1:]):
        raise FormatError("stream state: expected a log in which each entry but the first follows one before it")
    if entries.max() >= len(sources) or len(np.unique(entries)) != len(entries):
        raise FormatError("stream state: expected an entry of the log of its own for each token")
    if not np.all(np.isfinite(costs)) or np.any(costs < 0.0) or not np.isfinite(found["offset"]):
        raise FormatError("stream state: expected costs of tokens that are finite and at least 0")
    reader = _Arcs(graph, new_words)
    most = reader.count
    if np.any(settled >= most) or np.any(arcs[1:] >= most):
        raise FormatError(f"stream state: expected arcs below {most}, which the graph has, got others")
    ends = np.append(np.uint32(graph.start), reader.targets[settled]["next_state"])
    if np.any(reader.origins(settled) != ends[:-1]):
        raise FormatError("stream state: the settled arcs are not a path of the graph")
    at = np.append(ends[-1], reader.targets[arcs[1:]]["next_state"])  # the graph's state of each entry
    if np.any(reader.origins(arcs[1:]) != at[sources[1:]]) or np.any(at[entries] != states):
        raise FormatError("stream state: the arcs of the log are not paths of the graph to the states of the tokens")
    reads = np.append(False, reader.columns[arcs[1:]] != EPSILON_COLUMN)
    settled_frames = int(np.count_nonzero(reader.columns[settled] != EPSILON_COLUMN))
    lived = frames_along(sources, reads.view(np.uint8), settled_frames)[entries]
    frames, live_frames = found["frames"], int(lived[0])
    if np.any(lived != live_frames) or not found["alive"] * frames <= live_frames <= frames:
        raise FormatError(f"stream state: expected paths of {frames} frames to all tokens, got others")
    return SavedSearch(**found, dead_frames=frames - live_frames)


class _Arcs:
    """The arcs of a graph, and of the new words of a request behind them.

    Attributes
    ----------
    count : int
    targets, columns : array [count]
        As of `Graph`.
    """

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
