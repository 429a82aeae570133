"""What a Batcher decodes, and when: order, fairness, limits, cancellation, errors, the end. With a decoder to watch."""

import asyncio
import concurrent.futures
import functools
import gc
import multiprocessing
import operator
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import arcbeam
from arcbeam import Batcher, BatcherClosedError, BatcherFullError, InputError
from tests.batching.stand_ins import PATIENCE_S, Decoder, held, text
from tests.conftest import ROOT


@pytest.fixture
def decoder():
    return Decoder(gated=True)


def test_rounds_are_fair_and_streams_in_order(decoder):
    batcher, first = held(decoder, max_batch=2)
    greedy, other, third = (decoder.stream(name) for name in "abc")
    futures = [batcher.submit(greedy, i) for i in range(5)]
    futures += [batcher.submit(other, 0), batcher.submit(third, 0), batcher.submit(third, 1)]
    decoder.open()
    assert [text(future) for future in futures] == ["a 0", "a 1", "a 2", "a 3", "a 4", "b 0", "c 0", "c 1"]
    assert decoder.rounds == [["first 0"], ["a 0", "b 0"], ["c 0", "a 1"], ["c 1", "a 2"], ["a 3"], ["a 4"]]
    batcher.close()
    assert text(first) == "first 0"


def test_what_comes_while_a_round_is_decoded_is_the_next_round(decoder):
    batcher, _ = held(decoder)
    streams = [decoder.stream(f"s{i}") for i in range(40)]
    futures = [batcher.submit(stream, 0) for stream in streams]
    decoder.next_round()
    late = batcher.submit(streams[0], 1)  # of a stream that is being decoded
    decoder.open()
    assert text(late) == "s0 1"
    assert [len(each) for each in decoder.rounds] == [1, 40, 1]
    assert all(future.done() for future in futures)
    batcher.close()


def test_a_full_round_does_not_wait():
    decoder = Decoder()
    with Batcher(decoder, max_batch=2, max_wait_ms=1e9) as batcher:
        futures = [batcher.submit(decoder.stream(name), 0) for name in "ab"]
        assert [text(future) for future in futures] == ["a 0", "b 0"]
        alone = batcher.submit(decoder.stream("c"), 0)
        assert not alone.done()
    assert text(alone) == "c 0", "a drain waits for nobody"
    assert decoder.rounds == [["a 0", "b 0"], ["c 0"]]


def test_a_round_that_is_not_full_waits_no_longer_than_it_may():
    decoder = Decoder()
    with Batcher(decoder, max_wait_ms=1) as batcher:
        assert text(batcher.submit(decoder.stream("a"), 0)) == "a 0"


def test_limits(decoder):
    batcher, _ = held(decoder, max_waiting=3, max_waiting_per_stream=2)
    stream, other = decoder.stream("a"), decoder.stream("b")
    futures = [batcher.submit(stream, i) for i in range(2)]
    with pytest.raises(BatcherFullError, match=r"fewer than max_waiting_per_stream=2 .*future\.result\(\)"):
        batcher.submit(stream, 2)
    futures.append(batcher.submit(other, 0))
    with pytest.raises(BatcherFullError, match="fewer than max_waiting=3 chunks that wait"):
        batcher.submit(other, 1)
    assert (batcher.stats().waiting, batcher.stats().rejected) == (3, 2)
    decoder.open()
    assert [text(future) for future in futures] == ["a 0", "a 1", "b 0"]
    assert text(batcher.submit(stream, 2)) == "a 2", "the stream can go on"
    batcher.close()
    assert batcher.stats().decoded == 5


def test_a_cancelled_chunk_is_not_decoded_and_its_stream_cannot_go_on(decoder):
    batcher, first = held(decoder)
    stream, other = decoder.stream("a"), decoder.stream("b")
    futures = [batcher.submit(stream, i) for i in range(4)]
    fine = batcher.submit(other, 0)
    assert futures[1].cancel()
    assert not first.cancel(), "its round has begun"
    decoder.open()
    assert text(fine) == "b 0" and text(futures[0]) == "a 0"
    for future in futures[2:]:
        with pytest.raises(ValueError, match=r"a chunk before it was cancelled.*decoder.stream\(\) begins another"):
            future.result(PATIENCE_S)
    with pytest.raises(ValueError, match="cannot go on, because a chunk before it was cancelled"):
        batcher.submit(stream, 9)
    assert text(batcher.submit(other, 1)) == "b 1"
    batcher.close()
    assert functools.reduce(operator.iadd, decoder.rounds, []) == ["first 0", "a 0", "b 0", "b 1"]
    stats = batcher.stats()
    assert (stats.decoded, stats.cancelled, stats.waiting) == (4, 3, 0)


