"""Help for commands that use graphs: loading with the tables of other tools, building with progress, describing."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.cli.console import Failure
from arcbeam.cli.options import TRANSDUCERS, parse_blank
from arcbeam.cli.terminal import is_terminal, note, steps
from arcbeam.core.errors import FormatError
from arcbeam.files.lines import read_text

if TYPE_CHECKING:
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.info import GraphInfo
    from arcbeam.lm.language_model import LanguageModelInfo
    from arcbeam.recipe.progress import BuildEvent
    from arcbeam.transducer.decoder import TransducerDecoder

OTHER_FILES = {
    TRANSDUCERS: "a transducer is for arcbeam transduce, which streams with --chunk-frames",
    (".npz", ".npy", ".ark", ".scp"): "to decode, the graph comes first, and then the log-probs",
    (".arpa", ".arpa.gz", ".arpa.xz", ".arpa.bz2"): "build-graph --lm makes a graph with an ARPA language model",
}
"""What to do with files in the place of a graph, by the ends of their names."""
COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh")  # the first bytes of gzip, xz and bzip2 files


def load_graph(
    path: str,
    *,
    words: Path | None = None,
    tokens: Path | None = None,
    lexicon: Path | None = None,
    blank: str | None = None,
    force: bool = False,
    label_to_column: Path | None = None,
    max_bytes: str | None = None,
) -> "Graph":
    """Load a graph of arcbeam's own or of OpenFst."""
    from arcbeam import Graph

    table = read_label_table(label_to_column) if label_to_column else None
    try:
        with steps(f"loading {path}"):
            return Graph.load(
                path, words=words, tokens=tokens, lexicon=lexicon, blank=parse_blank(blank), label_to_column=table,
                force=force, max_bytes=max_bytes,
            )  # fmt: skip
    except FormatError as error:
        hint = next((text for ends, text in OTHER_FILES.items() if path.endswith(ends)), None)
        if hint is None:
            raise
        raise FormatError(f"{error}; {hint}") from error


def info_of(path: str, **tables: Any) -> "GraphInfo | LanguageModelInfo":
    """Describe a graph, with the `tables` of `load_graph`, or a language model; the first bytes say which."""
    from arcbeam import LanguageModel
    from arcbeam.lm import kenlm_file, lm_file

    with open(path, "rb") as file:
        head = file.read(4096)
    if lm_file.KIND.begins(head):
        if given := [name for name, value in tables.items() if value not in (None, False)]:
            raise Failure(f"{path} is a language model, which takes no --{given[0].replace('_', '-')}")
        return LanguageModel.load(path).info()
    if head.startswith(kenlm_file.MAGIC):
        raise Failure(
            f"{path}: expected a graph or a language model of arcbeam, got KenLM's binary format, which decode takes "
            "as --language-model"
        )
    if head.startswith(COMPRESSED) or b"\\data\\" in head:
        raise Failure(f"{path}: expected a graph or a language model of arcbeam; build-lm makes one from an ARPA file")
    return load_graph(path, **tables).info()


def read_label_table(path: Path) -> np.ndarray:
    """Read lines of ``label column`` into an array indexed by label, -1 where a label has no column."""
    columns: dict[int, int] = {}
    for number, line in enumerate(read_text(path).decode("utf-8", "replace").split("\n"), 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or not all(f.isascii() and f.isdigit() and len(f) < 10 for f in fields):
            raise FormatError(f"{path}:{number}: expected 'label column', got {line.strip()!r}")
        label, column = int(fields[0]), int(fields[1])
        if columns.setdefault(label, column) != column:
            raise FormatError(f"{path}:{number}: label {label} has the columns {columns[label]} and {column}")
    if not columns:
        raise FormatError(f"{path}: the table is empty")
    if max(columns) > 16 * len(columns) + 1024:
        raise FormatError(f"{path}: label {max(columns)} is far beyond the {len(columns)} labels of the table")
    table = np.full(max(columns) + 1, -1, np.int64)
    table[list(columns)] = list(columns.values())
    return table


@contextmanager
def build_steps(first: str) -> "Iterator[Callable[[BuildEvent], None]]":
    """Yields the ``progress=`` of a build: a spinner names the step, where there is a terminal, and lines the rest."""
    with steps(first) as begin:

        def tell(event: "BuildEvent") -> None:
            if event.is_begin and is_terminal():
                begin(event.message)
            else:
                note(str(event))

        yield tell


def build(
    *,
    tokens: Path,
    lm: Path,
    lexicon: Path | None = None,
    word_list: Path | None = None,
    lm_words: bool = False,
    sentencepiece_model: Path | None = None,
    separator: str | None = "auto",
    blank: int | str | None = None,
    max_bytes: str | None = None,
    **options: Any,
) -> "Graph":
    """Build a graph with `arcbeam.recipe`; without lexicon, word list and `lm_words` the vocabulary is open."""
    from arcbeam.graph.graph import Graph
    from arcbeam.graph.token_table import TokenTable
    from arcbeam.recipe.lexicon import Lexicon
    from arcbeam.recipe.word_lists import words_of_arpa

    made: Path | Lexicon | None = lexicon
    table: Path | TokenTable = tokens
    with build_steps("reading the words") as tell:
        if word_list is not None or lm_words:
            words = word_list if word_list is not None else words_of_arpa(lm, max_bytes)
            table = TokenTable.read(tokens, blank)
            if sentencepiece_model is not None:
                made = Lexicon.sentencepiece(words, sentencepiece_model, table, max_bytes=max_bytes)
            else:
                made = Lexicon.spell(words, table, separator, max_bytes=max_bytes)
        return Graph.build(
            table, made, lm, separator=separator, blank=blank, max_bytes=max_bytes, progress=tell, **options
        )  # fmt: skip


def info_fields(info: Any) -> dict[str, Any]:
    """Return the fields of a `GraphInfo` as plain Python values."""
    return {name: _plain(value) for name, value in dataclasses.asdict(info).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool, dict, list, tuple, type(None))) else str(value)


def describe_device(decoder: "CtcDecoder | TransducerDecoder") -> str:
    """Name where a decoder works, such as ``cpu, 2 threads`` or ``cuda:0``."""
    if decoder.device != "cpu":
        return decoder.device
    threads = decoder.options.threads
    return f"{decoder.device}, {threads} thread{'s'[: threads != 1]}"


def describe_devices(decoders: "Sequence[CtcDecoder | TransducerDecoder]") -> str:
    """Name where one decoder works, or each of several."""
    return " and ".join(map(describe_device, decoders))
