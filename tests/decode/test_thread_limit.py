"""A machine that gives no more threads: an error, and neither a hang nor the end of the process."""

import os
import subprocess
import sys

import pytest

STARVED = """
import resource
import numpy as np
import arcbeam

graph = arcbeam.Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=2)
log_probs = np.zeros((1, 3, 2), np.float32)
arcbeam.CtcDecoder(graph, device="cpu", threads=1).decode(log_probs)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
try:
    arcbeam.CtcDecoder(graph, device="cpu", threads=2000)
    raise SystemExit("2000 threads fit in 256 MiB of addresses")
except arcbeam.CapacityError as error:
    print(error)
print(len(arcbeam.CtcDecoder(graph, device="cpu", threads=2).decode(log_probs)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space through /proc")
@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer itself dies of the limit")
def test_no_thread_to_be_had():
    got = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got.stderr
    message, decoded = got.stdout.splitlines()
    assert message.startswith("threads: 2000 threads cannot be started (")
    assert decoded == "1"
