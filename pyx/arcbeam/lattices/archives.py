"""Files of Kaldi's compact lattices: archives (``.ark``), indexes (``.scp``) and files of one lattice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

from arcbeam.core.calls import lists_options
from arcbeam.core.errors import FormatError
from arcbeam.core.warn import warn
from arcbeam.files import kaldi_specifiers
from arcbeam.files.kaldi_archives import open_archive, read_id, scp_entries, whole_pipe
from arcbeam.files.kinds import PACKERS
from arcbeam.files.reading import check_is_file
from arcbeam.files.writing import replacing
from arcbeam.graph.inputs import Words, as_words
from arcbeam.graph.symbols import SymbolTable
from arcbeam.lattices import kaldi_binary, kaldi_text
from arcbeam.lattices.kaldi_lattice import KaldiLattice
from arcbeam.words import is_field

StrPath: TypeAlias = str | os.PathLike[str]

EXPECTED = 'names with lattices, such as {"utterance": hypothesis.lattice}, or pairs (name, lattice)'


class HasKaldiForm(Protocol):
    """A lattice that Kaldi's form can be made of: `arcbeam.Lattice`."""

    def to_kaldi(self, acoustic_scale: float | None = None, *, determinize: bool = True) -> KaldiLattice:
        """The lattice as Kaldi's programs have it."""

    @property
    def lattice_beam(self) -> float:
        """The cost above the best path up to which other paths are there."""


