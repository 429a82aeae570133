"""The tokens that both decoders take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from arcbeam.core.checks import as_texts
from arcbeam.core.errors import FormatError
from arcbeam.files.lines import refuse_arpa


def columns_of(tokens: Any) -> list[str]:
    """The names of the columns, from a file with one a line or from a sequence."""
    if not isinstance(tokens, (str, os.PathLike)):
        return list(as_texts("tokens", tokens, "column"))
    refuse_arpa(tokens, Path(tokens).read_bytes())
    lines = Path(tokens).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if len(line.split()) != 1:
            raise FormatError(f"{os.fspath(tokens)}, line {number}: expected one token, got {line[:60]!r}")
    return [line.split()[0] for line in lines]
