"""The best path of transducers by a beam on one GPU, without the encoder: arcbeam and fast-gpu-asr.

The networks and utterances are those of `gpu_transducer_beam`. Both searches keep at most as many hypotheses, ours with
a beam of 4, and end with the tokens and frames of each utterance's best path in Python lists; they take turns.
fast-gpu-asr's search, its kernels and its CUDA graphs are its own; its TensorRT engine is stood in for by the same
network on cuBLAS (`adapters.cublas_engine`), in the same precision, so the times are those of its search on cuBLAS. It
searches TDT models; the RNN-T is to it a TDT of the durations 0 and 1 (`adapters.fast_gpu_asr`).

Both rank their best paths by score / (labels + 1), as fast-gpu-asr does. A search error is a best path whose exact
log-prob / (labels + 1) is less than that of the best path of any search here by more than 0.001 nats / (labels + 1), of
32 utterances; the log-prob is summed over all paths in float64 (`tasks.exact_transducer`). The searches are those with
these numbers of hypotheses, and ours in float32 with an infinite beam and 32 hypotheses.
Before the turns, our answers in float32 are those of the CPU, byte for byte.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam import TransducerDecoder
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.experiments.gpu_ll24 import FRAME_SHIFT, FRAMES, precisions_of
from benchmarks.experiments.gpu_transducer_beam import CHECKED, compare, setting
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("transducer", "transducer_beam")
ORDER = 234
TITLE = "Best path of transducers by a beam"
BATCHES = (1, 32, 128, 512)
BEAM, NUMBERS = 4.0, (4, 8)  # and of hypotheses
POWER = 1.0  # of labels + 1, by which scores are divided
WIDEST = (float("inf"), 32)
NEAR = 1e-3  # nats
TAKES = {"batches": "sizes to run, as in 1,32", "precision": "float32 or bfloat16; without it both"}
COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("hypotheses", "most"),
    Column("batch", "batch", "{:,}"),
    Column("ms", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("fast-gpu-asr on cuBLAS, ms", "peer_ms", "{:.2f}"),
    Column("ratio", "ratio", "{:.1f}"),
    Column("its spread", "ratio_spread", "{:.1f}"),
    Column("same tokens, %", "equal", "{:.1f}"),
    Column("search errors", "errors"),
    Column("of fast-gpu-asr", "peer_errors"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        for precision in precisions_of(context):
            row = {"model": model, "precision": precision}
            yield from gpu.rows_or_failure(row, rows_of, context, model, precision)


Texts = list[list[int]]


class Peer:
    """fast-gpu-asr's search; `status` says why it has no turns."""

    def __init__(self, *network: Any, precision: str) -> None:
        self.status: str | None = None
        try:
            from benchmarks.adapters.fast_gpu_asr import FastGpuAsr

            self.searches = {most: FastGpuAsr(*network, most, precision=precision) for most in NUMBERS}
        except Exception as error:  # our rows are worth having without its own
            self._leave_out(error)

    def ready(self, most: int, frames: npt.NDArray[np.float32]) -> tuple[Any, Texts] | None:
        """A batch that it has decoded, and what it wrote; None where it is missing or fails."""
        if self.status is None:
            try:
                ready = self.searches[most].prepare(frames)
                return ready, self.searches[most].decode(ready)
            except Exception as error:
                self._leave_out(error)
        return None

    def _leave_out(self, error: Exception) -> None:
        missing = isinstance(error, (ImportError, OSError))
        self.status = f"fast-gpu-asr {'missing' if missing else 'failed'}: {adapters.why(error)}"


