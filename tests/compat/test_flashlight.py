"""flashlight-text's classes on the engine of the baseline, beside the installed flashlight-text."""

import re

import numpy as np
import pytest

from arcbeam import baseline
from arcbeam.compat import flashlight as ours
from arcbeam.core.errors import FormatError, InputError
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from tests.baseline.ngrams import NGrams

TOKENS = ["-", "|", "a", "b", "c"]
LEXICON = "ab a b |\nab a b b |\nabc a b c |\ncab c a b |\na a |\nb b |\nc c |\n"
SILENCE, BLANK = 1, 0
FREE = {"beam_size": 50, "beam_size_token": 5, "beam_threshold": 50.0, "lm_weight": 2.0}
WORDS = {"word_score": -0.5, "unk_score": -2.0}
REST = {"sil_score": 0.25, "log_add": False}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flashlight")
    (folder / "lexicon.txt").write_text(LEXICON)
    (folder / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    NGrams(["a", "ab", "abc", "b", "c", "cab"], 3, seed=1).write(folder / "words.arpa")
    NGrams(TOKENS, 3, seed=2).write(folder / "tokens.arpa")
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def original():
    """flashlight-text's two modules and its KenLM as one."""
    reason = "flashlight-text is missing: pip install '.[peers]'"
    decoder = pytest.importorskip("flashlight.lib.text.decoder", reason=reason)
    dictionary = pytest.importorskip("flashlight.lib.text.dictionary", reason=reason)
    kenlm = pytest.importorskip("flashlight.lib.text.decoder.kenlm", reason=reason)

    class Modules:
        KenLM = kenlm.KenLM

        def __getattr__(self, name):
            return getattr(decoder if hasattr(decoder, name) else dictionary, name)

    return Modules()


def log_probs(seed, frames=25):
    raw = np.random.default_rng(seed).normal(size=(frames, len(TOKENS))) * 2
    return (raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))).astype(np.float32)


def with_lexicon(module, files, lm="words.arpa", smearing="MAX", **options):
    """A decoder as recipes make it; word indices are those of a sorted list, so that both libraries have the same."""
    lexicon = module.load_words(files["lexicon.txt"])
    words = module.Dictionary([*sorted(set(lexicon) - {"<unk>"}), "<unk>"])
    tokens = module.Dictionary(files["tokens.txt"])
    model = module.KenLM(files[lm], words) if lm else module.ZeroLM()
    trie = module.Trie(tokens.index_size(), SILENCE)
    start = model.start(False)
    for word, spellings in lexicon.items():
        _, score = model.score(start, words.get_index(word))
        for spelling in spellings:
            trie.insert(tokens.map_entries_to_indices(spelling), words.get_index(word), score)
    trie.smear(getattr(module.SmearingMode, smearing))
    chosen = module.LexiconDecoderOptions(**FREE | WORDS | REST | options, criterion_type=module.CriterionType.CTC)
    made = module.LexiconDecoder(chosen, trie, model, SILENCE, BLANK, words.get_index("<unk>"), [], False)
    return made, (model, trie, words)  # flashlight-text does not keep them alive


def without_lexicon(module, files, lm="tokens.arpa", **options):
    tokens = module.Dictionary(files["tokens.txt"])
    model = module.KenLM(files[lm], tokens) if lm else module.ZeroLM()
    chosen = module.LexiconFreeDecoderOptions(**FREE | REST | options, criterion_type=module.CriterionType.CTC)
    return module.LexiconFreeDecoder(chosen, model, SILENCE, BLANK, []), model


def decoded(decoder, frames):
    return decoder.decode(frames.ctypes.data, *frames.shape)


@pytest.mark.parametrize("smearing", ["NONE", "MAX", "LOGADD"])
@pytest.mark.parametrize("lm", ["words.arpa", None])
def test_words_are_those_of_flashlight(original, files, lm, smearing):
    """The label of each word stands at the timestep that completes it."""
    for options in ({}, {"beam_size": 10, "unk_score": -np.inf}, {"log_add": True}):
        (theirs, kept), (mine, _) = (with_lexicon(m, files, lm, smearing, **options) for m in (original, ours))
        for seed in range(12):
            frames = log_probs(seed)
            wanted, found = decoded(theirs, frames)[0], decoded(mine, frames)[0]
            assert (found.words, found.tokens) == (list(wanted.words), list(wanted.tokens)), (options, seed)
        del kept


