"""The kernels of beam search with models on a GPU: the CPU engine's bytes, whatever the schedule and the launch."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.hypothesis_examples import examples
from tests.simt.build import POLICIES, schedules
from tests.transducer.emulated_gpu import Shape, check_interrupted, scheduled
from tests.transducer.equality import lists_as_bytes
from tests.transducer.networks import NETWORKS, cases, random_arrays
from tests.transducer.test_beam_emulated import (
    BATCH,
    ROOMY,
    SEARCHES,
    SHAPES,
    TIGHT,
    check,
    check_refused,
    on_gpu,
    options_of,
    small,
)
from tests.transducer.test_beam_fusion import OVERFLOWING, constant_network, drawn_models, overflowing

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")
WHICH = ["ntli", "n", "t", "l", "i", "nt", "tl", "ni"]


def with_models(folder, arrays, frames, seed, options, which="ntli"):
    """The options with models; trees belong to all utterances but each third."""
    durations = options.get("durations") or ()
    tokens = len(arrays["output_weight"]) - len(durations)
    if tokens == 1:
        which = "i"  # there is no label that others could score
    given, tree, _ = drawn_models(folder, seed, tokens, options["blank_id"], which)
    trees = None if tree is None else [None if i % 3 == 2 else tree for i in range(len(frames))]
    return {**options, **given, "boost": trees}


@settings(max_examples=examples(40), deadline=None)
@given(cases(), SHAPES, SEARCHES, st.sampled_from(WHICH), st.sampled_from(POLICIES), st.booleans())
def test_random_models(tmp_path_factory, case, shape, search, which, policy, sure):
    arrays, options, frames = case
    confidence = "entropy" if sure and arrays["embedding"].shape[-2] > 1 else None
    options = {**options, **search, "confidence": confidence}
    options = with_models(tmp_path_factory.mktemp("lm"), arrays, frames, len(frames), options, which)
    check(arrays, frames, shape, {"policy": policy}, **options)


@settings(max_examples=examples(15), deadline=None)
@given(cases(), st.lists(SHAPES, min_size=2, max_size=2), SEARCHES, st.sampled_from(POLICIES))
def test_random_models_in_bfloat16(tmp_path_factory, case, shapes, search, policy):
    """Two launches give the same bytes, the first utterance also when it is alone."""
    arrays, options, frames = case
    options = {**options, **search, "precision": "bfloat16"}
    options = with_models(tmp_path_factory.mktemp("lm"), arrays, frames, 7, options)
    one, _ = on_gpu(arrays, frames, shapes[0], {"policy": policy}, **options)
    other, _ = on_gpu(arrays, frames, shapes[1], **options)
    trees = options["boost"]
    alone, _ = on_gpu(arrays, frames[:1], shapes[1], **{**options, "boost": trees and trees[:1]})
    assert one + one[:1] == other + alone


@pytest.mark.parametrize(("kind", "kernel"), [("rnnt", "kept"), ("stateless", "many"), ("tdt", "kept")])
def test_schedules(kind, kernel, tmp_path):
    frames = [BATCH[2], BATCH[0][:3]]
    options = with_models(tmp_path, small(kind), frames, 3, options_of(kind, max_symbols=2))
    for schedule in schedules():
        found, _ = check(small(kind), frames, Shape(kernel, blocks=2), schedule, **options)
    assert sum(len(one.nbest) for one in found) > 4


@pytest.mark.parametrize("kernel", ["kept", "many"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_rooms_grow(kind, kernel, tmp_path):
    """Rows, states and parts are taken over; one launch is enough where there is room."""
    arrays = small(kind)
    options = with_models(tmp_path, arrays, BATCH, 5, options_of(kind, beam=math.inf))
    found, launches = check(arrays, BATCH, Shape(kernel), figures=TIGHT, **options)
    assert launches > 3
    assert any(entry.ilm_score != 0.0 != entry.lm_score for one in found for entry in one.nbest)
    assert any(entry.boost_score for entry in found[3].nbest)
    assert check(arrays, BATCH, Shape(kernel), figures=ROOMY, **options)[1] == 2


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_more_tokens_than_a_warp_fills_at_a_time(kernel, tmp_path):
    """States with more arcs than one warp takes; and the blank among the labels."""
    tokens, blank = 301, 150
    labels = [token for token in range(tokens) if token != blank]
    phrases = {(a, b): 1.0 + b % 7 for a in labels[:6] for b in labels[:: 1 + a % 3]}
    tree = BoostingTree(phrases, vocab_size=tokens)
    arrays = random_arrays(5, tokens=tokens, blank=blank, blank_bias=4.0)
    options = with_models(tmp_path, arrays, BATCH, 2, options_of("rnnt", blank_id=blank, beam=4.0), "nli")
    trees = [tree, tree, None, tree]
    found, _ = check(arrays, BATCH, Shape(kernel), **{**options, "boost": trees, "boosting_tree_alpha": 0.75})
    assert found[3].boost_score > 0 > found[3].lm_score


@pytest.mark.parametrize("most", [31, 32])
def test_a_hypothesis_for_each_thread_of_a_warp(most, tmp_path):
    options = options_of("tdt", beam=math.inf, max_hypotheses=most)
    found, _ = check(small("tdt"), BATCH[:1], **with_models(tmp_path, small("tdt"), BATCH[:1], 4, options))
    assert len(found[0].nbest) == most


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", transducer_plan.THREADS)
def test_blocks_of_as_many_threads_as_are_launched(kernel, precision, tmp_path):
    frames, shape = [BATCH[2], BATCH[0][:3]], Shape(kernel, blocks=2)
    options = options_of("rnnt", precision=precision, max_symbols=2)
    options = with_models(tmp_path, small("rnnt"), frames, 3, options)
    few, _ = on_gpu(small("rnnt"), frames, shape, **options)
    many = replace(shape, threads=transducer_plan.THREADS[kernel])
    assert on_gpu(small("rnnt"), frames, many, **options)[0] == few


def test_a_weight_of_0_is_none(tmp_path):
    """Also of those that have models; utterances without a tree are next to some with one."""
    options = with_models(tmp_path, small("tdt"), BATCH, 3, options_of("tdt"))
    plain, _ = on_gpu(small("tdt"), BATCH, **options_of("tdt"))
    factors = dict.fromkeys(("ngram_lm_alpha", "lodr_scale", "ilm_scale", "boosting_tree_alpha"), 0.0)
    assert on_gpu(small("tdt"), BATCH, **{**options, **factors})[0] == plain
    trees = with_models(tmp_path, small("tdt"), BATCH, 3, options_of("tdt"), "t")
    found, _ = on_gpu(small("tdt"), BATCH, **trees)
    assert [one == other for one, other in zip(found, plain, strict=True)] == [False, True, True, False]


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_an_internal_language_model_that_overflows(kernel):
    """Its logits are infinite, those of the frames are not; the others of the batch are decoded."""
    arrays, _ = constant_network([1.0, 0.0, 0.0], 1)
    arrays["encoder_weight"][:] = -1
    arrays["prediction_bias"] = np.full(1, 3e38, np.float32)
    arrays["output_weight"][:] = 2.0
    frames = [np.full((2, 1), 3e38, np.float32), np.empty((0, 1), np.float32)]
    options = {"activation": "relu", "blank_id": 0, "beam": 4.0}
    check(arrays, frames, Shape(kernel), **options)
    found, _ = check_refused(arrays, frames, Shape(kernel), ilm_scale=0.5, **options)
    assert [one.error is None for one in found] == [False, True]


@pytest.mark.parametrize("kind", OVERFLOWING)
def test_scores_that_overflow(kind):
    arrays, frames, options = overflowing(kind)
    check_refused(arrays, [frames, frames[:0], frames[:1]], blank_id=0, **options)


@pytest.mark.parametrize("blank_logit", [-90.0, 80.0, 500.0])
def test_frames_of_certain_silence_or_speech(blank_logit):
    """Where the probability of all labels together underflows, or that of the blank."""
    arrays, frames = constant_network([blank_logit, 0.0, -1.0], 3)
    tree = BoostingTree({(1,): 3.0}, vocab_size=3)
    check(arrays, [frames], blank_id=0, beam=math.inf, boosting_tree_alpha=0.5, ilm_scale=0.25, boost=[tree])


def test_frames_and_logits_that_are_not_finite(tmp_path):
    frames = [x.copy() for x in BATCH]
    frames[0][4, 3] = np.inf
    bad = small("rnnt")
    bad["output_weight"][5] = 3e38
    for arrays, batch in ((small("rnnt"), frames), (bad, BATCH)):
        check_refused(arrays, batch, **with_models(tmp_path, arrays, batch, 3, options_of("rnnt", activation="relu")))


def test_the_engine():
    """One decoder, with and without trees in turn; kernels that fuse are loaded when they are needed."""
    options = {**options_of("rnnt"), "max_hypotheses": 3, "boosting_tree_alpha": 0.75}
    tree = BoostingTree({(1, 2): 2.0, (3,): 1.0}, vocab_size=6)
    twin = TransducerDecoder.from_arrays(small("rnnt"), device="cpu", **options)
    with scheduled() as gpu:
        decoder = TransducerDecoder.from_arrays(small("rnnt"), device="cuda", **options)
        for trees in (None, [tree, None, None, tree], None, [None] * 4, tree):
            wanted = lists_as_bytes(twin.decode(BATCH, boost=trees, nbest=3))
            assert lists_as_bytes(decoder.decode(BATCH, boost=trees, nbest=3)) == wanted
        ran = [kind for kind, *_ in gpu.ran if kind != "project"]
        assert ran[0] == "kept_beam" and ran[-1] == "kept_fused_beam"
        held = decoder.memory().automata
        assert held > tree.nbytes
        decoder.decode(BATCH, boost=BoostingTree([(1,)], vocab_size=6))
        decoder.release()
        assert decoder.memory().automata == 0
        wanted = lists_as_bytes(twin.decode(BATCH[:1], boost=tree, nbest=3))
        assert lists_as_bytes(decoder.decode(BATCH[:1], boost=tree, nbest=3)) == wanted
        del decoder, tree, trees


def test_groups_of_utterances(tmp_path):
    """Each utterance keeps its tree where a batch is decoded in parts, the longest first."""
    options = with_models(tmp_path, small("tdt"), BATCH, 3, options_of("tdt"))
    options["boost"] = [BoostingTree({(1 + i, 2): 2.0, (3,): -1.0}, vocab_size=6) for i in range(4)]
    _, launches = check(small("tdt"), BATCH, figures={"MOST_LANES": 2, **ROOMY}, **options)
    assert launches == 4


def test_memory_counts_models_of_the_decoder(tmp_path):
    options = with_models(tmp_path, small("rnnt"), BATCH, 3, options_of("rnnt"), "nl")
    del options["boost"]
    with scheduled() as gpu:
        decoder = TransducerDecoder.from_arrays(small("rnnt"), device="cuda", **options)
        assert decoder.memory().automata == 0, "they are sent with the first batch"
        decoder.decode(BATCH)
        assert decoder.memory().automata > 0
        assert {kind for kind, *_ in gpu.ran} == {"project", "kept_fused_beam"}
        assert decoder.memory().device_bytes > decoder.memory().automata
        del decoder


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_host_can_end_it(precision, tmp_path):
    options = with_models(tmp_path, small("rnnt"), BATCH, 3, options_of("rnnt", precision=precision))
    trees = options.pop("boost")

    def decode(decoder):
        return lists_as_bytes(decoder.decode(BATCH, boost=trees, nbest=4))

    check_interrupted(small("rnnt"), decode, Shape("many"), used=True, figures=ROOMY, **options)


@pytest.mark.parametrize("kernel", ["kept", "many"])
def test_the_demo_s_model(demo_data, kernel):
    """A trained TDT from its file, phrases, and speech in float16."""
    with np.load(demo_data / "encoder_output.npz") as file:
        shortest = sorted(file.values(), key=len)[:2]
    arrays, shape = demo_data / "transducer.npz", Shape(kernel, blocks=8)
    tree = BoostingTree(["of clubs"], TransducerDecoder.from_arrays(arrays, device="cpu").pieces)
    options = {"beam": 4.0, "confidence": "entropy", "ilm_scale": 0.125}
    written, launches = check(arrays, shortest, shape, boost=tree, **options)
    assert [one.text for one in written] == ["ten of clubs", "seven of clubs"]
    assert launches == 2