def rows_of(context: Context, model: str, precision: str) -> Iterator[Row]:
    network, batches, frames = chosen = setting(context, model, BATCHES, CHECKED)
    checked, decoder = frames[:CHECKED], chosen.decoder
    context.progress(f"{model}, {precision}: the answers")
    peer = Peer(*network, precision=precision)
    options = {most: {"beam": BEAM, "max_hypotheses": most, "length_power": POWER} for most in NUMBERS}
    ours = {most: decoder(device="cuda", precision=precision, **options[most]) for most in NUMBERS}
    sent = gpu.send([checked])[0]
    answers, theirs = {}, {}
    for most, one in ours.items():
        found = one.decode(sent, nbest=most)
        if precision == "float32":
            compare(found, decoder(device="cpu", **options[most]).decode(checked, nbest=most), "the CPU")
        answers[most] = [hypothesis.tokens.tolist() for hypothesis in found]
        decoded = peer.ready(most, checked)
        if decoded is not None:
            theirs[most] = decoded[1]
    wide = decoder(device="cuda", beam=WIDEST[0], max_hypotheses=WIDEST[1], length_power=POWER).decode(sent)
    every = [*answers.values(), *theirs.values(), [hypothesis.tokens.tolist() for hypothesis in wide]]
    errors = SearchErrors(network, checked, every)
    for most, one in ours.items():
        counted: Row = {"errors": errors.of(answers[most])}
        if most in theirs:
            counted["peer_errors"] = errors.of(theirs[most])
        for batch in batches:
            context.progress(f"{model}, {precision}, {most} hypotheses, batch {batch}")
            row: Row = {"model": model, "precision": precision, "most": most, "batch": batch, "frames": FRAMES}
            yield row | context.options | counted | timed(context, one, peer, most, frames[:batch])


def timed(context: Context, ours: TransducerDecoder, peer: Peer, most: int, frames: npt.NDArray[np.float32]) -> Row:
    """What the turns of a batch add to its row."""
    sent = gpu.send([frames])[0]
    turns = {"arcbeam": lambda: read(ours.decode(sent))}
    decoded = peer.ready(most, frames)
    if decoded is not None:
        turns["fast-gpu-asr"] = lambda: peer.searches[most].decode(decoded[0])  # type: ignore[assignment,return-value]
    took = timing.interleave(turns, 3 * context.repeats, step=context.step)
    row: Row = {
        "ms": 1e3 * took["arcbeam"].seconds,
        "spread": [1e3 * s for s in took["arcbeam"].spread()],
        "rtfx": len(frames) * FRAMES * FRAME_SHIFT / took["arcbeam"].seconds,
        "status": peer.status,
    }
    if decoded is not None:
        row["peer_ms"] = 1e3 * took["fast-gpu-asr"].seconds
        row["ratio"], row["ratio_spread"] = timing.ratio(took["fast-gpu-asr"], took["arcbeam"])
        pairs = zip(read(ours.decode(sent)), decoded[1], strict=True)
        row["equal"] = 100 * sum(tokens == written for (tokens, _), written in pairs) / len(frames)
    return row


def read(found: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Tokens and frames of each utterance."""
    return [(hypothesis.tokens.tolist(), hypothesis.frames.tolist()) for hypothesis in found]


class SearchErrors:
    """Best paths compared with those of all searches.

    network : arrays, blank and durations
    every : what each search wrote
    """

    def __init__(self, network: tuple[Any, ...], frames: npt.NDArray[np.float32], every: Sequence[Texts]) -> None:
        self.frames, self.network = frames, network
        self.texts = [sorted({tuple(texts[i]) for texts in every}) for i in range(len(frames))]
        self.log_probs: list[dict[tuple[int, ...], float]] | None = None

    def of(self, texts: Texts) -> int | None:
        """How many search errors there are; None where torch is missing."""
        if self.log_probs is None:
            try:
                from benchmarks.tasks.exact_transducer import ExactTransducer
            except ImportError:
                return None
            exact = ExactTransducer(*self.network)
            self.log_probs = [  # where all searches agree, none errs
                {text: exact.log_prob(row, text) if len(some) > 1 else 0.0 for text in some}
                for row, some in zip(self.frames, self.texts, strict=True)
            ]
        errors = 0
        for written, log_probs in zip(texts, self.log_probs, strict=True):
            best = max(log_prob / (len(text) + 1) ** POWER for text, log_prob in log_probs.items())
            errors += best * (len(written) + 1) ** POWER - log_probs[tuple(written)] > NEAR
        return errors
