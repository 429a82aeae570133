"""New words: the GPU's engine gives the CPU's bytes."""

import gc
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, UnsupportedError
from tests.decode import emulated_gpu as emulated
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import ROOMY
from tests.decode.test_lattice import BEAMS
from tests.decode.test_new_words import NEW, PHRASES, boost_of, open_graphs, small_graph
from tests.decode.test_rescoring import language_models

BATCH = [graphs.random_log_probs(seed, frames, columns=4, sharpness=2.0) for seed, frames in enumerate((8, 0, 13, 5))]


def both(graph, **options):
    return (CtcDecoder(graph, device=device, **options) for device in ("cuda", "cpu"))


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths, words and lattices; returns the hypotheses."""
    found, wanted = (one.decode(batch, boost=boost) for one in (on_gpu, on_cpu))
    same(found, wanted)
    assert [one.words for one in found] == [one.words for one in wanted]
    got, of_cpu = (lattices(one, batch, boost=boost) for one in (on_gpu, on_cpu))
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in of_cpu]
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    open_graphs(),
    st.lists(PHRASES, min_size=1, max_size=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, 17.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, None, 1, 4]),
)
def test_random_graphs(emulated_gpu, graph, phrases, batch, beam, lattice_beam, max_active):
    """Utterances of one batch have lists of their own, with new words or without, or none."""
    emulated_gpu.begin_with(TIGHT)
    lists = [boost_of(graph, one)[0] for one in phrases] + [None]
    boosts = [lists[at % len(lists)] for at in range(len(batch))]
    equal(*both(graph, beam=beam, max_active=max_active, lattice_beam=lattice_beam), batch, boosts)


@pytest.mark.parametrize("room", [TIGHT, ROOMY])
def test_words_are_found(emulated_gpu, room):
    """Some hypotheses have new words, with times, confidences and alternatives; some lists have none."""
    emulated_gpu.begin_with(room)
    found = 0
    for seed in range(8):
        graph = small_graph(seed, **({"topology": "normal"} if seed % 2 else {}))
        on_gpu, on_cpu = both(graph, beam=20.0, frame_shift=0.04)
        boosts = [Boost({NEW[seed % 6]: 6.0, NEW[(seed + 1) % 6]: 6.0}), Boost(["zz"]), Boost({"xx": 5.0}), None]
        got = equal(on_gpu, on_cpu, BATCH, boosts)
        found += sum(word.word in NEW for one in got for word in one.words)
        asked = {"nbest": 3, "confidence": True, "boost": boosts}
        for one, other in zip(on_gpu.decode(BATCH, **asked), on_cpu.decode(BATCH, **asked), strict=True):
            assert one.words == other.words
            assert [entry.text for entry in one.nbest] == [entry.text for entry in other.nbest]
        same(on_gpu.decode(BATCH), on_cpu.decode(BATCH))  # the next batch has none
        equal(on_gpu, on_cpu, BATCH, Boost({"a": 1.0}))
    assert found > 20


def test_requests_are_sent_once_and_go_with_their_owner(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    on_gpu, on_cpu = both(small_graph(1), beam=20.0)
    first, second = Boost({"zz": 4.0}), Boost({"xy": 4.0, "zzy": 2.0})
    equal(on_gpu, on_cpu, BATCH, first)
    one = on_gpu.memory().boosts
    assert one > 0
    equal(on_gpu, on_cpu, BATCH, first)
    assert on_gpu.memory().boosts == one
    equal(on_gpu, on_cpu, BATCH, [second if i % 2 else None for i in range(len(BATCH))])
    assert on_gpu.memory().boosts > one
    del second
    gc.collect()
    assert on_gpu.memory().boosts == one
    on_gpu.release()
    equal(on_gpu, on_cpu, BATCH, first)


def test_log_probs_that_come_in_parts(emulated_gpu):
    emulated_gpu.begin_with(TIGHT)
    emulated_gpu.send_in_parts()
    on_gpu, on_cpu = both(small_graph(3), beam=20.0)
    equal(on_gpu, on_cpu, BATCH, [Boost({word: 5.0}) for word in NEW[: len(BATCH)]])


def test_graphs_of_any_number_of_arcs(emulated_gpu):
    """A request's labels begin in the middle of a chunk, or at its begin."""
    emulated_gpu.begin_with(ROOMY)
    for more in range(9):
        graph = small_graph(2, more=more)
        equal(*both(graph, beam=20.0), BATCH, [Boost({"zz": 6.0}), None, Boost({"xy": 6.0, "y": 3.0}), Boost(["c"])])


def test_utterances_with_errors_or_without_frames(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    on_gpu, on_cpu = both(small_graph(1), beam=20.0)
    bad, dead = BATCH[0].copy(), np.full_like(BATCH[2], -np.inf)
    bad[3, 1] = np.nan
    batch, boost = [bad, dead, BATCH[1], BATCH[2]], Boost({"zz": 5.0})
    found, wanted = (one.decode(batch, boost=boost, errors="return") for one in (on_gpu, on_cpu))
    same(found[1:], wanted[1:])
    assert str(found[0].error) == str(wanted[0].error)


def test_what_is_refused(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    graph = small_graph(1)
    on_gpu = CtcDecoder(graph, device="cuda")
    with pytest.raises(UnsupportedError, match=r"streams on cuda:0 do not have new ones yet, got 'zz'.*device='cpu'"):
        on_gpu.decode_chunks([on_gpu.stream(boost=Boost(["zz"]))], [BATCH[0]])


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(language_models())
def test_language_models_are_refused(emulated_gpu, models):
    large, small = models
    graph = Graph(**small_graph(1).fields() | {"meta": {"lm_digest": small.digest}})
    on_gpu = CtcDecoder(graph, device="cuda", language_model=large, graph_language_model=small)
    with pytest.raises(
        UnsupportedError, match=r"does not decode new ones together with a language_model yet, got 'zz'"
    ):
        on_gpu.decode(BATCH, boost=Boost(["zz"]))


def test_lists_without_new_words_take_the_kernels_of_other_graphs(emulated_gpu, monkeypatch):
    emulated_gpu.begin_with(ROOMY)
    sources, load = [], emulated.build.load
    monkeypatch.setattr(emulated.build, "load", lambda source: sources.append(source) or load(source))
    on_gpu = CtcDecoder(small_graph(1), device="cuda")
    for boost in (None, Boost(["a"]), Boost(["zz"]), Boost(["a"])):
        on_gpu.decode(BATCH, boost=boost)
    names = dict.fromkeys(Path(source).stem for source in sources)
    assert list(names) == ["search", "boosted", "new_words"]
    assert Path(sources[-1]).stem == "boosted"
