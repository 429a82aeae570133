"""What the experiments after Galvez & Kaldewey 2023 (arXiv 2311.04996) share: settings, contenders, material.

Their settings: beam 17, max_active 10 000, batches of 200; for Flashlight's beam a size of 2 500.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np

from benchmarks.adapters import SearchOptions
from benchmarks.data import acoustic, corpus, datasets, graphs
from benchmarks.data.datasets import Dataset
from benchmarks.harness.registry import Context
from benchmarks.tasks.contest import Contender

PAPER = "GK23"
OURS = ("arcbeam_cpu", "arcbeam_cuda")  # whose answers are to be the same
REFERENCE = "flashlight_words"  # the decoder whose one core everything is compared with
SETTINGS = SearchOptions(beam=17.0, max_active=10_000, beam_size=2_500, beam_size_token=32, batch=200)
PYCTCDECODE_WIDTH = 100  # its default; 2 500 prefixes in Python would take hours

# What --set takes of the graph and of a user's own corpus; experiments name those that they have.
GRAPH_OPTIONS = {
    "graph": "a graph of benchmarks/data/graphs.py, or a file: arcbeam's own or OpenFst (char-3gram)",
    "graph_normal": "the same with the normal topology, where graph= is a file; for Table 1 alone",
    "lm": "ARPA of a graph that is a file, for decoders that need no graph",
    "words": "word symbols of an OpenFst file",
    "tokens": "tokens of an OpenFst file",
}
CORPUS_OPTIONS = {
    "corpus": "recordings: a LibriSpeech folder, a manifest of JSON lines, or a set of ARCBEAM_DATA with audio",
    "model": "acoustic model, .onnx or TorchScript (QuartzNet of ARCBEAM_DATA)",
    "model_device": "where it works: cpu or cuda (cuda for results of a GPU)",
    "runtime": "torch or onnxruntime",
    "mels": "mel bins of the features, where the file does not tell (80)",
    "window": "samples of the features' window (400; 320 with 64 mel bins)",
    "input": "'audio' for a TorchScript model that takes samples",
    "logits": "'yes' where the model's output has to be normalised",
    "precision": "'float16' for torch models on a GPU",
}
SEARCH_OPTIONS = {
    "beam": "in natural logs (17)",
    "max_active": "tokens that leave in a frame (10000)",
    "beam_size": "of decoders whose beam is a number of hypotheses (2500)",
    "beam_size_token": "tokens that such a decoder goes on with in a frame (32)",
    "acoustic_scale": "factor of the log-probs (1)",
    "batch": "utterances at a time (200)",
    "contenders": "adapters to run, with commas between (all)",
}


def search_options(context: Context) -> SearchOptions:
    """The paper's settings, where options do not say otherwise."""
    kinds = {
        "beam": float,
        "max_active": int,
        "beam_size": int,
        "beam_size_token": int,
        "acoustic_scale": float,
        "batch": int,
    }
    given = {key: kind(context.options[key]) for key, kind in kinds.items() if key in context.options}
    return dataclasses.replace(SETTINGS, **given)


def core_counts() -> list[int]:
    """One, two, and all cores of this machine."""
    cores = len(os.sched_getaffinity(0))
    return sorted({1, min(2, cores), cores})


def contenders() -> list[Contender]:
    """Every decoder there is an adapter for; those that cannot be made here stay in the table as missing."""
    found = [Contender("flashlight-text, 1 core", REFERENCE)]
    for name, adapter in (("baseline", "baseline_words"), ("arcbeam cpu", "arcbeam_cpu")):
        found += [Contender(f"{name}, {n} core{'s'[: n != 1]}", adapter, {"threads": n}) for n in core_counts()]
    found += [
        Contender("baseline, mended rules, 1 core", "baseline_words", {"mended": True}),
        Contender("kaldi-decoder FasterDecoder, 1 core", "kaldi_decoder"),
        Contender("pyctcdecode, 1 core", "pyctcdecode", {"beam_width": PYCTCDECODE_WIDTH}),
        Contender("arcbeam cuda", "arcbeam_cuda"),
        Contender("riva-asrlib-decoder", "riva"),
        Contender("NeMo batched beam search", "nemo", needs_token_lm=True),
    ]
    return found


def graph_files(context: Context, name: str | None = None, key: str = "graph") -> graphs.GraphFiles:
    """The graph that the options name, or the one of this name."""
    chosen = context.options.get(key, name or "char-3gram")
    if chosen.removesuffix(graphs.NORMAL) in graphs.NAMES:
        return graphs.get(chosen, context.progress)
    more: Mapping[str, str] = {k: context.options[k] for k in ("lm", "words", "tokens") if k in context.options}
    return graphs.own(chosen, progress=context.progress, **more)


def model_device(context: Context) -> str:
    return context.options.get("model_device", "cuda" if context.gpu else "cpu")


def open_model(context: Context, batch: int) -> acoustic.AcousticModel:
    return acoustic.open_model(context.options.get("model"), model_device(context), batch, context.options)


def batches(recordings: corpus.Corpus, size: int) -> Iterator[list[int]]:
    """Positions of the recordings, the longest first, in batches."""
    order = sorted(range(len(recordings.recordings)), key=lambda i: -recordings.recordings[i].seconds)
    for first in range(0, len(order), size):
        yield order[first : first + size]


def from_corpus(context: Context, files: graphs.GraphFiles, batch: int) -> Dataset:
    """Log-probs of the recordings that the option ``corpus`` names, by the acoustic model that the options name."""
    found = corpus.load(context.options["corpus"]).first(context.utterances)
    model = open_model(context, batch)
    context.progress(f"log-probs of {len(found.recordings):,} recordings by {model.name} on {model.device}")
    said: dict[int, np.ndarray] = {}
    for part in batches(found, model.batch):
        context.step(f"{model.name}: {len(said):,} of {len(found.recordings):,} recordings")
        values, frames = model.log_probs(model.features(model.load([found.recordings[i].samples() for i in part])))
        for row, (i, n) in enumerate(zip(part, frames, strict=True)):
            said[i] = host(values[row, :n])
    rows = [said[i] for i in range(len(said))]
    if rows[0].shape[1] != len(files.tokens):
        raise ValueError(
            f"{files.name} has {len(files.tokens)} tokens, and {model.name} gives {rows[0].shape[1]} columns"
        )
    lengths = np.array([len(r) for r in rows])
    shift = found.seconds / float(lengths.sum())
    ids = [r.id for r in found.recordings]
    return Dataset(found.name, np.concatenate(rows), lengths, ids, found.references, shift, list(files.tokens.tokens))


def host(values: object) -> np.ndarray:
    """A torch tensor or an array as a float32 array on the host."""
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values, np.float32)


def sets(context: Context, files: graphs.GraphFiles, names: tuple[str, ...], batch: int) -> list[Dataset]:
    """The user's corpus where there is one, else shipped log-probs by name."""
    if "corpus" in context.options:
        return [from_corpus(context, files, batch)]
    return [datasets.load(name).first(context.utterances) for name in names]


def first_minutes(dataset: Dataset, minutes: float | None) -> Dataset:
    """The first utterances that last this long together, at least one; all of them for None."""
    if minutes is None:
        return dataset
    ends = np.cumsum(dataset.lengths) * dataset.frame_shift
    return dataset.first(max(1, int(np.searchsorted(ends, 60 * minutes, side="right"))))
