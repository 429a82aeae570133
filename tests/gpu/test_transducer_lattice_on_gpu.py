"""Lattices of transducers and merging by context on a real GPU: the CPU engine's bytes, in every shape of a launch."""

import math

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.gpu.test_transducer_beam_on_gpu import SHAPES, kind, models  # noqa: F401
from tests.gpu.test_transducer_on_gpu import LENGTHS, frames_of, make, trees_for
from tests.transducer.equality import lattices_as_bytes, lists_as_bytes
from tests.transducer.networks import random_arrays, random_frames

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
CONTEXTS = [None, 1, 3]


def kept(decoder, frames, boost=None):
    """Lists and lattices, as bytes."""
    found = decoder.decode(frames, nbest=decoder.options.max_hypotheses, boost=boost, lattice=True)
    return list(zip(lists_as_bytes(found), lattices_as_bytes(found), strict=True))


@pytest.mark.parametrize("merge_context", CONTEXTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(kind, shape, merge_context, monkeypatch):  # noqa: F811
    if kind == "large" and shape.startswith("kept, teams"):
        pytest.skip("three teams do not fit")
    frames, options = frames_of(kind, LENGTHS), {"beam": 4.0, "merge_context": merge_context}
    wanted = kept(make(kind, "cpu", **options), frames)
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (SHAPES[shape], SHAPES["many"]))
    assert kept(make(kind, "cuda", **options), frames) == wanted


@pytest.mark.parametrize("merge_context", CONTEXTS)
def test_models_and_trees(kind, models, merge_context):  # noqa: F811
    frames, trees = frames_of(kind, LENGTHS), trees_for(kind, len(LENGTHS))
    options = {"beam": 6.0, "merge_context": merge_context, **models}
    assert kept(make(kind, "cuda", **options), frames, trees) == kept(make(kind, "cpu", **options), frames, trees)


@pytest.mark.parametrize("options", [{"beam": math.inf}, {"beam": 8.0, "max_hypotheses": 32}, {"merge": "max"}])
def test_wide_beams_whose_rooms_grow(kind, options, monkeypatch):  # noqa: F811
    frames, options = frames_of(kind, LENGTHS[:8]), {"beam": 4.0, "merge_context": 2, **options}
    wanted = kept(make(kind, "cpu", **options), frames)
    monkeypatch.setattr(transducer_plan, "beam_rooms", lambda frames, most: (8 * most, 256, 4 * most, most))
    monkeypatch.setattr(transducer_plan, "lattice_rooms", lambda frames, most: (2 * most, 8 * most))
    assert kept(make(kind, "cuda", **options), frames) == wanted


def test_batches(kind):  # noqa: F811
    """One decoder with lattices and without, in other batches and orders, and after its memory was released."""
    frames = frames_of(kind, LENGTHS)
    decoder = make(kind, "cuda", beam=4.0)
    plain, wanted = lists_as_bytes(decoder.decode(frames, nbest=8)), kept(decoder, frames)
    order = np.random.default_rng(0).permutation(len(frames))
    found = kept(decoder, [frames[i] for i in order])
    assert [found[int(np.flatnonzero(order == i)[0])] for i in range(len(frames))] == wanted
    decoder.release()
    for i in (0, 1, 3, 7):
        assert kept(decoder, frames[i : i + 1]) == wanted[i : i + 1]
    assert lists_as_bytes(decoder.decode(frames, nbest=8)) == plain == [lists for lists, _ in wanted]


def test_bfloat16_in_any_batch_and_shape(kind, monkeypatch):  # noqa: F811
    frames, options = frames_of(kind, LENGTHS), {"beam": 4.0, "precision": "bfloat16", "merge_context": 2}
    first = kept(make(kind, "cuda", **options), frames)
    for shape in SHAPES.values():
        monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_, shape=shape: (shape, SHAPES["many"]))
        assert kept(make(kind, "cuda", **options), frames[3:6]) == first[3:6]


@pytest.mark.parametrize("merge_context", [None, 3])
def test_an_hour_in_one_utterance(merge_context):
    """45,000 frames, whose lattice has hundreds of thousands of links."""
    options = {"blank_id": 0, "beam": 4.0, "merge_context": merge_context}
    frames, found = [random_frames(1, 45_000)], []
    for device in ("cuda", "cpu"):
        decoder = TransducerDecoder.from_arrays(random_arrays(1, blank_bias=3.0), device=device, **options)
        found.append(kept(decoder, frames))
    assert found[0] == found[1]


def test_the_demo_s_model(demo_data):
    """Its texts, minimum Bayes risk and whole words, too."""
    with np.load(demo_data / "encoder_output.npz") as file:
        frames = list(file.values())
    both = []
    for device in ("cuda", "cpu"):
        decoder = TransducerDecoder.from_arrays(demo_data / "transducer.npz", device=device, beam=8.0, merge_context=3)
        both.append(decoder.decode(frames, nbest=8, lattice=True))
    found, wanted = both
    assert lists_as_bytes(found) == lists_as_bytes(wanted)
    assert lattices_as_bytes(found) == lattices_as_bytes(wanted)
    for one, other in zip(found, wanted, strict=True):
        words = [entry.lattice.whole_words() for entry in (one, other)]
        assert words[0].mbr.text == words[1].mbr.text
        lists = [[(entry.text, entry.score) for entry in lattice.nbest(10)] for lattice in words]
        assert lists[0] == lists[1]
