"""The number of threads that decode."""

import functools
import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

V1 = ("cpu", "cpu,cpuacct", "cpuacct,cpu")
"""Names under which the controller of version 1 may be mounted."""


def usable_cores() -> int:
    """Cores that this process may use: those that it may run on, or fewer if its control group has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return math.ceil(min(cores, max(1.0, cpu_quota())))


def memory_bound_threads() -> int:
    """Threads for work on whole graphs and files: one per usable core, but at most four: memory is the limit."""
    return min(4, usable_cores())


@functools.cache
def cpu_quota(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> float:
    """The processor time that this process may use, in cores; inf without a limit. Both versions of groups are read."""
    return min(_quotas(groups, mounted), default=math.inf)


def _quotas(groups: Path, mounted: Path) -> Iterator[float]:
    try:
        lines = groups.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            roots = [mounted, mounted / "unified"]
        elif "cpu" in controllers.split(","):
            roots = [mounted / name for name in V1]
        else:
            continue
        within = PurePosixPath("/", path).relative_to("/")
        # A group's limit holds for those within it. In a container the root is that of its own group.
        for root in roots:
            for group in (within, *within.parents):
                yield from _quota(root / group)


def _quota(group: Path) -> Iterator[float]:
    """The quota of a group in cores, if it has one."""
    for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((group / name).read_text() for name in files).split()
            share = int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):  # no such file; or "max", which is no limit
            continue
        if share > 0:  # -1: no limit
            yield share
