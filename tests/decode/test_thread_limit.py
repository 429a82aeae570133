"""A machine that gives no more threads or memory: an error, and neither a hang nor the end of the process."""

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


LIMITED = """
import resource
import numpy as np
import arcbeam

def limit(room):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))

def no_limit():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

graph = arcbeam.Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=2, blank=0)
log_probs = np.log(np.full((4, 1000, 2), 0.5, np.float32))
wanted = arcbeam.CtcDecoder(graph, device="cpu", threads=1).decode(log_probs, nbest=2, confidence=True, mbr=True)
decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=4)
"""

ANSWERS = (
    LIMITED
    + """
for requested in ({"nbest": 2}, {"confidence": True}, {"mbr": True}, {"frame_confidence": "entropy"}):
    decoder.release()
    decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=4)
    decoder.decode(log_probs)
    limit(12 << 20)  # of addresses, which hold one thread's stack
    try:
        decoder.decode(log_probs, **requested)
    except arcbeam.CapacityError as error:
        print(error)
    no_limit()
    assert len(decoder.decode(log_probs, **requested)) == 4
"""
)

MEMORY = (
    LIMITED
    + """
def filled():
    held, size = [], 1 << 22
    while size >= 4096:
        try:
            held.append(bytearray(size))
        except MemoryError:
            size //= 2
    return held

def attempt(call):
    try:
        call()
    except MemoryError as error:
        return True
    return False

failed = 0
for room in (1, 5, 20, 80, 320):  # blocks of 4 kB
    decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=4)  # whose threads have not done anything yet
    limit(0)
    held = filled()
    del held[len(held) - room :]
    failed += attempt(lambda: decoder.decode(log_probs))
    del held
    no_limit()
    assert [found.score for found in decoder.decode(log_probs)] == [found.score for found in wanted]
assert failed
for room in range(0, 40 << 20, 1 << 20):  # where there is memory for some threads
    limit(room)
    attempt(lambda: arcbeam.CtcDecoder(graph, device="cpu", threads=4).decode(log_probs, nbest=2))
    no_limit()
"""
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits the address space through /proc"),
    pytest.mark.skipif(
        "libasan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer itself dies of the limit"
    ),
]


def run(script):
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    return got.stdout.splitlines()


def test_no_thread_to_be_had():
    message, decoded = run(STARVED)
    assert message.startswith("threads: 2000 threads cannot be started (")
    assert decoded == "1"


def test_no_thread_to_be_had_for_more_answers():
    messages = run(ANSWERS)
    assert len(messages) == 4
    assert all(message.startswith("threads: 4 threads cannot be started (") for message in messages)


def test_no_memory_to_throw_with():
    """A thread's first exception takes some; without it the process would end."""
    run(MEMORY)
