"""The decoding graphs of the experiments, built once into the cache, and those that a user brings.

``char-3gram`` spells the 211 k words of the books 3-gram letter by letter; ``spm256-3gram``, ``spm512-3gram`` and
``spm1024-3gram`` spell the LibriSpeech vocabulary by the SentencePiece models of the workloads, with a pruned 3-gram.
All have the compact topology; with ``-normal`` after the name, the normal one. With ``-open`` after it they have a
slot for new words, but no OpenFst file. ``char-large`` has 12 million states, from a larger LM, and ``spm512-5gram`` no
lexicon, its LM being one of pieces; `data/make_lm.py` makes both LMs, for the folder ``lm`` of the cache. Each other
graph has arcbeam's own file and the OpenFst file that it was compiled from. A path names a graph of your own, see
:func:`own`.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import arcbeam
from arcbeam.files import packed_files
from arcbeam.files.writing import replacing
from arcbeam.graph.graph_file import KIND
from arcbeam.graph.token_table import TokenTable
from benchmarks.data.datasets import CACHE, DataMissing, data_folder, sentencepiece_model
from benchmarks.data.openfst_writer import write_openfst
from data.make_bpe_graph import PRUNE_THRESHOLD, bpe_graph
from data.pieces import Pieces

FOLDER = CACHE / "graphs"
NAMES = ("char-3gram", "spm256-3gram", "spm512-3gram", "spm1024-3gram", "char-large", "spm512-5gram")
LMS = {"char-large": CACHE / "lm" / "large.3gram.arpa.xz", "spm512-5gram": CACHE / "lm" / "spm512.5gram.arpa.xz"}
PIECES_LM_SCALE = 0.6  # of spm512-5gram, tuned on a workload of another seed
NORMAL = "-normal"  # of a name: the same graph with the normal topology
OPEN = "-open"  # of a name: the same graph with an open slot


@cache
def _load(path: Path) -> "arcbeam.Graph":
    return arcbeam.Graph.load(path)


@dataclass(frozen=True)
class GraphFiles:
    """What decoders are made from: one graph in two file formats, and the tables and the LM that it was built from."""

    name: str
    arcbeam: Path
    fst: Path
    lm: Path | None = None  # word n-grams, ARPA; None where nobody knows

    @property
    def graph(self) -> "arcbeam.Graph":
        """The compiled graph, mapped once a process."""
        return _load(self.arcbeam)

    @property
    def tokens(self) -> TokenTable:
        """The columns of the log-probs and the blank. Raises DataMissing where the graph has no tokens."""
        if self.graph.tokens is None:
            raise DataMissing(f"{self.name}: the graph has no tokens; say tokens=FILE")
        return self.graph.tokens

    @property
    def separator(self) -> str | None:
        """The token between words (`graph.separator_column` is then its column), or the mark of a word's start."""
        return self.graph.separator

    def words(self) -> list[str]:
        """Output label to word."""
        symbols = self.graph.word_symbols
        if symbols is None:
            raise DataMissing(f"{self.name}: the graph has no word symbols; say words=FILE")
        return [symbols.get(i, f"<{i}>") for i in range(max(i for i, _ in symbols.items()) + 1)]

    def lexicon(self) -> list[tuple[str, list[int]]]:
        """Every pronunciation, a word and its columns, separators not included; for decoders with a prefix trie."""
        said = self.graph.pronunciations
        if said is None:
            raise DataMissing(f"{self.name}: the graph has no pronunciations; build it with arcbeam build-graph")
        words, offsets, columns = self.words(), said.offsets.tolist(), said.columns.tolist()
        return [(words[w], columns[offsets[p] : offsets[p + 1]]) for p, w in enumerate(said.words.tolist())]

    def arpa(self) -> Path:
        """The LM as plain text, as KenLM reads it; unpacked into the cache on first use."""
        if self.lm is None:
            raise DataMissing(f"{self.name}: the language model of the graph is not known; say lm=FILE")
        return plain_arpa(self.lm)


def plain_arpa(path: Path) -> Path:
    """An ARPA file as plain text; unpacked into the cache on first use if it is compressed."""
    if path.suffix == ".arpa":
        return path
    plain = FOLDER / f"{path.name.split('.arpa')[0]}-{_digest(path)}.arpa"
    with one_at_a_time(plain.name):
        if not plain.exists():
            with replacing(plain) as out:
                out.writelines(packed_files.blocks(path))
    return plain


