"""The posterior scale that fits: cross entropy, alignments, and what a scale found on references says."""

import math
import pickle
import warnings

import numpy as np
import pytest

import arcbeam
from arcbeam import CtcDecoder, Graph
from arcbeam.ctc.confidence.calibration import normalised_cross_entropy, right_words
from tests.decode.random_graphs import random_log_probs
from tests.decode.test_streams import GRAPH

BATCH = [random_log_probs(seed, 8, 12) for seed in range(300)]


def decoder(**options):
    return CtcDecoder(GRAPH, device="cpu", beam=6.0, max_active=60, lattice_beam=5.0, **options)


def references():
    """Words drawn from the decoder's own n-best lists with their posteriors at scale 0.3."""
    random = np.random.default_rng(3)
    drawn = []
    for found in decoder(posterior_scale=0.3).decode(BATCH, nbest=20_000):
        assert found.nbest.is_all
        weights = np.array([entry.posterior for entry in found.nbest])
        drawn.append(found.nbest[int(random.choice(len(weights), p=weights / weights.sum()))].text)
    return drawn


@pytest.mark.parametrize(
    ("reference", "hypothesis", "right"),
    [
        ("a b c", "a b c", [1, 1, 1]),
        ("a b c", "a x c", [1, 0, 1]),
        ("a b c", "a c", [1, 1]),
        ("a c", "a b c", [1, 0, 1]),
        ("", "a", [0]),
        ("a", "", []),
        ("a a b", "a b b", [1, 0, 1]),
        ("b a", "a b", [0, 0]),
    ],
)
def test_words_are_right_or_wrong_by_the_alignment(reference, hypothesis, right):
    assert right_words(reference.split(), hypothesis.split()).astype(int).tolist() == right


def test_alignments_have_the_fewest_errors():
    jiwer = pytest.importorskip("jiwer", reason="the same by a package")
    random = np.random.default_rng(0)
    for _ in range(200):
        one, other = (random.choice(list("abc"), random.integers(1, 9)).tolist() for _ in range(2))
        counts = jiwer.process_words(" ".join(one), " ".join(other))
        # Among the alignments of fewest errors the number of right words is not unique, but it is bounded by these.
        right = int(right_words(one, other).sum())
        errors = counts.substitutions + counts.insertions + counts.deletions
        assert max(len(one), len(other)) - right <= errors <= len(one) + len(other) - 2 * right


def test_cross_entropy_by_hand():
    right = np.array([True, True, True, False])
    assert normalised_cross_entropy(np.full(4, 0.75), right) == pytest.approx(0.0, abs=1e-12)
    assert normalised_cross_entropy(np.array([1.0, 1.0, 1.0, 0.0]), right) == pytest.approx(1.0, abs=1e-6)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) * 4
    expected = (entropy + 3 * math.log(0.9) + math.log(0.4)) / entropy
    assert normalised_cross_entropy(np.array([0.9, 0.9, 0.9, 0.6]), right) == pytest.approx(expected)
    assert -10 < normalised_cross_entropy(np.ones(4), right) < -1  # finite
    assert math.isnan(normalised_cross_entropy(np.ones(4), np.ones(4, bool)))


def test_the_scale_is_the_best_of_all():
    wanted = references()
    found = arcbeam.calibrate_confidence(decoder(), BATCH, wanted)
    labels = [
        right_words(reference.split(), one.text.split())
        for reference, one in zip(wanted, decoder().decode(BATCH), strict=True)
    ]

    def measure(scale):
        answers = decoder(posterior_scale=scale).decode(BATCH, confidence=True)
        values = np.array([word.confidence for one in answers for word in one.words])
        return normalised_cross_entropy(values, np.concatenate(labels))

    assert found.words == sum(map(len, labels))
    assert found.cross_entropy == measure(found.posterior_scale)
    assert found.cross_entropy_before == measure(None) < found.cross_entropy
    assert all(measure(scale) <= found.cross_entropy + 1e-4 for scale in np.geomspace(0.05, 4, 25))
    assert found.posterior_scale == pytest.approx(0.3, rel=0.25)  # that of the references
    assert found == arcbeam.calibrate_confidence(decoder(threads=2), BATCH, wanted)
    fitting = decoder(posterior_scale=found.posterior_scale)
    again = arcbeam.calibrate_confidence(fitting, BATCH, wanted)
    assert again.cross_entropy >= again.cross_entropy_before == found.cross_entropy


