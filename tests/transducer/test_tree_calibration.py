"""Scores of boosting trees that speech without the phrases gives: what they promise, what they keep, and bad input."""

import math

import numpy as np
import pytest

from arcbeam import BoostingTree, CtcDecoder, TransducerDecoder
from tests.decode.test_streams import GRAPH
from tests.transducer.networks import random_arrays, random_frames

PIECES = [f"▁{c}" if c in "abcdefg" else c for c in "abcdefghijklmnopqrst"]
BATCH = [random_frames(seed, 12) for seed in range(100)]


def decoder(**options):
    arrays = random_arrays(6, tokens=21, blank=20, blank_bias=3.0)
    return TransducerDecoder.from_arrays(arrays, 20, **{"tokenizer": PIECES, "device": "cpu", "threads": 1} | options)


def unsaid(decoder, count=6):
    """Words of two pieces that are seldom written, so that a tree has something to do wrong."""
    said = " ".join(one.text for one in decoder.decode(BATCH)).split()
    words = [first + second for first in "abcdefg" for second in "hijkl"]
    return sorted(words, key=lambda word: (said.count(word), word))[:count]


def share(decoder, phrases, tree):
    """Of the utterances with more of the words than without a tree."""
    pairs = zip(decoder.decode(BATCH), decoder.decode(BATCH, boost=tree), strict=True)
    return np.mean([any(b.text.split().count(w) > a.text.split().count(w) for w in phrases) for a, b in pairs])


@pytest.mark.parametrize("beam", [None, 4.0])
@pytest.mark.parametrize("false_alarms", [0.05, 0.2])
def test_the_largest_scores_that_keep_to_the_share(beam, false_alarms):
    one = decoder(beam=beam)
    phrases = unsaid(one)
    tree = BoostingTree(phrases, PIECES, context_score=0.3, depth_scaling=1.5, unk_score=-0.125)
    found = tree.calibrate(one, BATCH, false_alarms=false_alarms)
    assert list(found.phrases) == phrases and found.tokens == tree.tokens
    (score,) = set(found.phrases.values())
    assert 0.0 < score < 8.0 and (8 * score).is_integer()
    larger = BoostingTree(phrases, PIECES, context_score=score + 1 / 8, depth_scaling=1.5, unk_score=-0.125)
    assert share(one, phrases, found) <= false_alarms < share(one, phrases, larger)
    same = BoostingTree(phrases, PIECES, context_score=score, depth_scaling=1.5, unk_score=-0.125)
    assert found.digest == same.digest != tree.digest
    assert set(tree.phrases.values()) == {0.3}


def test_own_scores_keep_their_ratios_and_negative_ones_stay():
    one = decoder()
    first, second, third = unsaid(one, 3)
    found = BoostingTree({first: 2.0, second: 1.0, third: -3.0, (19, 19): 0.0}, PIECES).calibrate(
        one, BATCH, false_alarms=0.2, largest=3.5
    )
    assert found.phrases[first] == 2 * found.phrases[second] > 0
    assert (found.phrases[third], found.phrases[19, 19]) == (-3.0, 0.0)
    assert (8 * found.phrases[first]).is_integer() and found.phrases[first] <= 3.5


def test_phrases_are_found_by_tokens_where_there_is_no_text():
    """A phrase of tokens within a longer word counts; with text, a phrase of text counts as whole words alone."""
    without_text, with_text = decoder(tokenizer=None), decoder()
    phrases = [tuple(map(PIECES.index, ("▁" + word[0], word[1]))) for word in unsaid(with_text)]
    by_tokens = BoostingTree(phrases, vocab_size=20)
    found = [by_tokens.calibrate(one, BATCH, false_alarms=0.2) for one in (without_text, with_text)]
    assert found[0].digest == found[1].digest
    by_words = BoostingTree(unsaid(with_text), PIECES)
    assert by_words.calibrate(without_text, BATCH, false_alarms=0.2).digest == found[0].digest
    of_words = by_words.calibrate(with_text, BATCH, false_alarms=0.2)
    assert max(of_words.phrases.values()) > max(found[0].phrases.values())


def test_the_largest_is_returned_where_nothing_goes_wrong():
    one = decoder()
    found = BoostingTree({(19,): 1.0}, vocab_size=20).calibrate(
        one, [np.zeros((0, 7), np.float32)], false_alarms=0.0, largest=6.3
    )
    assert found.phrases == {(19,): 6.25}


def test_bad_input_is_refused():
    one = decoder()
    tree = BoostingTree(unsaid(one), PIECES)
    for error, message, arguments in (
        (TypeError, "decoder: expected an arcbeam.TransducerDecoder, got CtcDecoder",
         {"decoder": CtcDecoder(GRAPH, device="cpu")}),
        (ValueError, "false_alarms: expected a share of the utterances, from 0 to below 1, got 1.0",
         {"false_alarms": 1.0}),
        (ValueError, "false_alarms: .* got nan", {"false_alarms": math.nan}),
        (TypeError, "false_alarms: expected a number from 0 to below 1, got str", {"false_alarms": "1 %"}),
        (ValueError, "largest: expected a number from 0.125 to 1000, got 0.1", {"largest": 0.1}),
        (ValueError, "largest: expected a number from 0.125 to 1000, got 2000", {"largest": 2000}),
        (ValueError, "encoder_output: expected at least one utterance, got none", {"encoder_output": []}),
        (ValueError, "expected finite values", {"encoder_output": [np.full((4, 7), np.nan, np.float32)]}),
    ):  # fmt: skip
        given = {"decoder": one, "encoder_output": BATCH} | arguments
        with pytest.raises(error, match=message):
            tree.calibrate(**given)
    for phrases in ({"ah": -1.0}, {"ah": 0.0}, {}):
        with pytest.raises(ValueError, match=r"expected at least one phrase with a score above 0, got none of"):
            BoostingTree(phrases, PIECES).calibrate(one, BATCH)
    with pytest.raises(ValueError, match="expected a tree of 20 or 21 tokens, got one of 7"):
        BoostingTree([(1,)], vocab_size=7).calibrate(one, BATCH)
    with pytest.raises(
        ValueError, match=r"^BoostingTree\.calibrate: with scores of 0\.125 at most the share of utterances"
    ):
        BoostingTree([(t,) for t in range(0, 20, 2)], vocab_size=20).calibrate(one, BATCH, false_alarms=0.0)
    with pytest.raises(ValueError, match="phrases: expected scores of the 6 phrases of the tree, and of no others"):
        tree.with_scores({"ah": 1.0})
