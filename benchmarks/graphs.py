"""The decoding graphs of the experiments, built once into the cache.

``char-3gram`` spells the words of the books 3-gram letter by letter; ``spm512-3gram`` and ``spm1024-3gram`` spell them
by the SentencePiece models of the workloads. Each has arcbeam's own file and the same graph as an OpenFst file.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.datasets import CACHE, data_folder

FOLDER = CACHE / "graphs"
NAMES = ("char-3gram", "spm512-3gram", "spm1024-3gram")


@dataclass(frozen=True)
class GraphFiles:
    """One graph as both kinds of decoder read it."""

    name: str
    arcbeam: Path
    fst: Path
    about: Path  # JSON: seconds and peak memory of the build, states, arcs

    def words(self) -> list[str]:
        """Output label to word."""
        import arcbeam

        symbols = arcbeam.Graph.load(self.arcbeam).word_symbols
        return [symbols.get(i, f"<{i}>") for i in range(max(i for i, _ in symbols.items()) + 1)]

    def facts(self) -> dict[str, object]:
        return json.loads(self.about.read_text())


def files(name: str) -> GraphFiles:
    return GraphFiles(name, *(FOLDER / f"{name}.{kind}" for kind in ("arcbeam", "fst", "json")))


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
        if not found.arcbeam.exists():
            progress(f"building {name} into {FOLDER}")
            build(found, progress)
        if not found.fst.exists():
            import arcbeam
            from benchmarks.openfst_writer import write_openfst

            partial = found.fst.with_suffix(".partial")
            write_openfst(arcbeam.Graph.load(found.arcbeam), partial)
            partial.replace(found.fst)
    return found


def build(wanted: GraphFiles, progress: Callable[[str], None]) -> None:
    began = time.monotonic()
    graph = make(wanted.name, progress)
    facts = {"seconds": round(time.monotonic() - began, 1), "states": graph.num_states, "arcs": graph.num_arcs}
    partial = wanted.arcbeam.with_suffix(".partial")
    graph.save(partial)
    wanted.about.write_text(json.dumps(facts) + "\n")
    partial.replace(wanted.arcbeam)


def make(name: str, progress: Callable[[str], None], **options: object):
    """Builds a graph by its name and returns it, unsaved."""
    from arcbeam.build.lexicon import Lexicon

    import arcbeam
    from arcbeam.symbols import TokenTable

    data = data_folder()
    lm = data / "lm" / "books.3gram.arpa.xz"
    words = (data / "lm" / "words.txt").read_text(encoding="utf-8").lower().split()
    if name == "char-3gram":
        tokens = TokenTable.read(data / "tokens.txt")
        return arcbeam.Graph.build(tokens, Lexicon.spell(words, tokens), lm, progress=progress, **options)
    from data.make_bpe_graph import bpe_graph

    pieces = int(name.removeprefix("spm").removesuffix("-3gram"))
    from benchmarks.datasets import sentencepiece_model

    return bpe_graph(sentencepiece_model(pieces), words, lm, progress=progress, **options)
