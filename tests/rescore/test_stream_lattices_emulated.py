"""Lattices of streams with a large language model on a GPU: under the emulator, the bytes of the CPU, in every
placement."""

import numpy as np
import pytest

from arcbeam.gpu.tuned import search_plan
from tests.decode.emulated_gpu import TIGHT, Shape
from tests.decode.test_endpoints import RULES, SPEECH
from tests.decode.test_stream_lattices import REQUESTED
from tests.decode.test_stream_lattices_emulated import SOME
from tests.decode.test_streams_emulated import answers, seen
from tests.rescore.placed import PLACES
from tests.rescore.test_streams_emulated import (
    BOOSTS,
    SCHEDULED,
    chunks,
    gpu,
    in_chunks,
    pair,
)  # fmt: skip
from tests.simt.build import schedules

__all__ = ["gpu"]  # a fixture
LATTICE_BEAM = {"lattice_beam": 4.0}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(autouse=True)
def pruned(monkeypatch):
    """States are pruned now and then, and begin with room for one link."""
    monkeypatch.setattr(search_plan, "STREAM_PRUNE_ABOVE", 64)
    monkeypatch.setattr(search_plan, "STREAM_LINKS", 1)


def sentences(place, boosted):
    """Streams that stop at endpoints, and begin the next sentence with a history or without."""
    decoders, rng = pair(place, **LATTICE_BEAM), np.random.default_rng(5)
    boosts = [BOOSTS[i + 1] if boosted else None for i in range(2)]
    speech = [np.roll(SPEECH, 20 * i, axis=0)[:60] for i in range(2)]
    streams = [[decoder.stream(boost=one, endpoint=RULES, **REQUESTED) for one in boosts] for decoder in decoders]
    contexts, ended = set(), 0
    for at in range(0, 60, 9):
        parts = [one[at : at + 9] for one in speech]
        found, wanted = (
            decoder.decode_chunks(own, parts, last=at == 54) for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert list(map(answers, found)) == list(map(answers, wanted))
        for mine, other in zip(*streams, strict=True):
            while mine.partial.endpoint and not mine.is_finished and rng.random() < 0.7:
                ended, keep = ended + 1, bool(rng.random() < 0.7)
                found, wanted = mine.reset(keep_history=keep), other.reset(keep_history=keep)
                assert (seen(found), answers(found)) == (seen(wanted), answers(wanted))
                assert found.rescoring_score == wanted.rescoring_score
                contexts.add(mine._sentence.lm_context)
    assert ended > 2 and len(contexts) > 1


def in_company(place, boosted):
    """Streams without answers have other kernels than their company, and keep other states."""
    chunks(place, boosted, requested=SOME, **LATTICE_BEAM)


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("story", [in_company, sentences])
def test_stories(gpu, story, place, boosted):
    gpu.begin_with(TIGHT)
    story(place, boosted)


@pytest.mark.parametrize("bytes_for_all", [0, 1 << 20])
def test_numbers_of_kenlm_begin_anew(gpu, monkeypatch, bytes_for_all):
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 4)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES_BYTES", bytes_for_all)
    in_company("kenlm", False)
    sentences("kenlm", False)


@pytest.mark.parametrize("place", SCHEDULED)
def test_schedules(place):
    for schedule in schedules(2):
        in_chunks(6, Shape(lanes=2, block=64), place, schedule, requested={"lattice": True}, frames=15, **LATTICE_BEAM)
