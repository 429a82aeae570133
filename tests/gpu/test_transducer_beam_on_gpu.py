"""Beam search of transducers on a real GPU: the CPU engine's bytes, in every shape of a launch, in any batch."""

import math

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.gpu.test_transducer_on_gpu import KNOWN, LENGTHS, NETWORKS, SIZES, frames_of, make, trees_for
from tests.transducer.arpas import random_arpa
from tests.transducer.equality import lists_as_bytes

KEPT = transducer_plan.LoopShape("kept", 512, 8, 0, 0)
SHAPES = {
    "kept": KEPT,
    "kept, narrow": transducer_plan.LoopShape("kept", 96, 8, 0, 0),
    "kept, teams": transducer_plan.LoopShape("kept", 512, 8, 0, 0, teams=3),
    "kept, ahead": transducer_plan.LoopShape("kept", 512, 256, 8, 8),
    "many": transducer_plan.LoopShape("many", 256, 8, 0, 0),
    "many, ahead": transducer_plan.LoopShape("many", 256, 64, 4, 4),
    "many, narrow": transducer_plan.LoopShape("many", 96, 8, 0, 0),
}
ALONE = transducer_plan.LoopShape("kept", 512, 8, 0, 0, joins_alone=True)


@pytest.fixture(scope="module", params=NETWORKS)
def kind(request):
    return request.param


def listed(kind, device, frames, boost=None, **options):
    decoder = make(kind, device, **{"beam": 4.0, **options})
    return lists_as_bytes(decoder.decode(frames, nbest=decoder.options.max_hypotheses, boost=boost))


@pytest.fixture(scope="module")
def wanted(kind):
    return listed(kind, "cpu", frames_of(kind, LENGTHS))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(kind, wanted, shape, monkeypatch):
    if kind == "large" and shape.startswith("kept, teams"):
        pytest.skip("three teams do not fit")
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (SHAPES[shape], SHAPES["many"]))
    assert listed(kind, "cuda", frames_of(kind, LENGTHS)) == wanted


def test_batches(kind, wanted):
    frames = frames_of(kind, LENGTHS)
    decoder = make(kind, "cuda", beam=4.0)
    order = np.random.default_rng(0).permutation(len(frames))
    found = lists_as_bytes(decoder.decode([frames[i] for i in order], nbest=8))
    assert [found[int(np.flatnonzero(order == i)[0])] for i in range(len(frames))] == wanted
    for i in (0, 1, 3, 7):
        assert lists_as_bytes(decoder.decode(frames[i : i + 1], nbest=8)) == wanted[i : i + 1]


def test_one_utterance_joined_by_every_block(kind, wanted, monkeypatch):
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (ALONE, SHAPES["many"]))
    assert listed(kind, "cuda", frames_of(kind, LENGTHS)[3:4]) == wanted[3:4]


@pytest.mark.parametrize("options", [{"beam": math.inf}, {"beam": 8.0, "max_hypotheses": 32}, {"merge": "max"}])
def test_wide_beams_whose_rooms_grow(kind, options, monkeypatch):
    frames = frames_of(kind, LENGTHS[:8])
    wanted = listed(kind, "cpu", frames, **options)
    monkeypatch.setattr(transducer_plan, "beam_rooms", lambda frames, most: (8 * most, 256, 4 * most, most))
    assert listed(kind, "cuda", frames, **options) == wanted


def test_bfloat16_in_any_batch_and_shape(kind, monkeypatch):
    frames = frames_of(kind, LENGTHS)
    first = listed(kind, "cuda", frames, precision="bfloat16")
    for shape in SHAPES.values():
        monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_, shape=shape: (shape, SHAPES["many"]))
        assert listed(kind, "cuda", frames[3:6], precision="bfloat16") == first[3:6]


