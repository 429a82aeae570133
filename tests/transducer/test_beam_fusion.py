"""Beam search of transducers with n-gram models, boosting trees and the internal language model (law 12, fusion)."""

import math
import pickle
import random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import BoostingTree, InputError, TransducerDecoder
from arcbeam.transducer._transducer import available_kernels
from arcbeam.transducer.ngram_lm import token_automaton
from tests.hypothesis_examples import examples
from tests.transducer import beam_oracle, fusion_oracle
from tests.transducer.arpas import lm_of, random_arpa
from tests.transducer.beam_searches import DURATIONS, INF, PREDICTIONS, decode, entries_of, model_of, wanted
from tests.transducer.networks import on_unit, random_arrays, random_frames

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")

PARTS = ("lm_score", "boost_score", "lodr_score", "ilm_score")


def drawn_models(folder, seed, tokens, blank, which="ntli"):
    """(options of the decoder, tree, what the oracle takes): an n-gram model, a tree, LODR and the internal model."""
    draw, labels = random.Random(seed), [token for token in range(tokens) if token != blank]
    options, tree, models = {}, None, {}
    if "n" in which:
        path = random_arpa(folder / f"{seed}.arpa", labels, 3, seed=seed)
        options |= {"ngram_lm_model": path, "ngram_lm_alpha": draw.choice([0.25, 0.7])}
        models["ngram_lm"] = lm_of(token_automaton(path, None, tokens, blank)), options["ngram_lm_alpha"]
    if "t" in which:
        phrases = {
            tuple(draw.choices(labels, k=draw.randint(1, 4))): draw.choice([0.5, 2.0, -1.0])
            for _ in range(draw.randint(1, 3))
        }
        tree = BoostingTree(phrases, vocab_size=tokens)
        options["boosting_tree_alpha"] = draw.choice([0.5, 1.5])
        models["tree"] = fusion_oracle.boosting_tree(phrases), options["boosting_tree_alpha"]
    if "l" in which:
        path = random_arpa(folder / f"{seed}.lodr.arpa", labels, 2, seed=seed + 1)
        options |= {"lodr_model": path, "lodr_scale": draw.choice([-0.1, -0.3])}
        models["lodr"] = lm_of(token_automaton(path, None, tokens, blank)), options["lodr_scale"]
    if "i" in which:
        options["ilm_scale"] = models["ilm_scale"] = draw.choice([0.125, 0.3])
    return options, tree, models


@st.composite
def searches(draw):
    """(arrays, frames, blank, seed and kinds of models, options of the search, options of the networks)."""
    tokens = draw(st.integers(2, 7))
    blank = draw(st.sampled_from([0, tokens - 1]))
    durations = draw(st.sampled_from(DURATIONS))
    seed = draw(st.integers(0, 2**32 - 1))
    shape = {"tokens": tokens, "durations": len(durations or ()), "blank": blank, **draw(st.sampled_from(PREDICTIONS))}
    arrays = random_arrays(seed, **shape, blank_bias=draw(st.sampled_from([0.0, 1.0, 8.0, 95.0])))
    options = {
        "durations": durations,
        "max_symbols": draw(st.sampled_from([1, 2, 10])),
        "beam": draw(st.sampled_from([0.5, 2.0, 6.0, INF])),
        "max_hypotheses": draw(st.sampled_from([1, 2, 4, 8])),
        "merge": draw(st.sampled_from(["sum", "max"])),
        "length_power": draw(st.sampled_from([0.0, 0.5, 1.0])),
    }
    network = {"activation": draw(st.sampled_from(["tanh", "relu"]))}
    network["precision"] = draw(st.sampled_from(["float32", "bfloat16"]))
    which = draw(st.sampled_from(["ntli", "n", "t", "l", "i", "nt", "nl", "ni"]))
    return arrays, random_frames(seed, draw(st.integers(0, 6))), blank, (seed, which), options, network


