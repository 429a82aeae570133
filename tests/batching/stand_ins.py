"""A decoder whose rounds a test lets through one by one, and which notes them; and a round that a Batcher ends."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import Batcher, BatcherClosedError, InputError
from arcbeam.arrays.intake import KeptChunk
from arcbeam.streams.stream import HasStreams, SpeechStream

PATIENCE_S = 60  # for what has to come; no test waits for it to pass


class Stream(SpeechStream):
    num_frames, num_waiting, is_finished, partial = 0, 0, False, None

    def __init__(self, decoder, name):
        self._decoder, self.name = decoder, name

    def _fault(self):
        return "expected no chunk after the last" if self.is_finished else None


class Decoder(HasStreams):
    """A chunk is a number; what is found for it is the stream's name and the number. Negative ones are refused.

    A range is a chunk of several frames, which are the numbers of its result.

    Attributes
    ----------
    rounds : list of list of str
        The chunks of each call, as ``name number``.
    faults : dict
        What a call raises instead, by a chunk that is in it.
    """

    def __init__(self, gated=False):
        self.rounds, self.faults = [], {}
        self.begun, self.gate = threading.Semaphore(0), threading.Semaphore(0)
        self.is_gated = gated
        self._chunks = self

    def stream(self, name):
        return Stream(self, name)

    def keep(self, chunk, cuda_stream, max_frames):
        if isinstance(chunk, range):
            return KeptChunk(chunk, len(chunk), 3, True, len(chunk) > max_frames)
        width, on_host = (3, True) if np.isscalar(chunk) else chunk[1:]
        return KeptChunk(chunk if np.isscalar(chunk) else chunk[0], 1, width, on_host)

    def decode_chunks(self, streams, chunks, *, last, errors):
        assert errors == "return"
        names = [
            " ".join(map(str, [stream.name, *(chunk if isinstance(chunk, range) else [chunk])]))
            for stream, chunk in zip(streams, chunks, strict=True)
        ]
        assert len({stream.name for stream in streams}) == len(streams), "a stream is there twice"
        self.rounds.append(names)
        if self.is_gated:
            self.begun.release()
            assert self.gate.acquire(timeout=PATIENCE_S)
        for name in names:
            if name in self.faults:
                raise self.faults[name]
        found = []
        for at, (stream, name, chunk, ends) in enumerate(zip(streams, names, chunks, last, strict=True)):
            error = None
            if isinstance(chunk, range):
                chunk = min(chunk)
            if chunk < 0:
                error = InputError("log_probs", f"expected something, got {chunk}", utterance=at, frame=0, column=0)
            elif stream._fault():
                error = InputError("stream", stream._fault(), stream=at)
            else:
                stream.num_frames, stream.is_finished = stream.num_frames + 1, ends
            found.append(SimpleNamespace(text=name, error=error))
            if error is None:
                stream.partial = found[-1]
        return found

    def wait_until_a_round_begins(self):
        assert self.begun.acquire(timeout=PATIENCE_S)

    def next_round(self):
        """Lets the one that has begun through, and waits for another."""
        self.gate.release()
        self.wait_until_a_round_begins()

    def open(self):
        """No more gate."""
        self.is_gated = False
        self.gate.release()


def held(decoder, **options):
    """A Batcher in the middle of a round of one chunk, so that what is submitted now waits."""
    batcher = Batcher(decoder, **{"max_wait_ms": 0, **options})
    first = batcher.submit(decoder.stream("first"), 0)
    decoder.wait_until_a_round_begins()
    return batcher, first


def text(future):
    return future.result(PATIENCE_S).text


def ended_by_a_batcher(decoder, chunk, library):
    """A stream that has nine frames of the chunk; a Batcher has ended the round of the rest, on a fake driver."""
    batcher, stream = Batcher(decoder, max_wait_ms=0), decoder.stream()
    batcher.submit(stream, chunk[:9]).result(PATIENCE_S)
    library.fake_not_ready(10**9)  # what the round waits for does not come
    try:
        running = batcher.submit(stream, chunk[9:])
        while batcher.stats().round_seconds == 0:
            time.sleep(0.001)
        batcher.close(timeout=0.0)
        with pytest.raises(BatcherClosedError, match="closed while this chunk was being decoded"):
            running.result(0)
    finally:
        library.fake_not_ready(0)
    assert not batcher._thread.is_alive()
    return stream
