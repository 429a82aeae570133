"""Words of transducers: their texts, times and confidences; in streams each is put together once."""

import functools
import io
import json
import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arcbeam import Endpoint, EndpointRule, TransducerDecoder
from arcbeam.core.confidence import AGGREGATIONS
from arcbeam.transducer.growing_words import GrowingWords
from arcbeam.transducer.text import detokenizer
from arcbeam.words import Word
from tests.hypothesis_examples import examples
from tests.processes import in_threads
from tests.transducer.networks import random_arrays, random_frames
from tests.transducer.test_transducer_streams import ARRAYS, BATCH, PIECES, in_chunks

SHIFT = 0.08
TDT = random_arrays(5, durations=3, blank=12, blank_bias=2.0)
KINDS = {"RNN-T": (ARRAYS, {}), "TDT": (TDT, {"durations": [0, 1, 4], "confidence": "entropy"})}
SURFACES = ["▁a", "b", "▁", " ", "c▁d", "▁e▁f▁", "", "<0xC3>", "<0xA9>", "<0x20>", "é", "▁▁g", "\n"]


def decoder_of(kind="TDT", **options):
    arrays, more = KINDS[kind]
    given = {"device": "cpu", "threads": 1, "frame_shift": SHIFT, "tokenizer": PIECES}
    return TransducerDecoder.from_arrays(arrays, 12, **given | more | options)


class Written:
    """A hypothesis with tokens of our own, on frames 0, 2, 4 and so on."""

    def __init__(self, decoder, tokens, durations=None, confidence=None):
        self.tokens = np.array(tokens, np.int32)
        self.frame_shift, self.confidence_aggregation = (
            decoder.options.frame_shift,
            decoder.options.confidence_aggregation,
        )
        self.frames = 2 * np.arange(len(tokens), dtype=np.int64)
        self.durations = None if durations is None else np.array(durations, np.int32)
        self.confidence = None if confidence is None else np.array(confidence, np.float32)
        self.settled = None


def words_of(pieces, tokens, durations=None, confidence=None, **options):
    decoder = decoder_of(tokenizer=[*pieces, *["x"] * (12 - len(pieces))], **options)
    return decoder._search.form.spelled().words(Written(decoder, tokens, durations, confidence))


def plain(words):
    return [(word.word, word.start_frame, word.end_frame) for word in words]


def test_an_example_of_an_rnnt():
    """A token lasts one frame; a space alone is of no word, wherever it stands."""
    pieces = ["▁th", "e", "▁", "▁cat", "s"]
    found = words_of(pieces, [2, 0, 1, 2, 3, 4, 2])
    assert plain(found) == [("the", 2, 5), ("cats", 8, 11)]
    assert [(word.start, word.end, word.confidence) for word in found] == [
        (2 * SHIFT, 5 * SHIFT, None), (8 * SHIFT, 11 * SHIFT, None),
    ]  # fmt: skip
    assert isinstance(found[0], Word)
    assert [(word.start, word.end) for word in words_of(pieces, [0], frame_shift=None)] == [(None, None)]
    assert words_of(pieces, []) == words_of(pieces, [2, 2]) == []


def test_an_example_of_a_tdt():
    """A token lasts its duration, but at least one frame."""
    assert plain(words_of(["▁a", "b"], [0, 1, 0, 0], [1, 4, 0, 2])) == [("ab", 0, 6), ("a", 4, 5), ("a", 6, 8)]


def test_characters_and_a_space():
    assert plain(words_of([*"ab", " "], [0, 1, 2, 2, 1, 2])) == [("ab", 0, 3), ("b", 8, 9)]


def test_a_token_of_two_words_is_of_both():
    assert plain(words_of(["▁a", "b▁c", "d"], [0, 1, 2])) == [("ab", 0, 3), ("cd", 2, 5)]


def test_a_character_of_several_tokens():
    assert plain(words_of(["<0xC3>", "<0xA9>", "▁a"], [0, 1, 0, 2])) == [("é\ufffd", 0, 5), ("a", 6, 7)]


