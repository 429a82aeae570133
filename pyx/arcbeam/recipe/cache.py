"""The user's folder of graphs that were built without a place of their own, and can be built again."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from arcbeam.core.errors import FormatError

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph


def folder() -> Path:
    """The user's cache folder for arcbeam; ``ARCBEAM_CACHE`` overrides the system's usual place."""
    chosen = os.environ.get("ARCBEAM_CACHE")
    if chosen:
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "arcbeam"
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "arcbeam"


def key(files: Iterable[str | os.PathLike[str]], said: str) -> str:
    """A name that depends on the content of `files`, on `said`, and on the code that builds graphs."""
    digest = hashlib.sha256(f"{_version()} {said}".encode("utf-8", "surrogatepass"))
    for path in [*files, *sorted(Path(__file__).parent.glob("*.py"))]:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:32]


def kept(
    kind: str, key: str, build: Callable[[], Graph], note: Callable[[str], None], *,
    rebuild: bool = False, newest_only: bool = False,
) -> Graph:  # fmt: skip
    """The graph of this kind and key from the cache, or what `build` makes, which is kept there.

    `note` gets a line where a graph cannot be read or kept. With `newest_only` the others of its kind are deleted.
    """
    from arcbeam.graph.graph import Graph

    path = folder() / f"{kind}-{key}.arcbeam"
    if not rebuild and path.exists():
        try:
            return Graph.load(path)
        except (FormatError, OSError, ValueError) as error:
            note(f"the cached graph cannot be used and is built again ({error})")
    graph = build()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        graph.save(path)
        for outdated in path.parent.glob(f"{kind}-*.arcbeam") if newest_only else ():
            if outdated != path:
                outdated.unlink(missing_ok=True)
    except OSError as error:
        note(f"the graph is not kept: {error}")
    return graph


def _version() -> str:
    try:
        return metadata.version("arcbeam")
    except metadata.PackageNotFoundError:  # it runs from its source folder
        return ""
