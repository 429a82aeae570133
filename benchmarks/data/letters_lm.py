"""An n-gram model of letters for decoders that have no lexicon, counted on first use (a minute or two) into the cache.

Its text is a spread of lines of the books, without those that share five words in a row with a set that is measured.
Letters are written as NeMo does: column c of the log-probs is chr(c + 100).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.data import datasets
from benchmarks.data.graphs import one_at_a_time
from data import token_ngrams
from data.lines import runs, text_lines
from data.make_lm import NEMO_OFFSET

ORDER = 6
LINES, STEP = (400_000, 520_000), 4  # of the books, every fourth
MEASURED = ("test-other-100", "ljspeech-200", "demo")
OVERLAP = 5  # words


def get(names: Sequence[str]) -> Path:
    """The ARPA file; `names` are those of the columns but the blank, a space between words."""
    path = datasets.CACHE / "lm" / f"letters.{ORDER}gram.arpa"
    with one_at_a_time(path.name):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            token_ngrams.write_arpa(path, texts(names), ORDER, len(names), lambda column: chr(column + NEMO_OFFSET))
    return path


def texts(names: Sequence[str]) -> Iterator[list[int]]:
    """The lines as columns; without those that the columns cannot write."""
    column_of = {name: column for column, name in enumerate(names)}
    known = {run for name in MEASURED for text in datasets.load(name).references for run in runs(text, OVERLAP)}
    for line in islice(text_lines(datasets.data_folder() / "text" / "books.txt.xz", *LINES), 0, None, STEP):
        text = " ".join(line.split())
        if column_of.keys() >= set(text) and known.isdisjoint(runs(text, OVERLAP)):
            yield [column_of[letter] for letter in text]
