"""Lattices and merging by context on a GPU: the bytes of the CPU engine, in any schedule and shape of a launch."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer.emulated_gpu import Shape, scheduled
from tests.transducer.equality import lattices_as_bytes, lists_as_bytes
from tests.transducer.networks import cases, random_arrays, random_frames
from tests.transducer.test_beam_emulated import BATCH, SEARCHES, SHAPES, check_refused, listed, options_of, small
from tests.transducer.test_beam_fusion_emulated import WHICH, with_models

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")
ROOMY = {
    "beam_rooms": lambda frames, hypotheses: (256, 4096, 512, 128),
    "lattice_rooms": lambda frames, hypotheses: (1024, 4096),
}
TIGHT = {
    "beam_rooms": lambda frames, hypotheses: (8 * hypotheses, 64, 2 * hypotheses, hypotheses),
    "lattice_rooms": lambda frames, hypotheses: (2 * hypotheses, 8 * hypotheses),
}
CONTEXTS = [None, 1, 2, 3]


def kept(arrays, frames, errors="raise", boost=None, **options):
    """The whole n-best lists and lattices of a decoder that is gone then."""
    decoder = TransducerDecoder.from_arrays(arrays, **options)
    most = decoder.options.max_hypotheses
    return decoder.decode(frames, nbest=most, errors=errors, boost=boost, lattice=True)


def as_bytes(hypotheses):
    return list(zip(lists_as_bytes(hypotheses), lattices_as_bytes(hypotheses), strict=True))


def check(arrays, frames, shape=None, schedule=None, figures=None, **options):
    """Decodes on both: all bytes are the same. Gives the CPU's hypotheses and the number of launches."""
    wanted = kept(arrays, frames, device="cpu", threads=1, **options)
    with scheduled(schedule, shape, **(figures or {})) as gpu:
        found = as_bytes(kept(arrays, frames, device="cuda", **options))
        ran = [kernel for kernel, *_ in gpu.ran]
    for i, (one, other) in enumerate(zip(found, as_bytes(wanted), strict=True)):
        assert one == other, f"utterance {i}"
    assert {kernel.partition("_")[2] for kernel in ran} <= {"", "lattice_beam"}
    return wanted, len(ran)


@settings(max_examples=examples(30), deadline=None)
@given(cases(), SHAPES, SEARCHES, st.sampled_from(CONTEXTS), st.sampled_from(POLICIES))
def test_random_networks(case, shape, search, merge_context, policy):
    arrays, options, frames = case
    check(arrays, frames, shape, {"policy": policy}, **options, **search, merge_context=merge_context)


@settings(max_examples=examples(30), deadline=None)
@given(cases(), SHAPES, SEARCHES, st.sampled_from(CONTEXTS), st.sampled_from(WHICH), st.sampled_from(POLICIES))
def test_random_models(tmp_path_factory, case, shape, search, merge_context, which, policy):
    """Histories merge only if the states of all automata are equal."""
    arrays, options, frames = case
    options = with_models(tmp_path_factory.mktemp("lm"), arrays, frames, len(frames), {**options, **search}, which)
    check(arrays, frames, shape, {"policy": policy}, **options, merge_context=merge_context)


@settings(max_examples=examples(10), deadline=None)
@given(cases(), st.lists(SHAPES, min_size=2, max_size=2), SEARCHES, st.sampled_from([1, 2]))
def test_random_networks_in_bfloat16(case, shapes, search, merge_context):
    """Two launches give the same bytes, the first utterance also when it is alone."""
    arrays, options, frames = case
    options = {**options, **search, "precision": "bfloat16", "merge_context": merge_context, "device": "cuda"}
    found = []
    for shape, batch in ((shapes[0], frames), (shapes[1], frames), (shapes[1], frames[:1])):
        with scheduled(shape=shape):
            found.append(as_bytes(kept(arrays, batch, **options)))
    assert found[0] == found[1] and found[0][:1] == found[2]


@pytest.mark.parametrize("durations", [[0, 1, 2, 3, 4], [1, 2, 4], [0, 2, 5], [0, 0, 1, 1], [1, 2, 4, 64]], ids=str)
@pytest.mark.parametrize("merge", ["sum", "max"])
def test_durations(durations, merge):
    arrays = random_arrays(6, tokens=6, units=5, joint=133, blank_bias=-1.0, layers=1, durations=len(durations))
    for merge_context in CONTEXTS:
        options = options_of("tdt", durations=durations, beam=6.0, merge=merge, merge_context=merge_context)
        found, _ = check(arrays, BATCH, Shape("kept"), **options)
    assert found[3].lattice.num_links > 20


