"""What users see of the decoders: words, times, n-best, and that nothing depends on threads, batches or collections."""

import itertools
import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import baseline
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from benchmarks.data import datasets
from tests.baseline.small import LEXICON, TOKENS, saying
from tests.processes import in_threads, interrupted, of_a_child

SAID = saying("_ab_--ca-b_")


def decoder(lexicon=LEXICON, **options):
    return baseline.LexiconDecoder(lexicon, TOKENS, **{"sil": "|", "threads": 1, "lm_weight": 0.0, **options})


def free(**options):
    return baseline.LexiconFreeDecoder(TOKENS, **{"threads": 1, **options})


def as_bytes(results):
    return [
        [(h.score, h.am_score, h.lm_score_log10, h.tokens.tobytes(), tuple(h.words)) for h in result.nbest]
        for result in results
    ]


def test_words_times_and_scores():
    (found,) = decoder(frame_shift=0.02).decode([SAID])
    assert found.complete
    assert found.text == "ab cab"
    assert [(w.word, w.start_frame, w.end_frame) for w in found.words] == [("ab", 1, 3), ("cab", 6, 10)]
    assert found.words[1].start == pytest.approx(0.12)
    assert found.words[1].end == pytest.approx(0.20)
    assert found.best.tokens.tolist() == [0, 1, 2, 0, 4, 4, 3, 1, 4, 2, 0]
    assert found.score == found.best.am_score == pytest.approx(11 * math.log(0.9), rel=1e-6)
    assert found.best.lm_score == found.best.lm_score_log10 == 0.0


def test_word_and_silence_scores():
    plain = decoder().decode([SAID])[0]
    scored = decoder(word_score=-1.5, sil_score=-0.25).decode([SAID])[0]
    assert scored.score == pytest.approx(plain.score - 2 * 1.5 - 3 * 0.25)


def test_without_a_language_model_or_frame_shift_there_are_no_seconds():
    assert decoder().decode([SAID])[0].words[0].start is None


def test_no_frames():
    (found,) = decoder().decode([SAID[:0]])
    assert (found.text, found.score, found.complete) == ("", 0.0, True)
    assert decoder().decode([]) == []
    assert free().decode([SAID[:0]])[0].text == ""


def test_one_frame():
    (found,) = decoder({"a": ["a"]}).decode([SAID[1:2]])
    assert (found.text, found.complete) == ("a", True)
    assert [(w.start_frame, w.end_frame) for w in found.words] == [(0, 1)]


def test_an_unfinished_word_is_not_said():
    never = np.full((1, 5), -np.inf, np.float32)
    never[0, 1] = 0.0
    (found,) = decoder().decode([never])
    assert (found.text, found.complete) == ("", False)


def test_the_last_word_without_its_separator():
    cut = saying("_ab_cab")
    (strict,) = decoder(nbest=5).decode([cut])
    (lenient,) = decoder(nbest=5, final_separator=False).decode([cut])
    assert lenient.text == "ab cab"
    assert lenient.complete
    assert lenient.words[-1].end_frame == 7
    assert strict.score < lenient.score
    assert len({h.text for h in lenient.nbest}) == len(lenient.nbest) == 5


def test_a_separator_that_is_no_silence_is_heard_once():
    tokens = TokenTable.from_list(["<space>", *TOKENS[1:]])
    lexicon = baseline.with_separator(Lexicon.spell(["ab", "cab"], tokens))
    options = {"threads": 1, "lm_weight": 0.0, "final_separator": False}
    said, twice = saying("ab_-cab"), saying("ab_-_cab")
    freely = baseline.LexiconDecoder(lexicon, tokens, **options)
    once = baseline.LexiconDecoder(lexicon, tokens, sil=None, **options)
    for decoder in (freely, once):
        (found,) = decoder.decode([said])
        assert found.complete
        assert [(w.word, w.start_frame, w.end_frame) for w in found.words] == [("ab", 0, 2), ("cab", 4, 7)]
    assert freely.decode([twice])[0].score > once.decode([twice])[0].score + 3.0


def test_a_lexicon_from_elsewhere_has_the_space_for_its_silence():
    tokens = TokenTable.from_list(["<space>", *TOKENS[1:]])
    spelled = {"ab": ["a", "b", "<space>"], "cab": ["c", "a", "b", "<space>"]}
    said = saying("ab___cab__")
    (named,) = baseline.LexiconDecoder(spelled, tokens, sil="<space>", threads=1, lm_weight=0.0).decode([said])
    (found,) = baseline.LexiconDecoder(spelled, tokens, threads=1, lm_weight=0.0).decode([said])
    assert found.text == named.text == "ab cab"
    assert found.score == named.score


