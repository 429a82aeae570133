"""What the sentences of a stream hand on to each other, and what a search is saved as in the middle of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.ctc.streams.saved_lattice import SavedLinks, checked_links
from arcbeam.ctc.streams.saved_log import Ids, checked_log

if TYPE_CHECKING:
    from arcbeam.ctc.rescoring import Rescoring
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.new_words import NewWords


class LmContext(NamedTuple):
    """What a large language model still sees of the sentences before one: their last words."""

    words: tuple[int, ...] = ()  # output labels of the graph; new words of a request are one, as models see them
    after_start: bool = True  # whether they, or none, follow the beginning of a sentence; else they follow nothing

    def after(self, words: Ids, rescoring: Rescoring) -> LmContext:
        """The context after more words."""
        known = np.minimum(words, len(rescoring.large_labels) - 1)  # the last label is that of all new words
        together = (*self.words, *known.tolist())
        seen = rescoring.large.order - 1
        if len(together) < seen:
            return LmContext(together, self.after_start)
        return LmContext(together[len(together) - seen :], False)


class SentenceStart(NamedTuple):
    """What came before a sentence of a stream."""

    frames: int = 0  # of the sentences before
    lm_context: LmContext | None = None  # None for the beginning of a sentence


STREAM_START = SentenceStart()


class SavedSearch(NamedTuple):
    """The state of a search between two chunks, equal for all engines; drawn in ``decode/streams/saved_search.hpp``."""

    settled: Ids  # uint32[n]: the arcs that all paths begin with
    sources: Ids  # uint32[log]: the entry that each comes from; the first has none
    arcs: Ids  # uint32[log]: the arc that it takes
    states: Ids  # uint32[tokens]: tokens are sorted by graph state, then by history
    costs: npt.NDArray[np.float32]  # float32[tokens]: above the smallest
    entries: Ids  # uint32[tokens]: where each token's path ends in the log
    offset: float  # what the costs are relative to
    frames: int  # of the sentence so far
    dead_frames: int  # of these, since the search died
    fired: int  # the rule that has ended the sentence, from 1; 0 for none
    alive: bool
    links: SavedLinks | None = None  # where a lattice is kept; the log then begins with the sentence
    ended: bool = False  # the lattice was given: nothing of the search is left


def checked_search(
    found: dict[str, Any], graph: Graph, new_words: NewWords | None, lattice_beam: float | None = None
) -> SavedSearch:
    """The search without `dead_frames`, checked, because engines trust it; FormatError. With a beam it keeps links."""
    entries, states, costs = found["entries"], found["states"], found["costs"]
    if not 0 < len(states) == len(costs) == len(entries):
        raise FormatError(
            f"stream state: expected as many states, costs and entries of tokens, got {len(states)}, {len(costs)} and "
            f"{len(entries)}"
        )
    log = checked_log(found, graph, new_words)
    if entries.max() >= len(log.arcs) or len(np.unique(entries)) != len(entries):
        raise FormatError("stream state: expected an entry of the log of its own for each token")
    if not np.all(np.isfinite(costs)) or np.any(costs < 0.0) or not np.isfinite(found["offset"]):
        raise FormatError("stream state: expected costs of tokens that are finite and at least 0")
    if np.any(log.states[entries] != states):
        raise FormatError("stream state: the paths of the log do not lead to the states of the tokens")
    dead_frames = checked_dead_frames(found, log.frames[entries])
    fields = {name: found[name] for name in SavedSearch._fields if name in found}
    links = None if lattice_beam is None else checked_links(found, log, lattice_beam)
    return SavedSearch(**fields, dead_frames=dead_frames, links=links)


def checked_dead_frames(found: dict[str, Any], lived: npt.NDArray[np.int64]) -> int:
    """The frames since the search died, by those of the paths to all its tokens."""
    frames, live_frames = found["frames"], int(lived[0])
    if np.any(lived != live_frames) or not found["alive"] * frames <= live_frames <= frames:
        raise FormatError(f"stream state: expected paths of {frames} frames to all tokens, got others")
    return int(frames - live_frames)
