"""The threads of the host for states and lattices of a beam on a GPU: the same bytes with them and without."""

import math
import os
import resource
import signal
import sys

import pytest

from arcbeam import TransducerDecoder
from tests.processes import NewThreads
from tests.transducer.beam_streams import Streams, check_chunks
from tests.transducer.emulated_gpu import Shape, scheduled
from tests.transducer.networks import random_frames
from tests.transducer.test_beam_emulated import options_of, small
from tests.transducer.test_beam_lattice_emulated import as_bytes, kept

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
THREADS = 3
STREAMS = [random_frames(i, 1 + i % 4) for i in range(40)]


def streams(kind, device, **options):
    decoder = TransducerDecoder.from_arrays(small(kind), device=device, **options_of(kind, **options))
    return Streams(decoder, len(STREAMS))


@pytest.mark.parametrize("kind", ["rnnt", "tdt", "stateless"])
@pytest.mark.parametrize("threads", [1, THREADS])
def test_states(kind, threads):
    twin = streams(kind, "cpu", max_hypotheses=2)
    with scheduled(shape=Shape("many")):
        other = streams(kind, "cuda", max_hypotheses=2, threads=threads)
        started = NewThreads()
        check_chunks(twin, other, STREAMS, 1, sizes=(1, 2))
        assert started.become(0 if threads == 1 else threads)
        del other
    assert started.become(0)


@pytest.mark.parametrize("threads", [1, THREADS])
@pytest.mark.parametrize("rooms", [(64, 256), (5000, 5000)])
def test_lattices(threads, rooms):
    """Rooms between which little is copied with the rest, and rooms that are copied one by one."""
    options = options_of("tdt", beam=math.inf, max_hypotheses=4, merge_context=2)
    batch = [random_frames(i, n) for i, n in enumerate((9, 0, 5, 1, 7, 3))]
    wanted = as_bytes(kept(small("tdt"), batch, device="cpu", **options))
    with scheduled(shape=Shape("many"), lattice_rooms=lambda frames, hypotheses: rooms):
        decoder = TransducerDecoder.from_arrays(small("tdt"), device="cuda", threads=threads, **options)
        started = NewThreads()
        assert as_bytes(decoder.decode(batch, nbest=4, lattice=True)) == wanted
        assert started.become(0 if threads == 1 else threads)
        pinned = decoder.memory().pinned
        decoder.release()
        assert decoder.memory().pinned < pinned
        del decoder


def test_no_thread_to_be_had():
    """The caller does all."""
    twin = streams("rnnt", "cpu", max_hypotheses=2)
    with scheduled(shape=Shape("many")):
        other = streams("rnnt", "cuda", max_hypotheses=2, threads=4000)
        check_chunks(twin, streams("rnnt", "cuda", max_hypotheses=2, threads=1), STREAMS, 1)  # compiles
        started, limit = NewThreads(), resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (96 << 20), limit[1]))
        try:
            check_chunks(twin, other, STREAMS, 1)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limit)
        assert started.become(0)
        del other


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_ends_without_the_threads():
    twin = streams("rnnt", "cpu", max_hypotheses=2)
    with scheduled(shape=Shape("many")):
        other = streams("rnnt", "cuda", max_hypotheses=2, threads=THREADS)
        check_chunks(twin, other, STREAMS, 1)
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends it, should it wait
            try:
                del other
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        del other
