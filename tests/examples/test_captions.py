"""The server of captions with a model of tones: live clients of every kind, and OpenAI's client with files."""

import asyncio
import io
import itertools
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

for needed in ("kaldifst", "starlette", "uvicorn", "websockets", "python_multipart", "openai", "soundfile", "soxr"):
    pytest.importorskip(needed, reason=f"{needed} is not installed: .[build,captions]")

import openai  # noqa: E402
import soundfile  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.websockets import WebSocket  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

import arcbeam  # noqa: E402
from examples.captions import live  # noqa: E402
from examples.captions.limits import Limits  # noqa: E402
from examples.captions.shared_model import SharedModel  # noqa: E402
from examples.captions.uploads import ApiError, Transcriptions  # noqa: E402
from tests.examples.captions_server import Gated, bytes_of, captions, final, noise, pieces, serving  # noqa: E402
from tests.transcribe import tones  # noqa: E402

EXAMPLE = "captions"
SENTENCES = tones.random_sentences(2, 6)
AUDIO = tones.recording(SENTENCES)
MINUTE = bytes(2 * 8_000 * 61)


@pytest.fixture(scope="module")
def model():
    return Gated()


@pytest.fixture(scope="module")
def port(model):
    with serving(model, language="en", threads=2, batch_size=4, limits=Limits(waiting_seconds=60.0)) as port:
        yield port


@pytest.mark.parametrize("query", ["rate=16000", "rate=16000&confidence=true"])
def test_live_captions(port, query):
    events, code, reason = captions(port, [*pieces(AUDIO), "end"], query)
    assert (final(events), code, reason) == (SENTENCES, 1000, "")
    assert any(0 < event["num_stable"] < len(event["words"]) for event in events)
    stable = []
    for event in events:
        words = [word["word"] for word in event["words"]]
        assert words[: len(stable)] == stable and event["text"] == " ".join(words)
        stable = [] if event["is_final"] else words[: event["num_stable"]]
        if event["is_final"]:
            assert event["start"] == event["words"][0]["start"] < event["words"][-1]["end"] == event["end"]
            assert all(("confidence" in word) == ("confidence" in query) for word in event["words"])


def test_another_rate_is_resampled(port):
    slow = np.repeat(AUDIO, 3)  # 48,000 samples a second, with images above 8,000 Hz that resampling takes away
    assert final(captions(port, [*pieces(slow), "end"], "rate=48000")[0]) == SENTENCES


def test_clients_do_not_harm_each_other(port):
    """Good ones get their words, while others send noise, text, half a sample, too much, or are gone."""
    texts = [tones.random_sentences(seed, 3) for seed in range(6)]
    good = [[*pieces(tones.recording(one)), "end"] for one in texts]
    bad = {
        1000: [*pieces(noise(5)), b"", "end"],
        1003: [*pieces(AUDIO), "hello"],
        1007: [*pieces(noise(2)), b"odd"],
        1009: [bytes(2**21)],
    }
    found = {}

    def follow(key, messages):
        found[key] = captions(port, messages)

    def vanish():
        with connect(f"ws://127.0.0.1:{port}/captions") as client:
            client.send(bytes_of(noise(3)))
            client.socket.shutdown(socket.SHUT_RDWR)

    threads = [threading.Thread(target=follow, args=one) for one in [*enumerate(good), *bad.items()]]
    threads.append(threading.Thread(target=vanish))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [final(found[at][0]) for at in range(len(good))] == texts
    assert {key: found[key][1] for key in bad} == {key: key for key in bad}


@pytest.mark.parametrize(
    ("query", "messages", "code", "reason"),
    [
        ("rate=1", [], 1008, "rate: expected samples a second from 8000 to 192000, got 1"),
        ("rate=fast", [], 1008, "rate: expected samples a second from 8000 to 192000, got fast"),
        ("confidence=1", [], 1008, "confidence: expected true or false, got 1"),
        ("", ["stop"], 1003, "expected binary messages of 16-bit samples, or the text 'end', got other text"),
        ("", [b"abc"], 1007, "expected whole samples of 2 bytes, got 3 bytes"),
        ("rate=8000", [MINUTE], 1008, "expected live audio, got 60 s more than was recognised; POST files"),
    ],
)
def test_what_closes_a_client(port, query, messages, code, reason):
    assert captions(port, messages, query) == ([], code, reason)
    assert final(captions(port, [*pieces(AUDIO), "end"])[0]) == SENTENCES


def test_limits_of_clients(model):
    with serving(model, limits=Limits(clients=1)) as port:
        with connect(f"ws://127.0.0.1:{port}/captions") as client:
            client.send(bytes(2))
            refused = captions(port, ["end"])
            assert refused == ([], 1013, "expected at most 1 clients at once; try again later")
            client.send("end")
            assert list(client) == [] and client.protocol.close_code == 1000
        assert captions(port, ["end"]) == ([], 1000, "")  # its place is free


