"""``arcbeam bench``: runs the experiments of a checkout, which are no part of the installed package."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module, resources
from pathlib import Path

from arcbeam.cli.console import Failure
from arcbeam.cli.terminal import note

ENVIRONMENT = "ARCBEAM_CHECKOUT"
NO_CHECKOUT = (
    "the benchmarks are part of arcbeam's source, not of the installed package: run arcbeam bench in a checkout, "
    f"or say where it is with --checkout FOLDER or the environment variable {ENVIRONMENT}"
)


def is_checkout(folder: Path) -> bool:
    """Whether `folder` is the root of arcbeam's source."""
    return (folder / "benchmarks" / "__main__.py").is_file() and (folder / "pyx" / "arcbeam").is_dir()


def find_checkout(named: Path | None = None) -> Path:
    """Return the root of arcbeam's source: named, of the environment, around the current folder, or of this package."""
    if named is None and os.environ.get(ENVIRONMENT):
        named = Path(os.environ[ENVIRONMENT])
    if named is not None:
        if not is_checkout(named):
            raise Failure(f"{named}: expected a checkout of arcbeam, with the folders benchmarks and pyx/arcbeam")
        return named.resolve()
    here = Path.cwd()
    package = Path(str(resources.files("arcbeam")))
    for folder in (here, *here.parents, package.parent.parent):
        if is_checkout(folder):
            return folder.resolve()
    raise Failure(NO_CHECKOUT)


def run(arguments: Sequence[str], checkout: Path | None) -> int:
    """Run ``benchmarks`` of the checkout in this process; returns its exit code."""
    root = find_checkout(checkout)
    package = Path(str(resources.files("arcbeam"))).resolve()
    if package != root / "pyx" / "arcbeam":
        note(f"note: measuring the arcbeam that is installed in {package}, with the benchmarks of {root}")
    sys.path.insert(0, str(root))
    main = import_module("benchmarks.__main__").main
    return int(main(list(arguments), program="arcbeam bench"))
