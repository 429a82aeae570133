"""Scores that speech without the phrases gives: what they promise, what they keep, and bad input."""

import math

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Graph, GraphError, SymbolTable
from tests.decode.random_graphs import random_log_probs
from tests.decode.test_streams import GRAPH

BATCH = [random_log_probs(seed, 8, 12) for seed in range(120)]


def decoder(**options):
    return CtcDecoder(GRAPH, device="cpu", **{"beam": 16.0, "max_active": 60, "threads": 1} | options)


def unsaid(count=8):
    """Words that the decoder writes, but seldom, so that a boost has something to do wrong."""
    written = {GRAPH.word_symbols[i] for i in np.unique(GRAPH.words).tolist() if i}
    said = [word for one in decoder().decode(BATCH) for word in one.text.split()]
    return sorted(written, key=lambda word: (said.count(word), word))[:count]


def share(phrases, boost):
    """Of the utterances with more of the phrases than without a boost, counted word by word."""

    def number(text, phrase):
        said, wanted = text.split(), phrase.split()
        return sum(said[at : at + len(wanted)] == wanted for at in range(len(said)))

    pairs = zip(decoder().decode(BATCH), decoder().decode(BATCH, boost=boost), strict=True)
    wrong = [any(number(now.text, p) > number(then.text, p) for p in phrases) for then, now in pairs]
    return sum(wrong) / len(wrong)


@pytest.mark.parametrize("false_alarms", [0.05, 0.1, 0.2, 0.4])
def test_the_largest_scores_that_keep_to_the_share(false_alarms):
    phrases = unsaid()
    found = Boost(phrases).calibrate(decoder(), BATCH, false_alarms=false_alarms)
    assert list(found.phrases) == phrases
    (score,) = set(found.phrases.values())
    assert 0.0 < score < 8.0 and (8 * score).is_integer()
    assert share(phrases, found) <= false_alarms < share(phrases, Boost(phrases, score + 1 / 8))


def test_one_utterance_and_what_is_no_graph():
    boost = Boost(unsaid())
    assert boost.calibrate(decoder(), BATCH[0]).phrases == boost.calibrate(decoder(), BATCH[:1]).phrases
    for method in boost.unknown, boost.new_words, boost.compiled:
        with pytest.raises(TypeError, match=r"^graph: expected .*, got CtcDecoder; give its graph$"):
            method(decoder())


def test_more_false_alarms_allow_larger_scores_and_longer_lists_smaller_ones():
    def score(phrases, false_alarms):
        return max(Boost(phrases).calibrate(decoder(), BATCH, false_alarms=false_alarms).phrases.values())

    words = unsaid(20)
    by_share = [score(words[:8], each) for each in (0.05, 0.1, 0.2, 0.4)]
    assert by_share == sorted(by_share) and by_share[0] < by_share[-1]
    assert score(words, 0.2) < score(words[:2], 0.2)


def test_scores_keep_their_ratios_and_negative_ones_stay():
    one, two, three, bad = unsaid(4)
    boost = Boost({one: 1.0, f"{two} {three}": 3.0, "absent": 2.0, bad: -1.5}, depth_scaling=2.0)
    with pytest.warns(UserWarning, match="1 of 4 phrases is left out") as warned:
        found = boost.calibrate(decoder(), BATCH, false_alarms=0.05)
    assert len(warned) == 1
    largest = found.phrases[f"{two} {three}"]
    assert (8 * largest).is_integer() and largest > 0
    wanted = {one: largest / 3, f"{two} {three}": largest, "absent": 2 * largest / 3, bad: -1.5}
    assert found.phrases == pytest.approx(wanted, abs=1 / 1024)
    assert found.phrases[bad] == -1.5 and found.depth_scaling == 2.0
    assert boost.phrases[one] == 1.0  # as it was


def two_words(*margins):
    """A graph that writes one of two words, and utterances in which the first is better by so much."""
    arcs = [(0, 1, word, word, 0.0) for word in (1, 2)]
    graph = Graph.from_arcs(arcs, start=0, finals={1: 0.0}, num_states=2, num_columns=2)
    graph = Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", "one", "other"])})
    return graph, [np.array([[0.0, -margin]], np.float32) for margin in margins]