class Silent:
    """A recording of which nothing becomes known, or the same sentence again and again."""

    def __init__(self, events=()):
        self.events = list(events)

    def add(self, samples):
        return self.events

    finish = list


def closed(limits, received, sent=None, events=()):
    """How a client is closed that sends these messages and then nothing; `sent` takes what it gets."""

    async def follow():
        messages, codes = iter([{"type": "websocket.connect"}, *received]), []

        async def receive():
            return next(messages, None) or await asyncio.Event().wait()

        async def send(message):
            if message["type"] == "websocket.close":
                codes.append((message["code"], message["reason"]))
            elif message["type"] == "websocket.send":
                await sent(message)

        server = live.LiveCaptions(lambda rate, confidence: Silent(events), limits)
        await server.serve(WebSocket({"type": "websocket", "query_string": b""}, receive, send))
        server.close()
        return codes

    return asyncio.run(follow())


def samples(seconds):
    return {"type": "websocket.receive", "bytes": bytes(2 * 16_000 * seconds)}


def test_a_client_that_sends_nothing_or_reads_nothing():
    assert closed(Limits(idle_seconds=0.01), []) == [(1008, "expected samples, got nothing for 0.01 s")]
    event = arcbeam.LiveEvent(arcbeam.Segment(0.0, 1.0, "a", ()), True, 0)
    never = lambda message: asyncio.Event().wait()  # noqa: E731
    reason = "expected a client that reads captions, got none for 0.01 s"
    assert closed(Limits(reading_seconds=0.01), [samples(1)], never, [event]) == [(1008, reason)]


def test_a_server_that_is_late_says_so(monkeypatch):
    monkeypatch.setattr(live, "monotonic", itertools.count(0, 60).__next__)
    reason = "captions are 3 s late, because of too many clients; try again later"
    assert closed(Limits(waiting_seconds=3.0), [samples(4)]) == [(1013, reason)]


def test_an_error_of_the_model_is_told(monkeypatch):
    monkeypatch.setattr(Silent, "add", lambda self, samples: 1 / 0)
    assert closed(Limits(), [samples(1)]) == [(1011, "the server failed; its log says why")]


def wav(audio, rate=tones.RATE):
    file = io.BytesIO()
    soundfile.write(file, audio, rate, format="WAV", subtype="PCM_16")
    return "speech.wav", file.getvalue()


@pytest.fixture(scope="module")
def client(port):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client:
        yield client.audio.transcriptions


def test_openais_formats(client):
    whole = arcbeam.Transcriber(tones.ToneModel()).transcribe(np.round(AUDIO * 32767) / 32768)
    create = lambda **options: client.create(file=wav(AUDIO), model="whisper-1", **options)  # noqa: E731
    assert create().text == create(language="en", temperature=0).text == " ".join(SENTENCES)
    assert create(response_format="text") == f"{whole.text}\n"
    for name in ("srt", "vtt"):
        assert create(response_format=name) == whole.render(name)
    found = create(response_format="verbose_json")
    assert (found.text, found.language, found.duration, found.words) == (whole.text, "en", whole.duration, None)
    assert [(one.start, one.end, one.text) for one in found.segments] == [
        (one.start, one.end, one.text) for one in whole.segments
    ]
    found = create(response_format="verbose_json", timestamp_granularities=["word", "segment"])
    assert len(found.segments) == len(SENTENCES)
    assert [(one.word, one.start, one.end) for one in found.words] == [w[:1] + w[3:5] for w in whole.words]
    words = create(response_format="verbose_json", timestamp_granularities=["word"])
    assert words.segments is None and words.words == found.words


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "large"}, openai.NotFoundError, "model: expected tones or whisper-1, got large"),
        ({"file": ("a.wav", b"no audio")}, openai.BadRequestError, "file: expected audio, got what cannot be read"),
        ({"file": ("a.wav", b"")}, openai.BadRequestError, "file: expected audio, got an empty file"),
        ({"file": wav(AUDIO[:100])}, openai.BadRequestError, "expected a recording of at least 0.025 s"),
        ({"language": "fr"}, openai.BadRequestError, "language: expected en, got fr"),
        ({"prompt": "names"}, openai.BadRequestError, "prompt: expected none, got names"),
        ({"temperature": 0.5}, openai.BadRequestError, "temperature: expected 0 or 0.0, got 0.5"),
        ({"response_format": "xml"}, openai.BadRequestError, "response_format: expected json or text or srt"),
        ({"timestamp_granularities": ["word"]}, openai.BadRequestError, "only with response_format=verbose_json"),
        ({"extra_body": {"beams": 3}}, openai.BadRequestError, "fields: expected file or model .*, got beams"),
        ({"file": ("a.wav", bytes(26 * 2**20))}, openai.APIStatusError, "of at most 26,214,400 bytes, got more"),
    ],
)
def test_openais_errors(client, options, error, message):
    with pytest.raises(error, match=message) as caught:
        client.create(**{"file": wav(AUDIO), "model": "tones", **options})
    assert set(caught.value.body) == {"message", "type", "param", "code"}
    assert client.create(file=wav(AUDIO), model="tones").text == " ".join(SENTENCES)


