"""Boosting trees and n-gram models against their oracle: the automata, and what is decoded with them, to the byte."""

import pickle
import random
import warnings
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arcbeam
from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.transducer._boosting_tree import walk
from arcbeam.transducer._transducer import available_kernels
from arcbeam.transducer.decoder import FrameLoopingDecoder
from arcbeam.transducer.fusion import trees_of
from arcbeam.transducer.ngram_lm import token_automaton
from arcbeam.transducer.phrases.phrase_tokens import Sampler
from tests.hypothesis_examples import examples
from tests.transducer import fusion_oracle, oracle
from tests.transducer.arpas import lm_of, random_arpa
from tests.transducer.equality import as_bytes, same
from tests.transducer.networks import cases, on_unit, random_arrays, random_frames

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")

SCORES = st.sampled_from([0.0, 0.5, 1.0, 3.0, -2.0, -0.25])
PHRASES = st.dictionaries(
    st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple), SCORES, min_size=1, max_size=8
)


def check_walk(automaton, model, tokens):
    """Every step of a walk, and every token's score on the way."""
    state, history = automaton.start, model.start
    for token in tokens:
        for other in range(automaton.num_tokens):
            score, _ = walk(automaton, state, np.array([other], np.uint32))
            assert score.tobytes() == model.score(history, other)[0].tobytes(), (history, other)
        _, states = walk(automaton, state, np.array([token], np.uint32))
        state, history = int(states[0]), model.score(history, token)[1]


@settings(max_examples=examples(200))
@given(phrases=PHRASES, walked=st.lists(st.integers(0, 4), max_size=12), scaling=st.sampled_from([1.0, 2.0, 0.5]))
def test_trees(phrases, walked, scaling):
    tree = BoostingTree(phrases, vocab_size=5, depth_scaling=scaling, unk_score=-0.125)
    check_walk(tree.automaton, fusion_oracle.boosting_tree(phrases, scaling, -0.125), walked)
    shuffled = dict(reversed(phrases.items()))
    assert BoostingTree(shuffled, vocab_size=5, depth_scaling=scaling, unk_score=-0.125).digest == tree.digest


def test_a_tree_by_hand():
    """Context score 1, depth scaling 2: 1, then 2 + ln 2, then 2 + ln 3; leaving a phrase gives back what it got."""
    tree = BoostingTree([(1, 2, 3), (2, 4)], vocab_size=6)
    scores, states = walk(tree.automaton, 0, np.array([1, 2, 4, 1, 2, 3, 5], np.uint32))
    second, third = 2 + np.log(2), 2 + np.log(3)
    # "1 2", then 4: back to the "2" of "2 4"; then the end of "2 4" takes nothing back.
    expected = [1, second, (1 - (1 + second)) + second, 1, second, third, 0]
    assert np.allclose(scores, expected, atol=1e-6)
    assert states[-1] == 0 and states[2] != 0


def test_a_suppressed_phrase_changes_its_last_token_alone():
    boosted = BoostingTree({(1, 2): 1.0}, vocab_size=6)
    both = BoostingTree({(1, 2): 1.0, (3, 1, 4): -5.0, (1, 5): -3.0}, vocab_size=6)
    tokens = np.array([3, 1, 2, 3, 1, 4, 1, 5, 0], np.uint32)
    plain, _ = walk(boosted.automaton, 0, tokens)
    charged, _ = walk(both.automaton, 0, tokens)
    assert (charged - plain).tolist() == [0, 0, 0, 0, 0, -5, 0, -3, 0]


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**6), order=st.integers(1, 4), walked=st.lists(st.integers(0, 8), max_size=10))
def test_models(tmp_path_factory, seed, order, walked):
    path = random_arpa(tmp_path_factory.mktemp("lm") / "a.arpa", range(7), order, seed=seed, unknown=seed % 3 != 0)
    automaton = token_automaton(path, None, 10, 9)
    model = fusion_oracle.ngram_model(path, 10, 9)
    state, history = automaton.start, model.start
    for token in walked:
        for other in range(9):
            score, _ = walk(automaton, state, np.array([other], np.uint32))
            assert np.isclose(score[0], model.score(history, other)[0], rtol=1e-6), (history, other)
        _, states = walk(automaton, state, np.array([token], np.uint32))
        state, history = int(states[0]), model.score(history, token)[1]