@pytest.mark.parametrize("how", AGGREGATIONS)
def test_confidences_of_words(how):
    of_tokens = np.array([0.5, 0.25, 0.9, 0.125, 0.75], np.float32)
    found = words_of(["▁a", "b", "▁"], [0, 1, 2, 0, 1], None, of_tokens, confidence_aggregation=how)
    make = {"mean": np.mean, "min": np.min, "max": np.max, "prod": np.prod}[how]
    assert [word.confidence for word in found] == [float(make(of_tokens[[0, 1]])), float(make(of_tokens[[3, 4]]))]


def test_confidences_are_those_of_the_tokens_and_by_default_the_least():
    one = decoder_of(confidence="max_prob")
    assert one.options.confidence_aggregation == "min"
    [found] = one.decode(BATCH[:1])
    assert len(found.words) > 3
    for word in found.words:
        assert word.confidence in found.confidence.tolist()
    assert {word.confidence for word in decoder_of("RNN-T").decode(BATCH[:1])[0].words} == {None}
    with pytest.raises(ValueError, match="confidence_aggregation: expected one of mean, min, max, prod, got 'least'"):
        decoder_of(confidence_aggregation="least")


def rule(pieces, tokens, frames, ends):
    """The words, told letter by letter: (word, start, end), where a byte of a character counts as a letter."""
    letters = [
        (byte, at) for at, token in enumerate(tokens)
        for byte in (bytes([int(pieces[token][3:5], 16)]) if pieces[token].startswith("<0x")
                     else pieces[token].replace("▁", " ").encode())
    ]  # fmt: skip
    found, open_ = [], []
    for byte, at in [*letters, (32, None)]:
        if byte != 32:
            open_.append((byte, at))
        elif open_:
            text = bytes(letter for letter, _ in open_).decode(errors="replace")
            found.append((text, int(frames[open_[0][1]]), int(ends[open_[-1][1]])))
            open_ = []
    return found


@settings(max_examples=examples(200))
@given(
    pieces=st.lists(st.sampled_from(SURFACES), min_size=12, max_size=12),
    tokens=st.lists(st.integers(0, 11), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=6),
)
@example(pieces=["▁", "b", *["<0xE2>", "<0x96>", "<0x81>"], *["a"] * 7], tokens=[1, 0, 2, 3, 4, 1], cuts=[5, 3])
def test_any_pieces(pieces, tokens, cuts):
    """Texts are those of the tokenizer, words follow the rule, and what is closed stays; in any order of reads."""
    decoder = decoder_of(tokenizer=pieces)
    written = Written(decoder, tokens)
    shared = decoder._search.form.spelled()
    for count in [*cuts, len(tokens), *cuts]:
        one = Written(decoder, tokens[:count])
        words = shared.words(one)
        assert plain(words) == rule(pieces, tokens[:count], written.frames, written.frames + 1)
        text = " ".join(word.word for word in words)
        assert text == shared.text(one.tokens) == detokenizer(pieces, 13)(tokens[:count])
        closed = shared.num_closed(one.tokens)
        assert shared.closed_text(one.tokens) == " ".join(word.word for word in words[:closed])
        assert closed in (len(words), len(words) - 1)
        assert shared.words(written)[:closed] == words[:closed]


