"""Writes docs/benchmarks.md, its plots, the README's table and all others from the result files alone.

``python -m benchmarks.report``
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import record, registry
from benchmarks.report import contents, page, picture, readme, release, tables
from benchmarks.report.results import TABLES, Result, found, plot

PAGE = record.ROOT / "docs" / "benchmarks.md"
COMMAND = "python -m benchmarks.report"


def texts(results: Path, place: Path, measured: list[Result]) -> dict[Path, str]:
    """What is written of these results: the page at its place, the list of tables, and a table an experiment.

    The README, where there is one, is that of the folder above the page's.
    """
    made = {place: page.text(results, place, measured), contents.place(results): contents.text(measured)}
    front = place.parent.parent / "README.md"
    if front.exists():
        made[front] = readme.text(front.read_text(encoding="utf-8"), measured)
    for name in dict.fromkeys(result.name for result in measured):
        of_name = [result for result in measured if result.name == name]
        made[tables.place(results, name)] = tables.text(name, of_name, place)
    return made


def without_results(results: Path, made: dict[Path, str]) -> list[Path]:
    """Tables that were written there and that no result gives any more; a page of somebody's own is none."""
    others = sorted(path for path in (results / TABLES).glob("*.md") if path not in made)
    return [path for path in others if path.read_text(encoding="utf-8").endswith(f"\n{tables.MADE}\n")]


def differences(results: Path, place: Path) -> Iterator[str]:
    """What is not what the results give, one file a line."""
    measured = list(found(results))
    made = texts(results, place, measured)
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield f"{path} is not what the results give: run {COMMAND}"
    for path in without_results(results, made):
        yield f"{path} is of no result: run {COMMAND}"
    panels = picture.panels(measured)
    drawn = place.parent / picture.NAME
    if panels and not picture.is_current(drawn, panels):
        yield f"{drawn} is not what the results give: install .[bench] and run {COMMAND}"


def write(results: Path, place: Path) -> None:
    """Writes the page, the tables and the plots."""
    measured = list(found(results))
    made = texts(results, place, measured)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in without_results(results, made):
        path.unlink()
    draw(measured, place.parent)


def draw(measured: list[Result], folder: Path) -> None:
    """Writes the plots of the experiments that have some, and the picture of peers; the page lies in the folder.

    Without matplotlib those that are there stay as they are, and a line says so.
    """
    panels = picture.panels(measured)
    if panels:
        (folder / picture.NAME).parent.mkdir(parents=True, exist_ok=True)
        _with_matplotlib(folder / picture.NAME, lambda path: path.write_text(picture.svg(panels), encoding="utf-8"))
    for result in measured:
        experiment = registry.load(result.name)
        if hasattr(experiment, "draw"):
            _with_matplotlib(folder / plot(result.device, result.name), partial(experiment.draw, result.rows))


def _with_matplotlib(path: Path, write_to: Callable[[Path], object]) -> None:
    try:
        write_to(path)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "matplotlib":
            raise
        print(f"{path} is left as it is: matplotlib is not installed (pip install matplotlib)", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a file is not what the results give")
    parser.add_argument("--release", action="store_true", help="the same, and if a result is stale or a trial")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder; tables are written into it")
    parser.add_argument("--page", type=Path, default=PAGE, help="plots are written beside it")
    args = parser.parse_args()
    if not args.check and not args.release:
        write(args.results, args.page)
        return 0
    wrong = list(release.unfit(args.results, args.page.parent)) if args.release else []
    wrong += differences(args.results, args.page)
    print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