@settings(max_examples=examples(60), deadline=None)
@given(case=searches())
def test_the_twin_obeys_the_law(tmp_path_factory, case):
    """To the byte, pruned or not; and no score is above the exact sum over all paths."""
    arrays, frames, blank, (seed, which), options, network = case
    durations, max_symbols, *rest = options.values()
    tokens = len(arrays["output_weight"]) - len(durations or ())
    given, tree, models = drawn_models(tmp_path_factory.mktemp("lm"), seed, tokens, blank, which)
    model = model_of(arrays, frames, blank, durations, max_symbols, models, **network)
    found = beam_oracle.search(model, *rest)
    for kernels in available_kernels():
        with on_unit(kernels):
            twin = decode(arrays, frames, blank, boost=tree, **options, **network, **given)
        assert entries_of(twin) == wanted(found, durations)
    for entry in twin.nbest:
        parts = np.zeros(4)
        history = tuple(entry.tokens.tolist())
        for i, token in enumerate(history):
            parts += np.array(model.models.shares(history[:i], token), np.float64) * [1, 1, 1, -1]
        ordered = dict(zip(("lm_score", "boost_score", "lodr_score", "ilm_score"), parts.tolist(), strict=True))
        assert {name: getattr(entry, name) for name in PARTS} == ordered
        assert entry.network_score == entry.score - parts[0] - parts[1] - parts[2] - parts[3]
        if options["merge"] == "sum":
            exact = beam_oracle.full_sum(model, history)
            assert entry.score <= exact + 1e-4 + 1e-5 * abs(exact)


@pytest.mark.parametrize("durations", [None, [0, 2, 5], [1, 2, 4]], ids=str)
@pytest.mark.parametrize("merge", ["sum", "max"])
@pytest.mark.parametrize("which", ["ntli", "n", "t", "i"])
def test_all_paths_are_found_where_nothing_is_pruned(tmp_path, durations, merge, which):
    """Histories and scores are those of all (frame, label, duration) paths, in float64 from probabilities."""
    for seed, max_symbols, frames, shape in [(1, 1, 4, {"layers": 1}), (2, 2, 3, {"layers": 0, "context": 2})]:
        arrays = random_arrays(seed, tokens=3, durations=len(durations or ()), **shape)
        x = random_frames(seed, frames)
        given, tree, models = drawn_models(tmp_path, seed, 3, 0, which)
        model = model_of(arrays, x, 0, durations, max_symbols, models)
        paths = beam_oracle.every_history(model, merge)
        given |= {"durations": durations, "max_symbols": max_symbols, "merge": merge}
        found = decode(arrays, x, beam=INF, max_hypotheses=4096, boost=tree, **given)
        scores = {tuple(one.tokens.tolist()): one.score for one in found.nbest}
        assert scores.keys() == paths.keys() and len(scores) > 2
        for history, score in scores.items():
            assert score == pytest.approx(paths[history], abs=5e-5)
            if merge == "sum":
                assert score == pytest.approx(beam_oracle.full_sum(model, history), abs=5e-5)


# --- by hand -------------------------------------------------------------------------------------------------------


def constant_network(logits, frames):
    """A network without memory, whose logits are these on every frame."""
    tokens = len(logits)
    return {
        "embedding": np.zeros((1, tokens, 1), np.float32),
        "encoder_weight": np.zeros((1, 1), np.float32),
        "prediction_weight": np.zeros((1, 1), np.float32),
        "output_weight": np.zeros((tokens, 1), np.float32),
        "output_bias": np.array(logits, np.float32),
    }, np.zeros((frames, 1), np.float32)


@pytest.mark.parametrize("blank_logit", [1.0, 80.0, 500.0])
def test_the_weight_of_the_blank(blank_logit):
    """One frame, a tree: NeMo's rule, also where the labels together are far less likely than e^-4.6."""
    arrays, frames = constant_network([blank_logit, 0.0, -1.0], 1)
    tree = BoostingTree({(1,): 3.0}, vocab_size=3)
    options = {"max_symbols": 1, "beam": INF, "boosting_tree_alpha": 0.5}
    found = decode(arrays, frames, boost=tree, **options)
    log_sum = np.logaddexp.reduce([blank_logit, 0.0, -1.0])
    labels = np.logaddexp(0.0, -1.0) - log_sum
    wanted_scores = {
        (): 1.5 * (blank_logit - log_sum),
        (1,): -log_sum + 0.5 * labels + 0.5 * 3.0,
        (2,): -1.0 - log_sum + 0.5 * labels,
    }
    assert {tuple(one.tokens.tolist()): one.score for one in found.nbest} == pytest.approx(
        wanted_scores, rel=1e-6, abs=1e-6
    )
    assert {one.boost_score for one in found.nbest} == {0.0, 1.5}
    labelled = next(one for one in found.nbest if one.tokens.tolist() == [1])
    assert labelled.log_probs.tolist() == pytest.approx([-log_sum], rel=1e-6)  # the network's
    assert labelled.network_score == pytest.approx(-log_sum + 0.5 * labels, rel=1e-6)


