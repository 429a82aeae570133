"""What both decoders take: files of tokens, and arrays of torch or of NumPy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam.core.errors import FormatError


def columns_of(tokens: Any) -> list[str]:
    """The names of the columns, from a file with one a line or from a sequence."""
    if not isinstance(tokens, (str, os.PathLike)):
        return list(tokens)
    lines = Path(tokens).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if len(line.split()) != 1:
            raise FormatError(f"{os.fspath(tokens)}, line {number}: expected one token, got {line[:60]!r}")
    return [line.split()[0] for line in lines]


def taken(array: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The array without torch's gradients, and what turns one of NumPy into one of its library."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach(), torch.from_numpy
    return array, np.asarray
