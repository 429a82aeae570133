"""What keeps results from being released, and what whoever releases them should know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import record, registry
from benchmarks.report.results import found, plot


def remarks(results: Path) -> Iterator[str]:
    """What a release may have, and its maker should know."""
    for result in found(results):
        if record.has_other_host_code(result.head):
            yield (
                f"{result.device}/{result.path.name}: the code around its kernels has changed since "
                f"{result.head['commit']}"
            )


def unfit(results: Path, folder: Path) -> Iterator[str]:
    """What keeps the results, and the page of them in this folder, from being released, one reason a line."""
    kernels = record.tree_kernels()
    for result in found(results, kernels):
        name = f"{result.device}/{result.path.name}"
        yield from (f"{name} has a row that {row['status']}" for row in result.rows if record.failed(row))
        for kernel in record.changed_kernels(result.head, kernels):
            measured: Any = result.head["kernels"]
            yield f"{name} is stale: measured with {kernel} {measured[kernel][:12]}, not {kernels.get(kernel, '')[:12]}"
        if result.head.get("trial"):
            yield f"{name} is a trial on a part of the data"
        if hasattr(registry.load(result.name), "draw") and not (folder / plot(result.device, result.name)).exists():
            yield f"{name} has no plot: install arcbeam[bench] and run python -m benchmarks.report"