@lists_options()
def write_lattices(
    path: StrPath,
    lattices: Mapping[str, HasKaldiForm | KaldiLattice] | Iterable[tuple[str, HasKaldiForm | KaldiLattice]],
    *,
    text: bool = False,
    acoustic_scale: float | None = None,
    determinize: bool = True,
    scp: StrPath | None = None,
) -> None:
    """Writes an archive of compact lattices, which Kaldi's programs read as ``ark:path``.

    Each word sequence within ``lattice_beam`` of the best has one path, its best. There is a warning for a lattice so
    large that this holds for a smaller beam only.

    Parameters
    ----------
    path
        The archive; it gets its name when it is complete. Kaldi's specifiers set `text` and `scp`, too:
        ``"ark,t:FILE"``, ``"ark,scp:ARCHIVE,INDEX"``; ``"ark:-"`` is the standard output.
    lattices
        ``{utterance: lattice}``, or pairs of them, which are taken one at a time. A lattice is one of a hypothesis, or
        a `KaldiLattice`.
    text : bool
        Write Kaldi's text form.
    acoustic_scale : float, optional
        The decoder's: Kaldi's acoustic costs are not scaled, so they are divided by it. None takes that of the decoder
        which made the lattice. It does not concern a `KaldiLattice`.
    determinize : bool
        False writes all paths, as `Lattice.to_kaldi` says. It does not concern a `KaldiLattice`, either.
    scp
        Also write an index, with the place of each lattice in the archive.

    Raises
    ------
    ValueError
        An utterance's name is empty, has white space, or occurs twice; or a specifier of what arcbeam does not write.
    TypeError
        What is no lattice.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"path: expected the name of an archive, got {type(path).__name__}; the path comes first, then the lattices"
        )
    if not isinstance(lattices, Iterable):
        raise TypeError(f"lattices: expected {EXPECTED}, got {type(lattices).__name__}")
    pairs: Iterable[Any] = _checked(lattices.items() if isinstance(lattices, Mapping) else lattices)
    if isinstance(lattices, Sequence):
        pairs = list(pairs)  # an error comes before anything is written
    with lattice_archive(path, text=text, acoustic_scale=acoustic_scale, determinize=determinize, scp=scp) as add:
        for utterance, lattice in pairs:
            add(utterance, lattice)


def _checked(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """The items, which are pairs; no two of them have the same name."""
    positions: dict[str, int] = {}
    for position, pair in enumerate(items):
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"lattices: expected {EXPECTED}, got an item of type {type(pair).__name__}")
        if isinstance(pair[0], str) and (first := positions.setdefault(pair[0], position)) != position:
            raise ValueError(
                f"lattices: expected a name of its own for each lattice, got {pair[0]!r} for the items {first} and "
                f"{position}; rename one of them"
            )
        yield pair


@contextmanager
def lattice_archive(
    path: StrPath,
    *,
    text: bool = False,
    acoustic_scale: float | None = None,
    determinize: bool = True,
    scp: StrPath | None = None,
    opened: Callable[[StrPath], AbstractContextManager[BinaryIO]] = replacing,
) -> Iterator[Callable[[str, HasKaldiForm | KaldiLattice], None]]:
    """Opens an archive for lattices that come one by one: yields what writes (utterance, lattice) to it."""
    # `opened` opens files by their names, which may have the lattices of an earlier run.
    target = kaldi_specifiers.written(os.fsdecode(path))
    name, index = target.archive, target.scp if scp is None else scp
    encode = kaldi_text.encode if text or target.text else kaldi_binary.encode
    if index is not None and name == kaldi_specifiers.STANDARD:
        raise ValueError(f"scp: expected an archive with a name, which an index needs, got {os.fsdecode(path)}")
    with ExitStack() as open_files:
        to_pipe = name == kaldi_specifiers.STANDARD
        archive = open_files.enter_context(_standard_output() if to_pipe else opened(name))
        places = None if index is None else open_files.enter_context(opened(index))
        place = 0 if places is None else archive.tell()  # of what may be a pipe, nobody needs it

        def add(utterance: str, lattice: HasKaldiForm | KaldiLattice) -> None:
            nonlocal place
            _check_entry(utterance, lattice)
            if isinstance(lattice, KaldiLattice):
                kaldi = lattice
            else:
                kaldi = lattice.to_kaldi(acoustic_scale, determinize=determinize)
                _warn_of_beam(utterance, kaldi, lattice.lattice_beam)
            head = utterance.encode() + b" "
            data = head + encode(kaldi)
            if places is not None:
                places.write(f"{utterance} {name}:{place + len(head)}\n".encode())
            archive.write(data)
            place += len(data)

        yield add


def _warn_of_beam(utterance: str, written: KaldiLattice, expected: float) -> None:
    if written.beam is not None and written.beam < expected:
        warn(
            f"the lattice of {utterance!r} is complete within {written.beam:.2f} of its best path, not within its "
            f"lattice_beam of {expected:g}, because determinising it has a limit; use a smaller lattice_beam"
        )


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    """The standard output, which stays open, and is not emptied where it is a file that is appended to."""
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _check_entry(utterance: Any, lattice: Any) -> None:
    if not hasattr(lattice, "to_kaldi") and not isinstance(lattice, KaldiLattice):
        raise TypeError(
            f"lattices: expected a lattice for {utterance!r}, such as hypothesis.lattice of "
            f"decode(..., lattice=True), got {type(lattice).__name__}"
        )
    if not isinstance(utterance, str) or not is_field(utterance):
        raise ValueError(f"lattices: expected names of utterances without white space, got {utterance!r}")


@lists_options()
def read_lattices(path: StrPath, *, words: Words = None) -> Iterator[tuple[str, KaldiLattice]]:
    """Reads compact lattices one at a time: (utterance, lattice).

    Parameters
    ----------
    path
        An archive, binary or text; an index whose name ends with ``.scp``; or a file of one lattice, whose utterance is
        the file's name without its ending. ``ark:FILE`` and ``scp:FILE`` are taken, too; ``ark:-`` is the standard
        input, which is read to its end first.
    words : SymbolTable, path or list of str, optional
        The names of words, such as ``words.txt``: they become `KaldiLattice.word_symbols`. Lattices have numbers alone,
        so give the table of the graph that decoded: another one of the same size names other words.

    Raises
    ------
    FormatError
        The file is empty, damaged or cut short, or of another kind; the message names the utterance and the byte.
    OSError
        The file cannot be read.
    """
    table = as_words(words)
    kind, name = kaldi_specifiers.read(os.fsdecode(path)) or (None, os.fsdecode(path))
    place = Path(name)
    if (kind, name) == ("ark", kaldi_specifiers.STANDARD):
        found = _read_pipe(sys.stdin.buffer, place)
    else:
        check_is_file(place)
        is_index = kind == "scp" or (kind is None and place.suffix == ".scp")
        found = _read_index(place) if is_index else _read_archive(place)
    return _with_words(found, table)


def _with_words(
    lattices: Iterator[tuple[str, KaldiLattice]], words: SymbolTable | None
) -> Iterator[tuple[str, KaldiLattice]]:
    for utterance, lattice in lattices:
        lattice.word_symbols = words
        yield utterance, lattice


def _read_pipe(pipe: BinaryIO, path: Path) -> Iterator[tuple[str, KaldiLattice]]:
    with whole_pipe(pipe) as file:
        yield from _entries(file, path)


def _read_archive(path: Path) -> Iterator[tuple[str, KaldiLattice]]:
    with open(path, "rb") as file:
        yield from _entries(file, path)


def _entries(file: BinaryIO, path: Path) -> Iterator[tuple[str, KaldiLattice]]:
    size = os.fstat(file.fileno()).st_size
    head = file.read(4)
    file.seek(0)
    if not head:
        raise FormatError(f"{path}: expected a Kaldi archive of lattices, got an empty file")
    if head.startswith(tuple(PACKERS)):
        packer = next(name for beginning, name in PACKERS.items() if head.startswith(beginning))
        raise FormatError(
            f"{path}: expected a Kaldi archive of lattices, got a file packed by {packer}; unpack it first"
            + (f", as in gunzip --keep {path}" if packer == "gzip" else "")
        )
    if head == kaldi_binary.MAGIC or head[:1].isspace():
        yield path.stem, _lattice(file, size, str(path))
        if rest := file.read(64).strip():
            raise FormatError(f"{path}: expected nothing after a file's only lattice, got {rest!r}")
        return
    while (utterance := read_id(file, path)) is not None:
        yield utterance, _lattice(file, size, f"{path}: {utterance!r}")


def _read_index(path: Path) -> Iterator[tuple[str, KaldiLattice]]:
    opened: Path | None = None  # entries that stand side by side in an index are mostly of one archive
    with ExitStack() as archive:
        for utterance, target, offset, cut in scp_entries(path):
            where = f"{path}: {utterance!r} ({target}:{offset})"
            if cut:
                raise FormatError(f"{where}: expected no range, because lattices have none, got {cut}")
            if target != opened:
                archive.close()
                file = archive.enter_context(open_archive(target, path))
                opened, size = target, os.fstat(file.fileno()).st_size
            if offset > size:
                raise FormatError(f"{where}: starts beyond the end of the file, which has {size} bytes")
            file.seek(offset)
            yield utterance, _lattice(file, size, where)


def _lattice(file: BinaryIO, size: int, where: str) -> KaldiLattice:
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if head[:1].isspace():
        return kaldi_text.Decoder(file, where).lattice()
    if head != kaldi_binary.MAGIC:
        raise FormatError(f"{where}: byte {start}: expected a lattice, binary or text, got {head!r}")
    return kaldi_binary.Decoder(file, size, where).lattice()
