"""Minutes and memory to build the graph of a 3-gram with 211,000 words, from LM and lexicon to a checked graph.

Each graph is built in a process of its own; the peak is that process's largest resident memory.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.memory import ROOT

ORDER = 50
TITLE = "Building a graph"
TAKES = {
    "graphs": "names with commas between (char-3gram,spm512-3gram)",
}
COLUMNS = [
    Column("graph", "graph"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("CPU minutes", "cpu_minutes", "{:.1f}"),
    Column("peak GB", "peak_gb", "{:.1f}"),
]
CHILD = """
import json, sys, time
from benchmarks.data import graphs
from benchmarks.tasks import memory
began, cpu = time.monotonic(), time.process_time()
graph = graphs.make(sys.argv[1])
print(json.dumps({"minutes": (time.monotonic() - began) / 60, "cpu_minutes": (time.process_time() - cpu) / 60,
                  "states": graph.num_states, "arcs": graph.num_arcs, "peak_gb": memory.peak_bytes() / 1e9}))
"""


def run(context: Context) -> Iterator[Row]:
    for name in context.options.get("graphs", "char-3gram,spm512-3gram").split(","):
        context.progress(f"building {name}")
        done = subprocess.run(
            [sys.executable, "-c", CHILD, name], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        yield {"graph": name, **json.loads(done.stdout.splitlines()[-1])}
