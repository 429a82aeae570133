"""What a Batcher has done: counters and histograms, as plain values and for Prometheus' client."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from arcbeam.batching.waiting import Load
from arcbeam.core.packages import require

SECONDS = tuple(digit * 10.0**power for power in range(-4, 2) for digit in (1, 2, 5))
"""The bounds of histograms of time: 0.1 ms to 50 s."""

BUSY_S = 10  # the seconds that `busy_share` covers


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
        needed, seen, low = share * self.count, 0, 0.0
        for high, count in zip(self.bounds, self.counts, strict=False):
            if count and seen + count >= needed:
                return low + (high - low) * max(0.0, needed - seen) / count
            seen, low = seen + count, high
        return low if self.count else 0.0


@dataclass(frozen=True)
class BatcherStats:
    """What a Batcher has done since it was made, and the load that it has now.

    Attributes
    ----------
    waiting : int
        Chunks that wait now, or of which a part waits.
    waiting_frames : int
        Frames of them that no round has taken.
    waiting_streams : int
        Streams that they are of.
    oldest_wait_seconds : float
        Seconds since the oldest of them was submitted; 0 without any.
    round_seconds : float
        Seconds since the round that is being decoded has begun; 0 between rounds.
    busy_share : float
        The share of the last ten seconds, 0 to 1, in which rounds were being decoded: near 1 there is no room for more
        streams.
    rounds : int
        Rounds that were decoded.
    frames : int
        Frames that were decoded.
    decoded : int
        Chunks that were decoded. Each chunk that :meth:`Batcher.submit` has taken ends in one of these four counts.
    refused : int
        Chunks with a fault of their own, such as NaN, or after the last of their stream.
    cancelled : int
        Chunks that were cancelled while they waited, and those of the same stream after them.
    failed : int
        Chunks that were lost to an error of a whole round, or because the Batcher was closed.
    rejected : int
        Chunks that :meth:`Batcher.submit` did not take because too many were waiting.
    batch_sizes : Histogram
        Chunks of each round, of which pieces count, too.
    queue_seconds : Histogram
        Seconds of each chunk from ``submit`` to the beginning of its first round.
    compute_seconds : Histogram
        Seconds of each round.
    """

    waiting: int
    waiting_frames: int
    waiting_streams: int
    oldest_wait_seconds: float
    round_seconds: float
    busy_share: float
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


class BusyTime:
    """How much of the last seconds was busy, by whole seconds of a clock, from `began` on."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._busy: dict[int, float] = {}  # of each second that has any

    def add(self, begin: float, end: float) -> None:
        """Adds a time that was busy."""
        for second in range(max(int(begin), int(end) - BUSY_S), int(end) + 1):
            self._busy[second] = self._busy.get(second, 0.0) + min(end, second + 1.0) - max(begin, float(second))
        for second in [old for old in self._busy if old < int(end) - BUSY_S]:
            del self._busy[second]

    def share(self, now: float, since: float) -> float:
        """The share of the time from `BUSY_S` whole seconds before this one up to `now`, which is busy `since` then."""
        first = max(self._began, float(int(now) - BUSY_S))
        busy = sum(seconds for second, seconds in self._busy.items() if second >= int(first))
        busy += now - max(since, first)
        return min(1.0, busy / (now - first)) if now > first else 0.0


