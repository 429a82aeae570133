"""One utterance on one core, however long: microseconds a frame of a minute, of ten and of an hour.

The first minute of a set, over and over, is one utterance; the median of the repeats, of processor time, for other
work on the machine is not the search's. All lengths take turns. The answers are those of a decoder that never collects
its token log, byte for byte.
"""

import statistics
from collections.abc import Iterator
from unittest import mock

import arcbeam.ctc.engines
from benchmarks.adapters import gpu
from benchmarks.data import datasets, graphs
from benchmarks.harness import timing
from benchmarks.harness.registry import Context, Row
from benchmarks.tasks import long_utterances

ORDER = 25
TITLE = "One utterance on a core, however long"
TAKES = long_utterances.TAKES
COLUMNS = long_utterances.COLUMNS
NEVER = 1 << 31


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name).first(context.utterances)
        minutes = long_utterances.lengths(context)
        utterances = long_utterances.utterances(dataset, context)
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, beam {options.beam:g}")
            with mock.patch.object(arcbeam.ctc.engines, "COLLECT_ABOVE", NEVER):
                wanted = gpu.decoder(files.graph, options, device="cpu", threads=1).decode(utterances)
            decoders = [gpu.decoder(files.graph, options, device="cpu", threads=1) for _ in minutes]
            turns = {
                str(i): lambda d=d, u=u: d.decode([u])
                for i, (d, u) in enumerate(zip(decoders, utterances, strict=True))
            }
            gpu.compare([run()[0] for run in turns.values()], wanted)
            took = list(timing.interleave(turns, context.repeats, warm_up=False).values())
            each = [[1e6 * s / len(u) for s in t.cpu] for t, u in zip(took, utterances, strict=True)]
            for i, one in enumerate(each):
                us_a_frame = statistics.median(one)
                yield {
                    "graph": files.name,
                    "set": dataset.name,
                    "search": gpu.beam_text(options),
                    "minutes": minutes[i],
                    "frames": len(utterances[i]),
                    "us_a_frame": us_a_frame,
                    "spread": [min(one), max(one)],
                    "ratio": us_a_frame / statistics.median(each[0]),
                    "rtfx": 1e6 * dataset.frame_shift / us_a_frame,
                    "tokens": decoders[i].stats.tokens / decoders[i].stats.frames,
                }
