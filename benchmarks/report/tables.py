"""The whole table of an experiment, on every device that it was measured on: ``results/tables/NAME.md``."""

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import papers
from benchmarks.harness import registry
from benchmarks.harness.registry import Column, Row
from benchmarks.report.results import TABLES, Result, link, plot

ONE_TURN = "one turn"
MADE = "Written by `python -m benchmarks.report` from the result files."  # the last line of a table


def table(columns: list[Column], rows: list[Row], repeats: object = None) -> Iterator[str]:
    """A Markdown table of the columns that any row fills; of one timed turn, no spread is made up."""

    def text(column: Column, row: Row) -> str:
        value = column.value(row)
        is_one = repeats == 1 and isinstance(value, list) and len(set(value)) == 1
        return ONE_TURN if is_one else column.text(row).replace("|", "\\|")

    used = [c for c in columns if any(c.value(row) is not None for row in rows)]
    numeric = [all(not isinstance(c.value(row), str) for row in rows) for c in used]
    yield "| " + " | ".join(c.heading for c in used) + " |"
    yield "|" + "|".join("---:" if right else "---" for right in numeric) + "|"
    for row in rows:
        yield "| " + " | ".join(text(c, row) for c in used) + " |"


def provenance(head: Row) -> str:
    """One paragraph: how the figures were made."""
    versions = ", ".join(f"{k} {v}" for k, v in dict(head["versions"]).items() if v != "not installed")  # type: ignore[call-overload]
    commit = f"{head['commit']}{' with changes' if head['dirty'] else ''}"
    if "commit_remark" in head:
        commit += f" ({head['commit_remark']})"
    device = ""
    if gpu := dict(head.get("gpu") or {}):  # type: ignore[call-overload]
        device = (
            f"{gpu['name']}, driver {gpu['driver']}, {gpu['sm_mhz']:g} of {gpu['most_sm_mhz']:g} MHz, memory at "
            f"{gpu['memory_mhz']:g} MHz, {gpu['watts']:g} of {gpu['most_watts']:g} W before; "
        )
    if now := dict(head.get("gpu_after") or {}):  # type: ignore[call-overload]
        device += f"{now['sm_mhz']:g} MHz, memory at {now['memory_mhz']:g} MHz, {now['watts']:g} W after; "
    repeats = "one repeat" if head["repeats"] == 1 else f"{head['repeats']} repeats"
    after = f" and {head['load_after']} after" if "load_after" in head else ""
    kernels = "".join(f"{name} {digest[:12]}, " for name, digest in dict(head.get("kernels") or {}).items())  # type: ignore[call-overload]
    return (
        f"`{head['command']}` on {head['time']}, commit {commit}, {kernels}{head['seconds']} s; {device}"
        f"{head['processor']}, {head['cores']} cores, {head['memory_gib']} GiB, load {head['load_before']} before"
        f"{after}; "
        f"{repeats}; {versions}{seeds_text(head)}."
    )


def seeds_text(head: Row) -> str:
    """What was made at random, and how to make it again."""
    noted: Any = head.get("seeds") or {}
    return "".join(
        f"{', ' if at else '; seeds: '}{what} {_seeds_of(value)}" for at, (what, value) in enumerate(noted.items())
    )


def _seeds_of(value: Any) -> str:
    if isinstance(value, list):
        return f"{value[0]} to {value[-1]}" if len(value) == value[-1] - value[0] + 1 else ", ".join(map(str, value))
    return value[: len("sha256 ") + 12] if isinstance(value, str) else str(value)


def section(result: Result, page: Path) -> Iterator[str]:
    """What was measured on one device."""
    experiment = registry.load(result.name)
    yield f"## {result.device}"
    yield ""
    yield from table(experiment.COLUMNS, result.rows, result.head["repeats"])
    yield ""
    if "remark" in result.head:
        yield f"Remark: {result.head['remark']}."
        yield ""
    if hasattr(experiment, "draw"):
        curves = page.parent / plot(result.device, result.name)
        yield f"![{experiment.TITLE}]({link(curves, place(result.path.parent.parent, result.name).parent)})"
        yield ""
    if result.head.get("trial"):
        yield "**A trial on a part of the data.**"
        yield ""
    yield provenance(result.head)


def place(results: Path, name: str) -> Path:
    """Where the table of an experiment is written."""
    return results / TABLES / f"{name}.md"


def text(name: str, measured: Sequence[Result], page: Path) -> str:
    """The file of an experiment: what it measures, a part for each device, and what its paper says itself."""
    experiment = registry.load(name)
    lines = [f"# {experiment.TITLE}", "", inspect.cleandoc(experiment.__doc__ or "")]
    for result in measured:
        lines += ["", *section(result, page)]
    if paper := getattr(experiment, "PAPER", None):
        lines += ["", f"## {papers.load(paper).title}", "", *papers.load(paper).beside(name)]
    lines += ["", MADE]
    return "\n".join(lines) + "\n"
