"""Where a large language model is stored when a GPU decodes, and how large the arc cache is: chosen in one place."""

from __future__ import annotations

from dataclasses import dataclass

from arcbeam.core.errors import CapacityError

ENTRY_BYTES = 32
"""Bytes of an entry of the arc cache; see ``cuda/rescore/requests/arc_cache.cuh``."""
SINGLE_BYTES = 16
"""Bytes of an entry if the cache holds single arcs; see ``cuda/rescore/requests/single_arcs.cuh``."""
MOST_ENTRIES = 2**32 - 1
MOST_CACHE = 1 << 30
"""The most bytes that the arc cache gets if `arc_cache` sets no size."""


@dataclass(frozen=True)
class Placement:
    """The choice that was made."""

    name: str  # "resident", "host", "host-direct" or "cpu"
    cache_entries: int
    index_on_device: bool = True  # with the rest of the model or alone

    @property
    def cache_bytes(self) -> int:
        """Bytes of the device that the arc cache takes."""
        return self.cache_entries * entry_bytes(self.name)


def choose(
    placement: str,
    model_bytes: int,
    index_bytes: int,
    free_bytes: int,
    gpu_budget: int | None,
    arc_cache: int | None,
) -> Placement:
    """Chooses the placement for a device: "auto" is "resident" if that fits, else "host-direct". CapacityError."""
    # "host-direct" has the index on the device if the budget, or three quarters of the free memory, has room for it and
    # for the cache; a cache of no given size counts as the index's size.
    budget = budget_of(free_bytes, gpu_budget)
    cache = arc_cache or 0
    if placement == "auto":
        placement = "resident" if model_bytes + cache <= budget else "host-direct"
    taken = cache + {"resident": model_bytes, "host": index_bytes}.get(placement, 0)
    if gpu_budget is not None and taken > gpu_budget:
        raise CapacityError(
            f"gpu_budget: the language model and its cache take {taken:,} bytes of the GPU's memory as "
            f"placement={placement!r}, but {gpu_budget:,} are allowed; use 'host-direct', a smaller arc_cache, or a "
            "larger gpu_budget"
        )
    if placement == "resident":
        return Placement(placement, entries_of(cache, placement))
    near = placement == "host" or index_bytes + (index_bytes if arc_cache is None else cache) <= budget
    if arc_cache is None:
        budget -= index_bytes if near else 0
        cache = max(0, min(budget, model_bytes, MOST_CACHE if gpu_budget is None else budget))
    return Placement(placement, entries_of(cache, placement), near)


def choose_unpinned(
    model_bytes: int, index_bytes: int, free_bytes: int, gpu_budget: int | None, arc_cache: int | None
) -> Placement | None:
    """As `choose` if kernels cannot read host memory: "resident" if it fits, else "host", None if not even that."""
    budget, cache = budget_of(free_bytes, gpu_budget), arc_cache or 0
    if model_bytes + cache <= budget:
        return Placement("resident", entries_of(cache, "resident"))
    if index_bytes + cache > budget:
        return None
    return choose("host", model_bytes, index_bytes, free_bytes, gpu_budget, arc_cache)


def budget_of(free_bytes: int, gpu_budget: int | None) -> int:
    """Bytes of a device that a large model and its cache may take."""
    return free_bytes * 3 // 4 if gpu_budget is None else gpu_budget


def entry_bytes(placement: str) -> int:
    """Bytes of an entry of the arc cache, which holds single arcs with ``"host"``, and otherwise answers."""
    return SINGLE_BYTES if placement == "host" else ENTRY_BYTES


def entries_of(cache_bytes: int, placement: str) -> int:
    """The number of entries of a cache of this size."""
    return min(cache_bytes // entry_bytes(placement), MOST_ENTRIES)
