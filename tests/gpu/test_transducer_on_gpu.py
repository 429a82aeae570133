"""Transducers on a real GPU: the CPU engine's bytes, in every shape of a launch, in chunks, from either memory."""

import gc
import signal

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.gpu.tuned import transducer_plan
from tests.transducer.arpas import random_arpa
from tests.transducer.equality import same
from tests.transducer.networks import random_arrays, random_frames

PUBLISHED = {"tokens": 1025, "units": 640, "joint": 640, "features": 512, "blank_bias": 8.0}
NETWORKS = {
    "rnnt": {"layers": 2},
    "tdt": {"layers": 1, "durations": 5},
    "stateless": {"layers": 0, "context": 2, "groups": 4, "units": 33},
    "stateless tdt": {"layers": 0, "durations": 5},
    "published": {"layers": 1, **PUBLISHED},
    "published tdt": {"layers": 2, "durations": 5, **PUBLISHED},
    "large": {"layers": 1, "tokens": 4097, "units": 1024, "joint": 1024, "features": 1024, "blank_bias": 8.0},
}
SIZES = {"tokens": 300, "size": 50, "units": 130, "joint": 97, "features": 71}
MANY = transducer_plan.LoopShape("many", 256, 256, 4, 8)
SHAPES = {
    "kept, one test": transducer_plan.LoopShape("kept", 256, 1, 1, 1, joins_alone=True),
    "many": MANY,
    "crowd": transducer_plan.LoopShape("many", 256, 512, 2, 4),
    "many, narrow": transducer_plan.LoopShape("many", 96, 1, 3, 5),
    "kept": transducer_plan.LoopShape("kept", 512, 256, 4, 8),
    "kept, narrow": transducer_plan.LoopShape("kept", 96, 1, 3, 5),
    "kept, teams": transducer_plan.LoopShape("kept", 512, 256, 4, 8, teams=3),
    "kept, joins alone": transducer_plan.LoopShape("kept", 512, 16, 4, 8, joins_alone=True),
}


def make(kind, device, **options):
    shape = {**SIZES, "blank_bias": 3.0, **NETWORKS[kind]}
    durations = [0, 1, 2, 3, 4] if "durations" in shape else None
    more = {"confidence": "entropy", "durations": durations, "max_symbols": 3, **options}
    return TransducerDecoder.from_arrays(random_arrays(5, **shape), 0, device=device, **more)


def frames_of(kind, lengths, seed=0):
    features = {**SIZES, **NETWORKS[kind]}["features"]
    return [random_frames(seed + i, int(n), features) for i, n in enumerate(lengths)]


LENGTHS = [0, 1, 2, 150, *np.random.default_rng(2).integers(3, 90, 36)]


@pytest.fixture(scope="module", params=NETWORKS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def wanted(kind):
    return make(kind, "cpu").decode(frames_of(kind, LENGTHS))


@pytest.fixture(scope="module")
def in_bfloat16(kind):
    return make(kind, "cuda", precision="bfloat16").decode(frames_of(kind, LENGTHS))


@pytest.fixture(params=["float32", "bfloat16"])
def precise(request, kind, wanted, in_bfloat16):
    """A precision, and what it gives: of float32 a CPU's bytes."""
    return request.param, wanted if request.param == "float32" else in_bfloat16


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bytes(kind, precise, shape, monkeypatch):
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (SHAPES[shape], MANY))
    monkeypatch.setattr(transducer_plan, "MOST_LANES", 13 if "alone" in shape or "one" in shape else 1024)
    decoder = make(kind, "cuda", precision=precise[0])
    for _ in range(3):
        same(decoder.decode(frames_of(kind, LENGTHS)), precise[1])
    assert sum(len(h.tokens) for h in precise[1]) > 50


def test_chunks(kind, precise):
    decoder, frames = make(kind, "cuda", precision=precise[0]), frames_of(kind, LENGTHS)
    states, tokens = [None] * len(frames), [[] for _ in frames]
    for begin in range(0, 150, 37):
        found = decoder.decode([x[begin : begin + 37] for x in frames], state=states)
        states = [h.state for h in found]
        for i, one in enumerate(found):
            tokens[i] += one.tokens.tolist()
    assert tokens == [h.tokens.tolist() for h in precise[1]]
    for state, one in zip(states, precise[1], strict=True):
        assert state.hidden.tobytes() == one.state.hidden.tobytes()
        assert state.cell.tobytes() == one.state.cell.tobytes()
        assert state.context.tolist() == one.state.context.tolist()


def test_bfloat16_is_near_that_of_the_cpu(kind, in_bfloat16):
    """Sums in another order, so a label may differ, and then those after it."""
    wanted = make(kind, "cpu", precision="bfloat16").decode(frames_of(kind, LENGTHS))
    equal = [i for i, one in enumerate(wanted) if one.tokens.tolist() == in_bfloat16[i].tokens.tolist()]
    assert len(equal) > len(wanted) / 2
    for i in equal:
        assert in_bfloat16[i].frames.tolist() == wanted[i].frames.tolist()
        np.testing.assert_allclose(in_bfloat16[i].log_probs, wanted[i].log_probs, rtol=0, atol=0.05)
        np.testing.assert_allclose(in_bfloat16[i].state.hidden, wanted[i].state.hidden, rtol=0, atol=0.02)


