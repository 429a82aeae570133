"""Transducers from samples to words on one GPU: features, QuartzNet, the light encoder, the greedy decoder.

The models are those of `data.train_transducer`, in the cache as transducer/rnnt.npz and tdt.npz: 256 pieces, frames of
80 ms. RTFx is seconds of audio over seconds from samples in the host's memory to tokens there (NeMo's: on the GPU);
reading files and joining pieces are not timed. Recordings are repeated to fill a batch. Features, log-probs and encoder
output are made once in a turn for all decoders. NeMo is its label-looping in a graph. But for arcbeam's in
bfloat16 all parts compute in float32, TF32 off.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam import TransducerDecoder
from benchmarks import adapters
from benchmarks.adapters import gpu
from benchmarks.data import acoustic, corpus, datasets
from benchmarks.experiments.gpu_ll24 import BATCHES
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from data.workload import word_error_rate

ON_GPU = True
KERNELS = ("transducer",)
ORDER, PAPER = 233, "LL24"
TITLE = "Transducers from samples to words"
CORPUS = "test-other-100"
PARTS = ("features", "model", "light", "decoder")
MODELS = {"RNN-T": "rnnt", "TDT": "tdt"}
TAKES = {
    "corpus": "a set with audio, a manifest, or a folder in LibriSpeech's layout; default: test-other-100",
    "batches": "sizes to run, as in 1,32",
    "device": "cpu for a trial",
}
COLUMNS = [
    Column("model", "model"),
    Column("decoder", "decoder"),
    Column("batch", "batch", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("spread", "rtfx_spread", "{:,.0f}"),
    Column("features, ms", "features", "{:.2f}"),
    Column("QuartzNet, ms", "model_ms", "{:.2f}"),
    Column("light encoder, ms", "light", "{:.2f}"),
    Column("decoder, ms", "decoder_ms", "{:.2f}"),
    Column("decoder, %", "share", "{:.1f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("status", "status"),
]


def weights(kind: str) -> Path:
    """Of a trained model; their digest is noted. Raises DataMissing with the remedy."""
    path = datasets.CACHE / "transducer" / f"{kind}.npz"
    if not path.exists():
        raise datasets.DataMissing(f"there is no {path}; data/train_transducer.py makes it")
    return seeds.weights(path)


def run(context: Context) -> Iterator[Row]:
    for model in MODELS:
        yield from gpu.rows_or_failure({"model": model}, of_model, context, model)


def of_model(context: Context, model: str) -> Iterator[Row]:
    import torch

    from data import speech_transducer, train_transducer

    device = context.options.get("device", "cuda")
    if device != "cpu":
        gpu.require()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    recordings = corpus.load(context.options.get("corpus", CORPUS)).first(context.utterances)
    waves = [r.samples() for r in recordings.recordings]
    with np.load(weights(MODELS[model])) as file:
        arrays = {name: file[name] for name in file}
    alphabet = train_transducer.alphabet_of(datasets.data_folder())
    durations = speech_transducer.DURATIONS if model == "TDT" else None
    light = speech_transducer.load_light(arrays, device)
    ours = speech_transducer.decoder_arrays(arrays)
    decoders: dict[str, Callable[[Any, list[int]], list[list[int]]]] = {}
    for precision in ("float32", "bfloat16"):
        decoder = TransducerDecoder.from_arrays(
            ours, alphabet.blank, activation="relu", durations=durations, precision=precision, device=device
        )
        decoders[f"arcbeam, {precision}"] = arcbeam_tokens(decoder)
    missing = None
    try:
        from benchmarks.adapters.nemo_transducer import NemoTransducer

        peer = NemoTransducer(ours, alphabet.blank, durations)
        decoders["NeMo"] = lambda encoded, lengths: peer.tokens(peer.decode(peer.prepare(encoded, lengths)))
    except (ImportError, OSError) as error:
        missing = f"NeMo missing: {adapters.why(error)}"
    sizes = [int(n) for n in context.options.get("batches", "").split(",") if n] or list(BATCHES)
    net = acoustic.open_model(None, device, max(sizes), {})

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    for size in sizes:
        rounds = 1 if size >= len(waves) else -(-len(waves) // size)
        order = sorted(range(len(waves)), key=lambda i: -len(waves[i]))
        places = list(itertools.islice(itertools.cycle(order), rounds * size))
        seconds = sum(len(waves[i]) for i in places) / corpus.SAMPLE_RATE
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in decoders}
        said: dict[str, dict[int, list[int]]] = {name: {} for name in decoders}
        for turn in range(context.repeats + 1):  # the first one warms up
            context.progress(f"{model}, batch {size}, turn {turn} of {context.repeats}")
            spent = {name: dict.fromkeys(PARTS, 0.0) for name in decoders}
            for first in range(0, len(places), size):
                batch = places[first : first + size]
                marks = [time.perf_counter()]
                features = net.features(net.load([waves[i] for i in batch]))
                marks.append(time.perf_counter())
                log_probs, frames = net.log_probs(features)
                marks.append(time.perf_counter())
                with torch.inference_mode():
                    encoded = light(*speech_transducer.group(log_probs, frames))
                lengths = [-(-n // speech_transducer.FRAMES_TOGETHER) for n in frames]
                wait()
                marks.append(time.perf_counter())
                for name, decode in decoders.items():
                    began = time.perf_counter()
                    found = decode(encoded, lengths)
                    took = [*np.diff(marks).tolist(), time.perf_counter() - began]
                    for part, value in zip(PARTS, took, strict=True):
                        spent[name][part] += value
                    said[name].update(zip(batch, found, strict=True))
            for name, parts in spent.items():
                turns[name].append(parts)
        for name in decoders:
            timed = turns[name][1:] or turns[name]
            totals = [seconds / sum(parts.values()) for parts in timed]
            each = {p: 1e3 * statistics.median(parts[p] for parts in timed) / rounds for p in PARTS}
            texts = [alphabet.text(said[name][i]) for i in range(len(waves))]
            yield {
                "model": model,
                "decoder": name,
                "batch": size,
                "recordings": len(waves),
                "rtfx": statistics.median(totals),
                "rtfx_spread": [min(totals), max(totals)],
                "features": each["features"],
                "model_ms": each["model"],
                "light": each["light"],
                "decoder_ms": each["decoder"],
                "share": 100 * each["decoder"] / sum(each.values()),
                "wer": 100 * word_error_rate(recordings.references, texts),
                "status": missing,
            }


def arcbeam_tokens(decoder: TransducerDecoder) -> Callable[[Any, list[int]], list[list[int]]]:
    return lambda encoded, lengths: [h.tokens.tolist() for h in decoder.decode(encoded, lengths)]