def test_the_internal_language_model_has_no_blank():
    """Subtracted are log-probs among labels; with a scale of 1 equally likely frames leave a uniform distribution."""
    arrays, frames = constant_network([2.0, 0.0, -1.0, 3.0], 1)
    found = decode(arrays, frames, max_symbols=1, beam=INF, ilm_scale=0.5)
    internal = np.array([0.0, -1.0, 3.0]) - np.logaddexp.reduce([0.0, -1.0, 3.0])
    assert {one.tokens.tolist()[0]: one.ilm_score for one in found.nbest if len(one.tokens)} == pytest.approx(
        dict(enumerate(-0.5 * internal, 1)), rel=1e-6
    )


# --- what changes nothing ------------------------------------------------------------------------------------------


def make(**options):
    shape = {"tokens": 40, "size": 30, "units": 48, "joint": 33, "features": 20, "blank": 39, "blank_bias": 3.0}
    arrays = random_arrays(3, **shape, durations=4)
    given = {"durations": [0, 1, 2, 4], "confidence": "entropy", "beam": 4.0, "device": "cpu"}
    return TransducerDecoder.from_arrays(arrays, 39, **{**given, **options})


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    """Utterances, a tree for each, and options of all models."""
    folder = tmp_path_factory.mktemp("lm")
    lengths = [0, 1, 2, 40, *np.random.default_rng(2).integers(3, 30, 14)]
    batch = [random_frames(i, int(n), 20) for i, n in enumerate(lengths)]
    trees = [
        None if i % 3 == 0 else BoostingTree({(i % 7, 3): 2.0, (5, i): 1.0}, vocab_size=39) for i in range(len(batch))
    ]
    options = {
        "ngram_lm_model": random_arpa(folder / "n.arpa", range(39), 3),
        "ngram_lm_alpha": 0.4,
        "lodr_model": random_arpa(folder / "l.arpa", range(39), 2, seed=5),
        "lodr_scale": -0.2,
        "ilm_scale": 0.2,
    }
    expected = as_bytes(make(threads=1, **options).decode(batch, boost=trees, nbest=8))
    return SimpleNamespace(batch=batch, trees=trees, options=options, expected=expected)


def as_bytes(hypotheses, parts=True):
    return [
        [
            (
                [array.tobytes() for array in (one.tokens, one.frames, one.durations, one.log_probs, one.confidence)],
                (one.score, one.posterior),
                [getattr(one, name) for name in PARTS] if parts else None,
            )
            for one in (hypothesis, *hypothesis.nbest)
        ]
        for hypothesis in hypotheses
    ]


def test_models_change_what_is_found(setup):
    plain = make().decode(setup.batch, nbest=8)
    assert sum(a[0][0] != b[0][0] for a, b in zip(as_bytes(plain), setup.expected, strict=True)) > 5
    assert {getattr(one, name) for one in plain for name in PARTS} == {0.0}
    assert all(one.network_score == one.score for one in plain)


def test_a_weight_of_0_is_none(setup):
    plain = as_bytes(make().decode(setup.batch, nbest=8))
    of_none = {"ngram_lm_alpha": 0.0, "lodr_scale": 0.0, "ilm_scale": 0.0, "boosting_tree_alpha": 0.0}
    for name in ("ngram_lm_model", "lodr_model"):
        of_none[name] = setup.options[name]
    assert as_bytes(make(**of_none).decode(setup.batch, boost=setup.trees, nbest=8)) == plain
    empty = BoostingTree([], vocab_size=39)
    assert as_bytes(make().decode(setup.batch, boost=empty, nbest=8)) == plain


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_batches_and_their_order(setup, threads):
    decoder, order = make(threads=threads, **setup.options), np.random.default_rng(0).permutation(len(setup.batch))
    got = as_bytes(decoder.decode([setup.batch[i] for i in order], boost=[setup.trees[i] for i in order], nbest=8))
    assert [got[int(np.flatnonzero(order == i)[0])] for i in range(len(order))] == setup.expected
    one_by_one = [
        decoder.decode([frames], boost=tree, nbest=8)[0] for frames, tree in zip(setup.batch, setup.trees, strict=True)
    ]
    assert as_bytes(one_by_one) == setup.expected


def test_pickles_and_models_that_have_been_read(setup):
    decoder = pickle.loads(pickle.dumps(make(**setup.options)))
    found = pickle.loads(pickle.dumps(decoder.decode(setup.batch, boost=setup.trees, nbest=8)))
    assert as_bytes(found) == setup.expected
    read = {name: token_automaton(setup.options[name], None, 40, 39, name) for name in ("ngram_lm_model", "lodr_model")}
    assert as_bytes(make(**setup.options | read).decode(setup.batch, boost=setup.trees, nbest=8)) == setup.expected


