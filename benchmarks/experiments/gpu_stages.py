"""Each stage of the search on a GPU alone, on the fixed frames by which the CPU's stages are timed.

By one block of 512 threads, in the device's clock cycles between barriers: `benchmarks/kernels/stages.cu` runs the
search's own code, stage after stage, 200 times. Before that, what every stage makes is compared with the twin's. In a
search all multiprocessors are at work, and share L2. `room` is where the frame is made: in shared memory, or in the
device's but for its table.
"""

from collections.abc import Iterator

from benchmarks import gpu, gpu_stage_timing
from benchmarks.registry import Column, Context, Row

ON_GPU = True
ORDER = 295
TITLE = "The stages of the GPU engine"
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("stage", "stage"),
    Column("room", "room"),
    Column("work", "work"),
    Column("microseconds", "microseconds", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("nanoseconds an item", "nanoseconds_an_item", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    yield from gpu.rows_or_failure({"stage": "all"}, measured, context)


def measured(context: Context) -> Iterator[Row]:
    gpu.require()
    yield from gpu_stage_timing.rows(context.repeats)