@settings(max_examples=examples(60))
@given(case=cases(), data=st.data(), precision=st.sampled_from(["float32", "bfloat16"]))
def test_any_network(tmp_path_factory, case, data, precision):
    arrays, options, frames = case
    options = {**options, "precision": precision}
    blank, tokens = options["blank_id"], len(arrays["output_weight"]) - len(options["durations"] or ())
    labels = [token for token in range(tokens) if token != blank]
    if not labels:
        return
    phrases = st.dictionaries(
        st.lists(st.sampled_from(labels), min_size=1, max_size=4).map(tuple), SCORES, min_size=1, max_size=5
    )
    given_phrases = [data.draw(st.none() | phrases) for _ in frames]
    alphas = {"boosting_tree_alpha": data.draw(st.sampled_from([1.0, 0.3]))}
    more, lm = {}, None
    if data.draw(st.booleans()):
        path = random_arpa(tmp_path_factory.mktemp("lm") / "a.arpa.gz", labels, data.draw(st.integers(1, 3)))
        more = {"ngram_lm_model": path}
        alphas["ngram_lm_alpha"] = 0.7
        lm = lm_of(token_automaton(path, None, tokens, blank))
    trees = [None if one is None else BoostingTree(one, vocab_size=tokens) for one in given_phrases]
    expected = []
    for x, one in zip(frames, given_phrases, strict=True):
        tree = None if one is None else fusion_oracle.boosting_tree(one)
        fusion = fusion_oracle.Fusion(tokens, lm, tree, **alphas) if lm or tree else None
        expected.append(oracle.decode(arrays, x, blank, *list(options.values())[1:], fusion=fusion))
    for kernels in available_kernels():
        for loop in (TransducerDecoder, FrameLoopingDecoder):
            with on_unit(kernels):
                decoder = loop.from_arrays(arrays, **options, **alphas, **more, device="cpu", threads=1)
            found = decoder.decode(frames, boost=trees)
            for hypothesis, written in zip(found, expected, strict=True):
                assert hypothesis.tokens.tolist() == written.tokens
                assert hypothesis.frames.tolist() == written.frames
                assert hypothesis.log_probs.tobytes() == np.array(written.log_probs, np.float32).tobytes()


def decoder_of(arpa=None, **options):
    arrays = random_arrays(3, tokens=13, blank=12, blank_bias=1.0)
    return TransducerDecoder.from_arrays(arrays, 12, device="cpu", ngram_lm_model=arpa, **options)


TREE = BoostingTree([(3, 4), (5,), (3, 4, 6, 7), (4, 6, 1)], vocab_size=12)
FRAMES = [random_frames(1, 30), random_frames(2, 20), random_frames(5, 25)]


def test_a_tree_says_what_comes_out():
    decoder = decoder_of(max_symbols=2)
    plain, boosted = decoder.decode(FRAMES), decoder.decode(FRAMES, boost=[TREE, None, TREE])
    assert as_bytes(plain)[1] == as_bytes(boosted)[1]
    for i in (0, 2):
        assert sum(t in (5, 6) for t in boosted[i].tokens) > sum(t in (5, 6) for t in plain[i].tokens)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("confidence", [None, "max_prob", "entropy"])
def test_nothing_depends_on_the_batch(tmp_path, threads, confidence):
    decoder = decoder_of(random_arpa(tmp_path / "a.arpa", range(12)), threads=threads, confidence=confidence)
    other = BoostingTree({(9, 6): 2.0}, vocab_size=13)
    trees = [TREE, None, other]
    alone = [decoder.decode([x], boost=[tree])[0] for x, tree in zip(FRAMES, trees, strict=True)]
    same(decoder.decode(FRAMES, boost=trees), alone)
    same(decoder.decode(FRAMES[::-1], boost=trees[::-1])[::-1], alone)


def test_confidence_is_that_of_the_network():
    """It says how sure the network is on that frame, with or without a tree."""
    decoder = decoder_of(confidence="max_prob")
    nothing = BoostingTree([(3,)], vocab_size=12, context_score=0.0)
    same_confidence = decoder.decode(FRAMES, boost=nothing)
    assert [h.confidence.tobytes() for h in same_confidence] == [h.confidence.tobytes() for h in decoder.decode(FRAMES)]
    for hypothesis in decoder.decode(FRAMES, boost=TREE):
        assert (hypothesis.log_probs < -1).any()