def test_a_cancelled_task_takes_its_chunk_back(decoder):
    batcher, _ = held(decoder)
    stream = decoder.stream("a")

    async def impatient():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.decode_chunk(stream, 0), 0.01)

    asyncio.run(impatient())
    decoder.open()
    assert text(batcher.submit(decoder.stream("b"), 0)) == "b 0"
    assert functools.reduce(operator.iadd, decoder.rounds, []) == ["first 0", "b 0"]
    batcher.close()


def test_a_refused_chunk_is_its_own_affair(decoder):
    batcher, _ = held(decoder)
    streams = [decoder.stream(name) for name in "abc"]
    futures = [batcher.submit(stream, i) for stream, i in zip(streams, (0, -1, 2), strict=True)]
    futures += [batcher.submit(stream, 5, last=True) for stream in streams]
    decoder.open()
    assert [text(futures[i]) for i in (0, 2, 3, 4, 5)] == ["a 0", "c 2", "a 5", "b 5", "c 5"]
    with pytest.raises(InputError, match=r"^log_probs: expected something, got -1 in frame 0, column 0$") as caught:
        futures[1].result()
    assert (caught.value.utterance, caught.value.frame, caught.value.column) == (None, 0, 0)
    with pytest.raises(InputError, match=r"^stream: expected no chunk after the last$") as caught:
        batcher.submit(streams[2], 6).result(PATIENCE_S)
    assert caught.value.stream is None
    batcher.close()
    assert (batcher.stats().decoded, batcher.stats().refused) == (6, 2)


def test_an_error_of_a_round_fails_it_and_no_other(decoder):
    batcher, _ = held(decoder)
    streams = [decoder.stream(name) for name in "ab"]
    futures = [batcher.submit(stream, 0) for stream in streams]
    later = batcher.submit(streams[0], 1)
    decoder.faults["b 0"] = RuntimeError("the device was lost")
    decoder.open()
    for future in futures:
        with pytest.raises(RuntimeError, match="the device was lost"):
            future.result(PATIENCE_S)
    with pytest.raises(ValueError, match=r"a chunk before it was lost \(the device was lost\)"):
        later.result(PATIENCE_S)
    with pytest.raises(ValueError, match="the device was lost"):
        batcher.submit(streams[1], 1)
    assert text(batcher.submit(decoder.stream("c"), 0)) == "c 0"
    batcher.close()
    assert (batcher.stats().decoded, batcher.stats().failed) == (2, 3)


def test_with_too_little_memory_for_all_those_that_fit_are_decoded_one_by_one(decoder):
    batcher, _ = held(decoder)
    streams = [decoder.stream(name) for name in "abc"]
    futures = [batcher.submit(stream, 0) for stream in streams]
    futures.append(batcher.submit(streams[0], 1))
    decoder.faults["b 0"] = MemoryError("no room")
    decoder.open()
    assert [text(futures[i]) for i in (0, 2, 3)] == ["a 0", "c 0", "a 1"]
    with pytest.raises(MemoryError, match="no room"):
        futures[1].result()
    assert decoder.rounds == [["first 0"], ["a 0", "b 0", "c 0"], ["a 0"], ["b 0"], ["c 0"], ["a 1"]]
    batcher.close()


def test_a_stream_that_has_gone_on_before_an_error_is_not_decoded_again(decoder):
    batcher, _ = held(decoder)
    streams = [decoder.stream(name) for name in "ab"]
    futures = [batcher.submit(stream, 0) for stream in streams]
    decoder.next_round()
    decoder.faults["b 0"] = MemoryError("no room")
    streams[1].num_frames = 1  # while the round is being decoded
    decoder.open()
    assert text(futures[0]) == "a 0"
    with pytest.raises(MemoryError, match="no room"):
        futures[1].result(PATIENCE_S)
    assert decoder.rounds[1:] == [["a 0", "b 0"], ["a 0"]]
    batcher.close()


