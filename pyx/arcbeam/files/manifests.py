"""Manifests: lists of utterances and the files of their log-probs, as TSV, as NeMo's JSON lines, or as Lhotse's cuts.

A path is relative to the working folder, or else to that of the manifest. Other fields of a line are not read.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.show import shortened
from arcbeam.files.lines import located, stream_lines
from arcbeam.files.reading import Entries, reading

SUFFIXES = (".tsv", ".json", ".jsonl", ".jsonl.gz")
ARRAYS = ("log_probs", "logits", "encoder_output")
"""Arrays of a cut of Lhotse. NeMo's lines have such a field, or one with ``_filepath``, with the path of the array."""
FIELDS = (*ARRAYS, *(f"{name}_filepath" for name in ARRAYS))
CUTS = ("MonoCut", "MultiCut", "MixedCut", "PaddingCut")  # the types of Lhotse's lines


def read(path: Path, read_array: Callable[[Path], np.ndarray]) -> Entries:
    """Yield each utterance, and what reads its log-probs: `read_array` takes the file that the manifest names."""
    if _has_cuts(path):
        yield from _cuts(path)
        return
    for number, line in stream_lines(path):
        name, target = (_tsv if path.suffix.lower() == ".tsv" else _json)(line, f"{path}:{number}")
        yield name, partial(_read_target, target, path, number, read_array)


def count(path: Path) -> int:
    """The number of utterances."""
    return sum(1 for _ in (_cuts(path) if _has_cuts(path) else stream_lines(path)))


def _read_target(target: str, path: Path, number: int, read_array: Callable[[Path], np.ndarray]) -> np.ndarray:
    """The array of the file that a line names."""
    try:
        return read_array(located(target, path))
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"{error.strerror}, and {path}:{number} names it", target) from None
    except ValueError as error:
        raise FormatError(f"{path}:{number}: {error}") from error


def _tsv(line: str, where: str) -> tuple[str, str]:
    """The id and the path of a line."""
    name, _, target = (part.strip() for part in line.partition("\t"))
    if not name or not target or "\t" in target:
        raise FormatError(f"{where}: expected 'id<TAB>path', got {shortened(line)}")
    return name, target


def _json(line: str, where: str) -> tuple[str, str]:
    """The id of a line, or else the name of its file without the ending, and the path."""
    fields = _object(line, where)
    paths = [fields[name] for name in FIELDS if fields.get(name) is not None]
    if len(paths) != 1 or not isinstance(paths[0], str) or not paths[0]:
        raise FormatError(
            f"{where}: expected the path of one array as one of {', '.join(FIELDS)}, got the fields {', '.join(fields)}"
        )
    name = fields.get("id", Path(paths[0]).stem)
    if not isinstance(name, (str, int)):
        raise FormatError(f"{where}: expected a name as id, got {shortened(name)}")
    return str(name), paths[0]


def _object(line: str, where: str) -> dict[str, Any]:
    """The fields of a line."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise FormatError(f"{where}: expected a JSON object a line, got {shortened(line)}")
    return fields


def _has_cuts(path: Path) -> bool:
    """Whether a manifest is Lhotse's, by its first line."""
    if path.suffix.lower() in (".gz", ".tsv"):
        return path.suffix.lower() == ".gz"
    number, line = next(stream_lines(path), (0, ""))
    return bool(number) and _object(line, f"{path}:{number}").get("type") in CUTS


def _cuts(path: Path) -> Entries:
    """Yield each cut, and what reads its array, or else its features."""
    cuts = iter(require("lhotse", "a manifest of cuts").CutSet.from_jsonl_lazy(path))
    while True:
        with reading(path, "a manifest of Lhotse's cuts"):
            cut = next(cuts, None)
        if cut is None:
            return
        yield cut.id, partial(_read_cut, cut, path)


def _read_cut(cut: Any, path: Path) -> np.ndarray:
    """The array of a cut."""
    names = [name for name in ARRAYS if cut.has_custom(name)]
    if len(names) > 1 or not (names or cut.has_features):
        raise FormatError(f"{path}: cut {cut.id!r}: expected one of {', '.join(ARRAYS)}, or features, got {names}")
    with reading(path, f"the array of cut {cut.id!r}"):
        found = cut.load_custom(names[0]) if names else cut.load_features()
    if getattr(found, "ndim", 0) != 2:
        raise FormatError(f"{path}: cut {cut.id!r}: expected [frames, columns], got {getattr(found, 'shape', found)}")
    return np.asarray(found)
