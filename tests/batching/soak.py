"""A soak: 64 streams with faults for minutes; answers are the bytes of the whole, and memory is flat.

``python -m tests.batching.soak --minutes 10``

glibc gives each thread an arena and a cache of freed memory, which fill slowly, as far as they go. That would hide what
is lost, so the command starts itself again without them. Errors refer to frames that refer to them, and wait for
Python's collector; so it runs, and what is free goes back to the system, before the memory is looked at.
"""

import argparse
import ctypes
import gc
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from tests.batching.clients import batcher_of, crowd, ctc, transducer

C = ctypes.CDLL(None)
CLIENTS = 32  # of each decoder
MOST_GROWTH = 1 << 20  # bytes, from the second quarter of the time to the last
PLAIN_MEMORY = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def resident_bytes():
    gc.collect()
    if hasattr(C, "malloc_trim"):
        C.malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(minutes, clients=CLIENTS, say=lambda text: None):
    """What happened, by decoder; AssertionError if anything is wrong."""
    seconds, sizes, happened, wrong = 60.0 * minutes, [], {}, []
    begin = time.monotonic()

    def run(name, speech, watch):
        try:
            with batcher_of(speech, max_batch=24) as batcher:
                happened[name] = crowd(batcher, speech, clients, name, seconds, watch=watch)
                stats = batcher.stats()
        except BaseException as error:
            wrong.append(error)
            raise
        assert stats.waiting == 0 or "vanishes" in happened[name]
        say(f"{name}: {happened[name]}, {stats.rounds:,} rounds, {stats.decoded:,} chunks")

    def watch():
        sizes.append((time.monotonic() - begin, resident_bytes()))
        if len(sizes) % 40 == 0:
            say(f"{sizes[-1][0]:.0f} s, {sizes[-1][1] / 2**20:.1f} MiB")

    others = threading.Thread(target=run, args=("transducer", transducer(), None))
    others.start()
    run("ctc", ctc(), watch)
    others.join()
    if wrong:
        raise wrong[0]
    gc.collect()
    return happened, sizes


def growth(sizes):
    """Bytes from the median of the second quarter of the time to that of the last."""
    quarter = sizes[-1][0] / 4
    early = [size for at, size in sizes if quarter <= at < 2 * quarter]
    late = [size for at, size in sizes if at >= 3 * quarter]
    return statistics.median(late) - statistics.median(early)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    minutes = parser.parse_args().minutes
    if not PLAIN_MEMORY.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | PLAIN_MEMORY)
    happened, sizes = soak(minutes, say=print)
    faults = {"cancelled", "refused", "slow", "vanishes", "out of memory"}
    assert all(faults <= set(each) for each in happened.values()), happened
    grown = growth(sizes)
    print(f"memory grew by {grown / 2**20:.2f} MiB")
    assert grown < MOST_GROWTH