@pytest.mark.parametrize("lm", ["tokens.arpa", None])
def test_tokens_are_those_of_flashlight(original, files, lm):
    for options in ({}, {"beam_size": 10, "beam_size_token": 3}, {"log_add": True}):
        (theirs, kept), (mine, _) = (without_lexicon(m, files, lm, **options) for m in (original, ours))
        for seed in range(12):
            frames = log_probs(seed)
            wanted, found = decoded(theirs, frames)[0], decoded(mine, frames)[0]
            assert (found.words, found.tokens) == (list(wanted.words), list(wanted.tokens)), (options, seed)
        del kept


def test_scores_are_those_of_the_baseline(files):
    pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")
    mine, (_, _, words) = with_lexicon(ours, files)
    table = TokenTable.from_list(TOKENS, "-")
    lexicon = Lexicon.from_file(files["lexicon.txt"], table)
    theirs = baseline.LexiconDecoder(lexicon, table, files["words.arpa"], sil="|", nbest=50, **FREE | WORDS | REST)
    for seed in range(5):
        frames = log_probs(seed)
        [result] = theirs.decode([frames])
        found = decoded(mine, frames)
        assert len(found) == len(result.nbest)
        for one, other in zip(found, result.nbest, strict=True):
            assert (one.score, one.emittingModelScore, one.lmScore) == (
                other.score, other.am_score, other.lm_score_log10,
            )  # fmt: skip
            assert one.tokens == [SILENCE, *other.tokens.tolist(), SILENCE]
            said = [words.get_entry(label) for label in one.words if label >= 0]
            assert said == [word.word for word in other.words]


def test_language_models_score_as_flashlight_s(original, files):
    words = ["a", "ab", "no", "abc", "<unk>"]
    theirs, mine = (module.KenLM(files["words.arpa"], module.Dictionary(words)) for module in (original, ours))
    for start_with_nothing in (False, True):
        ends = [[], []]
        for scores, model in zip(ends, (theirs, mine), strict=True):
            state = model.start(start_with_nothing)
            for label in (0, 1, 2, 3, 0, 4):
                state, score = model.score(state, label)
                scores += [score, model.finish(state)[1]]
        assert ends[0] == ends[1]


def test_frames_in_parts_are_one_utterance(files):
    mine, _ = with_lexicon(ours, files, None)
    frames = log_probs(3)
    with pytest.raises(RuntimeError, match="decode_step: expected a call of decode_begin before it"):
        mine.decode_step(frames.ctypes.data, 3, 5)
    with pytest.raises(RuntimeError, match="get_all_final_hypothesis: expected a call of decode_end before it"):
        mine.get_best_hypothesis()
    for _ in range(2):
        mine.decode_begin()
        for part in (frames[:10].copy(), frames[10:].copy()):
            mine.decode_step(part.ctypes.data, *part.shape)
            part[:] = 0
        mine.decode_end()
        assert mine.get_all_final_hypothesis() == decoded(mine, frames)
        assert mine.get_best_hypothesis() == decoded(mine, frames)[0]


def both(original, call):
    """What a call gives with each library; the kind of its error where it fails."""
    found = []
    for module in (original, ours):
        try:
            found.append(call(module))
        except (ValueError, RuntimeError, IndexError) as error:
            found.append(ValueError if isinstance(error, (ValueError, RuntimeError)) else type(error))
    return found


def test_dictionaries_are_those_of_flashlight(original, files, tmp_path):
    (tmp_path / "names.txt").write_text("x y\nz\n")
    (tmp_path / "bad.txt").write_text("word\n")

    def named(module):
        return module.Dictionary(str(tmp_path / "names.txt"))

    calls = [
        lambda m: [named(m).index_size(), named(m).entry_size(), named(m).get_index("y"), named(m).get_entry(0)],
        lambda m: [named(m).map_entries_to_indices(["x", "z"]), named(m).map_indices_to_entries([1, 0])],
        lambda m: [named(m).contains("q"), named(m).contains("y"), named(m).is_contiguous()],
        lambda m: named(m).get_index("q"),
        lambda m: named(m).get_entry(7),
        lambda m: named(m).add_entry("z"),
        lambda m: m.Dictionary(["a", "a"]),
        lambda m: (one := named(m)).add_entry("w", 5) or [one.index_size(), one.is_contiguous(), one.get_index("w")],
        lambda m: (one := named(m)).set_default_index(1) or one.get_index("q"),
        lambda m: sorted(m.load_words(files["lexicon.txt"]).items()),
        lambda m: m.load_words(str(tmp_path / "bad.txt")),
        lambda m: m.create_word_dict({"a": [["a"]]}),
        lambda m: m.create_word_dict(m.load_words(files["lexicon.txt"])).index_size(),
        lambda m: m.Trie(3, 0).insert([9], 1, 0.0),
    ]
    for call in calls:
        theirs, mine = both(original, call)
        assert mine == theirs