def test_a_search_that_dies_answers_with_what_it_had():
    dead = SAID.copy()
    dead[5:] = -np.inf
    (found,) = decoder().decode([dead])
    assert not found.complete
    assert found.text == "ab"
    assert len(found.best.tokens) == 5
    assert (found.score, found.best.partial_score) == (-math.inf, found.best.am_score)
    assert found.score < decoder().decode([SAID])[0].score


def test_minus_inf_is_never_read():
    frames = SAID.copy()
    frames[1, 1] = -np.inf
    (found,) = decoder(beam_threshold=math.inf).decode([frames])
    assert found.best.tokens[1] != 1


def test_nbest_is_sorted_and_distinct():
    (found,) = decoder(nbest=50, beam_threshold=math.inf).decode([SAID])
    texts = [h.text for h in found.nbest]
    assert len(texts) == len(set(texts)) == 50
    scores = [h.score for h in found.nbest]
    assert scores == sorted(scores, reverse=True)
    assert len(free(nbest=20).decode([SAID])[0].nbest) == 20


def test_log_add_sums_over_paths():
    best = decoder(beam_threshold=math.inf).decode([SAID])[0].score
    summed = decoder(beam_threshold=math.inf, log_add=True).decode([SAID])[0].score
    assert best < summed < 0.0


def test_unknown_words():
    said = saying("cc_", 0.99)
    assert decoder().decode([said])[0].text != "<unk>"
    (found,) = decoder({"ab": ["a", "b"], "ca": ["c", "a"]}, unk_score=-1.0).decode([saying("c", 0.99)])
    assert found.text == "<unk>"
    assert found.score == pytest.approx(math.log(0.99) - 1.0, rel=1e-5)


def test_homophones_are_told_apart_by_place():
    (found,) = decoder({"two": ["a"], "too": ["a"]}, nbest=2).decode([saying("a")])
    assert [h.text for h in found.nbest] == ["two", "too"]
    assert found.nbest[0].score == found.nbest[1].score


def test_a_last_token_that_lasts():
    pieces = {"ab": ["a", "b"], "c": ["c"]}
    said = saying("abbc", 0.97)
    (strict,) = decoder(pieces, sil=None).decode([said])
    (mended,) = decoder(pieces, sil=None, repeat_last_token=True).decode([said])
    assert mended.text == "ab c"
    assert mended.words[0].end_frame == 3
    assert mended.score == pytest.approx(4 * math.log(0.97), rel=1e-5)
    assert strict.score < mended.score - 3.0


def test_a_last_token_that_is_doubled_needs_a_blank():
    words = {"bb": ["b", "b"]}
    said = saying("bb", 0.97)
    assert decoder(words, sil=None).decode([said])[0].text == "bb"
    assert decoder(words, sil=None, repeat_last_token=True).decode([said])[0].text == ""
    assert decoder(words, sil=None, repeat_last_token=True).decode([saying("b-b", 0.97)])[0].text == "bb"


def test_without_a_lexicon():
    (found,) = free(frame_shift=0.01).decode([SAID])
    assert found.text == "ab cab"
    assert [(w.start_frame, w.end_frame) for w in found.words] == [(1, 3), (6, 10)]
    assert found.complete


def test_pieces_without_a_lexicon():
    tokens = ["▁a", "b", "▁c", "d", "<blank>"]
    (found,) = baseline.LexiconFreeDecoder(tokens, threads=1).decode([saying("_a-bb", 0.97)[:, [0, 1, 2, 3, 4]]])
    assert found.text == "ab c"


def test_timesteps_count_the_silence_before_the_first_frame():
    (found,) = decoder().decode([saying("ab_-ca-b_")])
    assert found.best.tokens.tolist() == [1, 2, 0, 4, 3, 1, 4, 2, 0]
    assert found.best.collapsed_tokens.tolist() == [0, 1, 2, 0, 3, 1, 2, 0]
    assert found.best.timesteps.tolist() == [0, 1, 2, 3, 5, 6, 8, 9]  # the last silence lasts until timestep 10
    assert found.best.timesteps.dtype == found.best.collapsed_tokens.dtype == np.int32


def test_timesteps_of_an_answer_that_begins_with_silence_and_ends_without():
    (found,) = decoder(final_separator=False).decode([saying("__ab-")])
    assert found.best.collapsed_tokens.tolist() == [0, 1, 2, 0]
    assert found.best.timesteps.tolist() == [0, 3, 4, 6]


def test_timesteps_without_a_silence_token():
    (found,) = decoder({"ab": ["a", "b"]}, sil=None).decode([saying("-aa-b")])
    assert found.best.collapsed_tokens.tolist() == [1, 2]
    assert found.best.timesteps.tolist() == [2, 5]


def test_timesteps_without_frames():
    (found,) = decoder().decode([SAID[:0]])
    assert (found.best.collapsed_tokens.tolist(), found.best.timesteps.tolist()) == ([0], [0])
    (found,) = decoder(sil=None).decode([SAID[:0]])
    assert found.best.timesteps.shape == found.best.collapsed_tokens.shape == (0,)
    (found,) = decoder().decode([np.full((1, 5), np.nan, np.float32)], errors="return")
    assert found.best.timesteps.shape == found.best.collapsed_tokens.shape == (0,)


