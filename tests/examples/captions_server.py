"""A server of captions in this process, with a model of tones; and what its clients share."""

import json
import socket
import threading
from contextlib import contextmanager, suppress

import numpy as np
import uvicorn
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from examples.captions.server import make_app
from tests.transcribe import tones

PIECE = 3200  # bytes: a tenth of a second


class Gated(tones.ToneModel):
    """A model that works only while its gate is open."""

    def __init__(self):
        super().__init__()
        self.gate, self.begun = threading.Event(), threading.Event()
        self.gate.set()
        self.batches = []

    def encode(self, audio, **options):
        self.batches.append(len(audio))
        self.begun.set()
        assert self.gate.wait(60)
        return super().encode(audio, **options)


@contextmanager
def serving(model, **options):
    """The port of a server in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # clients wait until the server has started
        config = uvicorn.Config(make_app(model, "tones", **options), log_level="critical", ws_max_size=2**20)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def bytes_of(samples):
    return (samples * 32767).astype("<i2").tobytes()


def captions(port, messages, query="rate=16000"):
    """(events, code, reason) of a client that sends these messages."""
    texts = []
    with connect(f"ws://127.0.0.1:{port}/captions?{query}") as client:

        def send():
            with suppress(ConnectionClosed):
                for message in messages:
                    client.send(message)

        sender = threading.Thread(target=send)
        sender.start()
        with suppress(ConnectionClosed):
            texts.extend(client)
        sender.join()
        return [json.loads(text) for text in texts], client.protocol.close_code, client.protocol.close_reason


def pieces(samples):
    data = bytes_of(samples)
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


def final(events):
    return [event["text"] for event in events if event["is_final"]]


def noise(seconds, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, seconds * tones.RATE)
