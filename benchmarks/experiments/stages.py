"""Each stage of the CPU engine alone, on a fixed input.

The inputs are one frame of a search that is under way on a synthetic graph; see `benchmarks/stages`.
"""

from collections.abc import Iterator

from benchmarks.engine import stage_timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 70
TITLE = "The stages of the CPU engine"
TAKES: dict[str, str] = {}
COLUMNS = [
    Column("stage", "stage"),
    Column("work", "work"),
    Column("microseconds", "microseconds", "{:.1f}"),
    Column("spread", "spread", "{:.1f}"),
    Column("nanoseconds an item", "nanoseconds_an_item", "{:.2f}"),
]


def run(context: Context) -> Iterator[Row]:
    yield from stage_timing.rows(context.repeats)