@pytest.mark.parametrize("most", [1, 8, 32])
@pytest.mark.parametrize("kind", ["rnnt", "stateless tdt"])
def test_so_many_contexts(kind, most):
    """An infinite beam fills all places with contexts that differ: of five labels there are 1 + 5 with one label."""
    for merge_context in (1, 2, 3) if most < 32 else (1, 2):
        options = options_of(kind, beam=math.inf, max_hypotheses=most, merge_context=merge_context, max_symbols=2)
        [found], _ = check(small(kind), [BATCH[3][:12]], Shape("many"), **options)
        assert len(found.nbest) == min(most, {1: 6, 2: 31}.get(merge_context, most))


def test_more_hypotheses_of_one_context_than_live():
    """The best ones of a bucket share a context, so that others live that a cut-off by history would drop."""
    arrays = small("rnnt")
    options = options_of("rnnt", beam=math.inf, max_hypotheses=4)
    plain, merged = (kept(arrays, BATCH, device="cpu", merge_context=labels, **options) for labels in (None, 1))
    last = [[entry.tokens[-1:].tolist() for entry in found[3].nbest] for found in (plain, merged)]
    assert len({*map(tuple, last[0])}) < len({*map(tuple, last[1])}) == 4
    check(arrays, BATCH, Shape("kept"), merge_context=1, **options)


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "many"), ("tdt", "kept")])
def test_rooms_grow(kind, kernel, tmp_path):
    """Records, contexts and their table are taken over; one launch is enough where there is room."""
    arrays = small(kind)
    for merge_context in (None, 2):
        options = options_of(kind, beam=math.inf, merge_context=merge_context, max_symbols=2)
        options = with_models(tmp_path, arrays, BATCH, 5, options, "nti")
        _, launches = check(arrays, BATCH, Shape(kernel), figures=TIGHT, **options)
        assert launches > 3
        assert check(arrays, BATCH, Shape(kernel), figures=ROOMY, **options)[1] == 2


@pytest.mark.parametrize("lacking", ["tokens", "arcs"])
def test_the_room_of_lattices_grows_alone(lacking):
    rooms = {"tokens": (6, 4096), "arcs": (1024, 24)}[lacking]
    figures = {**ROOMY, "lattice_rooms": lambda frames, hypotheses: rooms}
    _, launches = check(small("tdt"), BATCH, Shape("kept"), figures=figures, **options_of("tdt"))
    assert launches > 3


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("tdt", "many")])
def test_schedules(kind, kernel):
    frames = [BATCH[2], BATCH[0][:3]]
    for schedule in schedules():
        options = options_of(kind, max_symbols=2, merge_context=1)
        check(small(kind), frames, Shape(kernel, blocks=2), schedule, **options)


def test_contexts_of_whole_histories():
    """Where more labels are compared than any history has, each is its own context."""
    options = options_of("rnnt", beam=math.inf, max_symbols=2)
    plain, _ = check(small("rnnt"), [random_frames(9, 12)], Shape("kept"), **options)
    merged, _ = check(small("rnnt"), [random_frames(9, 12)], Shape("kept"), **options, merge_context=100)
    assert as_bytes(merged) == as_bytes(plain)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_blocks_of_as_many_threads_as_are_launched(kernel, precision):
    options = options_of("rnnt", precision=precision, max_symbols=2, merge_context=1, device="cuda")
    found = []
    for threads in (64, transducer_plan.THREADS[kernel]):
        with scheduled(shape=Shape(kernel, blocks=2, threads=threads)):
            found.append(as_bytes(kept(small("rnnt"), [BATCH[2], BATCH[0][:3]], **options)))
    assert found[0] == found[1]


