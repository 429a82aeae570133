"""Word error rate of the 3-gram graph on real speech, and of greedy decoding.

Acoustic scales are compared on `ljspeech-200` (tuning); `test-other-100` is never tuned on. The LM has read the book
that `demo` is taken from, which flatters its figure there.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.adapters import SearchOptions
from benchmarks.adapters.arcbeam_cpu import ArcbeamCpu
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ORDER = 30
TITLE = "Word error rate"
SETS = ("test-other-100", "ljspeech-200", "an4-test", "demo")
SCALES = (1.0, 1.5, 2.0)
COLUMNS = [
    Column("set", "set"),
    Column("utterances", "utterances"),
    Column("words", "words", "{:,}"),
    Column("greedy, %", "greedy", "{:.2f}"),
    *(Column(f"acoustic scale {scale:g}, %", f"scale_{scale:g}", "{:.2f}") for scale in SCALES),
]


def greedy(dataset: datasets.Dataset) -> list[str]:
    """Best column of each frame, repeats and blanks removed; the columns are letters."""
    blank = dataset.tokens.index("<blank>")
    found = []
    for utterance in dataset.utterances:
        best = utterance.argmax(axis=1)
        kept = best[np.concatenate([[True], best[1:] != best[:-1]])]
        letters = (dataset.tokens[c].replace("<space>", " ") for c in kept if c != blank)
        found.append(" ".join("".join(letters).split()))
    return found


def run(context: Context) -> Iterator[Row]:
    files = graphs.get("char-3gram", context.progress)
    decoders = {s: ArcbeamCpu(files, SearchOptions(17.0, 10_000, s), threads=2) for s in SCALES}
    for name in SETS:
        dataset = datasets.load(name).first(context.utterances)
        row: Row = {
            "set": name,
            "utterances": len(dataset.ids),
            "words": sum(len(r.split()) for r in dataset.references),
            "greedy": 100 * word_error_rate(dataset.references, greedy(dataset)),
        }
        for scale, decoder in decoders.items():
            texts = [a.text for a in decoder.answers(decoder.decode(decoder.prepare(dataset.utterances)))]
            row[f"scale_{scale:g}"] = 100 * word_error_rate(dataset.references, texts)
        yield row