@pytest.mark.parametrize("size", [1, 3, 7, 30])
@pytest.mark.parametrize("durations", [None, [0, 1, 2, 9]])
def test_chunks(tmp_path, size, durations):
    arrays = random_arrays(3, tokens=13, blank=12, durations=len(durations or ()))
    arpa = random_arpa(tmp_path / "a.arpa", range(12))
    decoder = TransducerDecoder.from_arrays(arrays, 12, durations=durations, device="cpu", ngram_lm_model=arpa)
    for x in FRAMES:
        [whole] = decoder.decode([x], boost=TREE)
        parts, state = [], None
        for at in range(0, len(x), size):
            [part] = decoder.decode([x[at : at + size]], state=[state], boost=[TREE])
            parts.append(part)
            state = pickle.loads(pickle.dumps(part.state))
        assert np.concatenate([p.tokens for p in parts]).tolist() == whole.tokens.tolist()
        assert np.concatenate([p.log_probs for p in parts]).tobytes() == whole.log_probs.tobytes()
        same([parts[-1]][:0], [])
        assert (state.boosting_tree, state.ngram_lm) == (whole.state.boosting_tree, whole.state.ngram_lm)
        assert state.hidden.tobytes() == whole.state.hidden.tobytes()
        assert len(whole.tokens) > 5


def test_states_know_what_they_were_made_with(tmp_path):
    arpa = random_arpa(tmp_path / "a.arpa", range(12))
    decoder, with_lm = decoder_of(), decoder_of(arpa)
    other = BoostingTree([(3, 4)], vocab_size=12)
    [plain], [boosted] = decoder.decode(FRAMES[:1]), decoder.decode(FRAMES[:1], boost=TREE)
    for state, boost, message in [
        (plain.state, TREE, r"state\[0\]: it was made without the boosting tree of boost="),
        (boosted.state, None, r"state\[0\]: it was made with a boosting tree, but there is none in boost="),
        (boosted.state, other, r"state\[0\]: it was made with another boosting tree than boost="),
    ]:
        with pytest.raises(ValueError, match=message):
            decoder.decode(FRAMES[:1], state=[state], boost=boost)
    with pytest.raises(ValueError, match=r"without the n-gram model of ngram_lm_model="):
        with_lm.decode(FRAMES[:1], state=[plain.state])
    state = boosted.state
    wrong = arcbeam.TransducerState(
        state.hidden, state.cell, state.context, state.skip, state.frames, boosting_tree=(99, TREE.digest)
    )
    with pytest.raises(ValueError, match=r"state\[0\]: expected a state of the boosting tree below 9, got 99"):
        decoder.decode(FRAMES[:1], state=[wrong], boost=TREE)
    same_tree = BoostingTree([(4, 6, 1), (3, 4), (5,), (3, 4, 6, 7)], vocab_size=12)
    decoder.decode(FRAMES[:1], state=[state], boost=same_tree)


def test_a_bad_utterance_keeps_its_state():
    decoder = decoder_of()
    [first] = decoder.decode(FRAMES[:1], boost=TREE)
    bad = FRAMES[1].copy()
    bad[3, 2] = np.nan
    found = decoder.decode([bad, FRAMES[2]], state=[first.state, None], boost=TREE, errors="return")
    assert found[0].error is not None and len(found[0].tokens) == 0
    assert found[0].state.boosting_tree == first.state.boosting_tree
    same(found[1:], decoder.decode(FRAMES[2:], boost=TREE))


def test_decoders_and_trees_are_pickled(tmp_path):
    decoder = decoder_of(random_arpa(tmp_path / "a.arpa", range(12)), ngram_lm_alpha=0.5)
    again, tree = pickle.loads(pickle.dumps((decoder, TREE)))
    assert tree.digest == TREE.digest and tree.phrases == TREE.phrases
    same(again.decode(FRAMES, boost=tree), decoder.decode(FRAMES, boost=TREE))


