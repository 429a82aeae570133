"""Lattices of a decode, for tests that compare them as bytes."""

import struct
from itertools import groupby

import numpy as np

NONE = 0xFFFFFFFF


def lattices(one, batch, **options):
    """The arrays of the lattice of each utterance."""
    found = one.decode(batch, lattice=True, **options)
    lattices_of_batch = found[0]._results.lattices.lattices
    assert len(lattices_of_batch) == len(batch)
    arrays = [lattices_of_batch.arrays(i) for i in range(len(batch))]
    for hypothesis, lattice in zip(found, arrays, strict=True):
        assert hypothesis.arcs.tolist() == lattice["links"]["arc"][lattice["best"]].tolist()
    return arrays


def packed(lattice):
    """A lattice as bytes."""
    arrays = ("first_token", "states", "costs", "links", "first_link", "end_extras", "best")
    flags = struct.pack("<d2?", lattice["total_cost"], lattice["reached_final"], lattice["complete"])
    return b"|".join([*(lattice[name].tobytes() for name in arrays), flags])


def numbered(graph, found, frames):
    """What a kernel has written to the pool, a `tests.decode.search_host.Found`, as `lattices` has it: numbered by the
    rule of ``cpu_reference/lattice/number.hpp``."""
    kept, complete = found.lattice, found.work[0] == frames
    sources, arcs = (kept.entries[name].tolist() for name in ("source", "arc"))
    states = [graph.start if arc == NONE else int(graph.targets["next_state"][arc]) for arc in arcs]
    first_token = np.concatenate([[0], kept.steps["entries_end"]]).astype(np.uint32)
    assert first_token[-1] == len(arcs) and kept.links["source"].max(initial=0) < len(arcs) > kept.best_end
    steps = np.repeat(np.arange(len(kept.steps)), np.diff(first_token)).tolist()
    levels = list(zip(steps, graph.states["depth"][states].tolist(), strict=True))
    assert all(of == NONE or (of < len(arcs) and levels[of] < own) for of, own in zip(sources, levels, strict=True))
    number = {NONE: -1}
    for _, level in groupby(sorted(range(len(arcs)), key=levels.__getitem__), levels.__getitem__):
        for entry in sorted(level, key=lambda at: (states[at], arcs[at], number[sources[at]])):
            number[entry] = len(number) - 1
    order = sorted(range(len(arcs)), key=number.__getitem__)
    winners = [(number[sources[at]], number[at], arcs[at], 0.0) for at in order if sources[at] != NONE]
    assert kept.links["target"].max(initial=0) < len(arcs)
    losers = [(number[source], number[target], arc, slack) for source, target, arc, slack in kept.links.tolist()]
    links = np.array(sorted(winners + losers, key=lambda link: (link[0], link[2])), kept.links.dtype)
    path = [kept.best_end]
    while sources[path[-1]] != NONE:
        path.append(sources[path[-1]])
    place = {(source, arc): at for at, (source, _, arc, _) in enumerate(links.tolist())}
    assert [arcs[at] for at in reversed(path[:-1])] == found.arcs.tolist()
    best = [place[number[sources[at]], arcs[at]] for at in reversed(path[:-1])]
    ends = kept.end_extras[[at - int(first_token[-2]) for at in order if steps[at] == len(kept.steps) - 1]]
    return {
        "first_token": first_token, "states": np.array(states, np.uint32)[order],
        "costs": (kept.steps["offset"][steps] + kept.costs)[order], "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(len(arcs) + 1)).astype(np.uint32),
        "end_extras": ends, "best": np.array(best, np.uint32), "total_cost": found.total_cost,
        "reached_final": found.reached_final, "complete": complete,
    }  # fmt: skip


def of_kernel(graph, batch, found):
    """What `packed` makes of the lattices that a kernel has written for a batch."""
    return [packed(numbered(graph, one, len(logp))) for one, logp in zip(found, batch, strict=True)]
