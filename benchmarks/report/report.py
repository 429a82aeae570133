"""Writes docs/benchmarks.md from the result files alone: ``python -m benchmarks.report`` (or --check, --release)."""

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import papers
from benchmarks.harness import record, registry
from benchmarks.harness.registry import Column, Row

PAGE = record.ROOT / "docs" / "benchmarks.md"
OTHERS = "Measurements of our own"
INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks.report` from the files in `benchmarks/results`; no figure of ours is typed by hand, and
those of papers say where they were seen. Tables of papers come first, then the rest; a table has a part for each device
that it was made on. RTFx is seconds of audio over seconds of decoding. A spread is the smallest and the largest value
over the repeats. Each experiment is one command, given below its table; `python -m benchmarks --list` names them all,
and [benchmarks-howto.md](benchmarks-howto.md) tells how to run them, also on a corpus of your own. The sets of real
speech, their acoustic model and the 3-gram of books are found through `ARCBEAM_DATA`; `data/workload.py` makes the
workloads `workload-512` and `workload-1024` from text (SentencePiece, 40 ms frames, greedy WER of about 8 %).
"""


ONE_TURN = "one turn"


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


def figure(device: str, name: str) -> str:
    """Where the curves of an experiment are, from the page."""
    return f"figures/{device}-{name}.png"


STALE = "**STALE: measured with other kernels than those of this version.**"
OTHER_HOST_CODE = "The code around the kernels has changed since."


def section(device: str, name: str, head: Row, rows: list[Row], stale: bool = False) -> Iterator[str]:
    """The part of an experiment that was made on one device."""
    experiment = registry.load(name)
    yield f"#### {device}"
    yield ""
    if stale:
        yield STALE
        yield ""
    elif record.has_other_host_code(head):
        yield OTHER_HOST_CODE
        yield ""
    yield from table(experiment.COLUMNS, rows, head["repeats"])
    yield ""
    if "remark" in head:
        yield f"Remark: {head['remark']}."
        yield ""
    if hasattr(experiment, "draw"):
        yield f"![{experiment.TITLE}]({figure(device, name)})"
        yield ""
    if head.get("trial"):
        yield "**A trial on a part of the data.**"
        yield ""
    yield provenance(head)


def headed(name: str, parts: list[str]) -> Iterator[str]:
    """An experiment with its parts by device, and what the paper says itself."""
    experiment = registry.load(name)
    yield f"### {experiment.TITLE}"
    yield ""
    yield inspect.cleandoc(experiment.__doc__ or "")
    for part in parts:
        yield ""
        yield part
    if paper := getattr(experiment, "PAPER", None):
        yield ""
        yield from papers.load(paper).beside(name)


def found(results: Path) -> Iterator[tuple[Path, Row, list[Row]]]:
    """Every result file, by device and then in the order of the experiments: path, header, rows."""
    for folder in sorted(p for p in results.iterdir() if p.is_dir()) if results.is_dir() else []:
        for name in registry.names():
            path = folder / f"{name}.jsonl"
            if path.exists():
                yield path, *record.read(path)


def page(results: Path = record.RESULTS, kernels: dict[str, str] | None = None) -> str:
    """The page; results of other kernels than those of the digests ``kernels`` (None: the checkout's) are marked."""
    parts: dict[str, list[str]] = {}
    for path, head, rows in found(results):
        stale = bool(record.changed_kernels(head, kernels or record.tree_kernels()))
        parts.setdefault(path.stem, []).append("\n".join(section(path.parent.name, path.stem, head, rows, stale)))
    by_paper: dict[str, list[str]] = {}
    for name in registry.names():
        if name in parts:
            by_paper.setdefault(getattr(registry.load(name), "PAPER", ""), []).append(name)
    lines = [INTRODUCTION.rstrip()]
    for key in sorted(by_paper, key=lambda key: (not key, key)):
        lines += ["", f"## {papers.load(key).title if key else OTHERS}"]
        for name in by_paper[key]:
            lines += ["", *headed(name, parts[name])]
    return "\n".join(lines) + "\n"


def draw(results: Path, folder: Path) -> None:
    """Writes the figures of the experiments that have some; the page must lie in the folder.

    Without matplotlib those that are there stay as they are, and a line says so.
    """
    for path, _, rows in found(results):
        experiment = registry.load(path.stem)
        if hasattr(experiment, "draw"):
            made = folder / figure(path.parent.name, path.stem)
            try:
                experiment.draw(rows, made)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.split(".")[0] != "matplotlib":
                    raise
                print(f"{made} is left as it is: matplotlib is not installed (arcbeam[bench])", file=sys.stderr)


def same_page(one: str, other: str) -> bool:
    """Whether two pages differ in nothing but what has changed since: that goes with the sources, not with a result."""

    def plain(page: str) -> str:
        return page.replace(f"{STALE}\n\n", "").replace(f"{OTHER_HOST_CODE}\n\n", "")

    return plain(one) == plain(other)


def remarks(results: Path) -> Iterator[str]:
    """What a release may have, and its maker should know."""
    for path, head, _ in found(results):
        if record.has_other_host_code(head):
            yield f"{path.parent.name}/{path.name}: the code around its kernels has changed since {head['commit']}"


def unfit(results: Path, folder: Path) -> Iterator[str]:
    """What keeps the results, and the page of them in this folder, from being released, one reason a line."""
    kernels = record.tree_kernels()
    for path, head, rows in found(results):
        name = f"{path.parent.name}/{path.name}"
        yield from (f"{name} has a row that {row['status']}" for row in rows if record.failed(row))
        for kernel in record.changed_kernels(head, kernels):
            measured: Any = head["kernels"]
            yield f"{name} is stale: measured with {kernel} {measured[kernel][:12]}, not {kernels.get(kernel, '')[:12]}"
        if head.get("trial"):
            yield f"{name} is a trial on a part of the data"
        if hasattr(registry.load(path.stem), "draw") and not (folder / figure(path.parent.name, path.stem)).exists():
            yield f"{name} has no figure: install arcbeam[bench] and run python -m benchmarks.report"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is not what the results give")
    parser.add_argument("--release", action="store_true", help="the same, and if a result is stale or a trial")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    text = page(args.results)
    if args.check or args.release:
        wrong = list(unfit(args.results, args.page.parent)) if args.release else []
        if not args.page.exists() or not same_page(args.page.read_text(encoding="utf-8"), text):
            wrong.append(f"{args.page} is not what the results give: run python -m benchmarks.report")
        said = [*wrong, *(f"not in the way: {line}" for line in remarks(args.results) if args.release)]
        print("".join(f"{line}\n" for line in said), end="", file=sys.stderr)
        return 1 if wrong else 0
    args.page.write_text(text, encoding="utf-8")
    draw(args.results, args.page.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