def test_lengths_of_a_padded_array():
    """What comes after an utterance is not listened to, be it speech."""
    wanted, lengths = references(), [3 + at % 6 for at in range(len(BATCH))]
    cut = [logp[:frames] for logp, frames in zip(BATCH, lengths, strict=True)]
    found = arcbeam.calibrate_confidence(decoder(), np.stack(BATCH), wanted, lengths=lengths)
    assert found == arcbeam.calibrate_confidence(decoder(), cut, wanted)


def test_references_in_another_order():
    """Some words are right by chance."""
    said = [one.text for one in decoder().decode(BATCH)]
    words = sum(len(text.split()) for text in said)
    first = next(at for at, text in enumerate(said) if text)
    shifted = [said[at].split()[0] if at == first else "none" for at in range(len(said))]
    with pytest.warns(
        UserWarning, match=rf"references: {words - 1:,} of {words:,} words are wrong: .* in the order of"
    ):
        arcbeam.calibrate_confidence(decoder(), BATCH, shifted)
    with warnings.catch_warnings(action="error"):
        arcbeam.calibrate_confidence(decoder(), BATCH, references())


def test_wrong_references():
    wanted = references()
    with pytest.raises(ValueError, match="references: expected one for each utterance, 300, got 299"):
        arcbeam.calibrate_confidence(decoder(), BATCH, wanted[1:])
    with pytest.raises(TypeError, match="references: expected a list of str, one an utterance, got 'w1 w2'"):
        arcbeam.calibrate_confidence(decoder(), BATCH, "w1 w2")
    with pytest.raises(TypeError, match="references: expected a list of str"):
        arcbeam.calibrate_confidence(decoder(), BATCH[:1], [None])
    with pytest.raises(TypeError, match=r"references: expected .*, got \{.*; give list\(references.values\(\)\)$"):
        arcbeam.calibrate_confidence(decoder(), BATCH, dict(zip(map(str, range(300)), wanted, strict=True)))
    with pytest.raises(ValueError, match=r"words that are all wrong; .*\(capitals\?\)"):
        arcbeam.calibrate_confidence(decoder(), BATCH, [text.upper() for text in wanted])
    with pytest.raises(TypeError, match="references: expected a list of str, one an utterance, got None"):
        arcbeam.calibrate_confidence(decoder(), BATCH, None)
    with pytest.raises(TypeError, match=r"decoder: expected .*CtcDecoder, got NoneType"):
        arcbeam.calibrate_confidence(None, BATCH, wanted)
    with pytest.raises(ValueError, match="expected speech in which the decoder finds words, got 0 utterances without"):
        arcbeam.calibrate_confidence(decoder(), [], [])
    said = [one.text for one in decoder().decode(BATCH)]
    with pytest.raises(ValueError, match="words that are all right; give more speech"):
        arcbeam.calibrate_confidence(decoder(), BATCH, said)
    with pytest.raises(ValueError, match="words that are all wrong; give more speech"):
        arcbeam.calibrate_confidence(decoder(), BATCH, [""] * len(BATCH))
    with pytest.raises(ValueError, match="expected a graph with symbols of words"):
        plain = CtcDecoder(Graph(**{**GRAPH.fields(), "word_symbols": None}), device="cpu")
        arcbeam.calibrate_confidence(plain, BATCH, wanted)


def test_the_default_follows_the_acoustic_scale():
    assert decoder(acoustic_scale=1.5).options.posterior_scale == 0.6 / 1.5
    assert decoder(acoustic_scale=1.5, posterior_scale=1.0).options.posterior_scale == 1.0
    loud = pickle.loads(pickle.dumps(decoder(acoustic_scale=2.0)))
    assert loud.options.posterior_scale == 0.3 and "posterior_scale" not in repr(loud)
    [found] = decoder(acoustic_scale=2.0).decode(BATCH[:1], nbest=3)
    [given] = decoder(acoustic_scale=2.0, posterior_scale=0.3).decode(BATCH[:1], nbest=3)
    assert [entry.posterior for entry in found.nbest] == [entry.posterior for entry in given.nbest]
