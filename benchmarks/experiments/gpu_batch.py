"""RTFx at batches of 1, 2, 4, ... 4,096 utterances: it should never fall beyond the spread.

The same utterances are decoded for every size from 32 on, and an eighth of them below, in batches of that size one
after the other, log-probs (float32) on the device. The clock runs over all batches; median and spread over the repeats.
`below best` is how far the median is under the best of the smaller batches, in units of the spread.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import plots, timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 230
TITLE = "Throughput at each size of the batch"
LARGEST, SMALL = 4096, 32
GRAPH, SET = "spm512-3gram", "workload-512"
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("batch", "batch", "{:,}"),
    Column("utterances", "utterances", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "spread", "{:,.0f}"),
    Column("milliseconds a batch", "ms", "{:.2f}"),
    Column("below best, spreads", "fall", "{:.1f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    largest = context.utterances or LARGEST
    files = graphs.get(GRAPH, context.progress)
    dataset = datasets.load(SET, largest)
    for options in gpu.BEAMS:
        context.progress(f"{GRAPH}, beam {options.beam:g}")
        what = {"graph": GRAPH, "search": gpu.beam_text(options)}
        yield from gpu.rows_or_failure(what, one, context, files, dataset, options, largest)


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, largest: int
) -> Iterator[Row]:
    arrays = gpu.send(dataset.utterances)
    decoder = gpu.decoder(files.graph, options)
    gpu.check(decoder.decode(arrays), files.graph, options, dataset.utterances)
    best: tuple[float, float] = (0.0, 0.0)  # RTFx and its spread
    size = 1
    while size <= largest:
        count = len(arrays) if size >= SMALL else max(size, len(arrays) // 8)

        def decode(size: int = size, count: int = count) -> None:
            for first in range(0, count, size):
                decoder.decode(arrays[first : first + size])

        took = timing.interleave({"gpu": decode}, context.repeats)["gpu"]
        seconds = dataset.first(count).seconds
        low, high = seconds / max(took.wall), seconds / min(took.wall)
        rtfx = seconds / took.seconds
        spread = max(high - low, best[1], 0.01 * rtfx)
        yield {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(options),
            "batch": size,
            "utterances": count,
            "minutes": seconds / 60,
            "rtfx": rtfx,
            "spread": [low, high],
            "wall": took.wall,
            "ms": 1e3 * took.seconds / -(-count // size),
            "fall": max(0.0, best[0] - rtfx) / spread,
        }
        best = max(best, (rtfx, high - low))
        size *= 2


def draw(rows: list[Row], path: Path) -> None:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if "rtfx" in row:
            points = series.setdefault(f"beam {row['search']}", [])
            points.append((float(row["batch"]), float(row["rtfx"])))  # type: ignore[arg-type]
    plots.line_plot(path, series, "utterances in a batch", "RTFx", log="x", title=f"{GRAPH}, {SET}")
