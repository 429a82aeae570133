"""The number of cores that this process may use."""

import math
import os

import pytest

from arcbeam.core import threads


def groups(folder, lines, files):
    (folder / "cgroup").write_text("".join(f"{line}\n" for line in lines))
    for name, text in files.items():
        path = folder / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder / "cgroup", folder / "mounted"


V1 = ["9:name=systemd:/", "4:memory:/docker/ab", "2:cpu,cpuacct:/docker/ab"]
QUOTAS = {
    "no limit": (["0::/"], {"cpu.max": "max 100000"}, math.inf),
    "version 2": (["0::/"], {"cpu.max": "150000 100000"}, 1.5),
    "within": (["0::/a/b"], {"a/b/cpu.max": "max 1000", "a/cpu.max": "2000 1000", "cpu.max": "900000 1000"}, 2.0),
    "a name with colons": (["0::/a:b"], {"a:b/cpu.max": "300000 100000"}, 3.0),
    "version 1": (V1, {"cpu/docker/ab/cpu.cfs_quota_us": "50000", "cpu/docker/ab/cpu.cfs_period_us": "100000"}, 0.5),
    "version 1, no limit": (V1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
    "version 1 in a container": (
        V1, {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 4.0,
    ),
    "both": (["1:cpu:/", "0::/"], {"unified/cpu.max": "100000 100000", "cpu.max": "700000 100000"}, 1.0),
    "damaged": (["0::/", "nothing", ""], {"cpu.max": "many few much", "cpu.cfs_quota_us": "1"}, math.inf),
    "no period": (["0::/"], {"cpu.max": "100000 0"}, math.inf),
}  # fmt: skip


@pytest.mark.parametrize("case", QUOTAS)
def test_quotas(tmp_path, case):
    lines, files, wanted = QUOTAS[case]
    assert threads.cpu_quota(*groups(tmp_path, lines, files)) == wanted


def test_without_groups(tmp_path):
    assert threads.cpu_quota(tmp_path / "gone", tmp_path) == math.inf


@pytest.mark.parametrize(("quota", "wanted"), [(0.1, 1), (1.0, 1), (1.5, 2), (2.0, 2), (1e6, 64), (math.inf, 64)])
def test_a_quota_counts(monkeypatch, quota, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    monkeypatch.setattr(threads, "cpu_quota", lambda: quota)
    assert threads.usable_cores() == wanted
    assert threads.memory_bound_threads() == min(4, wanted)
