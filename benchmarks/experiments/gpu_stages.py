"""Each stage of the search on a GPU alone, on the fixed frames by which the CPU's stages are timed.

By one block of 512 threads, in the device's clock cycles between barriers: `benchmarks/engine/kernels/stages.cu` runs
the search's own code, stage after stage, 200 times; `rescoring_stages.cu` that of the search with a large language
model, whose lookup is timed for each place of the model, without an arc cache, with an empty and with a warm one.
Before that, what every stage makes is compared with the twin's. In a search all multiprocessors are at work, and share
L2. `room` is where the frame is made: in shared memory, or in the device's but for its tables (mixed), or there
altogether (spilled). The frames of `demo` and `spm512-3gram` are of speech, each that of one utterance with the most
hypotheses.

`of the ceiling` is how long what the stage has to do at least takes one block at its ceilings, measured in the same
process (the first rows), over the time of the stage. What it has to do is counted from the frame and from what is made
of it: reads at random, minima, bytes, and waits, which are reads that each need the one before, and barriers. Shown is
what takes longest. Instructions and reads of shared memory, which have no ceiling here, are the rest.

The lattice stage has no row: it keeps links within the others, in kernels of its own. What it takes of a whole search
is "kernel of lattice" less "kernel of best" in `gpu_lattice`.
"""

from collections.abc import Callable, Iterator

from benchmarks.adapters import gpu
from benchmarks.engine import gpu_rescoring_stage_timing, gpu_stage_timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = True
KERNELS = ("search", "rescore", "bucketed")  # whose stages they are
ORDER = 295
TITLE = "The stages of the GPU engine"
COLUMNS = [
    Column("beam / max_active", "search"),
    Column("stage", "stage"),
    Column("room", "room"),
    Column("large model", "model"),
    Column("work", "work"),
    Column("microseconds", "microseconds", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("nanoseconds an item", "nanoseconds_an_item", "{:.2f}"),
    Column("at least", "bound"),
    Column("at the ceiling, microseconds", "ceiling_us", "{:.2f}"),
    Column("of the ceiling", "share", "{:.2f}"),
    Column("distinct words", "distinct", "{:,}"),
    Column("not in the cache", "misses", "{:,}"),
    Column("reads of the large model", "reads", "{:,}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for rows in (gpu_stage_timing.rows, gpu_rescoring_stage_timing.rows):
        yield from gpu.rows_or_failure({"stage": "all"}, measured, rows, context)


def measured(rows: Callable[[int], Iterator[Row]], context: Context) -> Iterator[Row]:
    gpu.require()
    yield from rows(context.repeats)