def test_arrays_that_cannot_be_decoded_together_are_decoded_apart(decoder):
    batcher, _ = held(decoder)
    kinds = [(0, 3, True), (1, 3, False), (2, 4, True), (3, 3, True)]
    futures = [batcher.submit(decoder.stream(f"s{i}"), kind) for i, kind in enumerate(kinds)]
    decoder.open()
    assert [text(future) for future in futures] == ["s0 0", "s1 1", "s2 2", "s3 3"]
    assert decoder.rounds[1:] == [["s0 0", "s3 3"], ["s1 1"], ["s2 2"]]
    batcher.close()
    assert batcher.stats().rounds == 2


def test_a_drain_decodes_what_waits(decoder):
    batcher, first = held(decoder)
    stream = decoder.stream("a")
    futures = [batcher.submit(stream, i) for i in range(3)]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    while not batcher._waiting._is_closed:
        pass
    with pytest.raises(BatcherClosedError, match="has been closed; make another"):
        batcher.submit(decoder.stream("b"), 0)
    decoder.open()
    closing.join(PATIENCE_S)
    assert all(future.done() for future in (first, *futures))
    assert [text(future) for future in futures] == ["a 0", "a 1", "a 2"]
    batcher.close()


@pytest.mark.parametrize("how", [{"drain": False}, {"timeout": 0.0}])
def test_without_a_drain_what_waits_is_given_up(decoder, how):
    batcher, first = held(decoder)
    stream = decoder.stream("a")
    futures = [batcher.submit(stream, i) for i in range(2)]
    futures[-1].add_done_callback(lambda _: decoder.open())
    batcher.close(**how)
    assert text(first) == "first 0"
    for future in futures:
        with pytest.raises(BatcherClosedError, match="closed before this chunk was decoded"):
            future.result(0)
    assert (batcher.stats().failed, batcher.stats().decoded, batcher.stats().waiting) == (2, 1, 0)


def test_an_error_in_a_with_block_gives_up_what_waits():
    decoder = Decoder()
    with pytest.raises(KeyError):
        with Batcher(decoder, max_wait_ms=1e9) as batcher:
            future = batcher.submit(decoder.stream("a"), 0)
            raise KeyError
    with pytest.raises(BatcherClosedError):
        future.result(0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("raised", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_what_clients_do_in_their_functions_is_their_own_affair(decoder, raised):
    def function(_):
        raise raised("of a client")

    batcher, _ = held(decoder)
    mine = batcher.submit(decoder.stream("a"), 0)
    mine.add_done_callback(function)
    settled = batcher.submit(decoder.stream("b"), 0)
    settled.set_result(None)
    running = batcher.submit(decoder.stream("c"), 0)
    decoder.next_round()
    running.set_result(None)
    decoder.open()
    assert text(mine) == "a 0"
    closer = batcher.submit(decoder.stream("d"), 0)
    closer.add_done_callback(lambda _: batcher.close())
    assert text(closer) == "d 0"
    batcher._thread.join(PATIENCE_S)
    assert not batcher._thread.is_alive()


def test_a_batcher_that_nobody_refers_to_decodes_what_waits_and_ends(decoder):
    batcher, _ = held(decoder)
    thread, future = batcher._thread, batcher.submit(decoder.stream("a"), 0)
    gone = weakref.ref(batcher)
    del batcher
    gc.collect()
    assert gone() is None
    decoder.open()
    assert text(future) == "a 0"
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_stream_goes_with_its_client():
    decoder = Decoder()
    with Batcher(decoder, max_wait_ms=0) as batcher:
        stream = decoder.stream("a")
        gone = weakref.ref(stream)
        batcher.submit(stream, 0)
        del stream
        text(batcher.submit(decoder.stream("b"), 0))
        while gone() is not None:  # the thread is about to let go of its last round
            gc.collect()
        assert batcher._waiting._lines.keys() <= set()


EXIT = """
import arcbeam
from tests.batching.stand_ins import Decoder
decoder = Decoder(gated=True)
batcher = arcbeam.Batcher(decoder, max_wait_ms=0)
stream = decoder.stream("a")
futures = [batcher.submit(stream, i) for i in range(3)]
decoder.wait_until_a_round_begins()
for future in futures:
    future.add_done_callback(lambda future: print(type(future.exception()).__name__))
futures[-1].add_done_callback(lambda _: decoder.open())
"""


@pytest.mark.parametrize("left", ["", "batcher.close(drain=False)", "import os; os._exit(0)"])
def test_the_interpreter_ends(left):
    got = subprocess.run([sys.executable, "-c", EXIT + left], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (got.returncode, got.stderr) == (0, "")
    assert sorted(got.stdout.split()) == ([] if "_exit" in left else ["BatcherClosedError"] * 2 + ["NoneType"])


def test_a_forked_child_is_told(decoder):
    batcher, first = held(decoder)
    context = multiprocessing.get_context("fork")
    told = context.Queue()

    def child():
        for call in (lambda: batcher.submit(decoder.stream("a"), 0), batcher.stats):
            try:
                call()
            except BatcherClosedError as error:
                with batcher:
                    told.put(str(error))

    process = context.Process(target=child)
    process.start()
    for _ in range(2):
        said = told.get(timeout=PATIENCE_S)
        assert said.startswith("Batcher: expected the process that made this one")
        assert "forked from it and has no thread of it; make a Batcher here" in said
    process.join(PATIENCE_S)
    assert process.exitcode == 0
    decoder.open()
    assert text(first) == "first 0"
    batcher.close()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"max_batch": 0}, ValueError, "max_batch: expected a whole number of at least 1, got 0"),
        ({"max_batch": None}, TypeError, "max_batch: expected a whole number of at least 1, got NoneType"),
        ({"max_waiting": 1.5}, TypeError, "max_waiting: expected a whole number"),
        ({"max_waiting_per_stream": -1}, ValueError, "max_waiting_per_stream: expected a whole number"),
        ({"max_wait_ms": -1}, ValueError, "max_wait_ms: expected a number of milliseconds of at least 0, got -1"),
        ({"max_wait_ms": float("nan")}, ValueError, "max_wait_ms: expected a number of milliseconds"),
        ({"max_delay": 3}, TypeError, "unknown option max_delay: expected one of decoder, max_batch, max_wait_ms"),
    ],
)
def test_bad_options(options, error, said):
    with pytest.raises(error, match=said):
        Batcher(Decoder(), **options)


