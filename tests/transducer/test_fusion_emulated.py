"""The kernels that fuse logits on a GPU: the CPU engine's bytes, whatever the schedule and the launch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer import test_loop_emulated as loop
from tests.transducer.arpas import random_arpa
from tests.transducer.emulated_gpu import Shape
from tests.transducer.equality import same
from tests.transducer.networks import NETWORKS, random_arrays
from tests.transducer.test_loop_emulated import BATCH

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
BLANK = 12
NGRAM_ALPHA, TREE_ALPHA = 0.4, 0.75
TREES = [
    BoostingTree([(3, 4), (5,), (3, 4, 6, 7), (4, 6, 1)], vocab_size=12),
    None,
    BoostingTree({(9, 6): 2.0, (1, 6): -3.0}, vocab_size=13),
    BoostingTree([(a, b, 2) for a in range(12) for b in range(a)], vocab_size=13, unk_score=-0.25),
]


@pytest.fixture(scope="module")
def arpa(tmp_path_factory):
    return random_arpa(tmp_path_factory.mktemp("lm") / "a.arpa", range(11))


def fused(kind, arpa, seed=3, **options):
    """The arrays of a network, and the options of its decoders."""
    arrays = random_arrays(seed, tokens=13, blank=BLANK, blank_bias=1.0, **NETWORKS[kind])
    model = {} if arpa is None else {"ngram_lm_model": arpa, "ngram_lm_alpha": NGRAM_ALPHA}
    options = loop.options_of(kind, **{"boosting_tree_alpha": TREE_ALPHA, "blank_id": BLANK} | model | options)
    return arrays, options


def check(arrays, options, frames, trees, state=None, shape=None, schedule=None):
    return loop.check(arrays, frames, shape, schedule, {"boost": trees, "state": state}, **options)


@pytest.mark.parametrize("with_model", [False, True])
@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_same_bytes(kind, kernel, with_model, arpa):
    arrays, options = fused(kind, arpa if with_model else None)
    wanted, launches = check(arrays, options, BATCH, TREES, shape=Shape(kernel))
    assert launches > 2, "the hypotheses have outgrown their room"
    plain = TransducerDecoder.from_arrays(arrays, BLANK, durations=options["durations"], max_symbols=3, device="cpu")
    assert wanted[3].tokens.tolist() != plain.decode(BATCH)[3].tokens.tolist()


@settings(max_examples=examples(25))
@given(data=st.data(), kind=st.sampled_from(list(NETWORKS)), seed=st.integers(0, 1000))
def test_any_launch(arpa, data, kind, seed):
    shape = Shape(
        kernel=data.draw(st.sampled_from(["kept", "many"])), blocks=data.draw(st.integers(1, 4)),
        threads=data.draw(st.sampled_from([32, 64, 128])), most_tests=data.draw(st.integers(1, 9)),
        first_window=data.draw(st.integers(1, 4)), room=data.draw(st.integers(1, 40)),
    )  # fmt: skip
    if shape.kernel == "kept" and data.draw(st.booleans()):
        shape = replace(shape, joins_alone=True)
    schedule = {"seed": seed, "policy": data.draw(st.sampled_from(POLICIES))}
    check(*fused(kind, data.draw(st.sampled_from([None, arpa])), seed), BATCH, TREES, shape=shape, schedule=schedule)


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "kept"), ("tdt", "many")])
def test_schedules(kind, kernel, arpa):
    frames, trees, shape = [BATCH[3][:8], BATCH[0][:3]], [TREES[0], TREES[2]], Shape(kernel, blocks=2)
    for schedule in schedules():
        wanted, _ = check(*fused(kind, arpa), frames, trees, shape=shape, schedule=schedule)
    assert sum(len(h.tokens) for h in wanted) > 4


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_chunks(kind, kernel, arpa):
    arrays, options = fused(kind, arpa)
    trees = [TREES[0], TREES[3], TREES[2]]
    first, second = [BATCH[0], BATCH[3][:4], BATCH[3][4:]], [BATCH[0][2:5].copy(), BATCH[3], BATCH[0]]
    found = TransducerDecoder.from_arrays(arrays, device="cpu", **options).decode(first, boost=trees)
    check(arrays, options, second, trees, [*(one.state for one in found[:2]), None], Shape(kernel))


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_states_with_more_arcs_than_a_warp_takes(kernel):
    """Three warps share the row of a lane; a state has more arcs than one of them takes, or all in the part of one."""
    tokens, first = 301, range(30)
    children = {0: range(300), 1: range(0, 300, 2), 2: range(100, 160)}
    edges = {b: 6.0 for b in range(300) if b % 128 < 2}  # of what a warp takes
    phrases = {(a, b): 4.0 + b % 7 + edges.get(b, 0.0) for a in first for b in children[a % 3]}
    phrases |= {(a, 7, 9): 2.0 for a in first}
    tree = BoostingTree(phrases, vocab_size=tokens)
    automaton = tree.automaton
    arcs = np.diff(automaton.first_arcs.astype(np.int64))
    assert set(arcs[1:].tolist()) >= {300, 151, 61}  # 7 among them
    arrays = random_arrays(5, tokens=tokens, blank=300, blank_bias=1.0)
    options = loop.options_of("rnnt", boosting_tree_alpha=TREE_ALPHA, blank_id=300)
    wanted, _ = check(arrays, options, BATCH, [tree, tree, None, tree], shape=Shape(kernel))
    labels = [pair for one in wanted for pair in zip(one.tokens.tolist(), one.tokens.tolist()[1:], strict=False)]
    assert {a % 3 for a, b in labels if (a, b) in phrases} == {0, 1, 2}


def test_bfloat16(arpa):
    """No byte depends on the schedule; without sums on tensor cores that would be those of a CPU, too."""
    arrays, options = fused("rnnt", arpa, precision="bfloat16")
    first, *others = (
        loop.on_gpu(arrays, BATCH, Shape(kernel), schedule, {"boost": TREES}, **options)[0]
        for schedule in schedules(4)
        for kernel in ("kept", "many")
    )
    for found in others:
        same(found, first)


def make(device, kind="rnnt", looping=TransducerDecoder, **options):
    arrays, options = fused(kind, None, max_symbols=2, **options)
    return looping.from_arrays(arrays, device=device, **options)


@pytest.mark.parametrize("looping", loop.LOOPS)
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_engine(gpu, kind, looping, arpa):
    decoder, twin = (make(device, kind, looping, ngram_lm_model=arpa) for device in ("cuda", "cpu"))
    for trees in (TREES, None, TREES[::-1]):
        same(decoder.decode(BATCH, boost=trees), twin.decode(BATCH, boost=trees))
    assert {kind for kind, *_ in gpu.ran} <= {"project", "kept_fused", "many_fused"}
    state = None
    for at in range(0, 17, 5):
        chunk = BATCH[3][at : at + 5]
        [found] = decoder.decode([chunk], boost=TREES[0], state=[state])
        same([found], twin.decode([chunk], boost=TREES[0], state=[state]))
        state = found.state


@pytest.mark.parametrize("kernel", transducer_plan.KERNELS)
@pytest.mark.parametrize("trees", [None, TREES])
def test_as_many_threads_as_the_engine_launches(gpu, monkeypatch, trees, kernel):
    """Other tests of the engine take blocks of 64, for the emulator's time's sake."""
    gpu.threads = None
    shape = transducer_plan.loop_shape(kernel, len(BATCH), 2, 4)
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (shape,))
    same(make("cuda").decode(BATCH, boost=trees), make("cpu").decode(BATCH, boost=trees))
    ran = {kind: threads for kind, _, threads, _ in gpu.ran}
    assert ran == {"project": 256, kernel if trees is None else f"{kernel}_fused": 512 if kernel == "kept" else 256}


def test_kernels_that_fuse_are_loaded_when_they_are_needed(gpu):
    decoder, twin = make("cuda"), make("cpu")
    same(decoder.decode(BATCH), twin.decode(BATCH))
    assert {kind for kind, *_ in gpu.ran} <= {"project", "kept", "many"}
    same(decoder.decode(BATCH, boost=TREES), twin.decode(BATCH, boost=TREES))
    same(decoder.decode(BATCH), twin.decode(BATCH))
    same(decoder.decode(BATCH, boost=[None] * 4), twin.decode(BATCH))


def test_automata_are_sent_once_and_go_when_nothing_uses_them(gpu):
    decoder = make("cuda")
    own = BoostingTree([(1, 2), (3,)], vocab_size=12)
    decoder.decode(BATCH, boost=[own, None, own, TREES[0]])
    held = decoder.memory().automata
    assert held > own.nbytes
    decoder.decode(BATCH, boost=[own, TREES[0], None, own])
    assert decoder.memory().automata == held
    decoder.decode(BATCH, boost=TREES)
    assert decoder.memory().automata > held
    decoder.release()
    assert decoder.memory().automata == 0
    decoder.decode(BATCH[:1], boost=own)
    assert decoder.memory().automata > 0
    del own
    assert decoder.memory().automata == 0


def test_a_bad_utterance_keeps_its_state(gpu):
    decoder, twin = make("cuda"), make("cpu")
    bad = BATCH[0].copy()
    bad[3, 2] = np.nan
    [first] = decoder.decode([BATCH[3]], boost=TREES[3])
    for one in (decoder, twin):
        found = one.decode([bad, BATCH[3]], boost=TREES[3], state=[first.state, None], errors="return")
        assert found[0].error is not None and found[0].state.boosting_tree == first.state.boosting_tree
        same(found[1:], [first])
