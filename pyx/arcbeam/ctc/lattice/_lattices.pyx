"""The lattices of a batch in C++, and their arrays for Python."""

import numpy as np

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy
from libcpp.utility cimport move

from arcbeam.arrays._vectors cimport into_vector

LINK = np.dtype([("source", np.uint32), ("target", np.uint32), ("arc", np.uint32), ("slack", np.float32)])


cdef class Lattices:
    """The lattices of a batch: `cpu_reference/lattice/lattice.hpp` says what their arrays mean."""

    @classmethod
    def of_arrays(cls, lattices):
        """Makes them from dicts such as `arrays` returns, which are trusted."""
        cdef Lattices made = cls()
        cdef Lattice* one
        made.found.resize(len(lattices))
        for i, given in enumerate(lattices):
            one = &made.found[i]
            into_vector[uint32_t](one.first_token, np.ascontiguousarray(given["first_token"], np.uint32))
            into_vector[uint32_t](one.states, np.ascontiguousarray(given["states"], np.uint32))
            into_vector[double](one.costs, np.ascontiguousarray(given["costs"], np.float64))
            into_vector[uint32_t](one.first_link, np.ascontiguousarray(given["first_link"], np.uint32))
            into_vector[float](one.end_extras, np.ascontiguousarray(given["end_extras"], np.float32))
            into_vector[uint32_t](one.best, np.ascontiguousarray(given["best"], np.uint32))
            links = np.ascontiguousarray(given["links"], LINK)
            one.links.resize(len(links))
            if len(links):
                copy_from(links.view(np.uint8), one.links.data(), len(links) * sizeof(Link))
            one.total_cost, one.reached_final = given["total_cost"], given["reached_final"]
            one.complete = given["complete"]
        return made

    def __len__(self):
        return self.found.size()

    def places(self):
        """list of int: the indices of those that have tokens."""
        return [i for i in range(self.found.size()) if not self.found[i].states.empty()]

    def take(self, places):
        """Moves those at these places into Lattices of the same length, whose others are empty."""
        cdef Lattices taken = Lattices()
        cdef size_t i
        taken.found.resize(self.found.size())
        for i in places:
            taken.found[i] = move(self.found[i])
        return taken

    def copied(self, size_t index):
        """A copy of one, alone."""
        if index >= self.found.size():
            raise IndexError(f"expected an index below {self.found.size()}, got {index}")
        cdef Lattices made = Lattices()
        made.found.push_back(self.found[index])
        return made

    def arrays(self, size_t index):
        """Copies of the arrays of one lattice, by the names of the struct's members; links have the dtype `LINK`."""
        if index >= self.found.size():
            raise IndexError(f"expected an index below {self.found.size()}, got {index}")
        cdef const Lattice* one = &self.found[index]
        links = np.empty(one.links.size(), LINK)
        if len(links):
            copy_to(links.view(np.uint8), one.links.data(), len(links) * sizeof(Link))
        return {"first_token": uint32s(one.first_token), "states": uint32s(one.states),
                "costs": np.asarray(one.costs, np.float64), "links": links, "first_link": uint32s(one.first_link),
                "end_extras": np.asarray(one.end_extras, np.float32), "best": uint32s(one.best),
                "total_cost": one.total_cost, "reached_final": one.reached_final, "complete": one.complete}


def best_to_states(size_t start, const int64_t[::1] sources, const int64_t[::1] targets, const double[::1] costs,
                   size_t num_states):
    """float64[states]: the cost of the best path to each state, +inf without one; arcs by source, to larger states."""
    found = np.full(num_states, np.inf)
    cdef double[::1] best = found
    cdef Py_ssize_t i
    if num_states:
        best[start] = 0.0
    with nogil:
        for i in range(sources.shape[0]):
            best[targets[i]] = min(best[targets[i]], best[sources[i]] + costs[i])
    return found


def best_to_ends(const double[::1] end_costs, const int64_t[::1] sources, const int64_t[::1] targets,
                 const double[::1] costs):
    """float64[states]: the cost of the best path from each state to an end; arcs as of `best_to_states`."""
    found = np.array(end_costs)
    cdef double[::1] best = found
    cdef Py_ssize_t i
    with nogil:
        for i in range(sources.shape[0] - 1, -1, -1):
            best[sources[i]] = min(best[sources[i]], costs[i] + best[targets[i]])
    return found


cdef uint32s(const vector[uint32_t]& values):
    found = np.empty(values.size(), np.uint32)
    if values.size():
        copy_to(found.view(np.uint8), values.data(), values.size() * sizeof(uint32_t))
    return found


cdef void copy_to(unsigned char[::1] into, const void* source, size_t size) noexcept:
    memcpy(&into[0], source, size)


cdef void copy_from(const unsigned char[::1] source, void* into, size_t size) noexcept:
    memcpy(into, &source[0], size)
