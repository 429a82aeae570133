"""What keeps results from being released."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import record, registry
from benchmarks.report.results import found, plot


def unfit(results: Path, folder: Path) -> Iterator[str]:
    """What keeps the results, and the page of them in this folder, from being released, one reason a line."""
    kernels = record.tree_kernels()
    for result in found(results):
        name = f"{result.device}/{result.path.name}"
        yield from (f"{name} has a row that {row['status']}" for row in result.rows if record.failed(row))
        if changed := record.changed_kernels(result.head, kernels):
            yield f"{name} is stale: since {result.head['commit']} these kernels have changed: {', '.join(changed)}"
        if result.head.get("trial"):
            yield f"{name} is a trial on a part of the data"
        if hasattr(registry.load(result.name), "draw") and not (folder / plot(result.device, result.name)).exists():
            yield f"{name} has no plot: install .[bench] and run python -m benchmarks.report"