def test_limits_of_files(model):
    with serving(model, limits=Limits(uploads=1, waiting_uploads=0, retry_seconds=7, upload_seconds=30.0)) as port:
        url = f"http://127.0.0.1:{port}/v1"
        files = openai.OpenAI(base_url=url, api_key="none", max_retries=0).audio.transcriptions
        with pytest.raises(openai.BadRequestError, match="expected at most 30 s of audio, got 31 s"):
            files.create(file=wav(tones.silence(50 * 31)), model="tones")
        model.gate.clear()
        model.begun.clear()
        found = []
        first = threading.Thread(target=lambda: found.append(files.create(file=wav(AUDIO), model="tones").text))
        first.start()
        assert model.begun.wait(60)
        with pytest.raises(openai.RateLimitError, match="expected at most 1 files at once; try again in 7 s") as caught:
            files.create(file=wav(AUDIO), model="tones")
        assert caught.value.response.headers["retry-after"] == "7"
        model.gate.set()
        first.join()
        assert found == [" ".join(SENTENCES)]


def test_files_wait_for_their_turn(model, monkeypatch):
    """Nine at once for two threads and seven places, and a tenth, whose client tries again when one of them is done."""
    arrived, checked = threading.Semaphore(0), Transcriptions._checked
    monkeypatch.setattr(Transcriptions, "_checked", lambda *given: arrived.release() or checked(*given))
    with serving(model, limits=Limits(uploads=2, waiting_uploads=7, retry_seconds=1)) as port:
        url = f"http://127.0.0.1:{port}/v1"
        files = openai.OpenAI(base_url=url, api_key="none", max_retries=0).audio.transcriptions
        patient = openai.OpenAI(base_url=url, api_key="none", max_retries=9).audio.transcriptions
        model.gate.clear()
        with ThreadPoolExecutor(10) as pool:
            nine = [pool.submit(files.create, file=wav(AUDIO), model="tones") for _ in range(9)]
            for _ in range(9):
                assert arrived.acquire(timeout=60)
            with pytest.raises(openai.RateLimitError, match="expected at most 9 files at once"):
                files.create(file=wav(AUDIO), model="tones")
            tenth = pool.submit(patient.create, file=wav(AUDIO), model="tones")
            model.gate.set()
            assert [one.result().text for one in [*nine, tenth]] == [" ".join(SENTENCES)] * 10


def posted(model, limits, *messages):
    """What a request without a connection raises."""
    parts = iter(messages)

    async def receive():
        return next(parts, None) or await asyncio.Event().wait()

    async def follow():
        with arcbeam.Batcher(model.decoder) as batcher:
            server = Transcriptions(arcbeam.Transcriber(model), batcher, "tones", None, limits)
            headers = [(b"content-type", b"multipart/form-data; boundary=x")]
            await server.serve(Request({"type": "http", "method": "POST", "headers": headers}, receive))

    with pytest.raises(ApiError) as caught:
        asyncio.run(follow())
    return caught.value.status, str(caught.value)


def test_a_client_that_is_gone_or_sends_nothing(model):
    windows, begun = 12, len(model.calls)
    field = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    audio = wav(tones.silence(50 * 26 * windows))[1]
    body = field % (b"model", b"", b"tones") + field % (b"file", b'; filename="a.wav"', audio) + b"--x--\r\n"
    request = {"type": "http.request", "body": body, "more_body": False}
    assert posted(model, Limits(), request, {"type": "http.disconnect"}) == (499, "the client is gone")
    assert len(model.calls) - begun < windows
    assert posted(model, Limits(idle_seconds=0.01)) == (408, "file: expected a request within 0.01 s")


def test_windows_of_live_audio_come_first():
    model = Gated()
    model.gate.clear()
    shared = SharedModel(model, threads=1, batch_size=2, live_seconds=1.0)
    lengths = [16_000, 32_000, 8_000, 16_000, 16_000, 16_000, 16_000]

    def encode(samples):
        return shared.encode([np.zeros(samples, np.float32)], sample_rate=16_000)

    threads = [threading.Thread(target=encode, args=(one,)) for one in lengths]
    for thread in threads:
        thread.start()
    assert model.begun.wait(60)
    while len(shared._live) + len(shared._long) < len(lengths) - model.batches[0]:
        pass
    model.gate.set()
    for thread in threads:
        thread.join()
    assert sorted(model.calls) == sorted(lengths) and max(model.batches) == 2
    assert 32_000 in (model.calls[0], model.calls[-1])
    model.encode = None
    with pytest.raises(TypeError, match="not callable"):
        encode(10)
    shared.close()
    with pytest.raises(RuntimeError, match="shutting down"):
        encode(10)