@pytest.mark.parametrize("groups", [1, transducer_plan.ANY])
def test_frames_that_blocks_round_together(kind, in_bfloat16, groups, monkeypatch):
    monkeypatch.setattr(transducer_plan, "STAGED_GROUPS", groups)
    same(make(kind, "cuda", precision="bfloat16").decode(frames_of(kind, LENGTHS)), in_bfloat16)


def test_any_number_of_utterances(kind, wanted):
    decoder = make(kind, "cuda")
    frames = frames_of(kind, LENGTHS)
    for n in (1, 2, 3, 5, 16, 17, 33):
        for first in range(0, len(frames), n):
            same(decoder.decode(frames[first : first + n]), wanted[first : first + n])
            if n < 5 and first > 12:
                break


def test_a_thousand_and_more():
    frames = frames_of("tdt", np.random.default_rng(0).integers(0, 60, 2100))
    same(make("tdt", "cuda").decode(frames), make("tdt", "cpu").decode(frames))
    decoder = make("tdt", "cuda", precision="bfloat16")
    same(decoder.decode(frames)[:7], decoder.decode(frames[:7]))


def test_hypotheses_grow(kind, wanted, monkeypatch):
    monkeypatch.setattr(transducer_plan, "first_room", lambda frames: 1)
    same(make(kind, "cuda").decode(frames_of(kind, LENGTHS)), wanted)


def test_the_demo_s_model(demo_data):
    with np.load(demo_data / "encoder_output.npz") as file:
        speech = list(file.values())
    on_gpu, on_cpu = (
        TransducerDecoder.from_arrays(demo_data / "transducer.npz", device=device, confidence="entropy").decode(speech)
        for device in ("cuda", "cpu")
    )
    same(on_gpu, on_cpu)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_arrays_of_torch(kind, dtype):
    torch = pytest.importorskip("torch", reason="arrays of torch need it")
    frames = np.stack([x[:40] for x in frames_of(kind, LENGTHS) if len(x) >= 40]).astype(dtype)
    decoder = make(kind, "cuda")
    expected = make(kind, "cpu").decode(frames)
    same(decoder.decode(frames), expected)
    same(decoder.decode(torch.from_numpy(frames).cuda()), expected)
    assert decoder.memory().encoder_output > 0  # of the first decode, from the host


def trees_for(kind, count, blank=0):
    """A tree of random phrases for each utterance, None for every fifth."""
    tokens = {**SIZES, **NETWORKS[kind]}["tokens"]
    rng = np.random.default_rng(9)
    phrases = [rng.integers(1, tokens, (60, n)).tolist() for n in (1, 2, 3, 5)]
    lists = [[tuple(one) for some in phrases for one in some[i % 50 :]] for i in range(7)]
    made = [BoostingTree(dict.fromkeys(one, 2.0), vocab_size=tokens) for one in lists]
    return [None if i % 5 == 4 else made[i % 7] for i in range(count)]


KNOWN = range(1, 290)  # tokens that the model has


@pytest.fixture(scope="module")
def model_of_tokens(tmp_path_factory):
    return random_arpa(tmp_path_factory.mktemp("lm") / "a.arpa", KNOWN, 3, word_of="t{}".format)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_trees_and_a_model(kind, shape, model_of_tokens, monkeypatch):
    words = [f"t{token}" if token in KNOWN else None for token in range({**SIZES, **NETWORKS[kind]}["tokens"])]
    options = {"ngram_lm_model": model_of_tokens, "ngram_lm_alpha": 0.3, "ngram_lm_tokens": words}
    frames = frames_of(kind, LENGTHS)
    trees = trees_for(kind, len(frames))
    wanted = make(kind, "cpu", **options).decode(frames, boost=trees)
    monkeypatch.setattr(transducer_plan, "loop_shapes", lambda *_: (SHAPES[shape], MANY))
    decoder = make(kind, "cuda", **options)
    same(decoder.decode(frames, boost=trees), wanted)
    same(decoder.decode(frames), make(kind, "cpu", **options).decode(frames))
    states = [None] * len(frames)
    for begin in range(0, 150, 50):
        chunks = [x[begin : begin + 50] for x in frames]
        states = [h.state for h in decoder.decode(chunks, boost=trees, state=states)]
    for state, one in zip(states, wanted, strict=True):
        assert (state.boosting_tree, state.ngram_lm) == (one.state.boosting_tree, one.state.ngram_lm)


def test_bad_values_are_named():
    frames = frames_of("rnnt", LENGTHS)
    frames[7][2, 5] = np.nan
    decoder = make("rnnt", "cuda")
    with pytest.raises(ValueError, match="finite values, got nan in utterance 7, frame 2, feature 5"):
        decoder.decode(frames)
    same(decoder.decode(frames[:7]), make("rnnt", "cpu").decode(frames[:7]))


def test_control_c():
    decoder = make("published", "cuda")
    long = frames_of("published", [20_000] * 4)

    def interrupt(signum, frame):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        decoder.decode([x[:10] for x in long])
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            while True:
                decoder.decode(long)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    short = [x[:50] for x in long]
    same(decoder.decode(short), make("published", "cpu").decode(short))


def test_decoders_come_and_go():
    frames = frames_of("tdt", [30])
    expected = make("tdt", "cpu").decode(frames)
    for _ in range(20):
        same(make("tdt", "cuda").decode(frames), expected)
        gc.collect()
