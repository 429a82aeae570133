"""Beam search of transducers: the twin against law 12 in Python, and against all paths."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.transducer._transducer import available_kernels
from tests.hypothesis_examples import examples
from tests.transducer import beam_oracle
from tests.transducer.beam_oracle import Counts
from tests.transducer.beam_searches import DURATIONS, INF, PREDICTIONS, decode, entries_of, model_of, wanted
from tests.transducer.networks import on_unit, random_arrays, random_frames


@st.composite
def searches(draw):
    """(arrays, frames, blank, options of the search, options of the networks)."""
    tokens = draw(st.integers(1, 7))
    blank = draw(st.sampled_from([0, tokens - 1]))
    durations = draw(st.sampled_from(DURATIONS))
    seed = draw(st.integers(0, 2**32 - 1))
    shape = {"tokens": tokens, "durations": len(durations or ()), "blank": blank, **draw(st.sampled_from(PREDICTIONS))}
    arrays = random_arrays(seed, **shape, blank_bias=draw(st.sampled_from([0.0, 1.0, 3.0])))
    options = {
        "durations": durations,
        "max_symbols": draw(st.sampled_from([1, 2, 10])),
        "beam": draw(st.sampled_from([0.5, 2.0, 6.0, INF])),
        "max_hypotheses": draw(st.sampled_from([1, 2, 4, 8])),
        "merge": draw(st.sampled_from(["sum", "max"])),
        "length_power": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "settle_frames": draw(st.sampled_from([None, None, 1, 2, 4])),
    }
    network = {
        "activation": draw(st.sampled_from(["tanh", "relu"])),
        "relu": draw(st.booleans()),
        "precision": draw(st.sampled_from(["float32", "bfloat16"])),
    }
    return arrays, random_frames(seed, draw(st.integers(0, 7))), blank, options, network


@settings(max_examples=examples(60), deadline=None)
@given(case=searches())
def test_the_twin_obeys_the_law(case):
    """To the byte, pruned or not; and no score is above the sum over all paths."""
    arrays, frames, blank, options, network = case
    durations, max_symbols, *rest = options.values()
    model = model_of(arrays, frames, blank, durations, max_symbols, **network)
    expected = wanted(beam_oracle.search(model, *rest), durations)
    for kernels in available_kernels():
        with on_unit(kernels):
            found = decode(arrays, frames, blank, **options, **network)
        assert entries_of(found) == expected
    for tokens, *_, score in expected:
        assert score <= beam_oracle.full_sum(model, tokens) + 1e-4


@pytest.mark.parametrize("durations", DURATIONS, ids=str)
@pytest.mark.parametrize("merge", ["sum", "max"])
@pytest.mark.parametrize("shape", PREDICTIONS, ids=lambda shape: "-".join(map(str, shape.values())))
def test_all_paths_are_found_where_nothing_is_pruned(durations, merge, shape):
    """Histories and scores are those of all (frame, label, duration) paths, in float64."""
    for seed, max_symbols, frames in [(1, 1, 4), (2, 2, 3)]:
        arrays = random_arrays(seed, tokens=3, durations=len(durations or ()), **shape)
        x = random_frames(seed, frames)
        model = model_of(arrays, x, 0, durations, max_symbols)
        paths = beam_oracle.every_history(model, merge)
        found = decode(
            arrays, x, durations=durations, max_symbols=max_symbols, beam=INF, max_hypotheses=4096, merge=merge
        )
        scores = {tuple(one.tokens.tolist()): one.score for one in found.nbest}
        assert scores.keys() == paths.keys()
        assert len(scores) == len(found.nbest) > 2
        for history, score in scores.items():
            assert score == pytest.approx(paths[history], abs=2e-5)
            if merge == "sum":
                assert score == pytest.approx(beam_oracle.full_sum(model, history), abs=2e-5)
        if merge == "sum":
            assert math.fsum(math.exp(score) for score in scores.values()) == pytest.approx(1, abs=2e-5)
            assert math.fsum(one.posterior for one in found.nbest) == pytest.approx(1)
        assert [one.score for one in found.nbest] == sorted(scores.values(), reverse=True)


def test_a_hand_made_example():
    """Two frames, one label: it is written on the first, on the second, or not at all."""
    odds = [0.25, 3.0]  # of the label against the blank, on each frame
    arrays = {
        "embedding": np.zeros((1, 2, 1), np.float32),  # so that the labels before do not matter
        "encoder_weight": np.ones((1, 1), np.float32),
        "encoder_bias": np.array([5], np.float32),  # keeps the ReLU out of the way
        "prediction_weight": np.zeros((1, 1), np.float32),
        "output_weight": np.array([[0], [1]], np.float32),
        "output_bias": np.array([5, 0], np.float32),
    }
    frames = np.log(np.array(odds, np.float32))[:, None]
    label, blank = [odd / (1 + odd) for odd in odds], [1 / (1 + odd) for odd in odds]
    options = {"activation": "relu", "max_symbols": 1, "beam": 20.0}
    found = {tuple(one.tokens.tolist()): one for one in decode(arrays, frames, **options).nbest}
    once = label[0] * blank[1] + blank[0] * label[1]
    probs = {(): blank[0] * blank[1], (1,): once, (1, 1): label[0] * label[1]}
    assert {history: one.score for history, one in found.items()} == pytest.approx(
        {history: math.log(p) for history, p in probs.items()}, abs=1e-5
    )
    assert {history: one.posterior for history, one in found.items()} == pytest.approx(probs, abs=1e-5)
    assert found[1,].frames.tolist() == [1]  # the stronger of its two paths
    assert decode(arrays, frames, **options).tokens.tolist() == [1]
    largest = {tuple(one.tokens.tolist()): one.score for one in decode(arrays, frames, **options, merge="max").nbest}
    assert largest[1,] == pytest.approx(math.log(blank[0] * label[1]), abs=1e-5)


def test_ties():
    """Labels with equal logits: the smaller tokens, and among equal scores the first arrival."""
    arrays = random_arrays(1, tokens=9, layers=0, blank_bias=-1.0)
    for name in ("output_weight", "output_bias"):
        arrays[name][2:] = arrays[name][1]
    arrays["embedding"][:, 1:] = arrays["embedding"][:, :1]  # no label changes what comes after
    frames = random_frames(1, 3)
    for most in (1, 2, 3, 5):
        options = {"max_symbols": 2, "beam": INF, "max_hypotheses": most}
        found = decode(arrays, frames, **options)
        model = model_of(arrays, frames, 0, None, 2)
        assert entries_of(found) == wanted(beam_oracle.search(model, INF, most), None)
        assert {token for one in found.nbest for token in one.tokens.tolist()} <= set(range(1, most + 1))


@pytest.mark.parametrize("max_symbols", [1, 2, 10])
def test_max_symbols_are_reached(max_symbols):
    arrays = random_arrays(5, tokens=4, blank_bias=-9.0)
    frames = random_frames(5, 3)
    found = decode(arrays, frames, max_symbols=max_symbols, beam=3.0, max_hypotheses=3)
    assert np.bincount(found.frames).tolist() == [max_symbols] * 3
    counts = Counts()
    model = model_of(arrays, frames, 0, None, max_symbols)
    assert entries_of(found) == wanted(beam_oracle.search(model, 3.0, 3, counts=counts), None)
    assert max(depth for _, depth, _ in counts.steps) == max_symbols - 1


# --- rules that are wrong, which a comparison must show ------------------------------------------------------------


def arrivals_overtake(buckets, most, context):
    scores = sorted((one.score for bucket in buckets.values() for one in bucket.found.values()), reverse=True)
    return scores[most - 1] if len(scores) >= most else np.float32(-INF)


def met_at_once(after):
    def wrong(self, *step):
        frame, depth = after(self, *step)
        return min(frame, self.frames), depth

    return wrong


def one_cap_for_all_durations(expand):
    def wrong(model, *rest):
        found, bound = expand(model, *rest)
        labels = sorted((one for one in found if one[2] != model.blank), key=lambda one: -one[0])[: rest[-1]]
        return [one for one in found if one[2] == model.blank or one in labels], bound

    return wrong


def the_last_of_equal_paths(_):
    def add(self, one):
        there = self.found.get(one.history, one)
        kept = one if one.path >= there.path else there
        score = one.score if there is one else beam_oracle.merged(there.score, one.score, self.sums)
        self.found[one.history] = beam_oracle.replace(kept, score=score)

    return add


WRONG = {
    "a frame is searched to its last depth": ("overtaken", lambda _: lambda buckets, *rest: np.float32(-INF)),
    "arrivals overtake, not histories": ("overtaken", lambda _: arrivals_overtake),
    "sums are maxima": ("merged", lambda merged: lambda a, b, sums: merged(a, b, False)),
    "sums are rounded otherwise": ("merged", lambda _: lambda a, b, sums: np.float32(
        np.logaddexp(np.float64(a), np.float64(b)))),
    "what has passed over sets no bound": ("expand", lambda expand: lambda model, live, frame, buckets, *rest: expand(
        model, live, frame, {}, *rest)),
    "one cap for all durations": ("expand", one_cap_for_all_durations),
    "the last of equal paths": ("Bucket.add", the_last_of_equal_paths),
    "the last frames meet first": ("meeting", lambda meeting: lambda buckets, sums: meeting(
        {-frame: bucket for frame, bucket in buckets.items()}, sums)),
    "what passes the end meets there at once": ("Model.after", met_at_once),
    "labels settle a frame later": ("settled", lambda settled: lambda buckets, first: settled(buckets, first - 1)),
    "one label more on a frame": ("Model.after", lambda after: lambda self, *step: after(
        beam_oracle.replace(self, max_symbols=self.max_symbols + 1), *step)),
}  # fmt: skip


def searched():
    """(model, options of the search, what the twin finds) of searches in which every rule counts, one by one."""
    for seed in range(30):
        draw = random.Random(seed)
        durations, most, beam = draw.choice(DURATIONS), draw.choice([2, 4, 6]), draw.choice([3.0, INF])
        arrays = random_arrays(seed, tokens=5, durations=len(durations or ()), **draw.choice(PREDICTIONS))
        if seed % 4 == 3:  # all tokens are as likely, so that paths are equal
            arrays["output_weight"][:], arrays["output_bias"][:] = 0, 0
        frames, max_symbols = random_frames(seed, 8), draw.choice([1, 3])
        options = {"beam": beam, "max_hypotheses": most, "settle_frames": draw.choice([None, 1, 3])}
        twin = decode(arrays, frames, durations=durations, max_symbols=max_symbols, **options)
        yield model_of(arrays, frames, 0, durations, max_symbols), options, entries_of(twin)


@pytest.fixture(scope="module")
def compared():
    return list(searched())


@pytest.mark.parametrize("seed", range(8))
def test_the_work_that_is_counted(seed):
    """A history that is live at several depths of a frame is one row."""
    durations, beam = DURATIONS[seed % len(DURATIONS)], [2.0, INF][seed % 2]
    arrays = random_arrays(seed, tokens=5, durations=len(durations or ()), **PREDICTIONS[seed % 4])
    batch = [random_frames(seed + i, frames) for i, frames in enumerate((8, 0, 5))]
    decoder = TransducerDecoder.from_arrays(
        arrays, 0, durations=durations, max_symbols=3, beam=beam, max_hypotheses=4, device="cpu"
    )
    decoder.decode(batch)
    for frames, work in zip(batch, decoder._search.engine.work(), strict=True):
        counts, rows, runs = Counts(), set(), 0
        beam_oracle.search(model_of(arrays, frames, 0, durations, 3), beam, 4, counts=counts)
        for frame, _, histories in counts.steps:
            tested = {(history, frame) for history in histories}
            runs += not tested <= rows
            rows |= tested
        searched = [len(histories) for _, depth, histories in counts.steps if depth == 0]
        assert work == {"frames": len(searched), "live": sum(searched), "runs": runs, "rows": len(rows)}


def differing(compared):
    """Whether the law and the twin differ somewhere."""
    return any(
        wanted(
            beam_oracle.search(
                model, options["beam"], options["max_hypotheses"], settle_frames=options["settle_frames"]
            ),
            model.durations,
        )
        != twin
        for model, options, twin in compared
    )


def test_no_rule_is_wrong(compared):
    assert not differing(compared)


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_seen(compared, monkeypatch, rule):
    beam_oracle.put_wrong(monkeypatch, *WRONG[rule])
    assert differing(compared)
