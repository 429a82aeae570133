"""The table of the README, how many times as fast as its peers arcbeam is: between two lines of that page."""

from benchmarks.harness.registry import Column
from benchmarks.report import comparison, tables
from benchmarks.report.results import Result

BEGIN, END = "<!-- written by python -m benchmarks.report -->\n", "<!-- end -->\n"
COLUMNS = [
    Column("what", "task"),
    Column("input", "data"),
    Column("on", "device"),
    Column("compared with", "peer"),
    Column("times as fast", "ratio", "{:.1f}"),
    Column("same results", "equal", "{:.1f} %"),
    Column("as accurate?", "accuracy"),
]


def text(page: str, measured: list[Result]) -> str:
    """The page with the table of these results in the place of the one that it has; without its lines, the page."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        return page
    rows = [row for row in comparison.rows(measured, str) if row["readme"]]
    return "".join([before, begin, *(f"{line}\n" for line in tables.table(COLUMNS, rows)), end, after])
