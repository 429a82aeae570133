"""One utterance alone on the GPU: microseconds a frame, from the call of decode until its path is on the host.

Each utterance is a batch of its own, its log-probs on the device. `short` ones are of middle length; a `long` one is
several of them one after another, for which what a call costs once no longer counts. The clock is read around single
calls: the median over the utterances of their medians, smallest and largest utterance. `twin` is one core of the CPU.
riva's decode_mbr, with one lane, gets the same arrays, two turns each; its words may differ (see `gpu_riva`).
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import adapters
from benchmarks.adapters import SearchOptions, gpu
from benchmarks.data import datasets, graphs
from benchmarks.experiments import gpu_riva
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
ORDER = 220
TITLE = "One utterance alone"
COUNT, JOINED = 24, 16
RIVA_TURNS, RIVA_FRAMES = 2, 50  # of an utterance; at a time
COLUMNS = [
    Column("graph", "graph"),
    Column("beam / max_active", "search"),
    Column("utterance", "kind"),
    Column("frames", "frames", "{:,.0f}"),
    Column("microseconds a frame", "us_a_frame", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("milliseconds", "ms", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("twin, microseconds a frame", "twin_us_a_frame", "{:.2f}"),
    Column("tokens a frame", "tokens", "{:,.0f}"),
    Column("riva, microseconds a frame", "peer_us_a_frame", "{:.1f}"),
    Column("riva / arcbeam", "ratio", "{:.1f}"),
    Column("same words, %", "equal", "{:.1f}"),
    Column("settings of riva", "peer_settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for graph_name, set_name in gpu.WORKLOADS:
        files = graphs.get(graph_name, context.progress)
        dataset = datasets.load(set_name)
        for options in gpu.BEAMS:
            context.progress(f"{graph_name}, beam {options.beam:g}")
            what = {"graph": graph_name, "search": gpu.beam_text(options)}
            work = (context, files, dataset, options)
            yield from gpu_riva.without_riva_at_last(what, one, work, (True, False))


def of_middle_length(dataset: datasets.Dataset, utterances: int | None) -> list[Any]:
    """So many utterances of middle length, or the usual number."""
    by_length = sorted(dataset.utterances, key=len)
    count = min(utterances or COUNT, len(by_length))
    middle = (len(by_length) - count) // 2
    return by_length[middle : middle + count]


def one(
    context: Context, files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, riva: bool
) -> Iterator[Row]:
    short = [np.ascontiguousarray(u, np.float32) for u in of_middle_length(dataset, context.utterances)]
    joined = [np.concatenate(short[:JOINED])]
    decoder = gpu.decoder(files.graph, options)
    twin = gpu.decoder(files.graph, options, device="cpu", threads=1)
    for kind, utterances in (("short", short), ("long", joined)):
        arrays = gpu.send(utterances)
        found = [h for array in arrays for h in decoder.decode([array])]
        gpu.check(found, files.graph, options, utterances)
        each, on_cpu = [], []
        for array, logp in zip(arrays, utterances, strict=True):
            runs = {"gpu": lambda a=array: decoder.decode([a]), "twin": lambda u=logp: twin.decode([u])}
            took = timing.interleave(runs, 3 * context.repeats)
            each.append(1e6 * took["gpu"].seconds / len(logp))
            on_cpu.append(1e6 * took["twin"].seconds / len(logp))
        frames = sum(map(len, utterances)) / len(utterances)
        decoder.decode(arrays)
        row: Row = {
            "graph": files.name,
            "set": dataset.name,
            "search": gpu.beam_text(options),
            "kind": kind,
            "utterances": len(utterances),
            "frames": frames,
            "us_a_frame": statistics.median(each),
            "spread": [min(each), max(each)],
            "ms": statistics.median(e * len(u) for e, u in zip(each, utterances, strict=True)) / 1e3,
            "rtfx": 1e6 * dataset.frame_shift / statistics.median(each),
            "twin_us_a_frame": statistics.median(on_cpu),
            "tokens": decoder.stats.tokens / decoder.stats.frames,
        }
        if riva:
            row |= of_riva(files, dataset, options, arrays, [h.text for h in found])
        if "peer_us_a_frame" in row:
            row["peer_rtfx"] = 1e6 * dataset.frame_shift / row["peer_us_a_frame"]
            row["ratio"] = row["peer_us_a_frame"] / statistics.median(each)
        yield row


def of_riva(
    files: graphs.GraphFiles, dataset: datasets.Dataset, options: SearchOptions, arrays: Sequence[gpu.DeviceArray],
    texts: Sequence[str],
) -> Row:  # fmt: skip
    """What a row says of riva; texts are ours."""
    try:
        riva = adapters.make("riva")(
            files, replace(options, batch=1), max_batch_size=1, frames_a_chunk=RIVA_FRAMES,
            frame_shift=dataset.frame_shift,
        )  # fmt: skip
    except (ImportError, OSError) as error:
        return {"status": f"missing: {adapters.why(error)}"}
    ready = [riva.look_into([array]) for array in arrays]
    equal = gpu_riva.same_words(texts, [riva.answers(riva.decode(one))[0].text for one in ready])
    each = []
    for one, array in zip(ready, arrays, strict=True):
        took = timing.interleave({"riva": lambda one=one: riva.decode(one)}, RIVA_TURNS, warm_up=False)["riva"]
        each.append(1e6 * took.seconds / array.shape[0])
    return {"peer_us_a_frame": statistics.median(each), "equal": equal, "peer_settings": riva.settings}
