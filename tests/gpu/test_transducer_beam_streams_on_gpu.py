"""Streams with a beam on a real GPU: the CPU's states, lists and sentences, in any batch; streams move between both."""

import math

import numpy as np
import pytest

from arcbeam import BoostingTree
from arcbeam.gpu.tuned import transducer_plan
from tests.gpu.test_transducer_beam_on_gpu import SHAPES, models  # noqa: F401 - a fixture
from tests.gpu.test_transducer_on_gpu import NETWORKS, frames_of, make, trees_for
from tests.transducer.beam_streams import Streams, assert_same_state, check_chunks, joined_chunks
from tests.transducer.test_transducer_sentences import BEAM, SPEECH, decoder

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
LENGTHS = [0, 1, 2, 90, *np.random.default_rng(3).integers(3, 60, 12)]
SIZES = (0, 1, 2, 5, 40)


@pytest.fixture(scope="module", params=NETWORKS)
def kind(request):
    return request.param


def check(kind, seed, trees=None, lengths=LENGTHS, **options):
    options = {"beam": 4.0, **options}
    both = [Streams(make(kind, device, **options), len(lengths), trees) for device in ("cpu", "cuda")]
    return check_chunks(*both, frames_of(kind, lengths), seed, SIZES)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape(kind, shape, monkeypatch):
    if kind == "large" and shape.startswith("kept, teams"):
        pytest.skip("three teams do not fit")
    monkeypatch.setattr(transducer_plan, "beam_shapes", lambda *_: (SHAPES[shape], SHAPES["many"]))
    check(kind, 1)


@pytest.mark.parametrize("settle_frames", [1, 5, 25])
def test_labels_that_settle_by_age(kind, settle_frames):
    check(kind, 2, beam=8.0, settle_frames=settle_frames)


@pytest.mark.parametrize("options", [{"beam": math.inf}, {"beam": 8.0, "max_hypotheses": 32}, {"merge": "max"}])
def test_wide_beams_whose_rooms_grow(kind, options, monkeypatch):
    monkeypatch.setattr(transducer_plan, "beam_rooms", lambda frames, most: (8 * most, 64, 2 * most, most))
    check(kind, 3, lengths=LENGTHS[:8], **options)


def test_models_and_trees(kind, models):  # noqa: F811
    check(kind, 4, trees_for(kind, len(LENGTHS)), settle_frames=12, **models)


def test_bfloat16_in_any_batch(kind):
    """The states of a batch are those of each stream alone."""
    one, frames = make(kind, "cuda", precision="bfloat16", beam=4.0), frames_of(kind, LENGTHS[:8])
    for i, state in enumerate(joined_chunks(one, frames, 7)):
        assert_same_state(state, joined_chunks(one, frames[i : i + 1], 7)[0], f"stream {i}")


@pytest.mark.parametrize("kind", ["rnnt with a beam", "tdt with a beam"])
def test_saved_streams_with_a_tree_are_the_same(kind):
    tree = BoostingTree({(1, 2): 9.0, (6,): 3.0}, vocab_size=12)
    cpu, one = decoder(kind), decoder(kind, device="cuda")
    streams = [place.stream(boost=tree, nbest=BEAM["max_hypotheses"]) for place in (cpu, one)]
    for at in range(0, len(SPEECH), 11):
        for stream in streams:
            stream.decode_chunk(SPEECH[at : at + 11])
        assert streams[0].save() == streams[1].save()
