"""The page docs/benchmarks.md: what was measured on what, the few figures that matter, and the rest by links."""

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import papers
from benchmarks.harness import registry
from benchmarks.harness.registry import Column, Row
from benchmarks.report import peers, picture, tables
from benchmarks.report.results import OTHER_HOST_CODE_MARK, STALE_MARK, Result, link, plot

OTHERS = "Measurements of our own"
TESTS, SANITIZERS = "gpu_tests", "gpu_sanitizers"
INTRODUCTION = f"""\
# Benchmarks

    python -m benchmarks --list         # the experiments; docs/benchmarks-howto.md tells how to run them
    python -m benchmarks.report         # this page and the tables that it links, from the result files alone

No figure of ours is typed by hand, and those of papers say where they were seen. RTFx is seconds of audio over seconds
of decoding; a spread is the smallest and the largest value over the repeats. A result with the mark{STALE_MARK} was
measured with other kernels than those of this version; with{OTHER_HOST_CODE_MARK} only the code around the kernels has
changed since. The sets of real speech, their acoustic model and the 3-gram of books are found through
`ARCBEAM_DATA`; `data/workload.py` makes the workloads from text (SentencePiece, 40 ms frames, greedy WER of about 8 %).
"""


def text(results: Path, page: Path, measured: Sequence[Result]) -> str:
    """The page, for its place: links are relative to it."""

    def table_of(name: str) -> str:
        return link(tables.place(results, name), page.parent)

    lines = [INTRODUCTION.rstrip(), "", *machines(measured)]
    if rows := list(peers.compared(measured, table_of)):
        lines += ["", "## Compared with other decoders", ""]
        gpu, panels = picture.panels(measured)
        if panels:
            marks = {result.name: result.warning[1] for result in measured if result.head.get("gpu")}
            runs = [f"[{panel.run}]({table_of(panel.experiment)}){marks[panel.experiment]}" for panel in panels]
            lines += [f"![{picture.TITLE}]({picture.NAME})", "", picture.caption(gpu, panels), ""]
            lines += [f"The runs: {'; '.join(runs)}.", ""]
        lines += ["Both decode the same log-probs in the same run. A line has all conditions of one run: sets, graphs,"]
        lines += ["beams, batches; smallest and largest figure of them.", "", *tables.table(peers.COLUMNS, rows)]
    by_paper: dict[str, list[str]] = {}
    for name in registry.names():
        if any(result.name == name for result in measured):
            by_paper.setdefault(getattr(registry.load(name), "PAPER", ""), []).append(name)
    for key in sorted(by_paper, key=lambda key: (not key, key)):
        lines += ["", f"## {papers.load(key).title if key else OTHERS}", ""]
        lines += tables.table(COLUMNS, [line(name, measured, table_of(name)) for name in by_paper[key]])
    lines += [*plots(measured), *tests(measured, table_of(TESTS))]
    return "\n".join(lines) + "\n"


COLUMNS = [Column("table", "table"), Column("what is measured", "summary"), Column("on", "devices")]


def line(name: str, measured: Sequence[Result], target: str) -> Row:
    """An experiment in one line: a link to its table, its first sentence, devices and marks."""
    experiment = registry.load(name)
    first = " ".join(inspect.cleandoc(experiment.__doc__ or "").split("\n\n")[0].split())
    devices = [f"{result.device}{result.warning[1]}" for result in measured if result.name == name]
    return {
        "table": f"[{experiment.TITLE}]({target})",
        "summary": re.split(r"(?<=\.) (?=[A-Z`])", first)[0].removeprefix(f"{getattr(experiment, 'PAPER', '')} "),
        "devices": ", ".join(devices),
    }


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
    """All curves, a line each."""
    drawn = [result for result in measured if hasattr(registry.load(result.name), "draw")]
    if drawn:
        yield from ("", "## Plots", "")
    for result in drawn:
        title = f"{registry.load(result.name).TITLE}, {result.device}"
        yield f"* {title}{result.warning[1]}: ![{title}]({plot(result.device, result.name)})"


def tests(measured: Sequence[Result], target: str) -> Iterator[str]:
    """What the tests on a GPU counted, and with which code."""
    for result in measured:
        if result.name in (TESTS, SANITIZERS):
            head: Any = result.head
            columns = [column for column in registry.load(result.name).COLUMNS if column.key != "last"]
            dirty = " with changes" if head["dirty"] else ""
            what = "Tests on a GPU" if result.name == TESTS else "compute-sanitizer on a GPU"
            yield from ("", f"## {what}: {result.device}", "")
            run = f"{head['gpu']['name']}, commit {head['commit']}{dirty}, {head['time']}"
            yield f"{run}{result.warning[1]}; [the whole]({target})."
            yield ""
            yield from tables.table(columns, result.rows)
