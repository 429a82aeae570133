"""Refuses outputs that are files which the command reads, before any of them is opened."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.files.kaldi_specifiers import read, written

OUTPUTS = ("output", "lattice", "openfst", "plot")  # parameters that name files to write
TEXTS = ("graph", "inputs")  # parameters that name files to read and are no paths
TABLES = (".tokens.txt", ".words.txt")  # what --openfst writes besides its file


def check_overwrites(given: Mapping[str, Any]) -> None:
    """FormatError for an output that is one of the files to read; `given` are the command's parameters by name."""
    names = [name for parameter, value in given.items() if parameter not in OUTPUTS for name in _read(parameter, value)]
    for option in OUTPUTS:
        for output in _written(option, given.get(option)):
            for name in names if os.path.isfile(output) else ():
                if _is_read(output, name):
                    where = "" if os.path.isfile(name) else f", in the folder {name}"
                    raise FormatError(f"--{option}: {output} is one of the files to read{where}; name another file")


def _is_read(output: str, name: str) -> bool:
    """Whether an existing file is the one of this name, or one of the inputs in the folder of this name."""
    if os.path.isfile(name):
        return os.path.samefile(name, output)
    if not os.path.isdir(name) or not os.path.samefile(name, os.path.dirname(os.path.realpath(output))):
        return False
    from arcbeam.files.log_probs import SUFFIXES

    return output.lower().endswith(SUFFIXES)


def _read(parameter: str, value: Any) -> Iterator[str]:
    """The names of files and folders that the value of a parameter has."""
    for one in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(one, Path):
            yield os.fspath(one)
        elif parameter in TEXTS:
            with suppress(FormatError):  # which the reader of inputs raises
                specifier = read(one)
                yield one if specifier is None else specifier[1]


def _written(option: str, value: Any) -> Iterator[str]:
    """The names of the files that an option makes the command write."""
    if value is None:
        return
    if option == "lattice":
        with suppress(FormatError):  # which `check_lattice_file` raises
            archive, index, _ = written(value)
            yield from (archive,) if index is None else (archive, index)
        return
    yield os.fspath(value)
    if option == "openfst":
        yield from (os.fspath(Path(value).with_suffix(table)) for table in TABLES)
