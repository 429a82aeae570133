"""What a Batcher has done: counters and histograms, as plain values and for Prometheus' client."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from arcbeam.errors import MissingDependencyError

SECONDS = tuple(digit * 10.0**power for power in range(-4, 2) for digit in (1, 2, 5))
"""The bounds of histograms of time: 0.1 ms to 50 s."""


@dataclass(frozen=True)
class Histogram:
    """How often values were seen, by size.

    Attributes
    ----------
    bounds : tuple of float
        The largest value of each bucket but the last, which has no bound.
    counts : tuple of int
        The values of each bucket, one bucket more than bounds.
    total : float
        The sum of all values.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Their mean; 0 without any."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> float:
        """The value that this share of all, 0 to 1, do not exceed: exact to the width of its bucket; 0 without any.

        Within a bucket values are taken to lie evenly, as Prometheus does; beyond the last bound it is that bound.
        """
        wanted, seen, low = share * self.count, 0, 0.0
        for high, count in zip(self.bounds, self.counts, strict=False):
            if count and seen + count >= wanted:
                return low + (high - low) * max(0.0, wanted - seen) / count
            seen, low = seen + count, high
        return low if self.count else 0.0


@dataclass(frozen=True)
class BatcherStats:
    """What a Batcher has done since it was made.

    Attributes
    ----------
    waiting : int
        Chunks that wait now.
    rounds : int
        Rounds that were decoded.
    frames : int
        Frames of the chunks that were decoded.
    decoded : int
        Chunks that were decoded. Each chunk that :meth:`Batcher.submit` has taken ends in one of these four counts.
    refused : int
        Chunks with a fault of their own, such as NaN, or behind the last of their stream.
    cancelled : int
        Chunks that were cancelled while they waited, and those of the same stream behind them.
    failed : int
        Chunks that were lost to an error of a whole round, or because the Batcher was closed.
    rejected : int
        Chunks that :meth:`Batcher.submit` did not take because too many were waiting.
    batch_sizes : Histogram
        Chunks of each round.
    queue_seconds : Histogram
        Seconds of each chunk from ``submit`` to the begin of its round.
    compute_seconds : Histogram
        Seconds of each round.
    """

    waiting: int
    rounds: int
    frames: int
    decoded: int
    refused: int
    cancelled: int
    failed: int
    rejected: int
    batch_sizes: Histogram
    queue_seconds: Histogram
    compute_seconds: Histogram


@dataclass
class _Counted:
    """A histogram that grows."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def now(self) -> Histogram:
        return Histogram(self.bounds, tuple(self.counts), self.total)


class Meters:
    """The counters of one Batcher, which any thread may add to.

    Parameters
    ----------
    max_batch : int
        The most chunks of a round.
    """

    def __init__(self, max_batch: int) -> None:
        self._lock = threading.Lock()
        self._numbers = dict.fromkeys(("rounds", "frames", "decoded", "refused", "cancelled", "failed", "rejected"), 0)
        powers = (2.0**power for power in range(max_batch.bit_length() + 1))
        self._batch_sizes = _Counted(tuple(power for power in powers if power < 2 * max_batch))
        self._queue_seconds, self._compute_seconds = _Counted(SECONDS), _Counted(SECONDS)

    def count(self, **more: int) -> None:
        """Adds to counters, by name."""
        with self._lock:
            for name, number in more.items():
                self._numbers[name] += number

    def round(self, queue_seconds: Sequence[float], compute_seconds: float) -> None:
        """Adds a round: how long each of its chunks had waited, and how long it took."""
        with self._lock:
            self._numbers["rounds"] += 1
            self._batch_sizes.add(len(queue_seconds))
            self._compute_seconds.add(compute_seconds)
            for seconds in queue_seconds:
                self._queue_seconds.add(seconds)

    def now(self, waiting: int) -> BatcherStats:
        """All counters, as they are now."""
        with self._lock:
            return BatcherStats(
                waiting=waiting,
                batch_sizes=self._batch_sizes.now(),
                queue_seconds=self._queue_seconds.now(),
                compute_seconds=self._compute_seconds.now(),
                **self._numbers,
            )


class Collector:
    """A collector for a registry of Prometheus' client: :meth:`Batcher.collector` makes one.

    Parameters
    ----------
    stats : function
        Returns the counters as they are now.
    prefix : str
        The beginning of the metrics' names.
    """

    def __init__(self, stats: Callable[[], BatcherStats], prefix: str) -> None:
        try:
            from prometheus_client import core
        except ImportError:
            raise MissingDependencyError(
                "prometheus_client is not installed; it serves a Batcher's counters to Prometheus: "
                "pip install prometheus-client. Batcher.stats() has them without it."
            ) from None
        self._core, self._stats, self._prefix = core, stats, prefix

    def collect(self) -> Iterable[Any]:
        """The metrics, as the client asks for them."""
        core, prefix, stats = self._core, self._prefix, self._stats()
        yield core.GaugeMetricFamily(f"{prefix}_waiting_chunks", "Chunks that wait to be decoded.", stats.waiting)
        yield core.CounterMetricFamily(f"{prefix}_rounds", "Rounds that were decoded.", stats.rounds)
        yield core.CounterMetricFamily(f"{prefix}_frames", "Frames that were decoded.", stats.frames)
        chunks = core.CounterMetricFamily(f"{prefix}_chunks", "Chunks, by what became of them.", labels=["outcome"])
        for outcome in ("decoded", "refused", "cancelled", "failed", "rejected"):
            chunks.add_metric([outcome], getattr(stats, outcome))
        yield chunks
        for name, said, histogram in (
            ("batch_size", "Chunks of a round.", stats.batch_sizes),
            ("queue_seconds", "Seconds from submit to the begin of a chunk's round.", stats.queue_seconds),
            ("compute_seconds", "Seconds of a round.", stats.compute_seconds),
        ):
            seen, buckets = 0, []
            for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
                buckets.append((bound, seen := seen + count))
            yield core.HistogramMetricFamily(f"{prefix}_{name}", said, buckets, histogram.total)