class Meters:
    """The counters of one Batcher, which any thread may add to."""

    def __init__(self, max_batch: int) -> None:
        self._lock = threading.Lock()
        self._numbers = dict.fromkeys(("rounds", "frames", "decoded", "refused", "cancelled", "failed", "rejected"), 0)
        powers = (2.0**power for power in range(max_batch.bit_length() + 1))
        self._batch_sizes = _Counted(tuple(power for power in powers if power < 2 * max_batch))
        self._queue_seconds, self._compute_seconds = _Counted(SECONDS), _Counted(SECONDS)
        self._busy = BusyTime(time.monotonic())
        self._round_began: float | None = None  # None: no round is being decoded

    def count(self, **more: int) -> None:
        """Adds to counters, by name."""
        with self._lock:
            for name, number in more.items():
                self._numbers[name] += number

    @contextmanager
    def a_round(self, since: Sequence[float], size: int) -> Iterator[None]:
        """Counts what is done within as a round of so many chunks; those that it begins have waited `since` then."""
        with self._lock:
            self._round_began = begin = time.monotonic()
        yield
        with self._lock:
            self._round_began = None
            self.round([begin - submitted for submitted in since], size, begin, time.monotonic())

    def round(self, queue_seconds: Sequence[float], size: int, begin: float, end: float) -> None:
        """Adds a round: how long the chunks that began with it had waited, its size, and when it was decoded."""
        self._numbers["rounds"] += 1
        self._batch_sizes.add(size)
        self._compute_seconds.add(end - begin)
        self._busy.add(begin, end)
        for seconds in queue_seconds:
            self._queue_seconds.add(seconds)

    def now(self, load: Load) -> BatcherStats:
        """All counters, as they are now, with what waits."""
        with self._lock:
            now = time.monotonic()
            began = now if self._round_began is None else self._round_began
            return BatcherStats(
                waiting=load.chunks,
                waiting_frames=load.frames,
                waiting_streams=load.streams,
                oldest_wait_seconds=load.oldest_s,
                round_seconds=now - began,
                busy_share=self._busy.share(now, began),
                batch_sizes=self._batch_sizes.now(),
                queue_seconds=self._queue_seconds.now(),
                compute_seconds=self._compute_seconds.now(),
                **self._numbers,
            )


class Collector:
    """A collector for a registry of Prometheus' client; `stats` returns the current counters."""

    def __init__(self, stats: Callable[[], BatcherStats], prefix: str) -> None:
        self._core = require("prometheus_client.core", "Prometheus", "prometheus-client")
        self._stats, self._prefix = stats, prefix

    def collect(self) -> Iterable[Any]:
        """The metrics, in the form that the client collects."""
        core, prefix, stats = self._core, self._prefix, self._stats()
        yield core.GaugeMetricFamily(f"{prefix}_waiting_chunks", "Chunks that wait to be decoded.", stats.waiting)
        for name, said, value in (
            ("waiting_frames", "Frames that wait to be decoded.", stats.waiting_frames),
            ("waiting_streams", "Streams whose chunks wait.", stats.waiting_streams),
            ("oldest_wait_seconds", "Seconds since the oldest waiting chunk was submitted.", stats.oldest_wait_seconds),
            ("round_seconds", "Seconds since the round that is being decoded has begun.", stats.round_seconds),
            ("busy_share", "The share of the last ten seconds in which rounds were decoded.", stats.busy_share),
        ):
            yield core.GaugeMetricFamily(f"{prefix}_{name}", said, value)
        yield core.CounterMetricFamily(f"{prefix}_rounds", "Rounds that were decoded.", stats.rounds)
        yield core.CounterMetricFamily(f"{prefix}_frames", "Frames that were decoded.", stats.frames)
        chunks = core.CounterMetricFamily(f"{prefix}_chunks", "Chunks, by what became of them.", labels=["outcome"])
        for outcome in ("decoded", "refused", "cancelled", "failed", "rejected"):
            chunks.add_metric([outcome], getattr(stats, outcome))
        yield chunks
        for name, said, histogram in (
            ("batch_size", "Chunks of a round.", stats.batch_sizes),
            ("queue_seconds", "Seconds from submit to the beginning of a chunk's round.", stats.queue_seconds),
            ("compute_seconds", "Seconds of a round.", stats.compute_seconds),
        ):
            seen, buckets = 0, []
            for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
                buckets.append((bound, seen := seen + count))
            yield core.HistogramMetricFamily(f"{prefix}_{name}", said, buckets, histogram.total)
