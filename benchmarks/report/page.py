"""The page docs/benchmarks.md: what was measured on what, the few figures that matter, and the rest by links."""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import papers
from benchmarks.harness import registry
from benchmarks.harness.registry import Column, Row
from benchmarks.report import peers, picture, tables
from benchmarks.report.results import OTHER_HOST_CODE_MARK, STALE_MARK, Result, link, plot

PAPERS, OTHERS = "Tables and figures of papers", "Measurements of our own"
TESTS, SANITIZERS = "gpu_tests", "gpu_sanitizers"
INTRODUCTION = f"""\
# Benchmarks

    python -m benchmarks --list         # the experiments; docs/benchmarks-howto.md tells how to run them
    python -m benchmarks.report         # this page and the tables that it links, from the result files alone

No figure of ours is typed by hand, and those of papers say where they were seen. RTFx is seconds of audio over seconds
of decoding; a spread is the smallest and the largest value over the repeats. The mark{STALE_MARK}: measured with other
kernels than those of this version;{OTHER_HOST_CODE_MARK}: only the code around the kernels has changed since.
"""

PEERS = """\
Both decode the same log-probs in the same run. A line has the smallest and the largest figure of all its conditions
(sets, graphs, beams, batches). In `gk23_table3` slow decoders have fewer minutes than arcbeam, whose WER is of more.
"""


def text(results: Path, page: Path, measured: Sequence[Result]) -> str:
    """The page, for its place: links are relative to it."""

    def table_of(name: str) -> str:
        return link(tables.place(results, name), page.parent)

    lines = [INTRODUCTION.rstrip(), "", *machines(measured)]
    if rows := list(peers.compared(measured, table_of)):
        lines += ["", "## Compared with other decoders", ""]
        panels = picture.panels(measured)
        if panels:
            marks = {(result.name, _gpu(result)): result.warning[1] for result in measured}
            runs = [f"[{one.run}]({table_of(one.experiment)}){marks[one.experiment, one.gpu]}" for one in panels]
            lines += [f"![{picture.TITLE}]({picture.NAME})", "", picture.caption(panels), ""]
            lines += [f"The runs: {'; '.join(runs)}.", ""]
        lines += [PEERS, *tables.table(peers.COLUMNS, rows)]
    names = [name for name in registry.names() if any(result.name == name for result in measured)]
    rows_of = [line(name, measured, table_of(name)) for name in names]
    of_papers = sorted((row for row in rows_of if row["paper"]), key=lambda row: str(row["paper"]))
    for title, rows in ((PAPERS, of_papers), (OTHERS, [row for row in rows_of if not row["paper"]])):
        if rows:
            lines += ["", f"## {title}", "", *tables.table(COLUMNS, rows)]
    lines += [*plots(measured), *tests(measured, table_of)]
    return "\n".join(lines) + "\n"


COLUMNS = [
    Column("paper", "paper"),
    Column("table", "table"),
    Column("what is measured", "summary"),
    Column("on", "devices"),
]


def line(name: str, measured: Sequence[Result], target: str) -> Row:
    """An experiment in one line: a link to its table, its first sentence, devices and marks."""
    experiment = registry.load(name)
    key = getattr(experiment, "PAPER", None)
    first = " ".join(inspect.cleandoc(experiment.__doc__ or "").split("\n\n")[0].split())
    devices = [f"{result.device}{result.warning[1]}" for result in measured if result.name == name]
    return {
        "paper": f"{key}: {_authors(key)}" if key else None,
        "table": f"[{experiment.TITLE}]({target})",
        "summary": re.split(r"(?<=\.) (?=[A-Z`])", first)[0].removeprefix(f"{key} "),
        "devices": ", ".join(devices),
    }


def _authors(paper: str) -> str:
    """Authors and year, with which a reference begins."""
    reference = papers.load(paper).reference
    year = re.search(r"\b\d{4}\b", reference)
    return reference[: year.end()] if year else reference


def machines(measured: Sequence[Result]) -> Iterator[str]:
    """A row for each device: on which machines, when, and how many results there are."""
    rows: list[Row] = []
    for device in sorted({result.device for result in measured}):
        heads: list[Any] = [result.head for result in measured if result.device == device]
        gpus = {f"{head['gpu']['name']}, driver {head['gpu']['driver']}" for head in heads if head.get("gpu")}
        hosts = {f"{head['processor']}, {head['cores']} cores, {head['memory_gib']:.0f} GiB" for head in heads}
        days = sorted(str(head["time"])[:10] for head in heads)
        rows.append(
            {
                "device": device,
                "gpu": "; ".join(sorted(gpus)) or None,
                "host": "; ".join(sorted(hosts)),
                "days": days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}",
                "results": len(heads),
            }
        )
    columns = {"device": "results", "gpu": "GPU", "host": "processor", "days": "measured", "results": "experiments"}
    yield from tables.table([Column(heading, key) for key, heading in columns.items()], rows)


def plots(measured: Sequence[Result]) -> Iterator[str]:
    """All curves, one paragraph, for the page is long."""
    drawn: dict[str, list[Result]] = {}
    for result in measured:
        if hasattr(registry.load(result.name), "draw"):
            drawn.setdefault(result.name, []).append(result)
    lines = []
    for name, results in drawn.items():
        title = registry.load(name).TITLE
        pictures = [f"{r.device}{r.warning[1]}: ![{title}, {r.device}]({plot(r.device, name)})" for r in results]
        lines.append(f"{title}, {'; '.join(pictures)}")
    if lines:
        yield from ("", "## Plots", "", " ".join(lines))


def tests(measured: Sequence[Result], table_of: Callable[[str], str]) -> Iterator[str]:
    """What the tests on a GPU counted last, and with which code; of the sanitizers how many runs found nothing."""
    for result in latest(measured, TESTS):
        columns = [column for column in registry.load(TESTS).COLUMNS if column.key != "last"]
        yield from (
            "",
            "## Tests on a GPU",
            "",
            f"{_run(result)}; [more]({table_of(TESTS)}).",
            "",
        )
        yield from tables.table(columns, result.rows)
    for result in latest(measured, SANITIZERS):
        yield from ("", f"{_sanitized(result.rows)}: {_run(result)}; [more]({table_of(SANITIZERS)}).")


def _sanitized(rows: Sequence[Row]) -> str:
    """How many runs found nothing, and which were not run."""
    clean = sum(row.get("findings") == 0 and not row.get("status") for row in rows)
    of_all = Counter(map(_sanitizer, rows))
    left_out = Counter(_sanitizer(row) for row in rows if str(row.get("status", "")).startswith("missing"))
    said = f"{clean} of {len(rows)} runs of compute-sanitizer found nothing"
    if left_out:
        said += "; not run: " + ", ".join(f"{n} of {of_all[name]} of {name}" for name, n in left_out.items())
    return said


def _sanitizer(row: Row) -> str:
    return f"{row['tool']}{' with lanes that grow' if row.get('begins') == 'grow' else ''}"


def latest(measured: Sequence[Result], name: str) -> list[Result]:
    """The latest result of an experiment, whatever the device; none if there is none."""
    found = [result for result in measured if result.name == name]
    return sorted(found, key=lambda result: str(result.head["time"]))[-1:]


def _run(result: Result) -> str:
    head: Any = result.head
    dirty = " with changes" if head["dirty"] else ""
    return f"{_gpu(result)}, commit {head['commit']}{dirty}, {head['time']}{result.warning[1]}"


def _gpu(result: Result) -> str:
    gpu: Any = result.head.get("gpu") or {"name": ""}
    return str(gpu["name"])