def test_frames_and_logits_that_are_not_finite():
    """Their lattices are empty, those of the others are not."""
    frames = [x.copy() for x in BATCH]
    frames[0][4, 3] = np.inf
    bad = small("rnnt")
    bad["output_weight"][5] = 3e38
    for arrays, batch in ((small("rnnt"), frames), (bad, BATCH)):
        options = options_of("rnnt", activation="relu", merge_context=2)
        found, wanted = check_refused(arrays, batch, decoded=kept, **options)
        assert lattices_as_bytes(found) == lattices_as_bytes(wanted)
        assert [one.lattice.num_tokens for one in found] == [one.lattice.num_tokens for one in wanted]


def test_the_engine():
    """One decoder, with lattices and without them in turn; kernels that keep them are loaded when they are needed."""
    options = {**options_of("rnnt"), "boosting_tree_alpha": 0.75}
    tree = BoostingTree({(1, 2): 2.0, (3,): 1.0}, vocab_size=6)
    twin = TransducerDecoder.from_arrays(small("rnnt"), device="cpu", **options)
    with scheduled() as gpu:
        decoder = TransducerDecoder.from_arrays(small("rnnt"), device="cuda", **options)
        for boost, lattice in ((None, False), (None, True), (tree, False), ([tree, None, None, tree], True)):
            wanted = twin.decode(BATCH, boost=boost, nbest=4, lattice=lattice)
            found = decoder.decode(BATCH, boost=boost, nbest=4, lattice=lattice)
            assert lists_as_bytes(found) == lists_as_bytes(wanted)
            if lattice:
                assert lattices_as_bytes(found) == lattices_as_bytes(wanted)
        ran = list(dict.fromkeys(kind for kind, *_ in gpu.ran if kind != "project"))
        assert ran == ["kept_beam", "kept_lattice_beam", "kept_fused_beam"]
        held = decoder.memory().hypotheses
        decoder.release()
        assert decoder.memory().hypotheses == 0 < held
        assert lattices_as_bytes(decoder.decode(BATCH, lattice=True)) == lattices_as_bytes(
            twin.decode(BATCH, lattice=True)
        )
        del decoder


def test_groups_of_utterances():
    """A batch that is decoded in parts, the longest first."""
    figures = {"MOST_LANES": 2, **ROOMY}
    _, launches = check(small("tdt"), BATCH, figures=figures, **options_of("tdt", merge_context=2))
    assert launches == 4


def test_lists_without_lattices():
    """Merging by context alone writes nothing down."""
    options = options_of("tdt", merge_context=2, beam=6.0)
    wanted = lists_as_bytes(listed(small("tdt"), BATCH, device="cpu", **options))
    figures = {**ROOMY, "lattice_rooms": lambda frames, hypotheses: (0, 0)}
    with scheduled(**figures) as gpu:
        assert lists_as_bytes(listed(small("tdt"), BATCH, device="cuda", **options)) == wanted
        assert [kind for kind, *_ in gpu.ran] == ["project", "kept_lattice_beam"]


def test_the_demo_s_model(demo_data):
    """A trained TDT from its file, and speech in float16: whole words of both engines' lattices."""
    with np.load(demo_data / "encoder_output.npz") as file:
        shortest = min(file.values(), key=len)
    options = {"beam": 6.0, "merge_context": 3}
    [wanted] = kept(demo_data / "transducer.npz", [shortest], device="cpu", **options)
    with scheduled(shape=Shape("kept", blocks=8)) as gpu:
        [found] = kept(demo_data / "transducer.npz", [shortest], device="cuda", **options)
        assert len(gpu.ran) == 2
    assert as_bytes([found]) == as_bytes([wanted])
    words = [[(entry.text, entry.score) for entry in one.lattice.whole_words().nbest(4)] for one in (found, wanted)]
    assert words[0] == words[1] and words[0][0][0] == "ten of clubs"


def test_a_log_that_is_shortened():
    """More than 4,096 arcs, after which the log first drops those that lead nowhere."""
    options = options_of("rnnt", beam=math.inf, max_hypotheses=32, merge_context=2, max_symbols=2)
    frames = random_frames(9, 44)
    rooms = {**ROOMY, "beam_rooms": lambda frames, hypotheses: (512, 1 << 14, 4096, 256)}
    small_room = {**rooms, "lattice_rooms": lambda frames, hypotheses: (4096, 4096)}
    found, launches = check(small("rnnt"), [frames], Shape("kept", blocks=1), figures=small_room, **options)
    assert launches > 2
    assert found[0].lattice.num_links > 1000
