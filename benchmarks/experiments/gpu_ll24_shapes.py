"""Every launch shape that the loop over labels can have, for batches of 1 to 512, on the network of `gpu_ll24`.

For tuning `pyx/arcbeam/transducer_plan.py`; the shape that the plan chooses is marked. All give the same bytes. A shape
is a kernel, threads of a block, the frames that an utterance tests after a label and at most, and for weights that are
kept the teams of blocks. The plan takes the first of its shapes that fits. `fixed` is what the decode of a single frame
of each utterance takes: launches, copies, results. The floor is that of `gpu_ll24`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from arcbeam import TransducerDecoder
from arcbeam.gpu.devices import cuda_devices
from arcbeam.gpu.tuned import transducer_plan
from benchmarks.adapters import gpu
from benchmarks.engine import transducer_floor
from benchmarks.experiments.gpu_ll24 import FRAME_SHIFT, FRAMES, PRECISIONS
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER = 310
TITLE = "Launch shapes of transducers"
BATCHES = (1, 4, 8, 16, 32, 128, 512)
WINDOWS = ((1, 2), (2, 4), (4, 8), (8, 16))
MORE_TEAMS = (2, 3)
COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("batch", "batch", "{:,}"),
    Column("shape", "shape"),
    Column("chosen", "chosen"),
    Column("milliseconds", "ms", "{:.3f}"),
    Column("spread", "spread", "{:.3f}"),
    Column("fixed", "fixed_ms", "{:.3f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("to the best", "to_best", "{:.2f}"),
    *transducer_floor.COLUMNS,
    Column("status", "status"),
]
TAKES = {"batches": "sizes to run, as in 1,32", "precision": "float32 or bfloat16; without it both"}


def shapes(batch: int, precision: str, has_durations: bool) -> list[transducer_plan.LoopShape]:
    """What the plan tries (the last of several streams weights that do not fit), then the others."""
    planned = transducer_plan.loop_shapes(batch, precision, has_durations)
    found = list(planned[:-1] or planned)
    for kernel in transducer_plan.KERNELS:
        for first, widest in WINDOWS:
            shape = transducer_plan.loop_shape(kernel, batch, first, widest)
            found.append(shape)
            if kernel == "kept":
                found += [replace(shape, teams=teams) for teams in MORE_TEAMS]
                found += [replace(shape, joins_alone=not shape.joins_alone)] if shape.tests <= 64 else []
    return list(dict.fromkeys(found))


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        for precision in (context.options["precision"],) if "precision" in context.options else PRECISIONS:
            what = {"model": model, "precision": precision}
            yield from gpu.rows_or_failure(what, every_batch, context, what)


def every_batch(context: Context, what: dict[str, Any]) -> Iterator[Row]:
    gpu.require()
    wanted = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    sizes = synthetic.Sizes()
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if what["model"] == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed)
    options = {"durations": durations, "activation": "relu", "precision": what["precision"]}
    decoder = TransducerDecoder.from_arrays(arrays, sizes.blank, device="cuda", **options)
    frames, _, places = synthetic.utterances(max(wanted), FRAMES, sizes, seed=seed)
    multiprocessors = cuda_devices()[0].multiprocessors
    for batch in wanted:
        context.progress(f"{what}, batch {batch}")
        floor = transducer_floor.floor_s(arrays, places[:batch], FRAMES, durations, what["precision"], multiprocessors)
        yield from one(context, decoder, {**what, "batch": batch}, frames[:batch], floor)


def one(context: Context, decoder: TransducerDecoder, what: dict[str, Any], frames: Any, floor: float) -> Iterator[Row]:
    [sent], [short] = gpu.send([frames]), gpu.send([frames[:, :1].copy()])
    wanted, rows = None, []
    for shape in shapes(what["batch"], what["precision"], what["model"] == "TDT"):
        windows = f"{shape.first_window} to {shape.widest_window}"
        name = f"{shape.kernel} {shape.threads}, {shape.tests} tests, {windows}"
        name += f", {shape.teams} teams" if shape.teams > 1 else ""
        name += ", joins alone" if shape.joins_alone else ""
        row: Row = {**what, "shape": name, "chosen": None if any("ms" in row for row in rows) else "chosen"}
        with mock.patch.object(transducer_plan, "loop_shapes", lambda *_, shape=shape: (shape,)):
            try:
                found = decoder.decode(sent)
            except Exception as error:  # a shape that the device does not take
                rows.append(row | {"status": f"refused: {str(error).splitlines()[0]}"})
                continue
            answer = [(h.tokens.tobytes(), h.log_probs.tobytes()) for h in found]
            if wanted not in (None, answer):
                raise gpu.Wrong(f"{row['shape']}: other bytes than the first shape")
            wanted = answer
            contenders = {"whole": lambda: decoder.decode(sent), "fixed": lambda: decoder.decode(short)}
            took = timing.interleave(contenders, context.repeats)
        row |= {"ms": 1e3 * took["whole"].seconds, "fixed_ms": 1e3 * took["fixed"].seconds}
        row |= {"spread": [1e3 * s for s in took["whole"].spread()]}
        row |= transducer_floor.share(floor, took["whole"].seconds)
        rows.append(row | {"rtfx": what["batch"] * FRAMES * FRAME_SHIFT / took["whole"].seconds})
        context.progress(f"{row['shape']}: {row['ms']:.3f} ms {row['chosen'] or ''}")
    best = min((row["ms"] for row in rows if "ms" in row), default=None)
    for row in rows:
        yield row | ({"to_best": row["ms"] / best} if "ms" in row else {})
