"""Streams of logits: the results of a stream of the log-probs, whatever the chunks, the company and the device."""

import numpy as np
import pytest

from arcbeam import Batcher, CtcDecoder, FormatError, Graph, InputError
from tests.batching.stand_ins import PATIENCE_S
from tests.decode.emulated_gpu import TIGHT
from tests.decode.moving import agree
from tests.decode.test_endpoints import OPTIONS as OF_ENDPOINTS
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_frame_confidence import lent
from tests.decode.test_stream_states import changed
from tests.decode.test_what_goes_in import log_softmax

OPTIONS = OF_ENDPOINTS | {"lattice_beam": 4.0}
WIDTH = SPEECH.shape[1]
FRAMES = 90
REQUESTED = (
    {},
    {"frame_confidence": "entropy", "posteriors": True},
    {"nbest": 2, "confidence": True, "interim_answers": True},
)


def speech(seed, kind=np.float32):
    """Logits of speech with pauses, and their log-probs."""
    rng = np.random.default_rng(seed)
    logits = np.roll(SPEECH, 20 * seed, axis=0)[:FRAMES]
    logits = (logits + rng.normal(0, 6, (FRAMES, 1))).astype(kind)
    return logits, log_softmax(logits)


def both(device, graph=SILENCE):
    """Decoders of this device, which may be emulated, and of the CPU."""
    return [CtcDecoder(graph, **OPTIONS | {"device": name}) for name in (device, "cpu")]


@pytest.mark.parametrize("most", [4, 40])
@pytest.mark.parametrize("requested", REQUESTED, ids=str)
def test_any_chunks_in_any_company(device, requested, most):
    """Next to streams of log-probs in the same rounds, with frames that wait, and streams that move."""
    rng = np.random.default_rng(most)
    ours, twin = both(device)
    pairs = [speech(seed) for seed in range(3)]
    of_logits = [ours.stream(endpoint=RULES, logits=True, **requested) for _ in pairs]
    beside = ours.stream(endpoint=RULES, **requested)
    alone = [twin.stream(endpoint=RULES, **requested) for _ in pairs]
    begins, waited = [0] * len(pairs), 0
    while min(begins) < FRAMES:
        ends = [min(FRAMES, begin + int(rng.integers(0, most))) for begin in begins]
        chunks = [logits[begin:end] for (logits, _), begin, end in zip(pairs, begins, ends, strict=True)]
        rows = [row[begin:end] for (_, row), begin, end in zip(pairs, begins, ends, strict=True)]
        found = ours.decode_chunks([of_logits[0], beside, *of_logits[1:]], [chunks[0], rows[0], *chunks[1:]])
        for one, stream, row in zip([found[0], *found[2:]], alone, rows, strict=True):
            agree(one, stream.decode_chunk(row))
        agree(found[1], alone[0].partial)
        waited += sum(stream.num_waiting for stream in of_logits)
        if rng.random() < 0.4:
            moved = int(rng.integers(len(pairs)))
            data = of_logits[moved].save()
            of_logits[moved] = ours.restore(data, posteriors="posteriors" in requested)
            assert of_logits[moved].logits and of_logits[moved].save() == data
            agree(of_logits[moved].partial, alone[moved].partial)
        for one, other in zip([*of_logits, beside], [*alone, None], strict=True):
            while one.partial.endpoint and one.num_waiting:
                mine = one.reset()
                if other is not None:
                    agree(mine, other.reset())
        begins = ends
    for one, other in zip(of_logits, alone, strict=True):
        while not one.is_finished:
            agree(*(s.reset() if s.partial.endpoint else s.finish() for s in (one, other)))
    assert waited > 3 and not beside.logits


def test_a_sentence_has_the_bytes_of_decode(device):
    ours, twin = both(device)
    logits, rows = speech(1)
    stream = ours.stream(logits=True, nbest=3, confidence=True)
    for chunk in np.array_split(logits, 7):
        assert not stream.decode_chunk(chunk).is_final
    whole = twin.decode(rows, nbest=3, confidence=True)
    assert stream.finish().to_dict()["nbest"] == whole.to_dict()["nbest"]
    assert twin.decode(logits, logits=True, nbest=3, confidence=True).to_dict() == whole.to_dict()
    stream.reset()
    assert stream.logits
    agree(stream.decode_chunk(logits[:20]), _after(twin, logits, rows, 20))


def _after(decoder, logits, rows, frames):
    """A second sentence of log-probs, after one of all frames."""
    stream = decoder.stream(nbest=3, confidence=True)
    stream.decode_chunk(rows, last=True)
    stream.reset()
    return stream.decode_chunk(rows[:frames])