def test_words_of_the_model(tmp_path):
    """NeMo's characters by default; or the words that are named, some of which the model may lack."""
    names = [f"piece{token}" for token in range(12)]
    theirs = random_arpa(tmp_path / "a.arpa", range(10), word_of=lambda token: f"{chr(100 + token)}")
    ours = random_arpa(tmp_path / "b.arpa", range(10), word_of=lambda token: names[token])
    same(decoder_of(theirs).decode(FRAMES), decoder_of(theirs, ngram_lm_tokens=None).decode(FRAMES))
    found = decoder_of(ours, ngram_lm_tokens=names).decode(FRAMES)
    assert found[0].state.ngram_lm[1]
    lm = arcbeam.LanguageModel.build(ours, progress=False)
    same(decoder_of(lm, ngram_lm_tokens=names).decode(FRAMES), found)
    lm.save(tmp_path / "b.lm")
    same(decoder_of(tmp_path / "b.lm", ngram_lm_tokens=[*names, None]).decode(FRAMES), found)


@pytest.mark.parametrize(
    ("phrases", "options", "error", "message"),
    [
        ("a", {}, TypeError, r"expected a list of phrases, .* got str; for one phrase write \['a'\]"),
        ([()], {}, ValueError, r"at least one token, got \(\)"),
        ([" "], {}, ValueError, "at least one word, got ' '"),
        ([3], {}, TypeError, "expected a str or a tuple of tokens, got 3"),
        ([(1, 2.5)], {}, TypeError, r"expected a str or a tuple of tokens, got \(1, 2.5\)"),
        ([(1, 9)], {}, ValueError, r"phrase \(1, 9\): expected tokens from 0 to 8, got 9"),
        ([(1, -1)], {}, ValueError, r"phrase \(1, -1\): expected tokens from 0 to 8, got -1"),
        ([(1, 2), (3,), (1, 2)], {}, ValueError, r"phrases: \(1, 2\) occurs twice"),
        ({(1, 2): float("nan")}, {}, ValueError, r"score of \(1, 2\): .* got nan"),
        ({(1, 2): float("inf")}, {}, ValueError, r"score of \(1, 2\): .* got inf"),
        ({(1, 2): "3"}, {}, TypeError, r"score of \(1, 2\): expected a number"),
        ([(1,)], {"context_score": float("nan")}, ValueError, "context_score"),
        ([(1,)], {"depth_scaling": 1e9}, ValueError, "depth_scaling: expected a number from -1000 to 1000"),
        ([(1,)], {"depth_scaling": -1}, ValueError, "depth_scaling: expected a number above 0, got -1"),
        ([(1,)], {"unk_score": float("inf")}, ValueError, "unk_score"),
        ([(1,)], {"use_bpe_dropout": True}, ValueError, "use_bpe_dropout: expected a SentencePiece model"),
        ([(1,)], {"bpe_alpha": 2.0}, ValueError, "bpe_alpha"),
        ([(1,)], {"num_of_transcriptions": 0}, ValueError, "num_of_transcriptions"),
        (["a b"], {}, ValueError, "tokenizer: expected one, because phrase 'a b' is text"),
        (["a b"], {"vocab_size": None}, ValueError, "tokenizer: expected one, such as decoder.pieces, because phrase"),
        (["a", "a  "], {"tokenizer": ["\u2581a"]}, ValueError, "'a' occurs twice"),
        (["a"], {"tokenizer": ["b"]}, ValueError, "phrase 'a' has .* does not know: '\u2581a'"),
        (["Hi you"], {"tokenizer": ["\u2581", *"hiyou"]}, ValueError, "does not know: 'H'; it knows 'hi you'"),
        (["a\ud800"], {"tokenizer": ["a"]}, ValueError, "expected text, got .*, which has half of a surrogate pair"),
        (["a" * 99], {"tokenizer": ["b"]}, ValueError, r"phrase 'a{56}\.\.\. has"),
        (["a"], {"tokenizer": lambda text: []}, ValueError, "phrase 'a' has no tokens"),
        (["a"], {"tokenizer": lambda text: [30]}, ValueError, "phrase 'a': expected tokens from 0 to 8, got 30"),
        (["a"], {"tokenizer": 3}, TypeError, "tokenizer: expected the path"),
        ([(1,)], {"vocab_size": 0}, ValueError, "vocab_size"),
        ([(1,)], {"vocab_size": None}, ValueError, "vocab_size: expected the number of tokens"),
    ],
)  # fmt: skip
def test_phrases_that_are_refused(phrases, options, error, message):
    with pytest.raises(error, match=message):
        BoostingTree(phrases, **{"vocab_size": 9, **options})