def as_torchaudio_has_them(path, blank):
    """The rule of torchaudio's ctc_decoder in its own steps: runs of equal columns, without those of the blank."""
    runs = [(column, [at for at, _ in run]) for column, run in itertools.groupby(enumerate(path), lambda one: one[1])]
    return [column for column, _ in runs if column != blank], [at[0] for column, at in runs if column != blank]


@given(st.text("ab_-", max_size=12), st.sampled_from(["|", None]), st.booleans())
def test_timesteps_are_torchaudios(text, sil, with_lexicon):
    one = decoder({"a": ["a"], "ba": ["b", "a"]}, sil=sil, nbest=3) if with_lexicon else free(sil=sil, nbest=3)
    (found,) = one.decode([saying(text)])
    for answer in found.nbest:
        edge = [] if sil is None else [0]
        tokens, timesteps = as_torchaudio_has_them([*edge, *answer.tokens.tolist(), *edge], 4)
        assert answer.collapsed_tokens.tolist() == tokens
        assert answer.timesteps.tolist() == (timesteps if sil else [at + 1 for at in timesteps])


def test_float16_and_batches_and_strides_give_the_same():
    half = SAID.astype(np.float16)
    expected = as_bytes(decoder(nbest=3).decode([half.astype(np.float32)]))
    assert as_bytes(decoder(nbest=3).decode([half])) == expected
    batch = np.zeros((1, 20, 5), np.float16)
    batch[0, :11] = half
    assert as_bytes(decoder(nbest=3).decode(batch, [11])) == expected
    assert as_bytes(decoder(nbest=3).decode([np.asfortranarray(half)])) == expected


@pytest.fixture(scope="module")
def demo(demo_data):
    tokens = TokenTable.read(demo_data / "tokens.txt")
    words = ["and", "mister", "john", "had", "then", "leisure", "to", "ten", "of", "clubs", "five", "go", "forward"]
    return tokens, baseline.with_separator(Lexicon.spell(words, tokens)), datasets.load("demo")


@pytest.mark.parametrize("log_add", [False, True])
def test_threads_batches_and_reruns_give_equal_bytes(demo, log_add):
    tokens, lexicon, dataset = demo
    options = {"beam_size": 50, "nbest": 3, "unk_score": -5.0, "log_add": log_add}
    one = baseline.LexiconDecoder(lexicon, tokens, threads=1, **options)
    expected = as_bytes(one.decode(dataset.utterances))
    assert as_bytes(one.decode(dataset.utterances)) == expected
    assert [as_bytes(one.decode([u]))[0] for u in dataset.utterances] == expected
    for threads in (2, 5):
        several = baseline.LexiconDecoder(lexicon, tokens, threads=threads, **options)
        assert as_bytes(several.decode(dataset.utterances)) == expected
        assert as_bytes(several.decode(dataset.utterances[::-1])) == expected[::-1]


def test_collecting_changes_nothing(demo, monkeypatch):
    tokens, lexicon, dataset = demo
    options = {"beam_size": 30, "nbest": 5, "threads": 1, "unk_score": -5.0}
    expected = as_bytes(baseline.LexiconDecoder(lexicon, tokens, **options).decode(dataset.utterances[:4]))
    monkeypatch.setattr("arcbeam.baseline.base.COLLECT_ABOVE", 1)
    often = baseline.LexiconDecoder(lexicon, tokens, **options)
    assert as_bytes(often.decode(dataset.utterances[:4])) == expected


def test_two_python_threads_take_turns():
    shared = decoder(threads=2)
    expected = as_bytes(shared.decode([SAID]))
    assert in_threads(*[lambda: as_bytes(shared.decode([SAID]))] * 4) == [expected] * 4


def test_other_python_threads_run_meanwhile():
    busy = decoder(beam_size=500, beam_threshold=math.inf, unk_score=0.0)
    worker = threading.Thread(target=busy.decode, args=([np.tile(saying("abc_", 0.3), (300, 1))],))
    worker.start()
    turns = 0
    while worker.is_alive():
        worker.join(0.001)
        turns += 1
    assert turns > 10


def test_ctrl_c_gets_through():
    busy = decoder(beam_size=5000, beam_threshold=math.inf, unk_score=0.0)
    long = np.tile(saying("abc_", 0.3), (20_000, 1))
    interrupted(lambda: busy.decode([long]), 0.5)
    assert busy.decode([SAID])[0].text


def test_a_forked_child_decodes():
    shared = decoder(threads=2)
    expected = shared.decode([SAID])[0].text
    assert of_a_child(lambda: shared.decode([SAID])[0].text) == expected