def test_dictionaries_have_the_parts(setup):
    [found] = make(**setup.options).decode(setup.batch[3:4], boost=setup.trees[1], nbest=2)
    for one in (found.to_dict(), *found.to_dict()["nbest"]):
        assert one["score"] == pytest.approx(sum(one[name] for name in ("network_score", *PARTS)), abs=1e-9)
        assert one["lm_score"] < 0 < one["ilm_score"] and one["lodr_score"] > 0
    greedy = make(beam=None).decode(setup.batch[3:4])[0]
    assert (greedy.network_score, *(getattr(greedy, name) for name in PARTS)) == (None,) * 5
    assert not {"network_score", *PARTS} & greedy.to_dict().keys()


# --- input that is bad ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ilm_scale": 1.5}, r"^ilm_scale: expected a number from 0 to 1, got 1.5"),
        ({"ilm_scale": -0.1}, r"^ilm_scale: expected a number from 0 to 1, got -0.1"),
        ({"ilm_scale": math.nan}, r"^ilm_scale: .* got nan"),
        ({"ilm_scale": 1}, r"^ilm_scale: expected factors that add up to more than -1, .* got -ilm_scale -1$"),
        ({"ilm_scale": 0.2, "beam": None}, r"^ilm_scale: expected a beam, too, such as beam=4"),
        ({"lodr_scale": -0.2}, r"^lodr_scale: expected lodr_model, too"),
        ({"lodr_scale": -0.2, "beam": None}, r"^lodr_scale: expected a beam, too"),
        ({"lodr_scale": 0.2, "lodr_model": "L"}, r"^lodr_scale: expected a number from -1 to 0, got 0.2"),
        ({"lodr_model": "L", "beam": None}, r"^lodr_model: expected a beam, too, such as beam=4"),
        ({"lodr_model": "L", "lodr_scale": -0.8, "ilm_scale": 0.3}, r"^lodr_scale: .* got lodr_scale -0.8, -ilm_scale"),
        ({"boosting_tree_alpha": -1.0}, r"^boosting_tree_alpha: expected factors that add up to more than -1"),
        ({"ngram_lm_alpha": 0.3}, r"^ngram_lm_alpha: expected ngram_lm_model, too"),
        ({"ngram_lm_tokens": ["a"] * 40}, r"^ngram_lm_tokens: expected ngram_lm_model, too"),
        ({"lodr_model": "W"}, r"^lodr_model: expected a model of tokens, got one that has 0 of their 39 words"),
    ],
)
def test_options_that_are_wrong(setup, tmp_path, options, message):
    paths = {"L": setup.options["lodr_model"], "W": tmp_path / "words.arpa"}
    random_arpa(paths["W"], range(9), 2, word_of="word{}".format)
    if "lodr_model" in options:
        options = options | {"lodr_model": paths[options["lodr_model"]]}
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_trees_that_do_not_fit(setup):
    decoder = make(**setup.options)
    with pytest.raises(ValueError, match=r"^boost\[0\]: expected a tree of 39 or 40 tokens, got one of 7"):
        decoder.decode(setup.batch[:1], boost=BoostingTree([(1,)], vocab_size=7))
    with pytest.raises(ValueError, match="expected a tree or None for each of 2 utterances, got 1"):
        decoder.decode(setup.batch[:2], boost=[None])
    assert as_bytes(decoder.decode(setup.batch, boost=setup.trees, nbest=8)) == setup.expected


def test_an_internal_language_model_that_overflows():
    """Its logits are infinite, those of the frames are not."""
    arrays, _ = constant_network([1.0, 0.0, 0.0], 1)
    arrays["encoder_weight"][:] = -1
    arrays["prediction_bias"] = np.full(1, 3e38, np.float32)
    arrays["output_weight"][:] = 2.0
    frames = np.full((2, 1), 3e38, np.float32)
    options = {"activation": "relu", "beam": 4.0, "device": "cpu"}
    assert TransducerDecoder.from_arrays(arrays, 0, **options).decode([frames])[0].complete
    decoder = TransducerDecoder.from_arrays(arrays, 0, **options, ilm_scale=0.5)
    with pytest.raises(InputError, match=r"utterance 0, frame 0"):
        decoder.decode([frames])
    [found] = decoder.decode([frames], nbest=2, errors="return")
    assert (found.score, found.network_score, found.ilm_score, found.nbest) == (-INF, -INF, 0.0, [])
    assert found.to_dict()["network_score"] is None


OVERFLOWING = {  # activation, bias and output weights of networks whose internal model is beyond float32
    "a log-prob of it": ("relu", 3e38, [0, 1, -1]),
    "a sum of its addends": ("relu", 2.5e38, [0, 1, 0]),
}