def _digest(*files: str | os.PathLike[str] | None) -> str:
    """A few letters that change with the files' paths, sizes and times."""
    told = [(os.path.abspath(f), os.stat(f).st_size, os.stat(f).st_mtime_ns) for f in files if f is not None]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:10]


def base_of(name: str) -> str:
    """A name of `NAMES` without what may follow it."""
    return name.removesuffix(OPEN).removesuffix(NORMAL)


def files(name: str) -> GraphFiles:
    """Where the files of a graph are, or will be."""
    data = data_folder()
    lm = data / "lm" / "books.3gram.arpa.xz"
    base = base_of(name)
    if base in LMS:
        lm = LMS[base]
    elif base.startswith("spm"):
        pieces = int(base.removeprefix("spm").removesuffix("-3gram"))
        lm = CACHE / f"workload-{pieces}" / f"spm{pieces}-books.3gram-{PRUNE_THRESHOLD:g}.arpa"
    return GraphFiles(name, FOLDER / f"{name}.arcbeam", FOLDER / f"{name}.fst", lm)


def own(
    path: str | Path,
    *,
    lm: str | Path | None = None,
    words: str | Path | None = None,
    tokens: str | Path | None = None,
    progress: Callable[[str], None] = print,
) -> GraphFiles:
    """A graph that a user brings: arcbeam's own file, or an OpenFst file with its words and tokens.

    The other of the two formats is made into the cache.
    """
    path = Path(path).resolve()
    with path.open("rb") as file:
        is_ours = file.read(len(KIND.magic)) == KIND.magic
    kept = FOLDER / f"own-{path.stem}-{_digest(path, words, tokens)}"
    ours, fst = (path, kept.with_suffix(".fst")) if is_ours else (kept.with_suffix(".arcbeam"), path)
    with one_at_a_time(kept.name):
        if is_ours and not fst.exists():
            progress(f"writing {fst}")
            write_openfst(arcbeam.Graph.load(ours), fst)
        elif not is_ours and not ours.exists():
            progress(f"writing {ours}")
            arcbeam.Graph.load(fst, words=words, tokens=tokens).save(ours)
    return GraphFiles(path.stem, ours, fst, None if lm is None else Path(lm).resolve())


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Only one process builds what has this name: the second finds the files of the first."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def get(name: str, progress: Callable[[str], None] = print) -> GraphFiles:
    """The files of a graph, built on first use (minutes)."""
    if base_of(name) not in NAMES:
        raise KeyError(f"no graph {name!r}; there are: {', '.join(NAMES)}, each also with {NORMAL} or {OPEN}")
    found = files(name)
    with one_at_a_time(name):
        if name.endswith(OPEN):
            if not found.arcbeam.exists():
                progress(f"building {name} into {FOLDER}")
                make(name).save(found.arcbeam)
        elif not (found.arcbeam.exists() and found.fst.exists()):
            progress(f"building {name} into {FOLDER}")
            make(name, openfst=found.fst).save(found.arcbeam)
    return found


def make(name: str, **options: Any) -> "arcbeam.Graph":
    """Builds a graph by its name, with options of :meth:`arcbeam.Graph.build`; it is not kept."""
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    options = {"progress": True, **options}  # in the log of a job, too
    if name.endswith(OPEN):
        name, options = name.removesuffix(OPEN), {"open_slot": True, **options}
    if name.endswith(NORMAL):
        name, options = name.removesuffix(NORMAL), {"topology": "normal", **options}
    data = data_folder()
    lm = data / "lm" / "books.3gram.arpa.xz"
    if name in LMS:
        lm = LMS[name]
        if not lm.exists():
            raise DataMissing(f"{name}: there is no lm/{lm.name} in the cache; data/make_lm.py says how to make it")
    if name == "spm512-5gram":
        names = Pieces(sentencepiece_model(512)).tokens()
        options = {"lm_scale": PIECES_LM_SCALE, "token_encoding": "nemo", **options}
        return arcbeam.Graph.build(names, None, lm, **options)
    if name in ("char-3gram", "char-large"):
        tokens = TokenTable.read(data / "tokens.txt")
        return arcbeam.Graph.build(tokens, Lexicon.spell(words_of_arpa(lm), tokens), lm, **options)
    words = (data / "lm" / "words.txt").read_text(encoding="utf-8").split()  # the others get theirs from the LM
    pieces = int(name.removeprefix("spm").removesuffix("-3gram"))
    return bpe_graph(sentencepiece_model(pieces), words, lm, **options)