def test_bad_calls():
    decoder = Decoder()
    with pytest.raises(TypeError, match=r"expected an arcbeam\.CtcDecoder or TransducerDecoder, got dict"):
        Batcher({})
    with Batcher(decoder) as batcher:
        with pytest.raises(TypeError, match=r"stream: expected what decoder\.stream\(\) returns, got str"):
            batcher.submit("a", 0)
        with pytest.raises(ValueError, match="got one of another decoder"):
            batcher.submit(Decoder().stream("a"), 0)
        with pytest.raises(TypeError, match="last: expected a bool"):
            batcher.submit(decoder.stream("a"), 0, last="yes")
        with pytest.raises(ValueError, match="timeout: expected a number of seconds of at least 0, or None, got -1"):
            batcher.close(timeout=-1)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(batcher)
        assert "max_wait_ms=2" in repr(batcher)
        assert text(batcher.submit(decoder.stream("a"), 0)) == "a 0"


def test_threads_hammer_it():
    decoder = Decoder()
    streams = [decoder.stream(f"s{i}") for i in range(32)]
    with Batcher(decoder, max_batch=8, max_wait_ms=0.1, max_waiting=10**6, max_waiting_per_stream=10**6) as batcher:

        def client(stream):
            return [batcher.submit(stream, i) for i in range(200)]

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            futures = list(pool.map(client, streams))
        for stream, mine in zip(streams, futures, strict=True):
            assert [text(future) for future in mine] == [f"{stream.name} {i}" for i in range(200)]
    stats = batcher.stats()
    assert stats.decoded == stats.queue_seconds.count == 32 * 200
    assert stats.rounds == len(decoder.rounds) == stats.batch_sizes.count == stats.compute_seconds.count
    assert max(map(len, decoder.rounds)) <= 8
    for stream in streams:
        order = [name for each in decoder.rounds for name in each if name.startswith(f"{stream.name} ")]
        assert order == [f"{stream.name} {i}" for i in range(200)]


def test_the_errors_are_arcbeams():
    assert issubclass(BatcherFullError, (arcbeam.ArcbeamError, RuntimeError))
    assert issubclass(BatcherClosedError, arcbeam.ArcbeamError)
