"""Boosts: the GPU's engine gives the CPU's bytes."""

import gc
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CapacityError, CtcDecoder, Graph, SymbolTable
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import BATCH, GRAPH, ROOMY
from tests.decode.test_boost import DEPTH_SCALINGS, PHRASES, boost_of, worded
from tests.decode.test_lattice import BEAMS
from tests.hypothesis_examples import examples

WORDS = [f"w{i}" for i in range(1, 1 + int(GRAPH.words.max()))]
SEARCH = Graph(**GRAPH.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})
OPTIONS = {"beam": 6.0, "acoustic_scale": 0.8}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture
def planned_gpu(emulated_gpu):
    emulated_gpu.begin_with(ROOMY)
    return emulated_gpu


def random_boost(seed, count=30):
    rng = np.random.default_rng(seed)
    phrases = {" ".join(rng.choice(WORDS, rng.integers(1, 4))): float(rng.normal(1.5, 2.0)) for _ in range(count)}
    return Boost(phrases)


def decoders(**options):
    return (CtcDecoder(SEARCH, device=device, **(OPTIONS | options)) for device in ("cuda", "cpu"))


def equal(on_gpu, on_cpu, batch, boost):
    """Asserts equal paths and lattices; returns the hypotheses."""
    found = on_gpu.decode(batch, boost=boost)
    same(found, on_cpu.decode(batch, boost=boost))
    got, wanted = lattices(on_gpu, batch, boost=boost), lattices(on_cpu, batch, boost=boost)
    assert [packed(lattice) for lattice in got] == [packed(lattice) for lattice in wanted]
    return found


@pytest.mark.parametrize("room", [TIGHT, ROOMY])
@pytest.mark.parametrize("kernel", ["wide", "dense"])
def test_equal_bytes(emulated_gpu, room, kernel, monkeypatch):
    from arcbeam.gpu.tuned import search_plan

    emulated_gpu.begin_with(room)
    shape = search_plan.WIDE if kernel == "wide" else search_plan.DENSE
    monkeypatch.setattr(search_plan, "launch_shapes", lambda *_: (shape, search_plan.WIDE))
    on_gpu, on_cpu = decoders()
    boosts = [random_boost(seed) for seed in range(len(BATCH))]
    boosts[1] = None
    found = equal(on_gpu, on_cpu, BATCH, boosts)
    assert sum(len(one.boosts) for one in found) > 3
    plain = on_cpu.decode(BATCH)
    assert [one.text for one in found] != [one.text for one in plain]
    same([found[1]], [plain[1]])
    same(on_gpu.decode(BATCH), plain)  # the next batch has none
    equal(on_gpu, on_cpu, BATCH, boosts[0])
    assert kernel in {name for name, _ in emulated_gpu.launched}


def test_log_probs_that_come_in_parts(emulated_gpu):
    emulated_gpu.begin_with(TIGHT)
    emulated_gpu.send_in_parts()
    on_gpu, on_cpu = decoders()
    equal(on_gpu, on_cpu, BATCH, [random_boost(seed) for seed in range(len(BATCH))])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    PHRASES,
    st.lists(graphs.log_probs(), min_size=1, max_size=4),
    st.sampled_from([0.5, 2.0, math.inf]),
    st.sampled_from(BEAMS),
    st.sampled_from([None, None, 1, 4]),
    DEPTH_SCALINGS,
)
def test_random_graphs(emulated_gpu, graph, phrases, batch, beam, lattice_beam, max_active, depth_scaling):
    emulated_gpu.begin_with(TIGHT)
    graph = worded(graph)
    boost, _ = boost_of(graph, phrases, depth_scaling)
    options = {"beam": beam, "max_active": max_active, "acoustic_scale": 0.5, "lattice_beam": lattice_beam}
    on_gpu, on_cpu = (CtcDecoder(graph, device=device, **options) for device in ("cuda", "cpu"))
    equal(on_gpu, on_cpu, batch, boost)


def test_lists_are_sent_once_and_go_with_their_owner(planned_gpu):
    on_gpu, on_cpu = decoders()
    before = on_gpu.memory()
    assert before.boosts == 0
    first, second = random_boost(1), random_boost(2)
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
    equal(on_gpu, on_cpu, BATCH, [first if i % 2 else None for i in range(len(BATCH))])
    on_gpu.release()
    equal(on_gpu, on_cpu, BATCH, first)


def test_memory_that_lists_have_no_room_in(planned_gpu):
    on_gpu, on_cpu = decoders()
    limit = on_gpu.memory().device_bytes + (4 << 20)
    on_gpu, _ = decoders(memory_limit=limit)
    large = Boost({f"{a} {b}": 1.0 for a in WORDS for b in WORDS for _ in [0]} | {
        f"{a} {b} {c}": 1.0 for a in WORDS for b in WORDS for c in WORDS[:40]
    })  # fmt: skip
    with pytest.raises(CapacityError, match="memory_limit"):
        on_gpu.decode(BATCH, boost=large)
    same(on_gpu.decode(BATCH), on_cpu.decode(BATCH))


def test_utterances_with_errors_or_without_frames(planned_gpu):
    on_gpu, on_cpu = decoders()
    bad = BATCH[0].copy()
    bad[3, 1] = np.nan
    dead = BATCH[4].copy()
    dead[:] = -np.inf
    batch, boost = [bad, dead, BATCH[2][:0], BATCH[2]], random_boost(7)
    found, wanted = (one.decode(batch, boost=boost, errors="return") for one in (on_gpu, on_cpu))
    same(found[1:], wanted[1:])
    assert str(found[0].error) == str(wanted[0].error)
    assert [one.complete for one in found] == [False, False, True, True]


def test_a_boost_alone_takes_the_shared_memory_of_the_plain_search():
    from arcbeam.gpu.tuned import search_plan

    for name in ("boosted", "boosted_lattice"):
        assert search_plan.shared_bytes(name, True) == search_plan.shared_bytes("search", False)
    assert search_plan.shared_bytes("boosted_rescore", True) == search_plan.RESCORING_SHARED_BYTES
