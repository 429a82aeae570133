"""Lattices of a decode, for tests that compare them as bytes."""

import struct


def lattices(one, batch, **options):
    """The arrays of the lattice of each utterance."""
    found = one.decode(batch, lattice=True, **options)
    if not batch:
        return []
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
