"""The lattice of a stream's sentence in a saved state, before and after the sentence has ended.

A log from the beginning of the sentence: its entries are tokens and their winners; other links to them are losers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.ctc.lattice._lattice import prune
from arcbeam.ctc.lattice._lattices import LINK, Lattices
from arcbeam.ctc.streams.saved_log import NONE, Ids, Log

Dtypes = dict[str, np.dtype[Any]]
LOSERS: Dtypes = {
    "loser_sources": np.dtype("<u4"),
    "loser_targets": np.dtype("<u4"),
    "loser_arcs": np.dtype("<u4"),
    "loser_slacks": np.dtype("<f4"),
}
GOES_ON: Dtypes = LOSERS | {"log_costs": np.dtype("<f4"), "offsets": np.dtype("<f8")}
ENDED: Dtypes = LOSERS | {"token_costs": np.dtype("<f8"), "end_extras": np.dtype("<f4")}


class SavedLinks(NamedTuple):
    """What an unfinished search keeps of its lattice besides the log, whose entries are in the order of their steps."""

    sources: Ids  # uint32[losers]: the entries that losers come from; by (source, arc)
    targets: Ids  # uint32[losers]
    arcs: Ids  # uint32[losers]
    slacks: npt.NDArray[np.float32]  # float32[losers]: cost above that of the target's winner
    first_entry: Ids  # uint32[steps + 1]: step 0 comes before the first frame
    costs: npt.NDArray[np.float32]  # float32[entries]: relative to the best of their step
    offsets: npt.NDArray[np.float64]  # float64[steps]: what the costs of the step are relative to


class SavedEnd(NamedTuple):
    """A sentence that has ended."""

    path: Ids  # uint32[n]: the arcs of its best path
    lattice: dict[str, Any]  # the arrays of its lattice, as `Lattices.arrays` names them


def checked_links(found: dict[str, Any], log: Log, lattice_beam: float) -> SavedLinks:
    """The links of an unfinished search; FormatError unless they fit the log and its tokens."""
    first_entry, costs, offsets = _checked_losers(found, log, lattice_beam), found["log_costs"], found["offsets"]
    first, entries = int(first_entry[-2]), found["entries"]
    if len(found["settled"]) or len(entries) != len(log.arcs) - first or np.any(entries < first):
        raise FormatError("stream state: expected a log of the whole sentence, whose last entries are those of tokens")
    if len(costs) != len(log.arcs) or not np.all(np.isfinite(costs)) or np.any(costs < 0.0):
        raise FormatError(f"stream state: expected {len(log.arcs)} costs of entries, finite and at least 0, got others")
    if len(offsets) != len(first_entry) - 1 or not np.all(np.isfinite(offsets)):
        raise FormatError(f"stream state: expected {len(first_entry) - 1} offsets of steps that are finite, got others")
    if np.any(costs[entries] != found["costs"]) or offsets[-1] != found["offset"]:
        raise FormatError("stream state: the costs of tokens are not those of their entries in the log")
    sources, targets, arcs, slacks = (found[name] for name in LOSERS)
    return SavedLinks(sources, targets, arcs, slacks, first_entry, costs, offsets)


def ended(lattice: dict[str, Any]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """The arrays and facts that a state has of a sentence's lattice."""
    links, best = lattice["links"], lattice["best"]
    tokens = len(lattice["states"])
    winners = np.empty(tokens, np.int64)
    at_no_cost = np.flatnonzero(links["slack"] == 0.0)[::-1]
    winners[links["target"][at_no_cost]] = at_no_cost  # of several the first, which is written last
    winners[links["target"][best]] = best
    winners = winners[1:]
    losers = np.delete(links, winners)
    end = links["target"][best[-1]] if len(best) else 0
    arrays = {
        "sources": np.append(np.uint32(NONE), links["source"][winners]),
        "arcs": np.append(np.uint32(NONE), links["arc"][winners]),
        "loser_sources": losers["source"],
        "loser_targets": losers["target"],
        "loser_arcs": losers["arc"],
        "loser_slacks": losers["slack"],
        "token_costs": lattice["costs"],
        "end_extras": lattice["end_extras"],
    }
    facts = {"token": int(end), "total_cost": lattice["total_cost"], "reached_final": lattice["reached_final"]}
    return arrays, facts


