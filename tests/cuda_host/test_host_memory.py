"""What is left of the host's memory, from made-up system files."""

import pytest

from arcbeam.gpu.host_memory import host_bytes_left

GIB = 1 << 30


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def group(folder, limit, taken, inactive=0, active=0):
    return {
        f"sys/fs/cgroup{folder}/memory.max": f"{limit}\n",
        f"sys/fs/cgroup{folder}/memory.current": f"{taken}\n",
        f"sys/fs/cgroup{folder}/memory.stat": f"anon 5\nactive_file {active}\ninactive_file {inactive}\n",
    }


def test_the_machine(tmp_path):
    assert host_bytes_left(tmp_path) is None
    write(tmp_path, {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:       7 kB\n"})
    assert host_bytes_left(tmp_path) == 7 * 1024


@pytest.mark.parametrize("wrong", ["", "MemAvailable:\n", "MemAvailable: much kB\n"])
def test_a_machine_that_does_not_tell(tmp_path, wrong):
    write(tmp_path, {"proc/meminfo": wrong})
    assert host_bytes_left(tmp_path) is None


def test_a_container(tmp_path):
    """Its group is the first one that it sees; pages of files that nobody needs may go."""
    write(tmp_path, {"proc/meminfo": f"MemAvailable: {64 * GIB // 1024} kB\n", "proc/self/cgroup": "0::/\n"})
    assert host_bytes_left(tmp_path) == 64 * GIB
    write(tmp_path, group("", 8 * GIB, 6 * GIB, GIB))
    assert host_bytes_left(tmp_path) == 3 * GIB
    write(tmp_path, group("", 8 * GIB, 6 * GIB, GIB, 2 * GIB))
    assert host_bytes_left(tmp_path) == 5 * GIB
    write(tmp_path, group("", 8 * GIB, 9 * GIB))
    assert host_bytes_left(tmp_path) == 0


def test_groups_in_groups(tmp_path):
    write(tmp_path, {"proc/self/cgroup": "1:cpu:/x\n0::/jobs/mine\n"})
    write(tmp_path, group("/jobs/mine", "max", GIB) | group("/jobs", 4 * GIB, GIB))
    assert host_bytes_left(tmp_path) == 3 * GIB
    write(tmp_path, group("/jobs/mine", 2 * GIB, GIB))
    assert host_bytes_left(tmp_path) == GIB


def test_this_machine():
    left = host_bytes_left()
    assert left is None or left > 1 << 20
