"""Streams that are saved, move and end at endpoints on a real GPU: the CPU engine's bytes, in any company."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, Endpoint, EndpointRule
from arcbeam.gpu.tuned import search_plan
from tests.decode import test_stream_moves_emulated as emulated
from tests.decode.moving import agree
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.stream_confidences import METHODS, follow
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_stream_confidences import BATCH as SPEECHES
from tests.decode.test_stream_lattices_emulated import small_states
from tests.decode.test_streams import boost
from tests.decode.test_streams_emulated import OPTIONS, seen
from tests.gpu.test_decode_on_gpu import SEARCHES

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning", "ignore:log_probs. expected:UserWarning")
SHAPES = [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER]


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_moves(room, seed, boosted):
    emulated.moves(seed, boosted)


@pytest.mark.parametrize("prune_above", [0, 64, 1 << 12])
@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_lattices_that_move(room, monkeypatch, seed, boosted, prune_above):
    small_states(monkeypatch, prune_above)
    emulated.lattices_that_move(seed, boosted)


def test_lattices_of_sentences_that_move(room):
    emulated.lattices_of_sentences_that_move()


@pytest.mark.parametrize("most", [5, 60])
def test_confidences_of_frames(room, most):
    follow(emulated.on_both(SILENCE), SPEECHES, np.random.default_rng(most), METHODS, most, RULES)


def test_lattices_of_dead_searches(room):
    emulated.lattices_of_dead_searches()


@pytest.mark.parametrize("prune_above", [0, 64, 1 << 12])
@pytest.mark.parametrize("one", [None, boost(0)])
def test_the_bytes_of_lattices_depend_on_the_frames_alone(room, monkeypatch, one, prune_above):
    small_states(monkeypatch, prune_above)
    emulated.states_of_all_chunks(one, nbest=2)


@pytest.mark.parametrize("one", [None, boost(0)])
def test_the_bytes_depend_on_the_frames_alone(room, one):
    emulated.states_of_all_chunks(one)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("most", [2, 9, 200])
def test_sentences_are_those_of_the_oracle(room, most, boosted):
    emulated.sentences_of_the_oracle(most, boosted)


def test_sentences_that_move(room):
    emulated.sentences_that_move()


def test_streams_in_company(room):
    emulated.company()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", SEARCHES)
def test_endpoints_of_many_streams(monkeypatch, options, shape):
    """On a larger graph, in each shape of a launch, until every stream has come to its end."""
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    graph = random_graph(1)
    assert graph.blank is not None
    rules = Endpoint(
        {
            "pause": EndpointRule(min_trailing_silence=0.08),
            "end": EndpointRule(min_trailing_silence=0.04, max_relative_cost=1.0),
            "long": EndpointRule(must_contain_nonsilence=False, min_trailing_silence=0.0, min_utterance_length=2.4),
        }
    )
    decoders = [CtcDecoder(graph, device=device, frame_shift=0.04, **options) for device in ("cuda", "cpu")]
    batch = [random_log_probs(seed, 60 + 37 * seed % 101, 32) for seed in range(40)]
    streams = [[decoder.stream(endpoint=rules if i % 4 else None) for i in range(40)] for decoder in decoders]
    ended = set()
    for at in range(0, 161, 23):
        chunks = [logp[at : at + 23] for logp in batch]
        found, wanted = (
            decoder.decode_chunks(own, chunks, last=at + 23 > 160)
            for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert [one.save() for one in streams[0]] == [one.save() for one in streams[1]]
        for mine, other in zip(*streams, strict=True):
            ended.add(mine.partial.endpoint)
            if mine.partial.endpoint and not mine.is_finished:
                assert seen(mine.reset()) == seen(other.reset())
    assert len(ended) > 2


@pytest.mark.parametrize("shape", SHAPES)
def test_lattices_of_many_streams_that_move(monkeypatch, shape):
    """On a larger graph, in each shape of a launch: states of both engines are the same, and go on on either."""
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    monkeypatch.setattr(search_plan, "TEAM_TOKENS", 16)
    given = {"frame_shift": 0.04, "lattice_beam": 6.0, "beam": 12.0}
    decoders = [CtcDecoder(random_graph(1), device=device, **given) for device in ("cuda", "cpu")]
    batch = [random_log_probs(seed, 60 + 37 * seed % 101, 32) for seed in range(20)]
    streams = [[decoder.stream(nbest=3, lattice=True) for _ in batch] for decoder in decoders]
    for at in range(0, 161, 23):
        chunks = [logp[at : at + 23] for logp in batch]
        found, wanted = (
            decoder.decode_chunks(own, chunks, last=at + 23 > 160)
            for decoder, own in zip(decoders, streams, strict=True)
        )
        for one, other in zip(found, wanted, strict=True):
            agree(one, other)
        states = [[one.save() for one in own] for own in streams]
        assert states[0] == states[1]
        if at % 2:
            streams = [[decoder.restore(data) for data in states[0]] for decoder in decoders]


@pytest.mark.parametrize("half", [False, True])
def test_frames_on_a_gpu_wait_as_copies(half):
    torch = pytest.importorskip("torch")
    speech = SPEECH.astype(np.float16 if half else np.float32)
    decoders = [CtcDecoder(SILENCE, device=device, **OPTIONS) for device in ("cuda", "cpu")]
    streams = [decoder.stream(endpoint=RULES) for decoder in decoders]
    on_gpu = torch.from_numpy(np.repeat(speech, 2, axis=0)).cuda()
    streams[0].decode_chunk(on_gpu[::2])
    streams[1].decode_chunk(speech)
    on_gpu[:] = float("nan")
    torch.cuda.synchronize()
    assert streams[0].num_waiting == streams[1].num_waiting > 0
    while streams[1].partial.endpoint:
        assert seen(streams[0].reset()) == seen(streams[1].reset())
    assert streams[0].save() == streams[1].save()
