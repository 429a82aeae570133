"""Streams of transducers: chunks of any length, in any company, give the bytes of the whole; and the calls of CTC's."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import (
    Batcher,
    BoostingTree,
    CtcDecoder,
    InputError,
    Partial,
    Stream,
    TransducerDecoder,
    TransducerPartial,
    TransducerStream,
)
from arcbeam.ctc.streams._rounds import SentenceStream
from arcbeam.transducer.decoder import FrameLoopingDecoder
from tests.decode import test_streams as ctc
from tests.hypothesis_examples import examples
from tests.processes import of_a_child
from tests.transducer.arpas import lm_of, random_arpa
from tests.transducer.equality import same
from tests.transducer.networks import cases, random_arrays, random_frames

ARRAYS = random_arrays(4, blank=12, blank_bias=2.0)
PIECES = ["▁a", "b", "c", "▁d", "▁", "e", "<0xC3>", "<0xA9>", "f", "▁g", "h", "i"]
LENGTHS = (60, 0, 7, 1, 23)
BEAMS = pytest.mark.parametrize("options", [{}, {"beam": 3.0, "max_hypotheses": 4}], ids=["greedy", "beam"])
BATCH = [random_frames(i, frames) for i, frames in enumerate(LENGTHS)]
TREE = BoostingTree({(1, 2): 9.0, (6,): 3.0}, vocab_size=12)


def decoder(loop=TransducerDecoder, **options):
    return loop.from_arrays(
        ARRAYS, 12, **{"device": "cpu", "threads": 2, "frame_shift": 0.08, "tokenizer": PIECES, **options}
    )


def in_chunks(decoder, batch, rng, boosts, most=9):
    """The final results of streams that are decoded in random company, and all partial results on the way."""
    streams = [decoder.stream(boost=one) for one in boosts]
    at, partials = [0] * len(batch), [[] for _ in batch]
    while not all(stream.is_finished for stream in streams):
        waiting = [i for i, stream in enumerate(streams) if not stream.is_finished]
        chosen = rng.permutation(waiting)[: rng.integers(1, len(waiting) + 1)]
        ends = [at[i] + int(rng.integers(0, most)) for i in chosen]
        chunks = [batch[i][at[i] : end] for i, end in zip(chosen, ends, strict=True)]
        last = [bool(end >= len(batch[i]) and rng.random() < 0.7) for i, end in zip(chosen, ends, strict=True)]
        found = decoder.decode_chunks([streams[i] for i in chosen], chunks, last=last)
        for i, end, partial in zip(chosen, ends, found, strict=True):
            at[i] = min(end, len(batch[i]))
            assert partial.num_frames == streams[i].num_frames == at[i]
            assert streams[i].partial is partial
            partials[i].append(partial)
    return [stream.partial for stream in streams], partials


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"confidence": "entropy"},
        {"precision": "bfloat16", "loop": FrameLoopingDecoder},
        {"beam": 3.0},
        {"beam": 6.0, "settle_frames": 3},
        {"beam": 4.0, "merge": "max", "length_power": 0.5, "confidence": "entropy", "precision": "bfloat16"},
    ],
    ids=str,
)
@pytest.mark.parametrize("boosted", [False, True])
def test_chunks_give_the_bytes_of_the_whole(options, boosted):
    one = decoder(**options)
    boosts = [TREE if boosted and i % 2 else None for i in range(len(BATCH))]
    whole = one.decode(BATCH, boost=boosts)
    for seed in range(4):
        found, partials = in_chunks(one, BATCH, np.random.default_rng(seed), boosts)
        same(found, whole)
        assert [one.text for one in found] == [one.text for one in whole]
        assert [one.times.tolist() for one in found] == [one.times.tolist() for one in whole]
        for final, seen in zip(found, partials, strict=True):
            for partial in seen:
                settled = partial.tokens.tolist()[: partial._num_settled]
                assert settled == final.tokens.tolist()[: len(settled)]
                assert ("beam" in options) or len(settled) == len(partial.tokens)
                assert final.text.startswith(partial.stable_text)
                assert final.text.split()[: partial.num_stable] == partial.stable_text.split()
                assert final.words[: partial.num_stable] == partial.stable_words


@settings(max_examples=examples(30))
@given(case=cases(), seed=st.integers(0, 1000))
def test_any_network(case, seed):
    arrays, options, batch = case
    for beam in ({}, {"beam": 3.0, "max_hypotheses": 4}):
        one = TransducerDecoder.from_arrays(arrays, **options, **beam, device="cpu", threads=1)
        found, _ = in_chunks(one, batch, np.random.default_rng(seed), [None] * len(batch))
        same(found, one.decode(batch))


@pytest.mark.parametrize(
    "options",
    [{"beam": 3.0}, {"beam": 6.0, "max_hypotheses": 4, "length_power": 1.0}, {"beam": 6.0, "settle_frames": 5}],
    ids=str,
)
def test_each_result_is_that_of_the_frames_so_far(options):
    """With its list; what is stable never changes, times included."""
    one = decoder(**options, boosting_tree_alpha=0.1)
    for size in (1, 4, 60):
        stream, before = one.stream(boost=TREE, nbest=4), None
        for end in range(size, 61, size):
            partial = stream.decode_chunk(BATCH[0][end - size : end])
            [wanted] = one.decode([BATCH[0][:end]], boost=TREE, nbest=4)
            same([partial], [wanted])
            assert (partial.text, partial.words) == (wanted.text, wanted.words)
            assert [entry.text for entry in partial.nbest] == [entry.text for entry in wanted.nbest]
            assert before is None or partial.words[: before.num_stable] == before.stable_words
            before = partial
        same([stream.finish()], [wanted])
        assert isinstance(stream.partial, TransducerPartial) and len(wanted.nbest) > 1


def test_lists_are_those_that_the_stream_was_begun_with():
    one = decoder(beam=3.0)
    assert one.stream().decode_chunk(BATCH[0]).nbest is None
    stream = one.stream(nbest=3)
    assert [entry.text for entry in stream.partial.nbest] == [""]
    again = one.restore(stream.save())
    for each in (stream, again):
        assert len(each.decode_chunk(BATCH[0], last=True).nbest) == 3
        assert len(each.reset().nbest) == 1
    with pytest.raises(ValueError, match="nbest: expected at most max_hypotheses, which is 8, got 9"):
        one.stream(nbest=9)
    with pytest.raises(ValueError, match="nbest: expected a decoder with a beam"):
        decoder().stream(nbest=3)
    refused = one.decode_chunks([one.stream(nbest=2)], [BATCH[0] * np.nan], errors="return")[0]
    assert (refused.nbest, refused.score, refused.posterior, refused.text) == ([], -np.inf, 0.0, "")


def test_arrays_and_lengths():
    one = decoder()
    batch = np.stack([random_frames(i, 12) for i in range(3)])
    streams = [one.stream() for _ in batch]
    found = one.decode_chunks(streams, batch, [12, 5, 0], last=True)
    same(found, one.decode(batch, [12, 5, 0]))
    assert found.texts() == [partial.text for partial in found]
    assert one.decode_chunks([], []) == []


def test_the_names_are_those_of_ctc():
    """Who writes for one kind of stream has written for the other. Greedy search has one path, of tokens."""
    lacking = {"arcs", "frame_confidence", "interim_answers", "logits", "num_settled", "posteriors"}
    for ours, theirs in ((TransducerStream, Stream), (TransducerPartial, Partial), (TransducerDecoder, CtcDecoder)):
        names = {"decode_chunks", "restore", "stream"} if ours is TransducerDecoder else {*vars(theirs)}
        names |= {*vars(SentenceStream)} if theirs is Stream else set()
        public = {name for name in names if not name.startswith("_")} - lacking
        assert public <= {*dir(ours), *vars(decoder().stream().partial)}
    one, other = decoder().stream(), CtcDecoder(ctc.GRAPH, **ctc.OPTIONS).stream()
    for stream in (one, other):
        before = stream.partial
        assert (before.text, before.stable_text, before.num_stable, before.is_final) == ("", "", 0, False)
        partial = stream.finish()
        assert (partial.num_frames, partial.is_final, partial.error, stream.is_finished) == (0, True, None, True)


def test_before_the_first_chunk_nothing_is_said():
    stream = decoder().stream(boost=TREE)
    assert (stream.num_frames, stream.is_finished, stream.boost, stream.partial.state) == (0, False, TREE, None)
    assert (stream.partial.text, stream.partial.num_stable, stream.partial.tokens.tolist()) == ("", 0, [])
    same([stream.finish()], decoder().decode([BATCH[1]], boost=TREE))


def test_what_is_stable():
    """The last word may still grow; a character of several bytes may even change."""
    one = decoder(tokenizer=lambda tokens: " ".join("x" * (tokens.count(t)) for t in dict.fromkeys(tokens)))
    stream = one.stream()
    partial = stream.decode_chunk(BATCH[0][:20])
    assert partial.stable_text == partial.text.rpartition(" ")[0] and partial.num_stable > 0
    final = stream.finish()
    assert final.stable_text == final.text and final.num_stable == len(final.text.split())
    spaced = decoder(tokenizer=lambda tokens: "".join(f"  x{token}" for token in tokens)).stream()
    partial = spaced.decode_chunk(BATCH[0][:20])
    assert partial.num_stable == len(partial.stable_text.split()) == len(partial.tokens) - 1 > 0
    assert spaced.finish().num_stable == len(spaced.partial.tokens)
    silent = decoder(tokenizer=None).stream()
    with pytest.raises(ValueError, match="no tokenizer"):
        _ = silent.decode_chunk(BATCH[0]).stable_text
    assert silent.partial.to_dict()["num_stable"] is None


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_are_not_copied(how):
    """Copies would write tokens and words to the same places."""
    with pytest.raises(TypeError, match=r"TransducerStream: expected the bytes of stream\.save\(\), from which"):
        how(decoder().stream())


@BEAMS
def test_a_bad_chunk_is_refused_and_the_stream_goes_on(options):
    one = decoder(**options)
    streams = [one.stream() for _ in range(2)]
    one.decode_chunks(streams, [BATCH[0][:10], BATCH[4][:10]])
    bad = BATCH[0][10:].copy()
    bad[3, 2] = np.nan
    before = streams[0].partial
    refused, fine = one.decode_chunks(streams, [bad, BATCH[4][10:15]], errors="return")
    assert "got nan in utterance 0, frame 3, feature 2" in str(refused.error)
    assert (refused.text, refused.tokens.tolist(), refused.num_stable, refused.is_final) == ("", [], 0, False)
    assert (refused.num_frames, refused.score, refused.complete) == (10, -np.inf, False)
    assert fine is streams[1].partial and streams[0].partial is before
    with pytest.raises(ValueError, match="got nan in utterance 0, frame 3, feature 2"):
        one.decode_chunks(streams, [bad, BATCH[4][15:]], last=True)
    same([streams[0].decode_chunk(BATCH[0][10:], last=True), streams[1].partial], one.decode([BATCH[0], BATCH[4]]))


def test_a_chunk_after_the_last_is_refused():
    one = decoder()
    done, open_ = one.stream(), one.stream()
    final = done.decode_chunk(BATCH[0], last=True)
    with pytest.raises(ValueError, match="stream 1: expected no chunk after the last"):
        one.decode_chunks([open_, done], [BATCH[2], BATCH[2]])
    assert open_.num_frames == 0
    fine, refused = one.decode_chunks([open_, done], [BATCH[2], BATCH[2]], errors="return")
    assert fine.num_frames == len(BATCH[2])
    assert "after the last" in str(refused.error) and done.partial is final
    with pytest.raises(ValueError, match="after the last"):
        done.finish()


@BEAMS
def test_what_is_wrong_with_some_harms_no_other(options):
    one, whole = decoder(**options), BATCH[0]
    fine, twice, done = one.stream(), one.stream(boost=TREE), one.stream()
    foreign = TransducerDecoder.from_arrays(random_arrays(4, blank=12, units=9), 12, device="cpu").stream()
    foreign.decode_chunk(whole[:5])
    done.finish()
    streams = [fine, twice, foreign, twice, done, one.stream(), one.stream()]
    chunks = [whole] * 5 + [whole[:, :3], whole.astype(np.int64)]
    found = one.decode_chunks(streams, chunks, [60, 23, *[60] * 5], last=[True, True, *[False] * 5], errors="return")
    same([found[0], found[1]], one.decode([whole, whole[:23]], boost=[None, TREE]))
    assert [type(other.error) for other in found[2:]] == [InputError] * 3 + [ValueError, TypeError]
    said = ["one of this decoder", "the same at 1 and 3", "after the last", "[5]: expected 7 features, got 3", "[6]: "]
    for other, words in zip(found[2:], said, strict=True):
        assert words in str(other.error) and other.tokens.tolist() == []
    assert [stream.num_frames for stream in streams] == [60, 23, 5, 23, 0, 0, 0]
    with pytest.raises(ValueError, match="expected 7 features, got 3"):
        one.decode_chunks([one.stream(), one.stream()], [whole, whole[:, :3]])


@pytest.mark.parametrize(
    ("streams", "arguments", "error", "said"),
    [
        (lambda d: d.stream(), {}, TypeError, "expected a list of streams, got TransducerStream"),
        (lambda d: [None, None], {}, TypeError, "got NoneType at 0"),
        (
            lambda d: [CtcDecoder(ctc.GRAPH, **ctc.OPTIONS).stream()] * 2,
            {},
            TypeError,
            r"decoder\.stream\(\) returns, got Stream",
        ),
        (lambda d: [d.stream()] * 2, {}, ValueError, "the same at 0 and 1"),
        (lambda d: [d.stream(), decoder().stream()], {}, ValueError, "stream 1: expected one of this"),
        (lambda d: [d.stream()], {}, ValueError, "a chunk for each stream, 1, got 2"),
        (lambda d: [d.stream(), d.stream()], {"last": [True]}, ValueError, "each of 2 streams, got 1"),
        (lambda d: [d.stream(), d.stream()], {"errors": "ignore"}, ValueError, "errors"),
        (lambda d: [d.stream(), d.stream()], {"lengths": [1]}, ValueError, "lengths"),
    ],
)
def test_bad_calls(streams, arguments, error, said):
    one = decoder()
    with pytest.raises(error, match=said):
        one.decode_chunks(streams(one), [BATCH[0], BATCH[2]], **arguments)
    for boost in (["a"], [TREE]):
        with pytest.raises(TypeError, match=r"boost: expected an arcbeam\.BoostingTree, got list"):
            one.stream(boost=boost)
    with pytest.raises(ValueError, match="expected a tree of 12 or 13 tokens, got one of 5"):
        one.stream(boost=BoostingTree({(1,): 1.0}, vocab_size=5))
    same([one.stream().decode_chunk(BATCH[0], last=True)], one.decode([BATCH[0]]))


@BEAMS
def test_results_stay_as_they_were_and_are_plain_values(options):
    stream = decoder(confidence="max_prob", **options).stream()
    partial = stream.decode_chunk(BATCH[0][:20])
    text, tokens = partial.text, partial.tokens.tolist()
    stream.decode_chunk(BATCH[0][20:])
    for one in (partial, pickle.loads(pickle.dumps(partial))):
        assert isinstance(one, TransducerPartial)
        assert (one.text, one.tokens.tolist(), len(one.confidence), one.durations) == (text, tokens, len(tokens), None)
        assert one.to_dict()["num_stable"] == one.num_stable and one.to_dict()["num_frames"] == 20
        assert text in repr(one)
    assert "60 frames" in repr(stream)


def test_states_and_streams_go_on_from_each_other():
    one = decoder()
    partial = one.stream(boost=TREE).decode_chunk(BATCH[0][:30])
    [rest] = one.decode([BATCH[0][30:]], state=[pickle.loads(pickle.dumps(partial.state))], boost=TREE)
    [whole] = one.decode([BATCH[0]], boost=TREE)
    assert [*partial.tokens, *rest.tokens] == whole.tokens.tolist()


@pytest.mark.parametrize("options", [{}, {"beam": 3.0, "max_hypotheses": 4, "settle_frames": 6}], ids=str)
def test_on_an_emulated_gpu(gpu, options):
    one, twin = decoder(device="cuda", **options), decoder(**options)
    found, _ = in_chunks(one, BATCH[2:4], np.random.default_rng(0), [None, TREE])
    same(found, twin.decode(BATCH[2:4], boost=[None, TREE]))
    with Batcher(one, max_wait_ms=1) as batcher:
        streams = [one.stream(boost=tree) for tree in (None, TREE)]
        futures = [batcher.submit(s, u, last=True) for s, u in zip(streams, BATCH[2:4], strict=True)]
        same([future.result(60) for future in futures], twin.decode(BATCH[2:4], boost=[None, TREE]))


@BEAMS
def test_a_forked_child_goes_on_with_its_own(options):
    one = decoder(**options)
    stream = one.stream()
    stream.decode_chunk(BATCH[0][:10])
    found = of_a_child(lambda: stream.decode_chunk(BATCH[0][10:], last=True).tokens.tolist())
    assert found == one.decode([BATCH[0]])[0].tokens.tolist()
    assert stream.num_frames == 10


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
@pytest.mark.parametrize("options", [{}, {"beam": 3.0}, {"beam": 3.0, "ilm_scale": 0.2, "lodr_scale": -0.2}], ids=str)
def test_with_an_ngram_model(tmp_path, options):
    random_arpa(tmp_path / "tokens.arpa", range(12))
    if "lodr_scale" in options:
        options = options | {"lodr_model": random_arpa(tmp_path / "lodr.arpa", range(12), 2, seed=2)}
    options = options | {"ngram_lm_model": tmp_path / "tokens.arpa", "ngram_lm_alpha": 1.0}
    one = decoder(**options)
    boosts = [TREE, None, None, TREE, TREE]
    found, _ = in_chunks(one, BATCH, np.random.default_rng(3), boosts)
    same(found, one.decode(BATCH, boost=boosts))
    assert found[0].tokens.tolist() != decoder().decode(BATCH[:1], boost=TREE)[0].tokens.tolist()


@pytest.mark.filterwarnings("ignore:.*probabilities do not sum:UserWarning")
def test_the_history_of_an_ngram_model_goes_on(tmp_path):
    """A sentence has the bytes of its frames decoded from the state in which the model was."""
    random_arpa(tmp_path / "tokens.arpa", range(12))
    one = decoder(ngram_lm_model=tmp_path / "tokens.arpa", ngram_lm_alpha=3.0)
    stream, anew = one.stream(), one.stream()
    before, _ = (each.decode_chunk(BATCH[0], last=True) for each in (stream, anew))
    stream.reset(keep_history=True)
    anew.reset()
    [start] = one.decode([BATCH[0][:0]])
    with_history = replace(start.state, ngram_lm=before.state.ngram_lm)
    [wanted], [other] = (one.decode([BATCH[4]], state=[state]) for state in (with_history, start.state))
    found, without = stream.decode_chunk(BATCH[4], last=True), anew.decode_chunk(BATCH[4], last=True)
    assert before.state.ngram_lm != start.state.ngram_lm and wanted.log_probs.tolist() != other.log_probs.tolist()
    for got, whole in ((found, wanted), (without, other)):
        assert (got.tokens.tolist(), got.log_probs.tolist()) == (whole.tokens.tolist(), whole.log_probs.tolist())
    with pytest.raises(ValueError, match="keep_history: expected False, because the decoder has no n-gram model"):
        decoder().stream().reset(keep_history=True)
    with pytest.raises(TypeError, match="keep_history"):
        stream.reset(keep_history=1)


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*probabilities do not sum:UserWarning")
def test_the_histories_of_ngram_models_go_on_with_a_beam(tmp_path):
    """From the tokens of the best hypothesis, also where the stream was saved; the parts of the score show it."""
    random_arpa(tmp_path / "tokens.arpa", range(12))
    random_arpa(tmp_path / "lodr.arpa", range(12), 2, seed=1)
    models = {"ngram_lm_model": tmp_path / "tokens.arpa", "lodr_model": tmp_path / "lodr.arpa"}
    one = decoder(**models, ngram_lm_alpha=0.5, lodr_scale=-0.25, beam=4.0)
    lms = [(lm_of(one._search.ngram_lm), 0.5), (lm_of(one._search.lodr), -0.25)]

    def followed(states, tokens):
        """The float64 sums of the shares, and the states after the tokens."""
        sums = [0.0, 0.0]
        for token in tokens:
            for i, (lm, alpha) in enumerate(lms):
                score, states[i] = lm.score(states[i], token)
                sums[i] += float(np.float32(alpha) * np.float32(score))
        return sums, states

    before = one.stream().decode_chunk(BATCH[0], last=True)
    _, after = followed([lm.start for lm, _ in lms], before.tokens)
    for keep, states in ((True, after), (False, [lm.start for lm, _ in lms])):
        stream = one.stream()
        stream.decode_chunk(BATCH[0], last=True)
        for each in (one.restore(stream.save()), stream):
            each.reset(keep_history=keep)
            found = each.decode_chunk(BATCH[4], last=True)
            sums, _ = followed(list(states), found.tokens)
            assert len(found.tokens) >= 3 and [found.lm_score, found.lodr_score] == sums
    with pytest.raises(ValueError, match="keep_history: expected False, because the decoder has no n-gram model"):
        decoder(beam=4.0).stream().reset(keep_history=True)
