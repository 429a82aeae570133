"""How much of the host's memory is left, in the machine and in the control group of a container or a job."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def host_bytes_left(root: Path = ROOT) -> int | None:
    """Bytes that this process may still take, or None if the system does not report it. `root` is for tests."""
    known = [_of_machine(root), _of_group(root)]
    return min((left for left in known if left is not None), default=None)


def _of_machine(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_group(root: Path) -> int | None:
    """The least that is left in the process's group and those above it. Pages of files do not count as taken."""
    folder, mount = root / "sys/fs/cgroup", root / "sys/fs/cgroup"
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                folder = mount / line[3:].lstrip("/")
    except OSError:
        return None
    known = []
    for group in (folder, *folder.parents):
        try:
            limit, taken = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            files = sum(int(stat.get(name, 0)) for name in ("active_file", "inactive_file"))
            known.append(max(0, int(limit) - int(taken) + files))
        except (OSError, ValueError):  # "max" means no limit, and the root group has neither file
            pass
        if group == mount:
            break
    return min(known, default=None)