def test_scores_by_hand():
    graph, speech = two_words(2.3, 4.1, 6.2, 9.0)
    one = CtcDecoder(graph, device="cpu", beam=12.0)
    for false_alarms, wanted in ((0.0, 2.25), (0.24, 2.25), (0.25, 4.0), (0.5, 6.0), (0.75, 6.0)):
        found = Boost(["other"]).calibrate(one, speech, false_alarms=false_alarms)
        assert found.phrases == {"other": wanted}
    assert Boost(["other"]).calibrate(one, speech, false_alarms=0.5, largest=8.3).phrases == {"other": 6.125}


def test_what_is_said_without_a_boost_is_no_false_alarm():
    graph, speech = two_words(3.0, 3.0)
    for options, largest, wanted in (({}, None, 8.5), ({}, 3.3, 3.25), ({"beam": math.inf}, 5.0, 5.0)):
        one = CtcDecoder(graph, device="cpu", **options)
        assert [hypothesis.text for hypothesis in one.decode(speech)] == ["one", "one"]
        assert Boost(["one"]).calibrate(one, speech, false_alarms=0.0, largest=largest).phrases == {"one": wanted}


def test_batches_and_lengths_are_those_of_decode():
    phrases = unsaid()
    padded = np.stack([np.pad(frames, ((0, 3), (0, 0))) for frames in BATCH])
    wanted = Boost(phrases).calibrate(decoder(), BATCH, false_alarms=0.05).phrases
    assert Boost(phrases).calibrate(decoder(threads=2), padded, [8] * len(BATCH), false_alarms=0.05).phrases == wanted


def test_bad_input_is_refused():
    words = unsaid()
    boost = Boost(words)
    for error, message, arguments in (
        (TypeError, "decoder: expected an arcbeam.CtcDecoder, got Graph", {"decoder": GRAPH}),
        (ValueError, "false_alarms: expected a share of the utterances, from 0 to below 1, got 1.0",
         {"false_alarms": 1.0}),
        (ValueError, "false_alarms: .* got -0.1", {"false_alarms": -0.1}),
        (ValueError, "false_alarms: .* got nan", {"false_alarms": math.nan}),
        (TypeError, "false_alarms: expected a number from 0 to below 1, got str", {"false_alarms": "1 %"}),
        (ValueError, "largest: expected a number from 0.125 to 1000, got 0.1", {"largest": 0.1}),
        (ValueError, "largest: expected a number from 0.125 to 1000, got 2000", {"largest": 2000}),
        (ValueError, "largest: .* got nan", {"largest": math.nan}),
        (ValueError, "largest: expected a number of your own, because the decoder's beam is infinite",
         {"decoder": decoder(beam=math.inf)}),
        (ValueError, "largest: expected a number from 0.125", {"decoder": decoder(beam=0.2)}),
        (ValueError, "log_probs: expected at least one utterance, got none", {"log_probs": []}),
        (ValueError, "log_probs: expected finite values", {"log_probs": [np.full((4, 12), np.nan, np.float32)]}),
    ):  # fmt: skip
        given = {"decoder": decoder(), "log_probs": BATCH} | arguments
        with pytest.raises(error, match=message):
            boost.calibrate(**given)
    for phrases in ({words[0]: -1.0}, {words[0]: 0.0}, {}):
        with pytest.raises(ValueError, match=r"expected at least one phrase with a score above 0 .* got none of"):
            Boost(phrases).calibrate(decoder(), BATCH)
    with pytest.raises(ValueError, match="got none of 1"), pytest.warns(UserWarning, match="left out"):
        Boost(["absent"]).calibrate(decoder(), BATCH)
    with pytest.raises(GraphError, match="no word symbols"):
        boost.calibrate(CtcDecoder(Graph(**{**GRAPH.fields(), "word_symbols": None}), device="cpu"), BATCH)


def test_phrases_that_no_score_keeps_silent():
    graph, speech = two_words(0.1, 5.0)
    message = "with scores of 0.125 at most the share of utterances with a false alarm is 0.5, expected at most 0.01"
    with pytest.raises(ValueError, match=message):
        Boost(["other"]).calibrate(CtcDecoder(graph, device="cpu"), speech)
