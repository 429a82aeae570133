"""How many threads decode."""

import os


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bound_threads() -> int:
    """Threads for work on whole graphs and files: one a usable core, four at most, since memory is the limit."""
    return min(4, usable_cores())