def test_a_sentencepiece_model(tmp_path):
    """The pieces are those that the package puts together."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="the package reads SentencePiece models")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a cat sat on the mat", "the cats sat"] * 9), model_writer=model, vocab_size=280,
        hard_vocab_limit=False, byte_fallback=True, user_defined_symbols=["<mark>"], minloglevel=2,
    )  # fmt: skip
    path = tmp_path / "pieces.model"
    path.write_bytes(model.getvalue())
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    size, rng = theirs.get_piece_size(), np.random.default_rng(3)
    ours = detokenizer(path, size + 1)
    for line in ("the cat sät on <mark> mats", "ünïcode  ☃", "  sat "):
        ids = theirs.encode(line)
        assert ours(ids) == " ".join(theirs.decode(ids).split(" ")) and GrowingWords(ours).text(np.array(ids))
    whole = [i for i in range(size) if not theirs.is_byte(i)]
    for _ in range(200):
        ids = rng.choice(whole, 12).tolist()
        assert ours([*ids, size]) == " ".join(theirs.decode(ids).split())
        assert GrowingWords(ours).text(np.array([*ids, size])) == ours(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_utterances_and_their_chunks(kind):
    """Words have the bytes of the whole for any chunks, and what is stable stays."""
    one = decoder_of(kind)
    whole = one.decode(BATCH)
    assert sum(len(found.words) for found in whole) > 20
    for found in whole:
        lasting = 1 if found.durations is None else np.maximum(found.durations, 1)
        assert plain(found.words) == rule(PIECES, found.tokens.tolist(), found.frames, found.frames + lasting)
        assert " ".join(word.word for word in found.words) == found.text
    at_frame = {}
    for seed in range(4):
        finals, partials = in_chunks(one, BATCH, np.random.default_rng(seed), [None] * len(BATCH))
        assert [found.words for found in finals] == [found.words for found in whole]
        for i, (final, each) in enumerate(zip(finals, partials, strict=True)):
            assert final.stable_words == final.words
            for partial in reversed(each):  # the latest first
                stable = partial.stable_words
                assert stable == final.words[: partial.num_stable] == partial.words[: partial.num_stable]
                assert partial.stable_text == " ".join(word.word for word in stable)
                assert partial.text == " ".join(word.word for word in partial.words)
                assert partial.is_final or len(partial.words) - partial.num_stable in (0, 1)
                said = at_frame.setdefault((i, partial.num_frames, partial.is_final), (partial.words, stable))
                assert said == (partial.words, stable)


def test_times_of_sentences_are_those_of_the_stream():
    rules = Endpoint({"long": EndpointRule(min_trailing_silence=0.0, min_utterance_length=20 * SHIFT)})
    one = decoder_of()
    stream = one.stream(endpoint=rules)
    partial = stream.decode_chunk(BATCH[0])
    first, found = partial.first_frame, []
    while partial.endpoint is not None:
        assert partial.stable_words == partial.words
        [alone] = one.decode([BATCH[0][partial.first_frame : partial.num_frames]])
        moved = [(w, a + partial.first_frame, b + partial.first_frame) for w, a, b in plain(alone.words)]
        assert plain(partial.words) == moved
        assert [word.start for word in partial.words] == [word.start_frame * SHIFT for word in partial.words]
        found.append(partial.words)
        partial = stream.reset()
    assert first == 0 and len(found) > 1 and partial.first_frame > 0


def test_saved_streams_go_on_with_their_words():
    one = decoder_of()
    [whole] = one.decode(BATCH[:1])
    stream = one.stream()
    assert stream.decode_chunk(BATCH[0][:30]).words
    again = one.restore(stream.save())
    assert again.partial.words == stream.partial.words
    assert again.decode_chunk(BATCH[0][30:], last=True).words == whole.words
    with pytest.raises(
        ValueError, match=r"with confidence_aggregation='max', as this decoder has, got one with .*'min'"
    ):
        decoder_of(confidence_aggregation="max").restore(stream.save())


def test_pickled_results_keep_their_words():
    one = decoder_of()
    stream = one.stream()
    partial = stream.decode_chunk(BATCH[0][:30])
    stream.decode_chunk(BATCH[0][30:])
    for found in (partial, stream.partial, stream.finish(), one.decode(BATCH[:1])[0]):
        again = pickle.loads(pickle.dumps(found))
        assert again.words == found.words and again.to_dict() == found.to_dict()
        if found is partial:
            assert (again.stable_words, again.stable_text) == (found.stable_words, found.stable_text)
    values = json.loads(json.dumps(partial.to_dict()))
    assert [Word(**word) for word in values["words"]] == partial.words and values["num_stable"] == partial.num_stable


def test_long_sentences_take_each_word_once(monkeypatch):
    """A chunk costs what is new: each token is read once, each word made once."""
    one = decoder_of()
    taken, made = [], []
    parts = one._search.form.detokenize.parts

    class Counting(list):
        def __getitem__(self, token):
            taken.append(token)
            return super().__getitem__(token)

    one._search.form.detokenize.__dict__["parts"] = Counting(parts)
    monkeypatch.setattr("arcbeam.transducer.growing_words.Word", lambda *fields: made.append(fields) or Word(*fields))
    stream, frames, reads = one.stream(), random_frames(9, 600), 0
    for at in range(0, len(frames), 4):
        partial = stream.decode_chunk(frames[at : at + 4])
        _ = partial.text, partial.words, partial.stable_words, partial.stable_text
        reads += 1
    assert len(partial.tokens) > 300 and len(partial.words) > 60
    assert len(taken) == len(partial.tokens)
    assert len(made) <= len(partial.words) + reads  # the open word is made for each read


def test_a_look_that_is_interrupted_leaves_what_was_there():
    one = decoder_of()
    stream = one.stream()
    before, whole = stream.decode_chunk(BATCH[0][:20]), stream.decode_chunk(BATCH[0][20:])
    parts, taken = one._search.form.detokenize.parts, []

    class Interrupted(list):
        def __getitem__(self, token):
            taken.append(token)
            if len(taken) == len(whole.tokens) - 3:
                raise KeyboardInterrupt
            return super().__getitem__(token)

    one._search.form.detokenize.__dict__["parts"] = Interrupted(parts)
    with pytest.raises(KeyboardInterrupt):
        _ = whole.words
    assert [found.words for found in (whole, before)] == [
        decoder_of().stream().decode_chunk(BATCH[0][: found.num_frames]).words for found in (whole, before)
    ]


def test_a_look_may_be_interrupted_at_any_line():
    tokens = np.array([0, 2, 1, 5, 4, 0, 3], np.int32)
    pieces = detokenizer(SURFACES, len(SURFACES))

    def read(words, *ends):
        return [(words.text(tokens[:n]), words.num_closed(tokens[:n])) for n in ends]

    wanted = read(GrowingWords(pieces), 4, 7)
    assert 0 < wanted[0][1] < wanted[1][1]

    def interrupting(line):
        """A trace that raises before the line with this place among those that `_take` runs."""
        lines = iter(range(line + 1))

        def trace(frame, event, _):
            if frame.f_code is not GrowingWords._take.__code__:
                return None
            if event == "line" and next(lines, None) == line:
                raise KeyboardInterrupt
            return trace

        return trace

    for line in range(1000):
        words = GrowingWords(pieces)
        assert read(words, 4) == wanted[:1]
        former = sys.gettrace()
        sys.settrace(interrupting(line))
        try:
            words.text(tokens)
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        finally:
            sys.settrace(former)
        assert read(words, 4, 7) == wanted
        if not interrupted:
            break
    assert not interrupted and line > 20


def test_threads_that_look_at_once():
    one = decoder_of()
    stream = one.stream()
    partials = [stream.decode_chunk(BATCH[0][at : at + 3]) for at in range(0, 60, 3)]
    alone = [decoder_of().stream().decode_chunk(BATCH[0][: one.num_frames]) for one in partials]
    want = {i: (one.words, one.num_stable) for i, one in enumerate(alone)}

    def read(turn):
        order = np.random.default_rng(turn).permutation(len(partials))
        return {int(i): (partials[i].words, partials[i].num_stable) for i in order}

    assert in_threads(*(functools.partial(read, turn) for turn in range(4))) == [want] * 4


def test_tokenizers_that_do_not_say_what_a_token_adds():
    for tokenizer in (None, lambda ids: " ".join(map(str, ids))):
        one = decoder_of(tokenizer=tokenizer)
        partial = one.stream().decode_chunk(BATCH[0])
        [found] = one.decode(BATCH[:1])
        for result in (found, partial):
            with pytest.raises(ValueError, match="words: expected a decoder with the text of each token"):
                _ = result.words
            assert result.to_dict()["words"] is None
        with pytest.raises(ValueError, match="words: expected a decoder with the text of each token"):
            _ = partial.stable_words
    assert partial.stable_text == partial.text.rpartition(" ")[0]


def test_a_refused_chunk_has_no_words():
    one = decoder_of()
    stream = one.stream()
    stream.decode_chunk(BATCH[0][:30])
    [refused] = one.decode_chunks([stream], [np.full_like(BATCH[0], np.nan)], errors="return")
    assert (refused.words, refused.stable_words, refused.text, refused.score) == ([], [], "", -math.inf)
    assert stream.partial.words


def test_pieces_that_are_no_text():
    with pytest.raises(ValueError, match=r"tokenizer: expected text, got '\\ud800', which has half of a surrogate"):
        decoder_of(tokenizer=["\ud800"] * 12)
