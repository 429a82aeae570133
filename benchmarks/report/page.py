"""The page docs/benchmarks.md: how arcbeam compares, machines, curves, tests on a GPU, and links to all else."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.harness import registry
from benchmarks.harness.registry import Row
from benchmarks.report import comparison, contents, picture, tables
from benchmarks.report.results import Result, latest, link, plot

TESTS, SANITIZERS = "gpu_tests", "gpu_sanitizers"
HEADING = "# Benchmarks\n"
COMPARED = """\
RTFx is seconds of speech decoded in one second. Both decoders of a row read the same input (log-probs or, for
transducers, encoder output) in one run, on one GPU or on one core, in alternating turns, except that riva's streams
and single utterances are timed after arcbeam's. The default beam is 17. riva and NeMo's CTC beam search are shown with
the fastest of the settings that were tried, pyctcdecode with its default beam width of 100. For whole utterances riva
returns words with times and confidences, arcbeam only text. *Same results* is the share of utterances with the same
text or tokens, of lists with the same best ones; it is empty where they were not compared. Each row was measured at the
commit that it names and does not include later changes; the linked table has every setting, the spread, the machine and
the versions.

Log-probs of letters come from QuartzNet 15x5 on read speech; those of pieces are synthesised from text, with a greedy
WER of about 8 %. Transducers on a GPU have networks of the published size with synthetic weights."""

MADE = "`python -m benchmarks.report`; [how to run the benchmarks](benchmarks-howto.md) is on another page."


def text(results: Path, page: Path, measured: list[Result]) -> str:
    """The page, for its place: links are relative to it."""

    def table_of(name: str) -> str:
        return link(tables.place(results, name), page.parent)

    lines = [HEADING]
    if rows := list(comparison.rows(measured, table_of)):
        lines += [*tables.table(comparison.COLUMNS, rows), "", COMPARED, ""]
    if panels := picture.panels(measured):
        runs = "; ".join(f"[{panel.run}]({table_of(panel.experiment)})" for panel in panels)
        lines += [f"![{picture.TITLE}]({picture.NAME})", "", f"Each panel is one run: {runs}.", ""]
    all_tables = link(contents.place(results), page.parent)
    lines += [f"{machines(measured)} [All tables]({all_tables}) are made from result files by", MADE, ""]
    lines += [*plots(measured), *tests(measured, table_of)]
    return "\n".join(lines).rstrip() + "\n"


def machines(measured: list[Result]) -> str:
    """One sentence on what was measured where."""
    gpus = sorted({result.gpu for result in measured if result.gpu})
    on_gpu = f"GPU results are from {' and '.join(gpus)}; " if gpus else ""
    of_cpu = {str(result.head["processor"]).split(" family ")[0] for result in measured if not result.gpu}
    return f"{on_gpu}CPU results are from virtual machines ({', '.join(sorted(of_cpu))})."


def plots(measured: list[Result]) -> Iterator[str]:
    """All curves."""
    drawn = [result for result in measured if hasattr(registry.load(result.name), "draw")]
    if drawn:
        yield from ("## Plots", "")
    for result in drawn:
        experiment = registry.load(result.name)
        paper = getattr(experiment, "PAPER", None)
        of_paper = f"{contents.authors(paper)}, " if paper else ""
        title = f"{of_paper}{experiment.TITLE} ({result.device}, {result.day_and_commit})"
        yield from (f"{title}:", "", f"![{title}]({plot(result.device, result.name)})", "")


def tests(measured: list[Result], table_of: Callable[[str], str]) -> Iterator[str]:
    """What the tests on a GPU and the sanitizers found last, a sentence each."""
    said = []
    if result := latest(measured, TESTS):
        passed = [f"{row['part']} {row['passed']:,}" for row in result.rows if row.get("passed")]
        failed = sum(int(str(row.get("failed") or 0)) for row in result.rows)
        left_out = [str(row["part"]) for row in result.rows if "not run" in str(row.get("status"))]
        not_run = f"; not run: {', '.join(left_out)}" if left_out else ""
        said.append(f"Tests passed, by part: {', '.join(passed)}; {failed} failed{not_run}{_run(result, table_of)}")
    if result := latest(measured, SANITIZERS):
        said.append(f"{_sanitized(result.rows)}{_run(result, table_of)}")
    if said:
        yield from ("## Tests on a GPU", "", *(f"* {one}" for one in said))


def _run(result: Result, table_of: Callable[[str], str]) -> str:
    return f" ([{result.gpu}, {result.day_and_commit}]({table_of(result.name)}))."


def _sanitized(rows: list[Row]) -> str:
    """How many runs found nothing, and which were not run."""
    clean = sum(row.get("findings") == 0 and not row.get("status") for row in rows)
    left_out = Counter(str(row["tool"]) for row in rows if "not run" in str(row.get("status")))
    not_run = ", ".join(f"{count} of {name}" for name, count in left_out.items())
    said = f"{clean} of {len(rows) - left_out.total()} runs of compute-sanitizer found nothing"
    return f"{said}; not run: {not_run}" if left_out else said
