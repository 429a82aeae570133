"""GK23 Table 4: many streams at once: compute, queue and total latency of a chunk.

256 streams of real speech go through `arcbeam.Batcher`, each with 20 frames of 20 ms every 400 ms, at a random time
within the interval. *Queue* is the time from `submit` to the begin of a chunk's round, *compute* that of its round,
*total* that until a client, in another thread, has read its text. The acoustic model is not in the loop. `one by one`
decodes a chunk a round; its predicted queue is that of an M/D/1 server, whose customers come at random and take the
mean compute time each, and then that of an M/G/1 server, which knows how these times spread. `what waits` decodes all
that has come, which neither does: whoever comes while a round is decoded waits for the rest of it, and no longer. `full
load`: each stream has its next chunk as soon as it has read a text; `no Batcher`: a thread for each stream calls the
decoder itself. RTFx is seconds of speech over seconds of the clock: of paced streams at most 256, and less as the last
chunks of utterances are short. `busy`: the share of the time in which a round is decoded. Checked: the final result of
every stream is that of its whole utterance, in arcs and score.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import arcbeam
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import gk23, stream_load

ORDER, PAPER, ON_GPU = 4, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Table 4: many streams at once"
SET = "test-other-100"
BEAMS = (12.0, 17.0)
STREAMS, FRAMES, SECONDS, WARM_UP_S = 256, 20, 20.0, 2.0
SEED = 4
MODES = {"one by one": 1, "what waits": None, "full load": None}  # the most chunks of a round; None: all streams
APART = "full load, no Batcher"
TAKES = {
    **gk23.GRAPH_OPTIONS,
    "set": f"log-probs, of benchmarks/data/datasets.py ({SET})",
    **gk23.CORPUS_OPTIONS,
    "beam": "in natural logs (12 and 17)",
    "max_active": "tokens that leave in a frame (10000)",
    "acoustic_scale": "factor of the log-probs (1)",
    "streams": f"at once ({STREAMS})",
    "frames": f"of a chunk ({FRAMES})",
    "seconds": f"of each row ({SECONDS:g})",
}
COLUMNS = [
    Column("graph", "graph"),
    Column("device", "device"),
    Column("beam", "beam", "{:g}"),
    Column("streams", "streams"),
    Column("rounds", "mode"),
    Column("chunks a round", "chunks_a_round", "{:.1f}"),
    Column("compute, ms: mean", "compute_ms", "{:.2f}"),
    Column("p99", "compute_p99", "{:.2f}"),
    Column("queue, ms: mean", "queue_ms", "{:.2f}"),
    Column("predicted", "predicted_ms", "{:.2f}"),
    Column("with the spread of compute", "predicted_spread_ms", "{:.2f}"),
    Column("p99", "queue_p99", "{:.2f}"),
    Column("total, ms: mean", "total_ms", "{:.2f}"),
    Column("p99", "total_p99", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("busy, %", "busy", "{:.0f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    files = gk23.graph_files(context)
    (dataset,) = gk23.sets(context, files, (context.options.get("set", SET),), 1)
    utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
    settings = gk23.search_options(context)
    for beam in [float(context.options["beam"])] if "beam" in context.options else BEAMS:
        decoder = arcbeam.CtcDecoder(
            files.graph, beam=beam, max_active=settings.max_active, acoustic_scale=settings.acoustic_scale,
            frame_shift=dataset.frame_shift, device="cuda" if context.gpu else "cpu",
        )  # fmt: skip
        row = {"graph": files.name, "set": dataset.name, "device": decoder.device, "beam": beam}
        try:
            decoder.stream()
        except arcbeam.UnsupportedError as error:
            yield row | {"status": f"missing: {error}"}
            continue
        for mode in MODES:
            context.step(f"beam {beam:g}, {mode}")
            yield row | measured(context, decoder, utterances, dataset.frame_shift, mode)
        context.step(f"beam {beam:g}, {APART}")
        yield row | without_batcher(context, decoder, utterances, dataset.frame_shift)


class Shape(NamedTuple):
    streams: int
    frames: int
    seconds: float


def asked(context: Context) -> Shape:
    options = context.options
    streams, frames = int(options.get("streams", STREAMS)), int(options.get("frames", FRAMES))
    return Shape(streams, frames, float(options.get("seconds", SECONDS)))


def without_batcher(context: Context, decoder: arcbeam.CtcDecoder, utterances: list[np.ndarray], shift: float) -> Row:
    shape = asked(context)
    with timing.own_garbage():
        load = stream_load.apart(decoder, utterances, **shape._asdict())
    return {
        "mode": APART,
        "streams": shape.streams,
        "chunks_a_round": 1.0,
        **stream_load.ms(load.total, "total"),
        "rtfx": load.frames * shift / load.seconds,
        "chunks": len(load.total),
        "finals": stream_load.check(load, decoder, utterances),
    }


def measured(
    context: Context, decoder: arcbeam.CtcDecoder, utterances: list[np.ndarray], shift: float, mode: str
) -> Row:
    streams, frames, seconds = shape = asked(context)
    with (
        timing.own_garbage(),
        arcbeam.Batcher(decoder, max_batch=MODES[mode] or streams, max_wait_ms=0, max_waiting=64 * streams) as batcher,
    ):
        if mode == "full load":
            load = stream_load.full(batcher, utterances, **shape._asdict())
        else:
            load = stream_load.paced(
                batcher, utterances, **shape._asdict(), interval_s=frames * shift, warm_up_s=min(WARM_UP_S, seconds),
                seed=seeds.used("times of chunks", SEED),
            )  # fmt: skip
    checked = stream_load.check(load, decoder, utterances)
    predicted: Row = {}
    if mode != "full load":
        fixed, spread = (
            stream_load.wait_one_by_one(streams / (frames * shift), load.services)
            if mode == "one by one"
            else stream_load.wait_together(load.busy, load.services)
        )
        predicted = {"predicted_ms": 1e3 * fixed, "predicted_spread_ms": 1e3 * spread}
    return {
        "mode": mode,
        "streams": streams,
        "chunks_a_round": load.chunks_a_round,
        **stream_load.ms(load.compute, "compute"),
        **stream_load.ms(load.queue, "queue"),
        **predicted,
        **stream_load.ms(load.total, "total"),
        **stream_load.ms(load.late, "late"),
        "rtfx": load.frames * shift / load.seconds,
        "busy": 100.0 * load.busy,
        "chunks": len(load.total),
        "finals": checked,
    }
