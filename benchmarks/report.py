"""Writes docs/benchmarks.md from the result files alone: ``python -m benchmarks.report`` (or --check)."""

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import record, registry
from benchmarks.registry import Column, Row

PAGE = record.ROOT / "docs" / "benchmarks.md"
INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks.report` from the files in `benchmarks/results`; no figure is typed by hand. RTFx is
seconds of audio over seconds of decoding. A spread is the smallest and the largest value over the repeats. Each
experiment is one command, given below its table; `python -m benchmarks --list` names them all. The sets of real
speech, their acoustic model and the 3-gram of books are found through `ARCBEAM_DATA`; `data/workload.py` makes the
workloads `workload-512` and `workload-1024` from text (SentencePiece, 40 ms frames, greedy WER of about 8 %).
"""


def table(columns: list[Column], rows: list[Row]) -> Iterator[str]:
    """A Markdown table of the columns that any row fills."""
    used = [c for c in columns if any(row.get(c.key) is not None for row in rows)]
    numeric = [all(not isinstance(row.get(c.key), str) for row in rows) for c in used]
    yield "| " + " | ".join(c.heading for c in used) + " |"
    yield "|" + "|".join("---:" if right else "---" for right in numeric) + "|"
    for row in rows:
        yield "| " + " | ".join(c.text(row).replace("|", "\\|") for c in used) + " |"


def provenance(head: Row) -> str:
    """One paragraph: how the figures were made."""
    versions = ", ".join(f"{k} {v}" for k, v in dict(head["versions"]).items() if v != "not installed")  # type: ignore[call-overload]
    commit = f"{head['commit']}{' with changes' if head['dirty'] else ''}"
    return (
        f"`{head['command']}` on {head['time']}, commit {commit}, {head['seconds']} s; {head['processor']}, "
        f"{head['cores']} cores, {head['memory_gib']} GiB, load {head['load_before']} before; "
        f"{head['repeats']} repeats; {versions}."
    )


def section(device: str, name: str, head: Row, rows: list[Row]) -> Iterator[str]:
    experiment = registry.load(name)
    yield f"## {experiment.TITLE} ({device})"
    yield ""
    yield inspect.cleandoc(experiment.__doc__ or "")
    yield ""
    yield from table(experiment.COLUMNS, rows)
    yield ""
    if head.get("trial"):
        yield "**A trial on a part of the data.**"
        yield ""
    yield provenance(head)


def page(results: Path = record.RESULTS) -> str:
    lines = [INTRODUCTION.rstrip()]
    for folder in sorted(p for p in results.iterdir() if p.is_dir()) if results.is_dir() else []:
        for name in registry.names():
            path = folder / f"{name}.jsonl"
            if path.exists():
                lines += ["", *section(folder.name, name, *record.read(path))]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page is not what the results give")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    text = page(args.results)
    if args.check:
        if not args.page.exists() or args.page.read_text(encoding="utf-8") != text:
            print(f"{args.page} is not what the results give: run python -m benchmarks.report", file=sys.stderr)
            return 1
        return 0
    args.page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
