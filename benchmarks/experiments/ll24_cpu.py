"""Transducers on one core: arcbeam's twin compared with the same greedy loop in PyTorch (`pip install torch`).

Published sizes (640-unit LSTM, 640-unit joint network, 1,024 tokens, 512 features) on input whose answers are known
(`data/synthetic_transducer.py`: 0.27 labels a frame, frames of 80 ms); every transcript is compared before anything is
timed. The encoder's projection is included, the encoder is not. torch's loop projects all frames at once, runs the
prediction network after labels only and takes log-probs of labels only; of LSTM and LSTMCell the latter, which is
faster for one step, is timed. Batch 1 decodes utterance after utterance. In turns; one thread each; seconds are
those of the processor, which a busy machine disturbs less.
"""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from arcbeam import TransducerDecoder
from arcbeam.transducer.decoder import FrameLoopingDecoder
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic

ORDER = 45
TITLE = "Greedy transducers on one core"
UTTERANCES, FRAMES, FRAME_SHIFT = 32, 150, 0.08
COLUMNS = [
    Column("model", "model"),
    Column("what decodes", "contender"),
    Column("batch", "batch"),
    Column("ms an utterance of 12 s", "milliseconds", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("times torch", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
]


def torch_loop(arrays: dict[str, np.ndarray], durations: tuple[int, ...] | None) -> Callable[[np.ndarray], list[int]]:
    """The loop in PyTorch, on one thread: frames [n, features] to tokens."""
    import torch

    torch.set_num_threads(1)
    weights = {name: torch.from_numpy(value) for name, value in arrays.items()}
    blank = arrays["embedding"].shape[0] - 1
    cell = torch.nn.LSTMCell(arrays["embedding"].shape[1], arrays["weight_hh_l0"].shape[1])
    cell.load_state_dict({name: weights[f"{name}_l0"] for name in cell.state_dict()})

    def linear(name: str, x: Any) -> Any:
        return torch.nn.functional.linear(x, weights[f"{name}_weight"], weights[f"{name}_bias"])

    @torch.inference_mode()
    def decode(frames: np.ndarray) -> list[int]:
        def predict(token: int, state: Any) -> Any:
            state = cell(weights["embedding"][token][None], state)
            return linear("prediction", state[0][0]), state

        encoded = linear("encoder", torch.from_numpy(frames))
        predicted, state = predict(blank, None)
        tokens, log_probs = [], []
        t = symbols = 0
        while t < len(frames):
            logits = linear("output", torch.relu(encoded[t] + predicted))
            token = int(logits[: blank + 1].argmax())
            duration = durations[int(logits[blank + 1 :].argmax())] if durations else 0
            if token == blank:
                t, symbols = t + max(duration, 1), 0
                continue
            tokens.append(token)
            log_probs.append(logits[: blank + 1].log_softmax(0)[token])
            predicted, state = predict(token, state)
            symbols = symbols + 1 if duration == 0 else 0
            t += duration
            if symbols == 10:
                t, symbols = t + 1, 0
        return tokens

    return decode


def run(context: Context) -> Iterator[Row]:
    count = context.utterances or UTTERANCES
    seed = seeds.used("network and utterances", 0)
    frames, texts, _ = synthetic.utterances(count, FRAMES, seed=seed)
    seconds = count * FRAMES * FRAME_SHIFT
    for model, durations in (("RNN-T", None), ("TDT", synthetic.DURATIONS)):
        context.progress(model)
        arrays = synthetic.weights(tdt=durations is not None, seed=seed)
        options: dict[str, Any] = {"durations": durations, "activation": "relu", "threads": 1}
        turns: dict[tuple[str, int], Callable[[], list[list[int]]]] = {}
        for name, kind in (("label-looping", TransducerDecoder), ("frame-looping", FrameLoopingDecoder)):
            blank = len(arrays["embedding"]) - 1
            decoder = kind.from_arrays(arrays, blank, device="cpu", **options)
            for batch in (1, count):
                turns[f"arcbeam, {name}", batch] = lambda d=decoder, b=batch: [
                    found.tokens.tolist() for i in range(0, count, b) for found in d.decode(frames[i : i + b])
                ]
        loop = torch_loop(arrays, durations)
        turns["torch", 1] = lambda f=loop: [f(utterance) for utterance in frames]
        for (name, batch), decode in turns.items():
            if decode() != texts:
                raise AssertionError(f"{model}, {name}, batch {batch}: transcripts differ from those that were put in")
        named = {f"{name}, batch {batch}": decode for (name, batch), decode in turns.items()}
        timings = timing.interleave(named, context.repeats, warm_up=False, step=context.step)
        slow = timings["torch, batch 1"].cpu
        for (name, batch), found in zip(turns, timings.values(), strict=True):
            each = [s / f for s, f in zip(slow, found.cpu, strict=True)]
            taken = statistics.median(found.cpu)
            yield {
                "model": model,
                "contender": name,
                "batch": batch,
                "milliseconds": 1e3 * taken / count,
                "rtfx": seconds / taken,
                "ratio": statistics.median(each),
                "ratio_spread": [min(each), max(each)],
            }
