"""Builds the graphs of the benchmarks into the cache, side by side: ``python -m benchmarks.build_graphs``."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from benchmarks import graphs
from benchmarks.datasets import ROOT

USUAL = ("char-3gram", "spm512-3gram", "spm1024-3gram", "spm512-5gram")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.build_graphs", description=(__doc__ or "").strip())
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(graphs.NAMES)} ({', '.join(USUAL)})")
    names = parser.parse_args(argv).names or list(USUAL)
    if unknown := [name for name in names if name.removesuffix(graphs.NORMAL) not in graphs.NAMES]:
        parser.error(f"no graph {unknown[0]!r}; there are: {', '.join(graphs.NAMES)}")
    began = time.monotonic()
    # A process each, for building is one core's work.
    children = {
        name: subprocess.Popen(
            [sys.executable, "-c", "import sys; from benchmarks import graphs; graphs.get(sys.argv[1])", name], cwd=ROOT
        )
        for name in names
    }
    failed = []
    for name, child in children.items():
        if child.wait():
            failed.append(name)
            continue
        graph = graphs.files(name).graph
        print(f"{name}: {graph.num_states:,} states, {graph.num_arcs:,} arcs ({time.monotonic() - began:.0f} s)")
    print(f"not built: {', '.join(failed)}" if failed else "all built", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