def test_a_tree_without_phrases_is_none(tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    for tree in (BoostingTree([], vocab_size=12), BoostingTree.read(tmp_path / "empty.txt", [*"abcdefghijkl"])):
        decoder = decoder_of()
        found, plain = (
            decoder.decode(FRAMES, boost=[tree, None, TREE]),
            decoder.decode(FRAMES, boost=[None, None, TREE]),
        )
        same(found, plain)
        assert found[0].state.boosting_tree == plain[0].state.boosting_tree
        assert (len(tree), tree.phrases) == (0, {}) and decoder.stream(boost=tree).boost is None


def test_boosts_that_are_refused():
    decoder = decoder_of()
    for boost, error, message in [
        ([TREE], ValueError, "boost: expected a tree or None for each of 3 utterances, got 1"),
        ("arcbeam", TypeError, "boost: expected an arcbeam.BoostingTree, or a list of them, got str"),
        (arcbeam.Boost(["a"]), TypeError, "got Boost; a Boost is for a CtcDecoder"),
        ([None, TREE, 3], TypeError, r"boost\[2\]: expected an arcbeam.BoostingTree or None, got int"),
        ([None, BoostingTree([(1,)], vocab_size=9), None], ValueError,
         r"boost\[1\]: expected a tree of 12 or 13 tokens, got one of 9"),
        (BoostingTree([(1, 12)], vocab_size=13), ValueError, r"boost\[0\]: phrase \(1, 12\) has the token 12, which"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            decoder.decode(FRAMES, boost=boost)


def test_a_tree_is_checked_for_each_vocabulary():
    tree = BoostingTree([(1, 3)], vocab_size=5)
    for _ in range(2):  # it is remembered, for this vocabulary alone
        assert trees_of([None, tree], 2, 5, 4) == [None, tree]
        with pytest.raises(ValueError, match=r"boost\[1\]: phrase \(1, 3\) has the token 3, which"):
            trees_of([None, tree], 2, 5, 3)
        with pytest.raises(ValueError, match=r"boost\[1\]: expected a tree of 8 or 9 tokens, got one of 5"):
            trees_of([None, tree], 2, 9, 8)
    assert trees_of(pickle.loads(pickle.dumps(tree)), 1, 6, 5)[0].digest == tree.digest


def test_models_that_are_refused(tmp_path):
    words = random_arpa(tmp_path / "words.arpa", range(5), word_of=lambda token: f"word{token}")
    named = [chr(100 + token) if token < 5 else f"piece{token}" for token in range(12)]  # some are NeMo's by chance
    pieces = random_arpa(tmp_path / "pieces.arpa", range(12), word_of=named.__getitem__)
    decoder_of(pieces, ngram_lm_tokens=named)
    decoder_of(pieces, ngram_lm_tokens=[*named[:5], *[None] * 7])
    for arpa, options, error, message in [
        (words, {}, ValueError, r"of tokens, got one that has 0 of their 12 words \('d', 'e', 'f', "),
        (pieces, {}, ValueError, r"has 5 of their 12 words .*; give ngram_lm_tokens= \(--ngram-lm-tokens\) with the"),
        (pieces, {"ngram_lm_tokens": [*named[:5], *"mnopqrs"]}, ValueError, "has 5 of their 12 words"),
        (words, {"ngram_lm_tokens": ["word1"]}, ValueError, "ngram_lm_tokens: expected 13 words, .* got 1"),
        (words, {"ngram_lm_tokens": ["word1"] * 12}, ValueError, "tokens 0 and 1 have the same word 'word1'"),
        (words, {"ngram_lm_tokens": [3] * 12}, TypeError, "words that are str or None, got int"),
        (words, {"ngram_lm_tokens": "word"}, TypeError, "expected a list with a word for each token, got str"),
        (3, {}, TypeError, "ngram_lm_model: expected an arcbeam.LanguageModel, an arcbeam.KenLM or a path, got int"),
        (None, {"ngram_lm_alpha": float("nan")}, ValueError, "ngram_lm_alpha: expected a number from"),
        (None, {"boosting_tree_alpha": "1"}, TypeError, "boosting_tree_alpha"),
    ]:  # fmt: skip
        with pytest.raises(error, match=message):
            decoder_of(arpa, **options)


def test_phrases_from_a_file(tmp_path):
    pieces = ["\u2581a", "b", "\u2581ab", "c", "\u2581"]
    path = tmp_path / "phrases.txt"
    path.write_text("ab c\t2.5\n\nabc\na b\t-1\n")
    tree = BoostingTree.read(path, pieces)
    assert tree.phrases == {"ab c": 2.5, "abc": 1.0, "a b": -1.0}
    assert tree.tokens == {"ab c": [(2, 4, 3)], "abc": [(2, 3)], "a b": [(0, 4, 1)]}
    for text, message in [
        ("a\na\n", "line 2: phrase 'a' occurs twice"),
        ("a\tx\n", "line 1: expected a score after the tab, such as 3.5, got 'x'"),
        ("b\n\t1\n", "line 2: phrases: expected phrases with at least one word"),
        ("a\tnan\n", "line 1: score of 'a'"),
    ]:
        path.write_text(text)
        with pytest.raises(arcbeam.FormatError, match=message):
            BoostingTree.read(path, pieces)


def sentencepiece_model(folder, kind):
    sentencepiece = pytest.importorskip("sentencepiece")
    (folder / "text").write_text("\n".join(["the viterbi lattice", "a lattice of the beam", "beam search"] * 40))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "m"), vocab_size=40, hard_vocab_limit=False,
        minloglevel=2, model_type=kind,
    )  # fmt: skip
    return folder / "m.model", sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_other_segmentations(tmp_path, kind):
    path, model = sentencepiece_model(tmp_path, kind)
    phrases = ["beam search", "viterbi lattice"]
    plain = BoostingTree(phrases, path)
    options = {"use_bpe_dropout": True, "num_of_transcriptions": 6, "bpe_alpha": 0.3}
    drawn = BoostingTree(phrases, path, **options)
    assert drawn.tokens == dict(reversed(BoostingTree(phrases[::-1], path, **options).tokens.items()))
    for phrase, alternatives in drawn.tokens.items():
        assert alternatives[0] == plain.tokens[phrase][0] == tuple(model.encode(phrase))
        assert len(alternatives) <= 6 and len(set(alternatives)) == len(alternatives)
        assert {model.decode(list(one)) for one in alternatives} == {phrase}
        assert "\u2581" not in {model.id_to_piece(one[0]) for one in alternatives[1:]}
    others = [BoostingTree(phrases, path, **options, seed=seed).tokens for seed in range(20)]
    assert sum(len(one) for other in others for one in other.values()) > 40
    with pytest.raises(ValueError, match=r"phrase 'xyz' has characters that the tokenizer does not know: 'xyz'$"):
        BoostingTree(["beam", "xyz"], path)


@pytest.mark.parametrize(("kind", "alpha"), [("unigram", 0.3), ("unigram", 0.0), ("bpe", 0.2), ("bpe", 0.6)])
def test_draws_are_distributed_as_those_of_sentencepiece(tmp_path, kind, alpha):
    _, model = sentencepiece_model(tmp_path, kind)
    phrase, count = "beam search", 4000
    sampler = Sampler(model, alpha, 3)
    text = "".join(model.encode(phrase, out_type=str))
    ours = Counter(tuple(one) for one in islice(sampler._draws(text, random.Random(5)), count))
    theirs = Counter(
        tuple(model.encode(phrase, out_type=str, enable_sampling=True, alpha=alpha, nbest_size=-1))
        for _ in range(count)
    )
    assert len(ours) > 2
    for one in ours | theirs:  # counts of a share p differ by more than 6 deviations once in 10^8
        assert abs(ours[one] - theirs[one]) <= 6 * np.sqrt(2 * max(ours[one], theirs[one])) + 6, one


def test_many_phrases():
    rng = np.random.default_rng(0)
    phrases = {tuple(rng.integers(0, 1000, rng.integers(1, 9)).tolist()): 1.0 for _ in range(10_000)}
    tree = BoostingTree(phrases, vocab_size=1024)
    assert len(tree) == len(phrases) and tree.nbytes < 2_000_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "BoostingTree of" in repr(tree)