def test_columns_that_the_graph_does_not_read_count_in_the_sum(device):
    """Also in frames that wait, of which these columns are not kept."""
    graph = Graph(**SILENCE.fields() | {"width_is_exact": False})
    ours, twin = both(device, graph)
    rng = np.random.default_rng(0)
    logits = np.concatenate([speech(0)[0], rng.normal(0, 6, (FRAMES, 3)).astype(np.float32)], axis=1)
    requested = {"endpoint": RULES, "frame_confidence": "max_prob"}
    one, other = ours.stream(logits=True, **requested), twin.stream(**requested)
    agree(one.decode_chunk(logits), other.decode_chunk(log_softmax(logits)))
    assert one.num_waiting > 20
    for _ in range(3):
        agree(one.reset(), other.reset())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_chunk_with_a_bad_value_is_refused(device, value):
    ours, twin = both(device)
    logits, rows = speech(2)
    spoiled = logits[:9].copy()
    spoiled[4, WIDTH - 1] = value
    stream, other, alone = ours.stream(logits=True), ours.stream(logits=True), twin.stream()
    with pytest.raises(
        InputError, match=rf"expected finite values or -inf, got {value} in utterance 1, frame 4, column {WIDTH - 1}"
    ):
        ours.decode_chunks([other, stream], [logits[:5], spoiled])
    assert stream.num_frames == 0 and other.num_frames == 5
    agree(stream.decode_chunk(logits[:9]), alone.decode_chunk(rows[:9]))


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_chunks_that_lie_on_the_gpu(gpu, kind):
    """In any order of rows, next to log-probs; those that wait are copied once, as log-probs."""
    gpu.begin_with(TIGHT)
    ours, twin = both("cuda")
    (logits, rows), (others, of_others) = speech(0, kind), speech(1, kind)
    requested = {"endpoint": RULES, "frame_confidence": "entropy"}
    streams = [ours.stream(logits=True, **requested), ours.stream(**requested), ours.stream(logits=True, **requested)]
    alone = [twin.stream(**requested) for _ in range(3)]
    for at in range(0, 60, 20):
        part = slice(at, at + 20)
        backwards = lent(gpu, np.ascontiguousarray(logits[part][::-1])[::-1])
        there = [backwards, lent(gpu, rows[part]), lent(gpu, np.ascontiguousarray(others[part]))]
        found = ours.decode_chunks(streams, there)
        wanted = twin.decode_chunks(alone, [rows[part], rows[part], of_others[part]])
        gpu.fake.library.fake_take_back()
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
    assert sum(stream.num_waiting for stream in streams) > 0
    for one, other in zip(streams, alone, strict=True):
        while one.partial.endpoint:
            agree(one.reset(), other.reset())


def test_wrong_chunks_of_a_list_leave_the_others(device):
    ours, twin = both(device)
    logits, rows = speech(0)
    streams, alone = [ours.stream(logits=i != 1) for i in range(3)], twin.stream()
    found = ours.decode_chunks(streams, [logits[:8].astype(np.int32), rows[:8], logits[:8]], errors="return")
    assert isinstance(found[0].error, TypeError)
    wanted = alone.decode_chunk(rows[:8])
    agree(found[1], wanted)
    agree(found[2], wanted)


def test_a_batcher(device):
    """Chunks that are cut over rounds, and sentences that begin by themselves."""
    ours, twin = both(device)
    logits, rows = speech(1)
    results = []
    for one, values, given in ((ours, logits, {"logits": True}), (twin, rows, {})):
        with Batcher(one, max_wait_ms=0, max_frames=7, auto_reset=True) as batcher:
            stream = one.stream(endpoint=RULES, nbest=2, **given)
            futures = [batcher.submit(stream, part.copy()) for part in np.array_split(values, 3)]
            futures.append(batcher.submit(stream, None, last=True))
            results.append([future.result(PATIENCE_S) for future in futures])
    assert sum(len(chunk.sentences) for chunk in results[1]) > 1
    for found, wanted in zip(*results, strict=True):
        assert len(found.sentences) == len(wanted.sentences)
        for one, other in zip([*found.sentences, found.partial], [*wanted.sentences, wanted.partial], strict=True):
            agree(one, other)


def test_options_and_states_that_are_wrong():
    decoder = CtcDecoder(SILENCE, **OPTIONS)
    with pytest.raises(TypeError, match="logits: expected a bool, got str"):
        decoder.stream(logits="yes")
    stream = decoder.stream(logits=True)
    assert stream.logits and not decoder.stream().logits
    for wrong in (1, None, "yes"):
        with pytest.raises(FormatError, match="logits"):
            decoder.restore(changed(stream.save(), logits=wrong))
