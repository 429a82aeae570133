"""Builds the graphs of the benchmarks into the cache, side by side: ``python -m benchmarks.build_graphs``."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

import arcbeam
from benchmarks.data import graphs
from benchmarks.data.datasets import CACHE, ROOT
from benchmarks.tasks import lm_task

USUAL = ("char-3gram", "spm512-3gram", "spm1024-3gram", "spm512-5gram")
BOOKS = lm_task.BOOKS  # no graph of one file, but the models and graphs of a task


def build(name: str) -> None:
    if name == BOOKS:
        lm_task.make(CACHE / BOOKS, print)
    else:
        graphs.get(name)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build_graphs", description=(__doc__ or "").strip())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(graphs.NAMES)} ({', '.join(USUAL)})")
    names = parser.parse_args(argv).names or list(USUAL)
    if unknown := [name for name in names if graphs.base_of(name) not in (*graphs.NAMES, BOOKS)]:
        parser.error(f"no graph {unknown[0]!r}; there are: {', '.join(graphs.NAMES)}; and {BOOKS}")
    began = time.monotonic()
    # A process each, for building is one core's work.
    one = "import sys; from benchmarks import build_graphs; build_graphs.build(sys.argv[1])"
    children = {name: subprocess.Popen([sys.executable, "-c", one, name], cwd=ROOT) for name in names}
    failed = []
    for name, child in children.items():
        if child.wait():
            failed.append(name)
            continue
        graph = arcbeam.Graph.load(CACHE / BOOKS / "small.arcbeam") if name == BOOKS else graphs.files(name).graph
        print(f"{name}: {graph.num_states:,} states, {graph.num_arcs:,} arcs ({time.monotonic() - began:.0f} s)")
    print(f"not built: {', '.join(failed)}" if failed else "all built", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
