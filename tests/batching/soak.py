"""A soak: 64 streams with faults for minutes; answers are the bytes of the whole, and memory is flat.

``python -m tests.batching.soak --minutes 10``; ``--out FILE`` also writes what happened as JSON.

glibc gives each thread an arena and a cache of freed memory, which fill slowly, as far as they go. That would hide what
is lost, so the command starts itself again without them. Errors refer to frames that refer to them, and wait for
Python's collector; so it runs, and what is free goes back to the system, before the memory is measured.
"""

import argparse
import ctypes
import gc
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from tests.batching.clients import batcher_of, crowd, ctc, transducer

C = ctypes.CDLL(None)
CLIENTS = 32  # of each decoder
FAULTS = {"cancelled", "refused", "slow", "vanishes", "out of memory"}  # which all occur in a minute
MOST_GROWTH = 1 << 20  # bytes, from the second quarter of the time to the last
PLAIN_MEMORY = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


def resident_bytes():
    gc.collect()
    if hasattr(C, "malloc_trim"):
        C.malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Soaked(NamedTuple):
    """What happened.

    Attributes
    ----------
    happened : dict of str to Tally
        By decoder: how often each kind of client spoke, and each fault occurred.
    work : dict of str to (int, int)
        By decoder: rounds, and chunks that were decoded.
    sizes : list of (float, int)
        Seconds since the beginning, and resident bytes.
    """

    happened: dict
    work: dict
    sizes: list


def soak(minutes, clients=CLIENTS, say=lambda text: None):
    """Runs both decoders at once; AssertionError if anything is wrong."""
    seconds, found, wrong = 60.0 * minutes, Soaked({}, {}, []), []
    begin = time.monotonic()

    def run(name, speech, watch):
        try:
            with batcher_of(speech, max_batch=24) as batcher:
                found.happened[name] = crowd(batcher, speech, clients, name, seconds, watch=watch)
                stats = batcher.stats()
            assert stats.waiting == 0 or "vanishes" in found.happened[name]
            found.work[name] = stats.rounds, stats.decoded
        except BaseException as error:
            wrong.append(error)
            raise
        say(f"{name}: {found.happened[name]}, {stats.rounds:,} rounds, {stats.decoded:,} chunks")

    def watch():
        sizes = found.sizes
        sizes.append((time.monotonic() - begin, resident_bytes()))
        if len(sizes) % 40 == 0:
            say(f"{sizes[-1][0]:.0f} s, {sizes[-1][1] / 2**20:.1f} MiB")
        time.sleep(0.25)

    others = threading.Thread(target=run, args=("transducer", transducer(), None))
    others.start()
    run("ctc", ctc(), watch)
    others.join()
    if wrong:
        raise wrong[0]
    gc.collect()
    return found


def growth(sizes):
    """Bytes from the median of the second quarter of the time to that of the last."""
    quarter = sizes[-1][0] / 4
    early = [size for at, size in sizes if quarter <= at < 2 * quarter]
    late = [size for at, size in sizes if at >= 3 * quarter]
    return statistics.median(late) - statistics.median(early)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if not PLAIN_MEMORY.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | PLAIN_MEMORY)
    found = soak(given.minutes, say=print)
    assert all(set(each) >= FAULTS for each in found.happened.values()), found.happened
    grown = growth(found.sizes)
    print(f"memory grew by {grown / 2**20:.2f} MiB")
    assert grown < MOST_GROWTH
    if given.out is not None:
        given.out.write_text(json.dumps(found._asdict() | {"grown": grown}))
