"""The number of threads that decode."""

import os


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bound_threads() -> int:
    """Threads for work on whole graphs and files: one per usable core, but at most four: memory is the limit."""
    return min(4, usable_cores())
