"""The decoding graphs of the experiments, built once into the cache.

``char-3gram`` spells the 211 k words of the books 3-gram letter by letter; ``spm512-3gram`` and ``spm1024-3gram`` spell
the LibriSpeech vocabulary by the SentencePiece models of the workloads, with a pruned 3-gram. Each has arcbeam's own
file and the OpenFst file that it was compiled from.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arcbeam
from benchmarks.datasets import CACHE, data_folder, sentencepiece_model
from data import arpa_prune
from data.make_bpe_graph import bpe_graph

FOLDER = CACHE / "graphs"
NAMES = ("char-3gram", "spm512-3gram", "spm1024-3gram")
SMALL_WORDS, SMALL_PRUNE = 5000, 1e-5  # of the graph that is also built without epsilons


@dataclass(frozen=True)
class GraphFiles:
    """One graph as both kinds of decoder read it."""

    name: str
    arcbeam: Path
    fst: Path

    def words(self) -> list[str]:
        """Output label to word."""
        symbols = arcbeam.Graph.load(self.arcbeam).word_symbols
        return [symbols.get(i, f"<{i}>") for i in range(max(i for i, _ in symbols.items()) + 1)]


def files(name: str) -> GraphFiles:
    return GraphFiles(name, *(FOLDER / f"{name}.{kind}" for kind in ("arcbeam", "fst")))


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Only one process builds: the second finds the files of the first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def get(name: str, progress: Callable[[str], None] = print) -> GraphFiles:
    """The files of a graph, built on first use (minutes)."""
    if name not in NAMES:
        raise KeyError(f"no graph {name!r}; there are: {', '.join(NAMES)}")
    found = files(name)
    with one_at_a_time():
        if not (found.arcbeam.exists() and found.fst.exists()):
            progress(f"building {name} into {FOLDER}")
            partial = found.fst.with_suffix(".partial")
            graph = make(name, openfst=partial)
            graph.save(found.arcbeam)
            partial.replace(found.fst)
    return found


def make(name: str, **options: Any) -> "arcbeam.Graph":
    """Builds a graph by its name, with options of :meth:`arcbeam.Graph.build`; it is not kept."""
    from arcbeam.build.lexicon import Lexicon, words_of_arpa
    from arcbeam.symbols import TokenTable

    data = data_folder()
    lm = data / "lm" / "books.3gram.arpa.xz"
    words = (data / "lm" / "words.txt").read_text(encoding="utf-8").split()
    if name == "char-3gram":
        tokens = TokenTable.read(data / "tokens.txt")
        return arcbeam.Graph.build(tokens, Lexicon.spell(words_of_arpa(lm), tokens), lm, **options)
    if name == "char-small":
        return make_small(data / "tokens.txt", words[:SMALL_WORDS], lm, **options)
    pieces = int(name.removeprefix("spm").removesuffix("-3gram"))
    return bpe_graph(sentencepiece_model(pieces), words, lm, **options)


def make_small(tokens_file: Path, words: list[str], lm: Path, **options: Any) -> "arcbeam.Graph":
    """A graph small enough to write its back-off arcs out: few words, few n-grams."""
    from arcbeam.build.lexicon import Lexicon
    from arcbeam.symbols import TokenTable

    pruned = FOLDER / "small.arpa"
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not pruned.exists():
        arpa_prune.prune_file(lm, pruned, SMALL_PRUNE)
    tokens = TokenTable.read(tokens_file)
    return arcbeam.Graph.build(tokens, Lexicon.spell(words, tokens), pruned, **options)