def overflowing(kind):
    """(arrays, frames, options): networks whose logits are small on each frame, and huge without an encoder."""
    activation, bias, weights = OVERFLOWING[kind]
    arrays, _ = constant_network([1.0, 0.0, 0.0], 1)
    arrays["encoder_weight"][:] = -1
    arrays["prediction_bias"] = np.full(1, bias, np.float32)
    arrays["output_weight"][:, 0] = weights
    return arrays, np.full((3, 1), bias, np.float32), {"activation": activation, "beam": 4.0, "ilm_scale": 0.5}


@pytest.mark.parametrize("kind", OVERFLOWING)
def test_scores_that_overflow(kind):
    """A search whose best score is infinite ends with an error, and the decoder goes on."""
    arrays, frames, options = overflowing(kind)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", **options)
    with pytest.raises(InputError, match=r"network's output is not finite .* utterance 1, frame 0"):
        decoder.decode([frames[:0], frames])
    good, bad = decoder.decode([frames[:0], frames], nbest=2, errors="return")
    assert (good.score, len(good.nbest), bad.score, bad.nbest) == (0.0, 1, -INF, [])


# --- rules that are wrong, which a comparison must show ------------------------------------------------------------


def clamped(self, history, frame):
    """NeMo's clamp: 1 - p of the blank is never below 0.01."""
    found, log_probs = RIGHT(self, history, frame), self.networks.row(history, frame)[1]
    of_labels = np.log(-np.expm1(np.float64(log_probs[self.blank])))
    if of_labels < math.log(0.01):
        found[self.labels] += self.weight * np.float32(math.log(0.01) - of_labels)
    return found


def without_weight(self, history, frame):
    kept, self.weight = self.weight, np.float32(0)
    found = RIGHT(self, history, frame)
    self.weight = kept
    return found


def of_the_models_alone(self, history, frame):
    """The tree's factor does not count for the blank."""
    kept, self.weight = self.weight, self.weight - np.float32(self.models[1][1])
    found = RIGHT(self, history, frame)
    self.weight = kept
    return found


def blank_as_it_is(self, history, frame):
    found = RIGHT(self, history, frame)
    found[self.blank] = self.networks.row(history, frame)[1][self.blank]
    return found


RIGHT = fusion_oracle.BeamModels.scores
WRONG = {
    "ln(1 - p) is clamped": ("scores", clamped),
    "the blank has no weight": ("scores", without_weight),
    "a tree does not count for the blank": ("scores", of_the_models_alone),
    "the blank stays as it is": ("scores", blank_as_it_is),
    "the internal model has a blank": ("_internal", lambda self, history: beam_oracle.log_softmax(
        self.networks.internal(history))),
    "the internal model is that of no history": ("_internal", lambda self, history: INTERNAL(self, ())),
    "automata stay in their first states": ("state", lambda self, history: self.states[()]),
}  # fmt: skip
INTERNAL = fusion_oracle.BeamModels._internal


def searched(folder):
    """(model, options of the search, what the twin finds) of searches in which every rule counts, one by one.

    folder : where models are written
    """
    for seed in range(12):
        draw = random.Random(seed)
        durations, most, beam = draw.choice(DURATIONS), draw.choice([2, 4, 6]), draw.choice([3.0, INF])
        shape = {"tokens": 5, "durations": len(durations or ()), "blank_bias": draw.choice([1.0, 5.0])}
        arrays = random_arrays(seed, **shape, **draw.choice(PREDICTIONS))
        frames, max_symbols = random_frames(seed, 7), draw.choice([1, 3])
        given, tree, models = drawn_models(folder, seed, 5, 0)
        given |= {"durations": durations, "max_symbols": max_symbols, "beam": beam, "max_hypotheses": most}
        twin = decode(arrays, frames, boost=tree, **given)
        yield model_of(arrays, frames, 0, durations, max_symbols, models), beam, most, entries_of(twin)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    return list(searched(tmp_path_factory.mktemp("lm")))


def differing(compared):
    """Whether the law and the twin differ somewhere."""

    def found(model, *rest):
        model.models.states = {(): model.models.states[()]}
        return wanted(beam_oracle.search(model, *rest), model.durations)

    return any(found(*searched) != twin for *searched, twin in compared)


def test_no_rule_is_wrong(compared):
    assert not differing(compared)


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_seen(compared, monkeypatch, rule):
    name, wrong = WRONG[rule]
    monkeypatch.setattr(fusion_oracle.BeamModels, name, wrong)
    assert differing(compared)
