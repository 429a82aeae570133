"""Clients of a Batcher, good ones and bad ones, who check the bytes of all that they get."""

import random
import threading
import time
from concurrent.futures import CancelledError

import numpy as np

from arcbeam import Batcher, BatcherClosedError, CtcDecoder, TransducerDecoder
from tests.batching.stand_ins import PATIENCE_S
from tests.decode import equality, graphs
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS, boost
from tests.transducer.equality import as_bytes
from tests.transducer.networks import random_arrays, random_frames

FAULTS = ["waits", "hurries", "slow", "bad", "cancels", "vanishes", "too large"]


class Speech:
    """Utterances, a decoder, and what this finds for the whole of each: one of a few boosts, or none."""

    def __init__(self, decoder, utterances, boosts):
        self.decoder, self.utterances, self.boosts = decoder, utterances, [None, *boosts]
        decoder.decode_chunks = short_of_memory(decoder.decode_chunks)
        self.wholes = [decoder.decode(utterances, boost=one) for one in self.boosts]

    def check(self, found, utterance, boost):
        whole = self.wholes[boost][utterance]
        if isinstance(self.decoder, CtcDecoder):
            equality.same([found], [whole])
        else:
            assert as_bytes([found]) == as_bytes([whole])
        assert found.is_final and found.num_frames == len(self.utterances[utterance])


def ctc():
    utterances = [*BATCH, *(graphs.random_log_probs(seed, 90, BATCH[0].shape[1]) for seed in (10, 11))]
    return Speech(CtcDecoder(GRAPH, **OPTIONS), utterances, [boost(1), boost(2)])


def transducer():
    from arcbeam import BoostingTree

    decoder = TransducerDecoder.from_arrays(
        random_arrays(4, blank=12, blank_bias=2.0, durations=3), 12, durations=[0, 1, 2], device="cpu", threads=2,
        confidence="entropy",
    )  # fmt: skip
    trees = [BoostingTree({(1, 2): 9.0, (6,): 3.0}, vocab_size=12)]
    return Speech(decoder, [random_frames(i, frames) for i, frames in enumerate((40, 0, 1, 90, 33))], trees)


def short_of_memory(decode_chunks):
    """Calls with a stream that is `too_large` find too little memory, alone and in company."""

    def checked(streams, *arguments, **options):
        if any(getattr(stream, "too_large", False) for stream in streams):
            raise MemoryError("too little memory for a chunk")
        return decode_chunks(streams, *arguments, **options)

    return checked


class Tally(dict):
    """How often each thing happened."""

    def count(self, what):
        self[what] = self.get(what, 0) + 1


def cut(rng, utterance):
    """Chunks of any length, 0 included."""
    begin, chunks = 0, []
    while begin < len(utterance) or rng.random() < 0.2:
        end = min(len(utterance), begin + rng.randrange(12))
        chunks.append(utterance[begin:end])
        begin = end
    return chunks


def speak(batcher, speech, rng, tally):
    """One utterance by a client of some kind; AssertionError if anything is not as it should be."""
    kind = rng.choice(FAULTS)
    utterance, boost = rng.randrange(len(speech.utterances)), rng.randrange(len(speech.boosts))
    stream = speech.decoder.stream(boost=speech.boosts[boost])
    chunks = cut(rng, speech.utterances[utterance])
    tally.count(kind)
    futures = []
    for chunk in chunks:
        if kind == "slow":
            time.sleep(rng.random() * 0.02)
        if kind == "bad" and rng.random() < 0.3:
            refused(batcher, stream, np.full((3, speech.utterances[utterance].shape[1]), np.nan, np.float32))
            tally.count("refused")
        lent = chunk.copy()
        futures.append(batcher.submit(stream, lent))
        lent[...] = np.nan  # it is ours again
        if kind in ("waits", "bad", "slow"):
            futures[-1].result(PATIENCE_S)
    if kind == "vanishes":
        return
    if kind == "cancels" and futures:
        return cancel(batcher, stream, rng.choice(futures), futures, tally)
    if kind == "too large":
        return ask_too_much(batcher, stream, futures, speech.utterances[utterance], tally)
    speech.check(batcher.submit(stream, None, last=True).result(PATIENCE_S), utterance, boost)
    if kind == "bad":
        refused(batcher, stream, chunks[0] if chunks else None)
        tally.count("after the last")


def error_of(future):
    """What a chunk ends with; where its Batcher was closed, that is raised."""
    error = future.exception(PATIENCE_S)
    if isinstance(error, BatcherClosedError):
        raise error
    return error


def refused(batcher, stream, chunk):
    error = error_of(batcher.submit(stream, chunk))
    assert isinstance(error, ValueError), error
    assert "got nan in frame 0, " in str(error) or "no chunk after the last" in str(error)


def ask_too_much(batcher, stream, futures, chunk, tally):
    """A chunk for which there is no memory ends its stream, and no other."""
    for future in futures:
        future.result(PATIENCE_S)
    stream.too_large = True
    error = error_of(batcher.submit(stream, chunk))
    assert isinstance(error, MemoryError), error
    tally.count("out of memory")
    expect_no_more(batcher, stream, chunk)


def cancel(batcher, stream, chosen, futures, tally):
    """A chunk that is taken back is not decoded, nor is any after it; those before it are."""
    if not chosen.cancel():
        tally.count("too late to cancel")
        for future in futures:
            future.result(PATIENCE_S)
        return
    tally.count("cancelled")
    place = futures.index(chosen)
    for at, future in enumerate(futures):
        try:
            future.result(PATIENCE_S)
            assert at < place
        except CancelledError:
            assert at == place
        except ValueError as error:
            assert at > place and "was cancelled" in str(error)
    expect_no_more(batcher, stream, None)


def expect_no_more(batcher, stream, chunk):
    """A stream does not go on after a chunk that is missing."""
    try:
        batcher.submit(stream, chunk).result(PATIENCE_S)
    except ValueError as error:
        assert "cannot go on" in str(error)
    else:
        raise AssertionError("a stream went on after a chunk that is missing")


def together(count, seed, act, watch=None):
    """Threads that each `act` again and again, until that is false or one has failed; what happened in all of them."""
    tallies, wrong = [Tally() for _ in range(count)], []

    def client(number):
        rng = random.Random(f"{seed} {number}")
        try:
            while not wrong and act(number, rng, tallies[number]):
                pass
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=client, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    while watch is not None and any(thread.is_alive() for thread in threads):
        watch()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    happened = Tally()
    for tally in tallies:
        for what, number in tally.items():
            happened[what] = happened.get(what, 0) + number
    return happened


def crowd(batcher, speech, clients, seed, seconds, watch=None):
    """Clients that speak one utterance after another for some seconds, at least one each; what happened."""
    end = time.monotonic() + seconds

    def act(_, rng, tally):
        speak(batcher, speech, rng, tally)
        return time.monotonic() < end

    return together(clients, seed, act, watch)


def batcher_of(speech, **options):
    return Batcher(
        speech.decoder, **{"max_wait_ms": 0.5, "max_waiting": 10**6, "max_waiting_per_stream": 10**4, **options}
    )
