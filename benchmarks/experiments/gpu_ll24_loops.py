"""Frame-looping against label-looping on one GPU (Algorithms 2 and 3 of Bataev et al. 2024), non-encoder.

The network of `gpu_ll24`, both loops in our kernels with the same launch shapes, encoders with 8x and 4x subsampling:
12 seconds are 150 frames of 80 ms or 300 of 40 ms, with as many tokens. The loops must give the same bytes. The floor
is that of `gpu_ll24`; the shares are those of the two loops.
"""

from collections.abc import Iterator
from typing import Any

from arcbeam import TransducerDecoder
from arcbeam.gpu.devices import cuda_devices
from benchmarks.adapters import gpu
from benchmarks.engine import transducer_floor
from benchmarks.experiments.gpu_ll24 import BATCHES, PRECISIONS
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ON_GPU = True
KERNELS = ("transducer",)
ORDER, PAPER = 232, "LL24"
TITLE = "Transducers: frame-looping against label-looping"
SECONDS = 12.0
SUBSAMPLING = {8: 0.08, 4: 0.04}  # seconds of a frame
TOKENS_A_SECOND = 3.4
COLUMNS = [
    Column("model", "model"),
    Column("subsampling", "subsampling", "{}x"),
    Column("precision", "precision"),
    Column("batch", "batch", "{:,}"),
    Column("RTFx frame-looping", "frame_looping", "{:,.0f}"),
    Column("spread", "frame_looping_spread", "{:,.0f}"),
    Column("RTFx label-looping", "label_looping", "{:,.0f}"),
    Column("its spread", "label_looping_spread", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("spread of the ratio", "ratio_spread", "{:.2f}"),
    Column("floor, ms", "floor_ms", "{:.2f}"),
    Column("floor, % of frame-looping", "floor_share_frames", "{:.0f}"),
    Column("of label-looping", "floor_share", "{:.0f}"),
    Column("status", "status"),
]
TAKES = {"batches": "sizes to run, as in 1,32"}


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        for subsampling, shift in SUBSAMPLING.items():
            for precision in PRECISIONS:
                what = {"model": model, "subsampling": subsampling, "precision": precision}
                yield from gpu.rows_or_failure(what, every_batch, context, what, shift)


def every_batch(context: Context, what: dict[str, Any], shift: float) -> Iterator[Row]:
    gpu.require()
    sizes = synthetic.Sizes()
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if what["model"] == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed)
    options: dict[str, Any] = {"durations": durations, "activation": "relu", "precision": what["precision"]}
    loops = {
        name: TransducerDecoder.from_arrays(arrays, sizes.blank, device="cuda", algorithm=name, **options)
        for name in ("frame-looping", "label-looping")
    }
    batches = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    length = round(SECONDS / shift)
    frames, _, places = synthetic.utterances(max(batches), length, sizes, rate=TOKENS_A_SECOND * shift, seed=seed)
    multiprocessors = cuda_devices()[0].multiprocessors
    for batch in batches:
        context.progress(f"{what}, batch {batch}")
        [sent] = gpu.send([frames[:batch]])
        by_frames, by_labels = (loop.decode(sent) for loop in loops.values())
        for i, (one, other) in enumerate(zip(by_frames, by_labels, strict=True)):
            if one.tokens.tobytes() + one.log_probs.tobytes() != other.tokens.tobytes() + other.log_probs.tobytes():
                raise gpu.Wrong(f"utterance {i}: the loops differ")
        contenders = {name: lambda d=loop, x=sent: d.decode(x) for name, loop in loops.items()}
        took = timing.interleave(contenders, context.repeats)
        seconds = batch * SECONDS
        floor = transducer_floor.floor_s(arrays, places[:batch], length, durations, what["precision"], multiprocessors)
        ratio, spread = timing.ratio(took["frame-looping"], took["label-looping"])
        yield {
            **what,
            "batch": batch,
            "frame_looping": seconds / took["frame-looping"].seconds,
            "frame_looping_spread": [seconds / s for s in reversed(took["frame-looping"].spread())],
            "label_looping": seconds / took["label-looping"].seconds,
            "label_looping_spread": [seconds / s for s in reversed(took["label-looping"].spread())],
            "ratio": ratio,
            "ratio_spread": spread,
            **transducer_floor.share(floor, took["label-looping"].seconds),
            "floor_share_frames": 100 * floor / took["frame-looping"].seconds,
        }
