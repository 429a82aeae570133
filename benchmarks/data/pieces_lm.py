"""N-gram models of a transducer's pieces, and sentences held out of them, made on first use (minutes) into the cache.

All are of the books, without the demo's novel and without lines that share five words in a row with a set that is
measured (`data.train_transducer.read_text`). The held-out sentences are in none of the texts that `train_transducer`
takes when it spreads 100,000 or 400,000 lines over the books, and in no model. There are two 6-grams, of a third of the
books and of all (8 GB of memory while it is counted); the 2-gram is of those 400,000 lines and of the transcripts of
`throughput`, so of what the networks have read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.data import datasets
from benchmarks.data.graphs import one_at_a_time
from benchmarks.harness import seeds
from data import token_ngrams
from data.make_lm import NEMO_OFFSET
from data.pieces import Pieces

ORDER, PRUNE, WHOLE_PRUNE = 6, (0, 0, 1, 2, 3), (0, 0, 1, 3, 5)
LINES, WHOLE = 1_500_000, 4_400_000
TRAINED = (100_000, 400_000)
HELD_OUT = 400
WORDS = (6, 30)  # of a held-out sentence
MEASURED = ("test-other-100", "ljspeech-200", "an4-test", "demo")


@dataclass(frozen=True)
class Models:
    """ARPA files whose words are NeMo's, and the held-out sentences."""

    large: Path
    whole: Path
    low_order: Path
    held_out: list[str]


def get(pieces: Path) -> Models:
    """Of a SentencePiece model."""
    folder = datasets.CACHE / "transducer" / "lm"
    names = (f"pieces.{ORDER}gram.arpa", f"whole.{ORDER}gram.arpa", "trained.2gram.arpa")
    found = Models(*(folder / name for name in names), [])
    sentences = folder / "held-out.txt"
    with one_at_a_time(folder.name):
        if not sentences.exists():
            folder.mkdir(parents=True, exist_ok=True)
            held_out = make(pieces, found)
            sentences.write_text("".join(f"{text}\n" for text in held_out), encoding="utf-8")
    for path in (found.large, found.whole, found.low_order):
        seeds.weights(path)
    return replace(found, held_out=sentences.read_text(encoding="utf-8").splitlines())


def make(pieces: Path, models: Models) -> list[str]:
    """Writes the models and returns the held-out sentences."""
    from data import train_transducer  # needs torch

    books = datasets.data_folder() / "text" / "books.txt.xz"
    measured = [text for name in MEASURED for text in datasets.load(name).references]
    trained = [train_transducer.read_text(books, count, measured) for count in TRAINED]
    texts = train_transducer.read_text(books, LINES, measured)
    known, low, high = {text for one in trained for text in one}, *WORDS
    fresh = [text for text in dict.fromkeys(texts) if text not in known and low <= text.count(" ") + 1 <= high]
    held_out = [fresh[at] for at in np.linspace(0, len(fresh) - 1, HELD_OUT, dtype=int).tolist()]
    cutter, hidden = Pieces(pieces), set(held_out)
    spoken = [*trained[-1], *datasets.load("throughput").references]
    write(models.large, cutter, [text for text in texts if text not in hidden], ORDER, PRUNE)
    whole = train_transducer.read_text(books, WHOLE, measured)
    write(models.whole, cutter, [text for text in whole if text not in hidden], ORDER, WHOLE_PRUNE)
    write(models.low_order, cutter, spoken, 2)
    return held_out


def write(path: Path, cutter: Pieces, texts: Sequence[str], order: int, prune: Sequence[int] = ()) -> None:
    cut = ([piece for word in text.split() for piece in cutter.encode(word)] for text in texts)
    token_ngrams.write_arpa(path, cut, order, len(cutter), lambda token: chr(token + NEMO_OFFSET), prune)