def test_entries_of_a_wrong_type():
    for entries, message in [([1], "got int for entry 0"), (None, "an entry each, got NoneType"), ({"a"}, "got set")]:
        with pytest.raises(TypeError, match=f"^entries: expected a sequence of str, .*{message}"):
            ours.Dictionary(entries)


def test_words_of_a_file_are_counted(files):
    assert list(ours.load_words(files["lexicon.txt"], 2)) == ["ab", "abc", "<unk>"]
    words = ours.create_word_dict(ours.load_words(files["lexicon.txt"]))
    assert words.get_index("nowhere") == words.get_index("<unk>") == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lm": object()}, "lm: expected a KenLM or a ZeroLM of arcbeam.compat.flashlight, got object"),
        ({"criterion": ours.CriterionType.ASG}, "criterion_type: expected CriterionType.CTC and no transitions, got"),
        ({"transitions": [0.5]}, "got CriterionType.CTC and 1 transitions"),
        ({"is_token_lm": True}, "is_token_lm: expected False, because the language model scores words"),
        ({"trie": ours.Trie(5, 1)}, "trie: expected spellings, got none"),
        ({"beam_size": 0}, "beam_size: expected a whole number of at least 1, got 0"),
        ({"silence": 9}, "sil_token_idx: expected a column from 0 to 4, got 9"),
        ({"blank": -1}, "blank_token_idx: expected a column from 0 to 4, got -1"),
        ({"columns": 4}, "N: expected at least 5 columns, as the trie has, got 4"),
        ({"frames": np.full((3, 5), np.nan, np.float32)}, "emissions: expected finite values or -inf, got NaN or +inf"),
    ],
)
def test_wrong_arguments_are_refused(change, said):
    trie = ours.Trie(5, SILENCE)
    trie.insert([2, 1], 0, 0.0)
    given = {"trie": trie, "lm": ours.ZeroLM(), "silence": SILENCE, "blank": BLANK, "transitions": []}
    given |= {"is_token_lm": False, "criterion": ours.CriterionType.CTC, "beam_size": 5, "columns": 5} | change
    frames = change.get("frames", log_probs(0))[:, : given["columns"]].copy()
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        numbers = (given["beam_size"], 5, 50.0, 1.0, 0.0, -1.0, 0.0)
        options = ours.LexiconDecoderOptions(*numbers, False, given["criterion"])
        decoder = ours.LexiconDecoder(
            options, given["trie"], given["lm"], given["silence"], given["blank"], 1, given["transitions"],
            given["is_token_lm"],
        )  # fmt: skip
        decoded(decoder, frames)


def test_columns_stay(files):
    mine, _ = without_lexicon(ours, files, None)
    decoded(mine, log_probs(0))
    with pytest.raises(ValueError, match="N: expected 5 columns, as before, got 6"):
        decoded(mine, np.zeros((2, 6), np.float32))
    spoiled = log_probs(0)
    spoiled[4, 2] = np.inf
    with pytest.raises(InputError) as error:
        decoded(mine, spoiled)
    assert (error.value.frame, error.value.column) == (4, 2)
    with pytest.raises(ValueError, match="indices: expected columns, got none for the label 3"):
        ours.Trie(3, 0).insert([], 3, 0.0)


def test_arguments_in_another_order_are_warned_of(files):
    trie = ours.Trie(5, SILENCE)
    trie.insert([1], 7, 0.0)
    rest = ours.ZeroLM(), *(BLANK, SILENCE), 9, [], False
    options = ours.LexiconDecoderOptions(10, 5, 20.0, 0.0, 0.0, 0.0, 0.0, False, ours.CriterionType.CTC)
    with pytest.warns(UserWarning, match=f"sil_token_idx: expected {SILENCE}, the silence with which"):
        ours.LexiconDecoder(options, trie, *rest)
    decoder = ours.LexiconDecoder(options, trie, ours.ZeroLM(), SILENCE, BLANK, 9, [], False)
    frames = np.zeros((5, 8), np.float32)
    with pytest.warns(UserWarning, match="N: expected 5 columns, as the trie has, got 8; the order is"):
        decoder.decode(frames.ctypes.data, *frames.shape)


def test_a_word_without_tokens_is_refused(tmp_path):
    (tmp_path / "lexicon.txt").write_text("a a |\n\nb\n")
    with pytest.raises(FormatError, match="line 3: expected a word and its tokens, got 'b'"):
        ours.load_words(tmp_path / "lexicon.txt")
