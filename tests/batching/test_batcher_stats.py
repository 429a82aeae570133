"""Counters and histograms, plain and for Prometheus."""

import sys

import pytest

from arcbeam import Batcher, BatcherStats, MissingDependencyError
from arcbeam.batching.stats import SECONDS, BusyTime, Histogram, Meters
from arcbeam.batching.waiting import Load
from tests.batching.stand_ins import PATIENCE_S, Decoder


def test_a_histogram_by_hand():
    histogram = Histogram((1.0, 2.0, 4.0), (0, 4, 4, 2), 30.0)
    assert (histogram.count, histogram.mean) == (10, 3.0)
    assert [histogram.quantile(share) for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.99)] == [1.0, 1.5, 2.0, 3.0, 4.0, 4.0]
    nothing = Histogram((1.0,), (0, 0), 0.0)
    assert (nothing.count, nothing.mean, nothing.quantile(0.5)) == (0, 0.0, 0.0)


def test_rounds_by_hand():
    meters = Meters(max_batch=6)
    meters.round([0.0001, 0.00011, 7.0], 3, 100.0, 100.003)
    meters.round([60.0], 1, 100.01, 100.015)
    meters.count(decoded=3, refused=1, frames=40)
    stats = meters.now(Load(2, 300, 1, 0.5))
    assert isinstance(stats, BatcherStats)
    assert (stats.waiting_frames, stats.waiting_streams, stats.oldest_wait_seconds) == (300, 1, 0.5)
    assert stats.round_seconds == 0.0
    assert (stats.waiting, stats.rounds, stats.decoded, stats.refused, stats.frames, stats.failed) == (
        2,
        2,
        3,
        1,
        40,
        0,
    )
    assert (stats.batch_sizes.bounds, stats.batch_sizes.counts) == ((1.0, 2.0, 4.0, 8.0), (1, 0, 1, 0, 0))
    assert stats.batch_sizes.total == 4
    found = dict(zip((*SECONDS, None), stats.queue_seconds.counts, strict=True))
    assert {bound: count for bound, count in found.items() if count} == {0.0001: 1, 0.0002: 1, 10.0: 1, None: 1}
    assert stats.compute_seconds.total == pytest.approx(0.008)
    assert [str(bound) for bound in SECONDS[:4]] == ["0.0001", "0.0002", "0.0005", "0.001"]


def test_busy_time_by_hand():
    busy = BusyTime(began=100.0)
    assert busy.share(100.0, 100.0) == 0.0
    busy.add(100.5, 101.5)
    assert busy.share(102.0, since=102.0) == 0.5
    assert busy.share(104.0, since=102.0) == 0.75, "what runs counts, too"
    assert busy.share(111.0, since=111.0) == 0.05, "ten whole seconds before: those from 101 on"
    assert busy.share(112.5, since=112.5) == 0.0
    assert busy.share(130.0, since=101.5) == 1.0
    busy.add(101.5, 125.0)
    assert busy.share(125.0, since=125.0) == 1.0 and busy.share(130.0, since=130.0) == 0.5
    busy.add(150.0, 150.5)
    assert busy.share(150.5, since=150.5) == pytest.approx(0.5 / 10.5) and len(busy._busy) == 1


@pytest.mark.parametrize(
    ("most", "bounds"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 4)), (256, (1, 2, 4, 8, 16, 32, 64, 128, 256))]
)
def test_bounds_of_batch_sizes(most, bounds):
    assert Meters(most).now(Load(0, 0, 0, 0.0)).batch_sizes.bounds == bounds


def test_prometheus():
    client = pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")
    decoder = Decoder()
    registry = client.CollectorRegistry(auto_describe=True)
    with Batcher(decoder, max_batch=2, max_wait_ms=0) as batcher:
        registry.register(batcher.collector())
        registry.register(batcher.collector(prefix="other"))
        stream = decoder.stream("a")
        for chunk in (0, -1, 2):
            batcher.submit(stream, chunk).exception(PATIENCE_S)
    said = dict(
        line.rsplit(" ", 1) for line in client.generate_latest(registry).decode().splitlines() if line[0] != "#"
    )
    assert said['arcbeam_batcher_chunks_total{outcome="decoded"}'] == said["arcbeam_batcher_frames_total"] == "2.0"
    assert (
        said['arcbeam_batcher_chunks_total{outcome="refused"}']
        == said['other_chunks_total{outcome="refused"}']
        == "1.0"
    )
    assert said["arcbeam_batcher_rounds_total"] == said['arcbeam_batcher_batch_size_bucket{le="1.0"}'] == "3.0"
    assert (
        said['arcbeam_batcher_queue_seconds_bucket{le="+Inf"}'] == said["arcbeam_batcher_queue_seconds_count"] == "3.0"
    )
    assert float(said["arcbeam_batcher_compute_seconds_sum"]) == batcher.stats().compute_seconds.total
    load = ("waiting_chunks", "waiting_frames", "waiting_streams", "oldest_wait_seconds", "round_seconds")
    assert [said[f"arcbeam_batcher_{name}"] for name in load] == ["0.0"] * 5
    assert 0.0 <= float(said["arcbeam_batcher_busy_share"]) <= 1.0


def test_without_prometheus(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with Batcher(Decoder()) as batcher:
        with pytest.raises(MissingDependencyError, match="pip install prometheus-client"):
            batcher.collector()
