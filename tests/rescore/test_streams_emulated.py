"""Streams with a large language model on a GPU: under the emulator, the bytes of the CPU, in every placement."""

import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, KenLM, UnsupportedError
from arcbeam.ctc.gpu import _models
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_rescoring import language_models, with_words
from tests.decode.test_stream_states import with_moves
from tests.decode.test_streams import BATCH, WORDS, boost
from tests.decode.test_streams_emulated import OPTIONS, on_both, seen

RNG = np.random.default_rng(3)
LARGE, SMALL = (random_model(RNG, WORDS, order, share=0.2) for order in (3, 2))
GRAPH = over(SILENCE, SMALL, WORDS)
MODELS = {"language_model": LARGE, "graph_language_model": SMALL, "hypotheses_per_state": 3} | OPTIONS
BOOSTS = [boost(i) if i % 3 else None for i in range(len(BATCH))]
# Of the models that a GPU looks up itself; those of a boosted search, and one whose arcs it asks for.
LOOKED_UP = {
    "resident": {"placement": "resident"},
    "index on the device": {"placement": "host-direct", "arc_cache": 512},
    "bucketed": {"placement": "host-direct", "gpu_budget": 512},
}
PLACES = LOOKED_UP | {
    "arcs asked": {"placement": "host", "threads": 2},
    "kenlm": {"placement": "cpu", "threads": 2},
}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def gpu(emulated_gpu):
    """Without clusters, of which most blocks only wait, for the emulator's time's sake."""
    emulated_gpu.begin_with(ROOMY)
    emulated_gpu.launch_as(search_plan.WIDE)
    return emulated_gpu


@lru_cache
def kenlm():
    kenlm_files.need_kenlm()
    with tempfile.TemporaryDirectory() as folder:
        return KenLM(kenlm_files.random_ngrams(WORDS, 3, 5).write(Path(folder, "lm.arpa")))


def models_of(place):
    return MODELS | ({"language_model": kenlm()} if place == "kenlm" else {})


def pair(place, **options):
    """Decoders on both devices."""
    given = models_of(place) | options
    return [CtcDecoder(GRAPH, device="cuda", **given | PLACES[place]), CtcDecoder(GRAPH, device="cpu", **given)]


def chunks(place, boosted, seed=1, **options):
    """Rounds in which all streams have a boost, some, or none: each kernel goes on with what another has left."""
    given = models_of(place) | {"graph": GRAPH, "where": PLACES[place]} | options
    return on_both(BATCH, np.random.default_rng(seed), BOOSTS if boosted else None, **given)


def moves(place, boosted, seed=1):
    decoders, boosts = pair(place), BOOSTS if boosted else None
    found = with_moves(decoders, BATCH, np.random.default_rng(seed), boosts)
    wanted = decoders[1].decode(BATCH, boost=boosts)
    same(found, wanted)
    assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]


def sentences(place, boosted):
    """Streams that stop at endpoints, begin the next sentence with a history or without, and move on the way."""
    decoders, rng = pair(place), np.random.default_rng(5)
    boosts = [BOOSTS[i + 1] if boosted else None for i in range(4)]
    speech = [np.roll(SPEECH, 20 * i, axis=0)[:90] for i in range(4)]
    streams = [
        [decoder.stream(boost=one, endpoint=RULES if i else None) for i, one in enumerate(boosts)]
        for decoder in decoders
    ]
    heard = set()
    for at in range(0, 90, 9):
        parts = [one[at : at + 9] for one in speech]
        found, wanted = (
            decoder.decode_chunks(own, parts, last=at == 81) for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]
        for i, (mine, other) in enumerate(zip(*streams, strict=True)):
            while mine.partial.endpoint and not mine.is_finished and rng.random() < 0.7:
                keep = bool(rng.random() < 0.7)
                assert seen(mine.reset(keep_history=keep)) == seen(other.reset(keep_history=keep))
                assert mine.partial.rescoring_score == other.partial.rescoring_score
                heard.add(mine._sentence.heard)
            data = mine.save()
            assert data == other.save()
            if rng.random() < 0.5:
                streams[0][i], streams[1][i] = (decoder.restore(data, boost=boosts[i]) for decoder in decoders)
                assert streams[0][i].save() == data
    assert len({len(one.words) for one in heard}) > 1 and len({one.after_start for one in heard}) == 2


@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
@pytest.mark.parametrize("place", PLACES)
def test_chunks(gpu, place, room):
    gpu.begin_with(room)
    _, streams = chunks(place, False)
    assert sum(stream.num_settled for stream in streams) > 50


@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
@pytest.mark.parametrize("place", LOOKED_UP)
def test_boosted_chunks(gpu, monkeypatch, place, room):
    gpu.begin_with(room)
    chunks(place, True)


@pytest.mark.parametrize("place", PLACES)
def test_moves(gpu, place):
    gpu.begin_with(TIGHT)
    moves(place, False)


@pytest.mark.parametrize("place", LOOKED_UP)
def test_boosted_moves(gpu, place):
    gpu.begin_with(TIGHT)
    moves(place, True)


@pytest.mark.parametrize("place", PLACES)
def test_sentences(gpu, place):
    gpu.begin_with(TIGHT)
    sentences(place, False)


@pytest.mark.parametrize("place", ["resident", "bucketed"])
def test_boosted_sentences(gpu, place):
    sentences(place, True)
