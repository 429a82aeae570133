"""Rescoring with KenLM's files beside our own of the same ARPA: word errors, speed, and whether answers differ.

The models are those of `rescoring_wer`; KenLM's `build_binary` makes ``large.probing`` and ``large.trie`` of its
``large.arpa``, in the same folder. RTFx is one thread's, of CPU time, the fastest of three runs in turns.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import arcbeam
from benchmarks.data import datasets
from benchmarks.experiments.rescoring_wer import BEAM
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import ACOUSTIC_SCALE, LM_SCALE, MAX_ACTIVE, SETS
from data.workload import word_error_rate

ORDER = 33
TITLE = "Rescoring with KenLM's files"
KINDS = ("probing", "trie")
LIMITS = (3, None)
ROUNDS = 3
COLUMNS = [
    Column("large model", "model"),
    Column("hypotheses a state", "hypotheses"),
    Column("file, MB", "megabytes", "{:,.0f}"),
    *(Column(f"{name}, word errors", f"errors_{name}") for name in SETS),
    Column("other words than ours, utterances", "different"),
    Column("largest difference of scores", "difference", "{:.1e}"),
    *(Column(f"RTFx {name}", f"rtfx_{name}", "{:,.0f}") for name in SETS),
    Column("look-ups a frame", "lookups", "{:.1f}"),
    Column("not in the cache", "misses", "{:.1f}"),
]


def kenlm(folder: Path, kind: str) -> "arcbeam.KenLM":
    path = folder / f"large.{kind}"
    if not path.exists():
        raise datasets.DataMissing(f"{path} is not there; KenLM makes it: build_binary {kind} large.arpa large.{kind}")
    return arcbeam.KenLM(path)


def run(context: Context) -> Iterator[Row]:
    folder = Path(context.options.get("folder", datasets.CACHE / "large-lm"))
    say = context.progress
    small, graph = lm_task.small_model(folder, "small", say), lm_task.graph(folder, "small", say)
    large: dict[str, Any] = {"LanguageModel": lm_task.large_model(folder, say)}
    large |= {f"KenLM, {kind}": kenlm(folder, kind) for kind in KINDS}
    sets = [datasets.load(name).first(context.utterances) for name in SETS]
    for n in LIMITS:
        decoders = {
            name: arcbeam.CtcDecoder(
                graph, language_model=lm, graph_language_model=small, lm_scale=LM_SCALE, beam=BEAM, device="cpu",
                acoustic_scale=ACOUSTIC_SCALE, max_active=MAX_ACTIVE, threads=1, hypotheses_per_state=n,
            )
            for name, lm in large.items()
        }  # fmt: skip
        yield from rows(decoders, large, sets, n or "no limit")


def rows(decoders: dict[str, Any], large: dict[str, Any], sets: list[Any], limit: object) -> Iterator[Row]:
    """A row for each model, timed in turns."""
    seconds: dict[tuple[str, str], float] = {}
    answers: dict[str, list[Any]] = {}
    work: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for name, decoder in decoders.items():
            answers[name], work[name] = [], np.zeros(3)
            for which, dataset in zip(SETS, sets, strict=True):
                began = time.process_time()
                found = decoder.decode(dataset.utterances)
                took = time.process_time() - began
                seconds[name, which] = min(took, seconds.get((name, which), took))
                answers[name].append([(h.text, h.score) for h in found])
                work[name] += decoder.stats.frames, decoder.stats.lookups, decoder.stats.lookup_misses
    ours = [pair for found in answers["LanguageModel"] for pair in found]
    for name, model_ in large.items():
        theirs = [pair for found in answers[name] for pair in found]
        frames, lookups, misses = work[name]
        row: Row = {
            "model": name, "hypotheses": limit, "lookups": lookups / frames, "misses": misses / frames,
            "megabytes": (model_.nbytes if isinstance(model_, arcbeam.KenLM) else model_.info().bytes) / 1e6,
            "different": sum(a[0] != b[0] for a, b in zip(ours, theirs, strict=True)),
            "difference": max(abs(a[1] - b[1]) for a, b in zip(ours, theirs, strict=True)),
        }  # fmt: skip
        for which, dataset, found in zip(SETS, sets, answers[name], strict=True):
            rate = word_error_rate(dataset.references, [text for text, _ in found])
            row[f"errors_{which}"] = round(rate * sum(len(r.split()) for r in dataset.references))
            row[f"rtfx_{which}"] = dataset.seconds / seconds[name, which]
        yield row
