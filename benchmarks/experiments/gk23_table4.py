"""GK23 Table 4: many streams at once: compute, queue and total latency of a chunk.

Streams of real speech go through `arcbeam.Batcher`, each with 20 frames of 20 ms every 400 ms, at a random time within
the interval. A clock starts when a chunk is submitted and stops when its future is done: *queue* is the time to the
begin of a chunk's round, *compute* that of its round, *total* all. There are 256 streams on a GPU, as in the paper; 64
on a CPU, and 1 with the acoustic model. `one by one` decodes a chunk a round, `what waits` all that has come. `full
load`: each stream has its next chunk as soon as the one before is done; `no Batcher`: a thread for each stream calls
the decoder itself. `acoustic model in the loop`: windows of 600 ms every 400 ms, paced, of which all that wait are a
batch of the model, whose frames go to the Batcher; *model* is the time of that batch, *queue* that of both queues. RTFx
is seconds of speech over seconds of the clock: of paced streams at most their number, and less as the last chunks of
utterances are short. `busy`: the share of the time in which a round is decoded. Meanwhile Python collects no garbage
and switches threads after 0.5 ms; `late` is how long after its time a chunk was submitted. Checked: the final result of
every stream that has ended is that of its whole utterance, in arcs and score.
"""

import importlib.util
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import arcbeam
from benchmarks.data import corpus
from benchmarks.data.datasets import DataMissing, Dataset
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import gk23, stream_load, window_load

ORDER, PAPER, ON_GPU = 4, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Table 4: many streams at once"
SET = "test-other-100"
BEAMS = (12.0, 17.0)
STREAMS, STREAMS_ON_CPU, IN_LOOP_ON_CPU = 256, 64, 1
FRAMES, SECONDS, WARM_UP_S = 20, 6.0, 1.0
SEED = 4
MODES = {"one by one": 1, "what waits": None, "full load": None}  # the most chunks of a round; None: all streams
APART, IN_LOOP = "full load, no Batcher", "acoustic model in the loop"
TAKES = {
    **gk23.GRAPH_OPTIONS,
    "set": f"log-probs, of benchmarks/data/datasets.py ({SET})",
    **gk23.CORPUS_OPTIONS,
    "beam": "in natural logs (12 and 17)",
    "max_active": "tokens that leave in a frame (10000)",
    "acoustic_scale": "factor of the log-probs (1)",
    "streams": f"at once ({STREAMS}, {STREAMS_ON_CPU} on a CPU)",
    "model_streams": f"the same with the acoustic model in the loop ({STREAMS}, {IN_LOOP_ON_CPU} on a CPU; 0: no row)",
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
    *(
        column
        for part in ("model", "compute", "queue", "total")
        for column in (
            Column(f"{part}, ms: mean", f"{part}_ms", "{:.2f}"),
            Column("median", f"{part}_median", "{:.2f}"),
            Column("p99", f"{part}_p99", "{:.2f}"),
        )
    ),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("busy, %", "busy", "{:.0f}"),
    Column("late, ms: p99", "late_p99", "{:.2f}"),
    Column("settings", "settings"),
    Column("status", "status"),
]


class Shape(NamedTuple):
    streams: int
    frames: int
    seconds: float


def run(context: Context) -> Iterator[Row]:
    files = gk23.graph_files(context)
    (dataset,) = gk23.sets(context, files, (context.options.get("set", SET),), 1)
    utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
    settings, shift = gk23.search_options(context), dataset.frame_shift
    for beam in [float(context.options["beam"])] if "beam" in context.options else BEAMS:
        decoder = arcbeam.CtcDecoder(
            files.graph, beam=beam, max_active=settings.max_active, acoustic_scale=settings.acoustic_scale,
            frame_shift=shift, device="cuda" if context.gpu else "cpu",
        )  # fmt: skip
        row = {"graph": files.name, "set": dataset.name, "device": decoder.device, "beam": beam}
        try:
            decoder.stream()
        except arcbeam.UnsupportedError as error:
            yield row | {"status": f"missing: {error}"}
            continue
        for mode in MODES:
            context.step(f"beam {beam:g}, {mode}")
            yield row | measured(context, decoder, utterances, shift, mode)
        context.step(f"beam {beam:g}, {APART}")
        yield row | without_batcher(context, decoder, utterances, shift)
        if context.options.get("model_streams") != "0":
            context.step(f"beam {beam:g}, {IN_LOOP}")
            yield row | in_loop(context, decoder, dataset)


def requested(context: Context) -> Shape:
    options = context.options
    streams = int(options.get("streams", STREAMS if context.gpu else STREAMS_ON_CPU))
    return Shape(streams, int(options.get("frames", FRAMES)), float(options.get("seconds", SECONDS)))


