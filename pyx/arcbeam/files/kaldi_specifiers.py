"""Kaldi's specifiers of tables, such as ``ark,t:FILE``, ``ark,scp:ARCHIVE,INDEX`` and ``ark:-``."""

import os
from typing import NamedTuple

from arcbeam.core.errors import FormatError

STANDARD = "-"  # the standard input or output
WRITTEN = {"t", "b", "f", "nf"}  # options that arcbeam follows, or that change nothing in what is written
READ = {"t", "b", "o", "no", "s", "ns", "cs", "ncs", "bg", "np"}  # that change nothing in what is read

READS = {"ark": "an archive", "scp": "an index of archives"}


class Written(NamedTuple):
    """Where a table goes."""

    archive: str
    scp: str | None = None
    text: bool = False


def written(given: str) -> Written:
    """A specifier, or the name of an archive; FormatError for what Kaldi writes and arcbeam does not."""
    words, target = _split(given)
    if words is None:
        if given.endswith(".scp"):
            raise FormatError(_writes_both(given))
        return Written(_archive(given, given))
    kinds = [word for word in words if word in ("ark", "scp")]
    if kinds == ["scp"]:
        raise FormatError(f"expected ark:FILE or ark,scp:ARCHIVE,INDEX, got {given!r}")
    _check_options(given, words, WRITTEN)
    if kinds == ["ark"]:
        if target.endswith(".scp"):
            raise FormatError(_writes_both(target))
        return Written(_archive(target, given), None, "t" in words)
    archive, comma, index = target.partition(",")
    if not comma or not archive or not index or STANDARD in (archive, index):
        raise FormatError(f"expected the names of an archive and its index after ark,scp:, got {given!r}")
    if kinds != ["ark", "scp"] or (archive.endswith(".scp") and index.endswith(".ark")):
        raise FormatError(f"expected ark,scp:ARCHIVE,INDEX, the archive first, got {given!r}")
    return Written(_archive(archive, given), _no_command(index, given), "t" in words)


def _writes_both(index: str) -> str:
    """The message where an index stands for an archive."""
    archive, comma, rest = index.partition(",")
    if comma:
        both = f"ark,scp:{archive},{rest.rpartition(':')[2]}"
        return f"expected an archive, got {index}; {both} writes an archive and its index"
    return f"expected an archive, got the index {index}; ark,scp:{index[:-4]}.ark,{index} writes both"


def _archive(name: str, given: str) -> str:
    """The name of an archive, which is not compressed."""
    if name.endswith(".gz"):
        raise FormatError(f"expected a name such as lattices.ark, got {given}; compress the archive when it is written")
    return _no_command(name, given)


def read(given: str) -> tuple[str, str] | None:
    """("ark" or "scp", name) of a specifier, whose name may be ``-``; None for the name of a file; or FormatError."""
    words, target = _split(given)
    if words is None or os.path.exists(given):
        return None
    kinds = [word for word in words if word in ("ark", "scp")]
    if len(kinds) != 1:
        raise FormatError(f"expected ark:FILE or scp:FILE to read, got {given!r}")
    _check_options(given, words, READ)
    for kind, ending, what in (("scp", ".ark", "an archive"), ("ark", ".scp", "an index")):
        if kinds == [kind] and target.endswith(ending):
            raise FormatError(f"expected {READS[kind]} after {kind}:, got {target}, {what}; give {ending[1:]}:{target}")
    return kinds[0], _no_command(target, given)


def _split(given: str) -> tuple[list[str] | None, str]:
    """The words in front of the colon and what is after it; no words if that is the name of a file."""
    head, colon, target = given.partition(":")
    words = head.split(",")
    if not colon or not {"ark", "scp"} & set(words):
        return None, given
    if not target:
        raise FormatError(f"expected a name after the colon, got {given!r}")
    return words, target


def _check_options(given: str, words: list[str], known: set[str]) -> None:
    for word in words:
        if word not in known and word not in ("ark", "scp"):
            raise FormatError(f"expected options among {', '.join(sorted(known))} in front of the colon, got {given!r}")


def _no_command(name: str, given: str) -> str:
    if name.startswith("|") or name.endswith("|"):
        raise FormatError(f"{given!r} has a shell command, and arcbeam runs none: use a file, or a pipe and ark:-")
    return name