def checked_end(found: dict[str, Any], facts: dict[str, Any], log: Log, lattice_beam: float) -> SavedEnd:
    """A sentence that has ended; FormatError unless its lattice is one of this graph and beam."""
    first_token, extras, costs = _checked_losers(found, log, lattice_beam), found["end_extras"], found["token_costs"]
    first, tokens = int(first_token[-2]), len(log.arcs)
    kinds = {"token": int, "total_cost": float, "reached_final": bool}
    if {name: type(value) for name, value in facts.items()} != kinds or not np.isfinite(facts["total_cost"]):
        raise FormatError(f"stream state: expected the end of a sentence as {sorted(kinds)}, got {facts!r}")
    if len(costs) != tokens or not np.all(np.isfinite(costs)):
        raise FormatError(f"stream state: expected {tokens} costs of tokens that are finite, got others")
    if len(extras) != tokens - first or not np.all(extras >= 0.0):
        raise FormatError(f"stream state: expected {tokens - first} ends of paths that cost at least 0, got others")
    end = facts["token"]
    if not first <= end < tokens or extras[end - first] != 0.0:
        raise FormatError(f"stream state: expected an end of the best path of {first} to {tokens - 1}, got {end}")
    path = [end]
    while path[-1]:
        path.append(int(log.sources[path[-1]]))
    best = np.array(path[-2::-1], np.int64)  # tokens, without the first
    if np.any(np.append(log.sources[1:], found["loser_sources"]) >= _targets(found, tokens)):
        raise FormatError("stream state: expected links that lead to later tokens")
    links = np.empty(tokens - 1 + len(found["loser_arcs"]), LINK)
    links["source"] = np.append(log.sources[1:], found["loser_sources"])
    links["target"] = _targets(found, tokens)
    links["arc"] = np.append(log.arcs[1:], found["loser_arcs"])
    links["slack"] = np.append(np.zeros(tokens - 1, np.float32), found["loser_slacks"])
    order = np.lexsort((links["arc"], links["source"]))
    links, places = links[order], np.argsort(order)
    lattice = {
        "first_token": first_token,
        "states": log.states,
        "costs": costs,
        "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(tokens + 1)).astype(np.uint32),
        "end_extras": extras,
        "best": places[best - 1].astype(np.uint32),
        "total_cost": facts["total_cost"],
        "reached_final": facts["reached_final"],
        "complete": found["alive"],
    }
    kept = prune(Lattices.of_arrays([lattice]), 0, lattice_beam)[2]
    if len(kept) != len(links) or not (found["alive"] or len(links) == len(best)):
        raise FormatError(f"stream state: expected links of paths to an end within {lattice_beam}, got others")
    return SavedEnd(log.arcs[best], lattice)


def _targets(found: dict[str, Any], tokens: int) -> Ids:
    """Those of all winners but the first token's, and then of all losers."""
    return np.append(np.arange(1, tokens, dtype=np.uint32), found["loser_targets"])


def _checked_losers(found: dict[str, Any], log: Log, lattice_beam: float) -> Ids:
    """The first entry of each step, and how many there are; FormatError unless the losers fit the log."""
    sources, targets, arcs, slacks = (found[name] for name in LOSERS)
    steps = np.diff(log.frames)
    if log.frames[0] != 0 or np.any((steps != 0) & (steps != 1)):
        raise FormatError("stream state: expected the entries of the log in the order of their frames")
    if not len(sources) == len(targets) == len(arcs) == len(slacks) < NONE:
        raise FormatError(f"stream state: expected as many values of each kind for losing links, got {len(sources)}")
    entries, of_graph = len(log.arcs), log.of_graph
    if np.any(sources >= entries) or np.any(targets >= entries) or np.any(arcs >= of_graph.count):
        raise FormatError(f"stream state: expected losing links between {entries} entries, on arcs of the graph")
    if np.any(of_graph.origins(arcs) != log.states[sources]) or np.any(
        of_graph.targets[arcs]["next_state"] != log.states[targets]
    ):
        raise FormatError("stream state: the arcs of losing links do not lead from their source to their target")
    if np.any(log.frames[sources] + of_graph.reads(arcs) != log.frames[targets]):
        raise FormatError("stream state: expected losing links into their own step, or with a frame into the next")
    if not np.all((slacks >= 0.0) & (slacks <= np.float32(lattice_beam)) & np.isfinite(slacks)):
        raise FormatError(f"stream state: expected losing links that cost up to {lattice_beam} more, got others")
    keys = np.append(log.sources[1:], sources).astype(np.uint64) << np.uint64(32) | np.append(log.arcs[1:], arcs)
    of_losers = keys[entries - 1 :]
    if np.any(of_losers[1:] <= of_losers[:-1]) or len(np.unique(keys)) != len(keys):
        raise FormatError("stream state: expected losing links by source and arc, and each link once")
    return np.searchsorted(log.frames, np.arange(int(log.frames[-1]) + 2)).astype(np.uint32)
