"""The same sequences through nvidia-pytriton: its function alone; and a server, where the package is there."""

import importlib.util
import random
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from arcbeam import CtcDecoder
from tests.decode.test_streams import BATCH, GRAPH

FILE = Path(__file__).resolve().parents[2] / "examples" / "triton" / "pytriton_server.py"
DECODER = CtcDecoder(GRAPH, device="cpu", threads=2)
WHOLES = [one.text for one in DECODER.decode(BATCH)]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.syspath_prepend(str(FILE.parent / "arcbeam_ctc" / "1"))
    spec = importlib.util.spec_from_file_location("pytriton_server", FILE)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def request(log_probs, sequence, start, end):
    """The inputs of a batch of one."""
    return {
        "SEQUENCE": np.array([[sequence]], np.uint64), "START": np.array([[start]]), "END": np.array([[end]]),
        "LOG_PROBS": log_probs[None],
    }  # fmt: skip


def test_the_function_that_pytriton_calls(server):
    sequences = server.Sequences(DECODER, 60.0)
    infer = server.answers(sequences)
    first, bad = infer([request(BATCH[0][:9], 1, True, False), request(BATCH[4][:, :5], 2, True, False)])
    assert (first["NUM_FRAMES"].item(), first["IS_FINAL"].item(), first["ERROR"].item()) == (9, False, b"")
    assert (bad["TEXT"].item(), bad["NUM_FRAMES"].item(), bad["IS_FINAL"].item()) == (b"", 0, False)
    assert b"expected 12 columns, got 5" in bad["ERROR"].item()
    [last] = infer([request(BATCH[0][9:], 1, False, True)])
    assert (last["TEXT"].item().decode(), last["IS_FINAL"].item()) == (WHOLES[0], True)
    assert last["STABLE_TEXT"].item() == last["TEXT"].item()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def test_a_server(server):
    """Clients at once, in chunks of their own, get the texts of whole utterances."""
    pytest.importorskip("pytriton", reason="nvidia-pytriton is not installed")
    from pytriton.client import ModelClient
    from pytriton.triton import Triton, TritonConfig

    http, grpc, metrics = free_ports(3)
    found = {}

    def speak(number):
        rng, utterance = random.Random(number), BATCH[number % len(BATCH)]
        with ModelClient(f"grpc://localhost:{grpc}", server.MODEL, lazy_init=False) as client:
            at = 0
            while at == 0 or at < len(utterance):
                end = at + rng.randint(1, 20)
                said = client.infer_batch(**request(utterance[at:end], number, at == 0, end >= len(utterance)))
                assert said["ERROR"].item() == b""
                at = end
        found[number] = said["TEXT"].item().decode()

    with Triton(config=TritonConfig(http_port=http, grpc_port=grpc, metrics_port=metrics)) as triton:
        sequences = server.bind(triton, DECODER)
        triton.run()
        numbers = [n for n in range(12) if len(BATCH[n % len(BATCH)])]
        threads = [threading.Thread(target=speak, args=(n,)) for n in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {n: WHOLES[n % len(BATCH)] for n in numbers} and len(sequences) == 0