@pytest.fixture(scope="module")
def models(kind, tmp_path_factory):
    """Options of all models of a decoder."""
    folder = tmp_path_factory.mktemp("lm")
    words = [f"t{token}" if token in KNOWN else None for token in range({**SIZES, **NETWORKS[kind]}["tokens"])]
    return {
        "ngram_lm_model": random_arpa(folder / "n.arpa", KNOWN, 3, word_of="t{}".format),
        "ngram_lm_alpha": 0.3,
        "ngram_lm_tokens": words,
        "lodr_model": random_arpa(folder / "l.arpa", KNOWN, 2, seed=1, word_of="t{}".format),
        "lodr_scale": -0.15,
        "ilm_scale": 0.1,
        "boosting_tree_alpha": 0.75,
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_models_and_trees_in_every_shape(kind, models, shape, monkeypatch):
    if kind == "large" and shape.startswith("kept, teams"):
        pytest.skip("three teams do not fit")
    frames, trees = frames_of(kind, LENGTHS), trees_for(kind, len(LENGTHS))
    wanted = listed(kind, "cpu", frames, trees, **models)
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (SHAPES[shape], SHAPES["many"]))
    assert listed(kind, "cuda", frames, trees, **models) == wanted
    assert wanted != listed(kind, "cpu", frames)


@pytest.mark.parametrize("which", ["ngram_lm", "lodr", "ilm", "boosting_tree"])
@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_one_kind_of_model(kind, models, which):
    frames = frames_of(kind, LENGTHS[:8])
    options = {name: value for name, value in models.items() if name.startswith(which)}
    if which == "lodr":
        options["ngram_lm_tokens"] = models["ngram_lm_tokens"]
    trees = trees_for(kind, 8) if which == "boosting_tree" else None
    assert listed(kind, "cuda", frames, trees, **options) == listed(kind, "cpu", frames, trees, **options)


@pytest.mark.parametrize("options", [{"beam": math.inf}, {"beam": 8.0, "max_hypotheses": 32}, {"merge": "max"}])
@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_models_and_wide_beams_whose_rooms_grow(kind, models, options, monkeypatch):
    frames, trees = frames_of(kind, LENGTHS[:8]), trees_for(kind, 8)
    wanted = listed(kind, "cpu", frames, trees, **models, **options)
    monkeypatch.setattr(transducer_plan, "beam_rooms", lambda frames, most: (8 * most, 256, 4 * most, most))
    assert listed(kind, "cuda", frames, trees, **models, **options) == wanted


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_models_in_bfloat16_in_any_batch_and_shape(kind, models, monkeypatch):
    frames, trees = frames_of(kind, LENGTHS), trees_for(kind, len(LENGTHS))
    first = listed(kind, "cuda", frames, trees, precision="bfloat16", **models)
    for shape in SHAPES.values():
        monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_, shape=shape: (shape, SHAPES["many"]))
        assert listed(kind, "cuda", frames[3:6], trees[3:6], precision="bfloat16", **models) == first[3:6]


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_batches_with_models(kind, models):
    """One decoder with and without trees in turn, in other batches and orders, and after its memory was released."""
    frames, trees = frames_of(kind, LENGTHS), trees_for(kind, len(LENGTHS))
    decoder = make(kind, "cuda", beam=4.0, **models)
    wanted = lists_as_bytes(decoder.decode(frames, nbest=8, boost=trees))
    plain = lists_as_bytes(decoder.decode(frames, nbest=8))
    assert plain != wanted
    order = np.random.default_rng(0).permutation(len(frames))
    found = lists_as_bytes(decoder.decode([frames[i] for i in order], nbest=8, boost=[trees[i] for i in order]))
    assert [found[int(np.flatnonzero(order == i)[0])] for i in range(len(frames))] == wanted
    decoder.release()
    for i in (0, 1, 3, 7):
        assert lists_as_bytes(decoder.decode(frames[i : i + 1], nbest=8, boost=trees[i])) == wanted[i : i + 1]
    assert lists_as_bytes(decoder.decode(frames, nbest=8)) == plain


def test_the_demo_s_model(demo_data):
    with np.load(demo_data / "encoder_output.npz") as file:
        frames = list(file.values())
    found, wanted = (
        TransducerDecoder.from_arrays(demo_data / "transducer.npz", device=device, beam=4.0).decode(frames, nbest=8)
        for device in ("cuda", "cpu")
    )
    assert lists_as_bytes(found) == lists_as_bytes(wanted)


def test_the_demo_s_model_with_phrases(demo_data):
    with np.load(demo_data / "encoder_output.npz") as file:
        frames = list(file.values())
    found = []
    for device in ("cuda", "cpu"):
        decoder = TransducerDecoder.from_arrays(demo_data / "transducer.npz", device=device, beam=4.0, ilm_scale=0.125)
        tree = BoostingTree(["of clubs", "of hearts"], decoder.pieces)
        found.append(lists_as_bytes(decoder.decode(frames, nbest=8, boost=tree)))
    assert found[0] == found[1]