def of_load(load: stream_load.Load, mode: str, streams: int, shift: float) -> Row:
    """What all rows of streams have."""
    times = {"model": load.model, "compute": load.compute, "queue": load.queue, "total": load.total, "late": load.late}
    row: Row = {"mode": mode, "streams": streams, "chunks_a_round": load.chunks_a_round if load.rounds else 1.0}
    for name, seconds in times.items():
        row |= stream_load.ms(seconds, name)
    return row | {"rtfx": load.frames * shift / load.seconds, "chunks": len(load.total)}


def without_batcher(context: Context, decoder: arcbeam.CtcDecoder, utterances: list[np.ndarray], shift: float) -> Row:
    shape = requested(context)
    with timing.no_garbage():
        load = stream_load.apart(decoder, utterances, **shape._asdict())
    return of_load(load, APART, shape.streams, shift) | {"finals": stream_load.check(load, decoder, utterances)}


def measured(
    context: Context, decoder: arcbeam.CtcDecoder, utterances: list[np.ndarray], shift: float, mode: str
) -> Row:
    shape = requested(context)
    streams = shape.streams
    with (
        timing.no_garbage(),
        arcbeam.Batcher(decoder, max_batch=MODES[mode] or streams, max_wait_ms=0, **waiting(shape)) as batcher,
    ):
        if mode == "full load":
            load = stream_load.full(decoder, batcher.submit, utterances, **shape._asdict())
        else:
            load = stream_load.paced(decoder, batcher.submit, utterances, **pace(shape, shift))
    checked = stream_load.check(load, decoder, utterances)
    return of_load(load, mode, streams, shift) | {"busy": 100.0 * load.busy, "finals": checked}


def waiting(shape: Shape) -> dict[str, int]:
    """Room for what a decoder that cannot keep up leaves behind: all chunks of a row."""
    chunks = 64 + round(shape.seconds / 0.02)
    return {"max_waiting": chunks * shape.streams, "max_waiting_per_stream": chunks}


def pace(shape: Shape, shift: float) -> dict[str, Any]:
    return shape._asdict() | {
        "interval_s": shape.frames * shift,
        "warm_up_s": min(WARM_UP_S, shape.seconds),
        "seed": SEED,
    }


def in_loop(context: Context, decoder: arcbeam.CtcDecoder, dataset: Dataset) -> Row:
    """The row with the acoustic model, on utterances with audio; it says why where there is no model, or no audio."""
    shape, shift = requested(context), dataset.frame_shift
    if not context.gpu:
        shape = shape._replace(streams=min(shape.streams, IN_LOOP_ON_CPU))
    shape = shape._replace(streams=int(context.options.get("model_streams", shape.streams)))
    row: Row = {"mode": IN_LOOP, "streams": shape.streams}
    try:
        spoken = {one.id: one for one in corpus.load(context.options.get("corpus", dataset.name)).recordings}
        model = gk23.open_model(with_fast_runtime(context), shape.streams)
        frames = {name: rows for name, rows in zip(dataset.ids, dataset.utterances, strict=True) if name in spoken}
        if not frames:
            raise DataMissing(f"the corpus has no recording of an utterance of {dataset.name}")
        audio = [
            window_load.Recording(spoken[name].samples(), np.ascontiguousarray(rows, np.float32), shift, shape.frames)
            for name, rows in frames.items()
        ]
    except ImportError as error:
        return row | {"status": f"missing: the package {error.name}"}
    except DataMissing as error:
        return row | {"status": f"missing: {error}"}
    size = 1
    while size <= shape.streams:  # a model compiles, or chooses its kernels, for each size
        window_load.log_probs(model, [audio[0][0 : shape.frames].samples] * size)
        size = size * 2 if size == shape.streams else min(size * 2, shape.streams)
    with timing.no_garbage(), arcbeam.Batcher(decoder, max_batch=shape.streams, max_wait_ms=0, **waiting(shape)) as to:
        server = window_load.WindowServer(to, model, shape.streams)
        try:
            load = stream_load.paced(decoder, server.submit, audio, **pace(shape, shift))
        finally:
            server.close()
    checked = stream_load.check(load, decoder, list(frames.values()))
    return (
        of_load(load, IN_LOOP, shape.streams, shift)
        | {"busy": 100.0 * load.busy, "finals": checked}
        | {"settings": f"{model.name}, {model.settings}, on {model.device}"}
    )


def with_fast_runtime(context: Context) -> Context:
    """On a CPU the model works in onnxruntime, where it is there and nothing else is requested."""
    chosen = {"model", "runtime"} & set(context.options)
    if chosen or gk23.model_device(context) != "cpu" or importlib.util.find_spec("onnxruntime") is None:
        return context
    return Context(context.repeats, context.utterances, context.options | {"runtime": "onnxruntime"}, context.gpu)
