"""One utterance on the GPU, however long: microseconds a frame of a minute, of ten and of an hour.

The first minute of a set, over and over, is one utterance, alone on the device, its log-probs there already; from the
call of decode until its path is on the host, the median of the repeats. All lengths take turns. The answers are the
twin's, byte for byte. `token log` is what the device keeps of the search's history, which is collected as it fills.
Arcs settled and `of the reads`: as in `gpu_arcs`, of one utterance.
"""

from collections.abc import Iterator

from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import ceilings
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import long_utterances

ON_GPU = True
ORDER = 222
TITLE = "One utterance, however long"
TAKES = long_utterances.TAKES
COLUMNS = [
    *long_utterances.COLUMNS,
    Column("token log, MB", "log_mb", "{:.1f}"),
    Column("arcs settled, G/s", "settled", "{:.2f}"),
    Column("of the reads", "share", "{:.4f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    yield from gpu.each_search(context, of_lengths)


def of_lengths(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions
) -> Iterator[Row]:
    reads = ceilings.reads_of(files.graph, context.repeats)
    minutes = long_utterances.lengths(context)
    utterances = long_utterances.utterances(dataset, context)
    arrays = gpu.send(utterances)
    decoders = [gpu.decoder(files.graph, options) for _ in minutes]
    gpu.check(
        [h for decoder, a in zip(decoders, arrays, strict=True) for h in decoder.decode([a])],
        files.graph, options, utterances,
    )  # fmt: skip
    turns = {str(i): lambda d=d, a=a: d.decode([a]) for i, (d, a) in enumerate(zip(decoders, arrays, strict=True))}
    took = list(timing.interleave(turns, context.repeats).values())
    shortest = took[0].seconds / len(utterances[0])
    for i, frames in enumerate(map(len, utterances)):
        seconds = took[i].seconds / frames
        yield {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(options),
            "minutes": minutes[i],
            "frames": frames,
            "us_a_frame": 1e6 * seconds,
            "spread": [1e6 * one / frames for one in took[i].spread()],
            "ratio": seconds / shortest,
            "rtfx": dataset.frame_shift / seconds,
            "tokens": decoders[i].stats.tokens / decoders[i].stats.frames,
            "log_mb": decoders[i].memory().token_log / 1e6,
            **reads.share(decoders[i].stats.leaving_arcs, took[i].seconds),
        }
