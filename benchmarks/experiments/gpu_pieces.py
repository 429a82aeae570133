"""Graphs of 512 and of 1,024 SentencePiece tokens: full batches, arcs settled a second.

As `gpu_arcs`, on the two workloads made from text, with frames of 40 ms.
"""

from collections.abc import Iterator

from benchmarks.experiments import gpu_arcs
from benchmarks.harness.registry import Context, Row

ON_GPU = True
ORDER = 272
TITLE = "512 and 1,024 pieces"
WORKLOADS = tuple((f"spm{pieces}-3gram", f"workload-{pieces}", 1056) for pieces in (512, 1024))
COLUMNS = gpu_arcs.COLUMNS


def run(context: Context) -> Iterator[Row]:
    yield from gpu_arcs.settled(context, WORKLOADS)
