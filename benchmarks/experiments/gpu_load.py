"""How long the driver takes to load the kernels, small as they are built, and without compression.

A load is a module and its first entry, in a process that has a context; the median of 20, for the driver keeps nothing
of a module that has gone. The other is compiled for this GPU alone, which takes up to a minute a unit the first time.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.adapters import gpu
from benchmarks.engine import ceilings
from benchmarks.harness.record import ROOT
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.pack import proof

ON_GPU = True
KERNELS = proof.KERNELS
ORDER = 285
TITLE = "Loading the kernels"
LOADS = 20
ENTRIES = {
    "transducer": "arcbeam_transducer_project_float32",
    "transducer_fused": "arcbeam_transducer_kept_fused_float32",
}
COLUMNS = [
    Column("kernels", "kernels"),
    Column("bytes", "bytes", "{:,}"),
    Column("to load, ms", "ms", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("bytes without compression", "plain_bytes", "{:,}"),
    Column("to load, ms", "plain_ms", "{:.2f}"),
    Column("spread", "plain_spread", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    from arcbeam.gpu import _cuda, kernel_images

    gpu.require()
    capability = _cuda.device_properties(0)["compute_capability"]
    for name in KERNELS:
        context.progress(name)
        built = kernel_images.image(name)
        plain = ceilings.compile_kernels(capability, source_of(name))
        row: Row = {"kernels": name}
        for prefix, image in (("", built), ("plain_", plain)):
            took = loads(name, image)
            row |= {
                f"{prefix}bytes": len(image), f"{prefix}ms": statistics.median(took),
                f"{prefix}spread": [min(took), max(took)],
            }  # fmt: skip
        yield row


def source_of(name: str) -> Path:
    """The file that a unit of kernels is compiled from."""
    (source,) = ROOT.glob(f"cuda/**/{name}.cu")
    return source


def loads(name: str, image: bytes) -> list[float]:
    """Milliseconds of each load."""
    from arcbeam.gpu import _cuda
    from arcbeam.gpu._launch import Module

    context, took = _cuda.context_of(0), []
    for _ in range(LOADS):
        began = time.perf_counter()
        module = Module(context, name, image)
        module.function(ENTRIES.get(name, f"arcbeam_{name}_wide"))
        took.append(1e3 * (time.perf_counter() - began))
        del module
    return took
