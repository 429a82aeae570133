"""Results of streams compared with those of decoding each sentence as a whole."""

import pytest

from arcbeam.words import moved
from tests.decode.endpoint_oracle import sentences
from tests.decode.equality import same
from tests.decode.lattices import packed
from tests.decode.moving import REQUESTED, rounds

OF_STREAMS = ("interim_answers", "posteriors")  # what no decode of the whole has
PARTS = (
    "acoustic_scores", "graph_scores", "rescoring_scores", "boost_scores", "final_scores", "final_rescoring_scores",
)  # fmt: skip


def check(finals, wholes, firsts=None):
    """That results of streams are the wholes, with all that was requested; `firsts` are the frames before them."""
    for final, whole, first in zip(finals, wholes, firsts or [0] * len(finals), strict=True):
        shift = final._results.frame_shift
        assert final.words == moved(whole.words, first, shift)
        assert [final.lattice is None, final.nbest is None, final.mbr is None] == [
            whole.lattice is None, whole.nbest is None, whole.mbr is None,
        ]  # fmt: skip
        if whole.lattice is not None:
            check_lattice(final.lattice, whole.lattice, first, shift)
        for one, other in zip(final.nbest or [], whole.nbest or [], strict=True):
            for name in ("text", "score", "posterior", "graph_score", "rescoring_score", "boost_score"):
                assert getattr(one, name) == getattr(other, name), name
            assert one.arcs.tobytes() == other.arcs.tobytes()
            assert one.words == moved(other.words, first, shift)
        if whole.nbest is not None:
            assert (final.nbest.is_all, final.nbest.truncated) == (whole.nbest.is_all, whole.nbest.truncated)
        assert (final.confidence, final.confidence_truncated) == (whole.confidence, whole.confidence_truncated)
        assert final.sausage == whole.sausage
        if whole.mbr is not None:
            check_mbr(final, whole, first, shift)
        for name in ("frame_confidence", "token_confidence", "word_confidence"):
            values, wanted = getattr(final, name), getattr(whole, name)
            assert values is wanted is None or values.tobytes() == wanted.tobytes(), name
        assert (final.labels is None) == (whole.labels is None)
        for label, other in zip(final.labels or [], whole.labels or [], strict=True):
            begins, ends = other.start_frame + first, other.end_frame + first
            seconds = (None, None) if shift is None else (begins * shift, ends * shift)
            assert label == (other.label, begins, ends, *seconds, other.confidence)
        if first == 0:
            said = final.to_dict()
            assert {name: said[name] for name in whole.to_dict()} == whole.to_dict()


def check_lattice(found, wanted, first, shift):
    assert packed(found._arrays) == packed(wanted._arrays)
    for name in (*PARTS, "steps"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes(), name
    if shift is not None:
        assert found.times.tolist() == [(first + step) * shift for step in wanted.steps.tolist()]
    check_mbr(found, wanted, first, shift)
    check_mbr(found.prune(1.0), wanted.prune(1.0), first, shift)
    assert [entry.words for entry in found.nbest(2)] == [moved(entry.words, first, shift) for entry in wanted.nbest(2)]


def check_mbr(found, wanted, first, shift):
    assert (found.mbr.text, found.mbr.errors) == (wanted.mbr.text, wanted.mbr.errors)
    for word, other in zip(found.mbr.words, wanted.mbr.words, strict=True):
        assert (word.word, word.confidence) == (other.word, other.confidence)
        assert (word.start_frame, word.end_frame) == (first + other.start_frame, first + other.end_frame)
        if shift is not None:
            assert (word.start, word.end) == pytest.approx((first * shift + other.start, first * shift + other.end))


def check_sentences(found, wanted, decoder, log_probs, boost=None, requested=None):
    """That these final results are those of the sentences that are wanted, each decoded as a whole."""
    if wanted[-1][2] is not None and len(found) > len(wanted):  # the end came after a reset: nothing followed
        [nothing] = decoder.decode([log_probs[:0]], boost=boost)  # epsilon arcs may write words even then
        assert (found[-1].text, found[-1].num_frames) == (nothing.text, found[-1].first_frame)
        found = found[:-1]
    assert [(final.first_frame, final.num_frames, final.endpoint) for final in found] == wanted
    outputs = {name: value for name, value in (requested or {}).items() if name not in OF_STREAMS}
    for final, (first, end, _) in zip(found, wanted, strict=True):
        [whole] = decoder.decode([log_probs[first:end]], boost=boost, **outputs)
        assert final.is_final and final.num_stable == len(final.words)
        assert (final.arcs.tobytes(), final.score, final.text) == (whole.arcs.tobytes(), whole.score, whole.text)
        assert (final.reached_final, final.complete) == (whole.reached_final, whole.complete)
        assert final.rescoring_score == whole.rescoring_score
        check([final], [whole], [first])
        if first == 0:
            same([final], [whole])
            assert final.boosts == whole.boosts


def conform(decoders, batch, rng, boosts=None, most=9, endpoint=None, requested=REQUESTED, **how):
    """`rounds` of streams, each sentence of which ends as the oracle says, with the bytes of its frames as a whole."""
    pairs = rounds(decoders, batch, rng, boosts, most, endpoint, requested, **how)
    for pair in pairs:
        wanted = [(0, len(pair.log_probs), None)]
        if pair.endpoint is not None:
            wanted = sentences(decoders[-1], pair.log_probs, pair.endpoint, pair.boost)
        check_sentences(pair.finals, wanted, decoders[-1], pair.log_probs, pair.boost, pair.requested)
    return pairs
