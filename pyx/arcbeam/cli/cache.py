"""The folder in which the command keeps graphs that it can build again."""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path


def folder() -> Path:
    """Return the user's cache folder for arcbeam; ``ARCBEAM_CACHE`` overrides the system's usual place."""
    chosen = os.environ.get("ARCBEAM_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "arcbeam"
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "arcbeam"


def key(files: Iterable[Path], recipe: str) -> str:
    """Return a name that depends on the content of `files` and on `recipe`: everything else that shapes the graph."""
    digest = hashlib.sha256(recipe.encode())
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]
