"""Streams of speech through a server of nvidia-pytriton in this process: what its clients see of a chunk.

Clients send chunks over the loopback device and wait in threads of their own. What the server has decoded is handed to
`stream_load` beside the answer, for the times of its round and for the check; the answer has to have its text.
"""

import importlib.util
import itertools
import socket
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

import arcbeam
from benchmarks.harness.record import ROOT

FILE = ROOT / "examples" / "triton" / "pytriton_server.py"
WORKERS = 32  # requests that clients have under way


def example() -> ModuleType:
    """The server of the examples; ImportError without nvidia-pytriton."""
    import pytriton  # noqa: F401

    spec = importlib.util.spec_from_file_location("pytriton_server", FILE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Clients:
    """Sends chunks of numbered sequences, as `Batcher.submit` takes those of streams."""

    def __init__(self, client: Any, sequences: Any) -> None:
        self._client = client
        self._numbers, self._begun = itertools.count(1), set[int]()
        self._decoded: dict[int, deque[Any]] = {}
        inner = sequences.decode

        def decode(chunks: Any) -> list[Any]:
            found: list[Any] = inner(chunks)
            for chunk, one in zip(chunks, found, strict=True):
                self._decoded.setdefault(chunk.sequence, deque()).append(one)
            return found

        sequences.decode = decode

    def begin(self) -> int:
        """The number of a new sequence."""
        return next(self._numbers)

    def submit(self, sequence: int, rows: Any, *, last: bool = False) -> "Future[Any]":
        """Sends a chunk; the result is the `Partial` whose text has come back."""
        outer: Future[Any] = Future()
        start = sequence not in self._begun
        self._begun.add(sequence)
        inner = self._client.infer_batch(
            SEQUENCE=np.array([[sequence]], np.uint64), START=np.array([[start]]), END=np.array([[last]]),
            LOG_PROBS=np.asarray(rows, np.float32)[None],
        )  # fmt: skip
        inner.add_done_callback(lambda done: self._settle(outer, sequence, done))
        return outer

    def _settle(self, outer: "Future[Any]", sequence: int, done: Any) -> None:
        try:
            answer = done.result()
            partial = self._decoded[sequence].popleft()
            if isinstance(partial, Exception):
                raise partial
            if answer["TEXT"].item().decode() != partial.text:
                raise AssertionError(f"sequence {sequence}: the text that came back is that of another chunk")
            outer.set_result(partial)
        except BaseException as error:
            outer.set_exception(error)


@contextmanager
def clients(decoder: arcbeam.CtcDecoder, streams: int) -> Iterator[Clients]:
    """A server of the decoder, and its clients; ImportError without nvidia-pytriton."""
    server = example()
    from pytriton.client import FuturesModelClient
    from pytriton.triton import Triton, TritonConfig

    http, grpc, metrics = free_ports(3)
    with Triton(config=TritonConfig(http_port=http, grpc_port=grpc, metrics_port=metrics)) as triton:
        sequences = server.bind(triton, decoder, max_batch=streams, max_wait_ms=0.0)
        triton.run()
        with FuturesModelClient(
            f"localhost:{http}", server.MODEL, max_workers=min(streams, WORKERS), max_queue_size=100 * streams
        ) as client:
            yield Clients(client, sequences)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
