"""The experiment on lanes that wait for the host, on an emulated GPU, and its figures by hand."""

import pytest

from benchmarks.adapters import gpu
from benchmarks.engine import profiler
from benchmarks.harness import registry
from benchmarks.harness.registry import Context


@pytest.mark.long
def test_lookup_timeline(rescored, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'arcbeam[bench]'")
    experiment = registry.load("gpu_lookup_timeline")
    monkeypatch.setattr(experiment, "WINDOW_NS", 10**9)
    monkeypatch.setattr(gpu, "BEAMS", gpu.BEAMS[:1])
    rows = list(experiment.run(Context(1, 2)))
    assert [row["placement"] for row in rows] == ["host", "host", "host", "cpu", "cpu"]
    assert rows.pop(2)["status"].startswith("no profile: "), "there is no CUPTI, or it saw no kernel"
    profile = {"kernel_ms": 2.0, "copy_bytes": 1000.0, "copy_us": 4.0}
    monkeypatch.setattr(profiler, "profiled", lambda *_: dict(profile))
    [seen] = [row for row in experiment.run(Context(1, 2)) if "kernel_ms" in row]
    assert seen["of_copy"] == pytest.approx(0.25) and seen["share"] > 0
    assert all(row["rounds"] > 0 and 0 < row["any"] <= 100 and row["questions"] >= 1 for row in rows)
    assert all(bool(row["cache_mb"]) == ("shown" in row) for row in rows)
    assert all(row["spread"] == [row["ms"], row["ms"]] for row in rows)
    assert all(row["share"] == pytest.approx(row["settled"]) and row["share"] > 0 for row in rows)
    experiment.draw(rows, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_the_turn_of_median_time_is_shown():
    experiment = registry.load("gpu_lookup_timeline")
    turns = [
        experiment.split([(0, 0, 1, 1, 0, 5), (None, 0, 0, 0, 0, end)]) for end in (7_000_000, 2_000_000, 3_000_000)
    ]
    (_, watches), spread = experiment.median_turn(turns)
    assert (experiment.ran_ms(watches), spread) == (3.0, [2.0, 7.0])
    (_, watches), spread = experiment.median_turn(turns[:2])
    assert (experiment.ran_ms(watches), spread) == (2.0, [2.0, 7.0])


def test_a_timeline_by_hand():
    """Two lanes: two threads share the first round of one of them; the other waits meanwhile, and once alone."""
    experiment = registry.load("gpu_lookup_timeline")
    kernel = (None, 0, 0, 0, 1000, 11_000)
    answered = [(0, 0, 1, 64, 2000, 4000), (1, 0, 1, 6, 2500, 5000), (0, 1, 1, 2, 4500, 6000), (1, 1, 2, 4, 9000, 9500)]
    spans, kernels = experiment.split([*answered[::-1], kernel])
    row = experiment.told(spans, kernels)
    assert (row["lanes"], row["threads"], row["rounds"], row["questions"]) == (2, 2, 3, 76 / 3)
    assert row["ms"] == 0.01 and row["round_us"] == 1.5
    assert row["waiting"] == (3000 + 1500 + 500) / 10_000 and row["any"] == 100 * (4000 + 500) / 10_000
    assert row["busy"] == 100 * (2000 + 2500 + 1500 + 500) / 20_000
    assert experiment.window(spans, kernels)[0] == ["lane 1", 3000, 3500]


def test_a_profile_by_hand(tmp_path):
    """A trace as torch writes it: a kernel, copies on two streams and their counts, and what is not ours."""
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install 'arcbeam[bench]'")

    def span(category, name, began, took, stream, count=None):
        args = {"stream": stream, "device": 0} | ({} if count is None else {"bytes": count})
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": began,
            "dur": took,
            "args": args,
        }

    to_device = "Memcpy HtoD (Pinned -> Device)"
    trace = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        span("gpu_memcpy", to_device, 100.0, 9.0, 14, 4096),  # before the kernel
        span("kernel", "fill", 100.0, 9.0, 13),
        span("kernel", "arcbeam_asking_wide", 1000.0, 200.0, 13),
        *[span("gpu_memcpy", to_device, 1100.0 + 20 * i, 2.5, 17 + i % 2, 1024) for i in range(5)],
        *[span("gpu_memcpy", to_device, 1104.0 + 20 * i, 1.0, 19 + i % 2, 4) for i in range(5)],
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1200.0, 5.0, 13, 4096),
    ]
    row = profiler.told(trace, "arcbeam_asking", 50.0)
    assert (row["kernel_ms"], row["copies"], row["streams"]) == (0.2, 5, 2)
    assert (row["copy_bytes"], row["copy_us"], row["turn_us"]) == (1024.0, 2.5, 40.0)
    assert row["copied"][:2] == [[17, 0.0, 2.5, 1024], [19, 4.0, 1.0, 4]] and len(row["copied"]) == 6
    experiment = registry.load("gpu_lookup_timeline")
    shown = {"search": "12", "placement": "host", "cache_mb": 1.0, "shown": [["lane 1", 0, 500], ["thread 0", 9, 90]]}
    assert list(experiment.copies_of(row)) == [
        "stream 20: counts", "stream 19: counts", "stream 18: answers", "stream 17: answers", "kernel",
    ]  # fmt: skip
    experiment.draw([shown, shown | row], tmp_path / "both.png")
    experiment.draw([shown], tmp_path / "one.png")
    assert (tmp_path / "both.png").stat().st_size > (tmp_path / "one.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="4 spans and no kernel 'search'"):
        profiler.told(
            [one for one in trace if one.get("cat") != "gpu_memcpy" or one["args"]["bytes"] > 1024], "search", 1
        )
