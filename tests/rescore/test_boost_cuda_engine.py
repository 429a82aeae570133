"""Lists of phrases on a GPU: what the engine keeps of them, and what it refuses."""

import gc

import numpy as np
import pytest

from arcbeam import Boost, CapacityError, CtcDecoder, UnsupportedError
from arcbeam.ctc.gpu.models import _models
from arcbeam.ctc.gpu.searches.kernels import all_kernels
from arcbeam.gpu.tuned import search_plan
from tests.decode.equality import same
from tests.decode.language_models import WORDS
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import BATCH
from tests.decode.test_new_words import small_graph
from tests.rescore.placed import PLACES, kenlm
from tests.rescore.searches import CLOSED, CLOSED_OVER, LARGE, OPTIONS, SMALL, known_words
from tests.rescore.test_new_words_cuda_engine import BATCH as SMALL_BATCH

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def decoders(place=None, *, memory_limit=None, **options):
    """On both devices; the limit is the GPU's."""
    given, where, graph = OPTIONS | options, PLACES.get(place, {}), CLOSED_OVER if place else CLOSED
    if place:
        given |= {"language_model": kenlm() if place == "kenlm" else LARGE, "unknown_words": "unk"}
        given |= {"graph_language_model": SMALL, "hypotheses_per_state": 2}
    return CtcDecoder(graph, device="cuda", memory_limit=memory_limit, **given | where), CtcDecoder(
        graph, device="cpu", **given
    )


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths and lattices, and what is derived of them; returns the hypotheses."""
    found, wanted = on_gpu.decode(batch, boost=boost), on_cpu.decode(batch, boost=boost)
    same(found, wanted)
    assert [(one.boosts, one.rescoring_score) for one in found] == [(one.boosts, one.rescoring_score) for one in wanted]
    got, wanted = lattices(on_gpu, batch, boost=boost), lattices(on_cpu, batch, boost=boost)
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in wanted]
    return found


@pytest.mark.parametrize("place", [None, *PLACES])
def test_some_utterances_and_batches_have_no_list(gpu, place):
    gpu.plan(launch_shapes=lambda *_: (search_plan.DENSE, search_plan.WIDE))
    on_gpu, on_cpu = decoders(place)
    boosts = [Boost(dict.fromkeys(WORDS[::2], 6.0))] * (len(BATCH) - 1) + [None]
    found, plain = equal(on_gpu, on_cpu, BATCH, boosts), on_cpu.decode(BATCH)
    assert any(one.boosts for one in found)
    assert [one.text for one in found] != [one.text for one in plain]
    same(found[-1:], plain[-1:])
    same(on_gpu.decode(BATCH), plain)
    equal(on_gpu, on_cpu, BATCH, boosts[0])


def new_words_or_known(place):
    if place != "new words":
        return decoders(place), BATCH, known_words(2)
    graph = small_graph(1)
    both = [CtcDecoder(graph, device=device, beam=20.0) for device in ("cuda", "cpu")]
    return both, SMALL_BATCH, [Boost({"zz": 4.0}), Boost({"xy": 4.0, "zzy": 2.0})]


@pytest.mark.parametrize("place", [None, "resident", "new words"])
def test_lists_are_sent_once_and_go_with_their_owner(gpu, place):
    (on_gpu, on_cpu), batch, (first, second) = new_words_or_known(place)
    before = on_gpu.memory()
    assert before.boosts == 0
    equal(on_gpu, on_cpu, batch, first)
    one = on_gpu.memory()
    assert one.boosts > 0 and one.language_models == before.language_models
    equal(on_gpu, on_cpu, batch, first)
    assert on_gpu.memory().boosts == one.boosts
    equal(on_gpu, on_cpu, batch, [second if i % 2 else None for i in range(len(batch))])
    assert on_gpu.memory().boosts > one.boosts
    del second
    gc.collect()
    assert on_gpu.memory().boosts == one.boosts
    on_gpu.release()
    assert on_gpu.memory().lanes == 0
    equal(on_gpu, on_cpu, batch, [first if i % 2 else None for i in range(len(batch))])


@pytest.mark.parametrize("place", [None, "new words"])
def test_utterances_with_errors_or_without_frames(gpu, place):
    (on_gpu, on_cpu), batch, (boost, _) = new_words_or_known(place)
    bad, dead = batch[0].copy(), np.full_like(batch[2], -np.inf)
    bad[3, 1] = np.nan
    batch = [bad, dead, batch[2][:0], batch[2]]
    found, wanted = (one.decode(batch, boost=boost, errors="return") for one in (on_gpu, on_cpu))
    same(found[1:], wanted[1:])
    assert str(found[0].error) == str(wanted[0].error)
    assert [one.complete for one in found] == [False, False, True, True]


def test_memory_that_lists_have_no_room_in(gpu):
    on_gpu, on_cpu = decoders()
    on_gpu, _ = decoders(memory_limit=on_gpu.memory().device_bytes + (4 << 20))
    large = {f"{a} {b}": 1.0 for a in WORDS for b in WORDS} | {
        f"{a} {b} {c}": 1.0 for a in WORDS for b in WORDS for c in WORDS[:40]
    }
    with pytest.raises(CapacityError, match="memory_limit"):
        on_gpu.decode(BATCH, boost=Boost(large))
    same(on_gpu.decode(BATCH), on_cpu.decode(BATCH))


def test_n_best_lists_have_boosts(gpu):
    boosts = known_words(len(BATCH))
    got, wanted = (
        [one.nbest for one in decoder.decode(BATCH, boost=boosts, nbest=5)] for decoder in decoders("resident")
    )
    assert max(map(len, wanted)) > 2
    parts = lambda entries: [(one.text, one.score, one.rescoring_score, one.boosts) for one in entries]  # noqa: E731
    assert list(map(parts, got)) == list(map(parts, wanted))
    assert any(entry.boosts for entries in got for entry in entries)


def test_a_boost_alone_takes_the_shared_memory_of_the_plain_search():
    found = {one.name: search_plan.shared_bytes(one.rescores, one.has_model) for one in all_kernels()}
    assert found["boosted"] == found["boosted_lattice"] == found["new_words"] == found["search"]
    assert found["boosted_rescore"] == found["host_lookup"] == search_plan.RESCORING_SHARED_BYTES


def test_more_beginnings_than_a_history_has_room_for(gpu, monkeypatch):
    on_gpu, on_cpu = decoders("resident")
    assert _models.most_beginnings(1 << 31, 1 << 31) == 2
    assert _models.most_beginnings((1 << 25) + 1, 1 << 20) == 1 << 17
    assert _models.most_beginnings(1, 1) == 1 << 31
    assert _models.most_beginnings(1 << 28, 1 << 20) == 1 << 15  # of a KenLM
    boost = known_words(1)[0]
    beginnings = len(boost.compiled(CLOSED_OVER).states)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings)
    equal(on_gpu, on_cpu, BATCH, boost)
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: beginnings - 1)
    told = f"at most {beginnings - 1} different beginnings.*got {beginnings} in the list of utterance 1;"
    with pytest.raises(UnsupportedError, match=told):
        on_gpu.decode(BATCH, boost=[None, *[boost] * (len(BATCH) - 1)])
