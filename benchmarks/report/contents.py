"""The list of all tables, ``results/tables/README.md``: what each measures, on which devices, at which commits."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks import papers
from benchmarks.harness import registry
from benchmarks.harness.registry import Column, Row
from benchmarks.report import tables
from benchmarks.report.results import TABLES, Result

NAME = "README"
PAPERS, OTHERS = "Tables and figures of papers", "Measurements of our own"
COLUMNS = [
    Column("paper", "paper"),
    Column("table", "table"),
    Column("what is measured", "summary"),
    Column("on", "on"),
]
INTRODUCTION = """\
# All tables

No figure of ours is typed by hand, and those of papers say where they were seen. A spread is the smallest and the
largest value over the repeats. Each result names the commit that it was measured at; `make release-check` fails where
the code of the kernels has changed since."""


def place(results: Path) -> Path:
    return results / TABLES / f"{NAME}.md"


def text(measured: list[Result]) -> str:
    names = [name for name in registry.names() if any(result.name == name for result in measured)]
    rows = [row(name, [result for result in measured if result.name == name]) for name in names]
    of_papers = sorted((row for row in rows if row["paper"]), key=lambda row: str(row["paper"]))
    lines = [INTRODUCTION]
    for title, some in ((PAPERS, of_papers), (OTHERS, [row for row in rows if not row["paper"]])):
        if some:
            lines += ["", f"## {title}", "", *tables.table(COLUMNS, some)]
    lines += ["", "## Machines", "", *tables.table(MACHINES, list(machines(measured))), "", tables.MADE]
    return "\n".join(lines) + "\n"


def row(name: str, measured: list[Result]) -> Row:
    """An experiment in one line: a link to its table, its first sentence, devices."""
    experiment = registry.load(name)
    key = getattr(experiment, "PAPER", None)
    first = " ".join(inspect.cleandoc(experiment.__doc__ or "").split("\n\n")[0].split())
    return {
        "paper": f"{key}: {authors(key)}" if key else None,
        "table": f"[{experiment.TITLE}]({name}.md)",
        "summary": re.split(r"(?<=\.) (?=[A-Z`])", first)[0].removeprefix(f"{key} "),
        "on": "; ".join(f"{result.device} ({result.day_and_commit})" for result in measured),
    }


def authors(paper: str) -> str:
    """Authors and year, with which a reference begins."""
    reference = papers.load(paper).reference
    year = re.search(r"\b\d{4}\b", reference)
    return reference[: year.end()] if year else reference


MACHINES = [
    Column("results", "device"),
    Column("GPU", "gpu"),
    Column("processors", "host"),
    Column("measured", "days"),
    Column("experiments", "results"),
]


def machines(measured: list[Result]) -> Iterator[Row]:
    """A row for each device: on which machines, when, and how many results there are."""
    for device in sorted({result.device for result in measured}):
        of_device = [result for result in measured if result.device == device]
        days = sorted(str(result.head["time"])[:10] for result in of_device)
        hosts = {"{processor}, {cores} cores".format(**result.head) for result in of_device}
        yield {
            "device": device,
            "gpu": "; ".join(sorted({result.gpu for result in of_device if result.gpu})) or None,
            "host": "; ".join(sorted(hosts)),
            "days": days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
            "results": len(of_device),
        }
