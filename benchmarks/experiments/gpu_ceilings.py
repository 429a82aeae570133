"""What the device can do at most: reads, of host memory, too, atomic minima, copies, barriers, launches.

By kernels of our own in `benchmarks/engine/kernels`, between two events; answers are checked first.
"""

from collections.abc import Iterator

from benchmarks.adapters import gpu
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ()  # those of benchmarks/engine/kernels alone
ORDER = 290
TITLE = "Ceilings of the device"
COLUMNS = [
    Column("what", "what"),
    Column("figure", "value", "{:,.3g}"),
    Column("spread", "spread", "{:,.3g}"),
    Column("unit", "unit"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    yield from gpu.rows_or_failure({"what": "ceilings"}, measured, context)


def measured(context: Context) -> Iterator[Row]:
    from benchmarks.engine import ceilings, far_reads

    gpu.require()
    of_device = ceilings.Ceilings(repeats=context.repeats)
    yield from ceilings.rows(of_device)
    yield from far_reads.rows(of_device)
