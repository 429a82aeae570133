"""The graph that `ctc_decoder` makes of what it is given, and the cache that keeps it."""

import io
import re
import sys
import time
import warnings

import numpy as np
import pytest

import arcbeam
from arcbeam.recipe import progress
from tests.front.models import CHARACTERS, WORDS, said, write_arpa

pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
LABELS = ["<blank>", *CHARACTERS, "<space>"]
SPOKEN = said(["c", "a", "b", "<space>", "d", "a", "d"], LABELS, 0)


def lasting(labels, tokens):
    """Log-probs whose best label of each frame is the next one; "-" is the blank."""
    best = [tokens.index("<blank>" if label == "-" else label) for label in labels]
    frames = np.full((len(best), len(tokens)), -9.0, np.float32)
    frames[range(len(best)), best] = -0.001
    return frames


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("ARCBEAM_CACHE", str(folder))
    return folder


@pytest.fixture
def lm(tmp_path):
    return write_arpa(tmp_path / "3gram.arpa")


def kept(folder):
    return sorted(path.name for path in folder.glob("*"))


def test_bare_tokens(cache):
    decoder = arcbeam.ctc_decoder(LABELS)
    assert str(decoder.decode(said("cadd", LABELS, 0))) == "cadd"
    assert decoder.graph.meta["topology"] == "normal" and kept(cache) == []
    many = arcbeam.ctc_decoder(["<blank>", *(f"t{i}" for i in range(300))])
    assert many.graph.meta["topology"] == "greedy"


def test_words_without_a_model(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("cab\ndad\n")
    for words in (path, ["cab", "dad"], iter(["cab", "dad"])):
        decoder = arcbeam.ctc_decoder(LABELS, words=words)
        assert str(decoder.decode(SPOKEN)) == "cab dad"
        assert str(decoder.decode(said("bad", LABELS, 0))) == "dad"
        words = decoder.graph.word_symbols
        assert [words[i] for i in range(len(words))] == ["<eps>", "cab", "dad"]
    # No word costs more than another, whatever their order.
    one, other = (arcbeam.ctc_decoder(LABELS, words=words) for words in (["cab", "dad"], ["dad", "cab"]))
    assert one.decode(SPOKEN).graph_score == other.decode(SPOKEN).graph_score == -2 * 2**-9


def test_words_of_one_token_without_a_model():
    """A token that lasts several frames is its word once, and again after a blank; a longer word is preferred."""
    tokens = ["天", "地", "人", "<blank>"]
    decoder = arcbeam.ctc_decoder(tokens, words=["天", "地", "人", "地人"])
    assert str(decoder.decode(lasting("天天-天地地地人人--", tokens))) == "天 天 地人"


@pytest.mark.parametrize("extra", [0, 1100])
def test_lists_of_words_of_one_token(extra):
    """A token that lasts is its word once in lists and confidences, too; of many tokens a decoder warns instead."""
    tokens, words = ["天", "地", "<blank>", *(f"t{at}" for at in range(extra))], ["天", "地"]
    frames = lasting("天天天-地地-", tokens)
    few, compact = (arcbeam.ctc_decoder(tokens, words=words, topology=given) for given in (None, "compact"))
    with pytest.warns(UserWarning, match="topology normal, got compact, .*--topology normal"):
        found = compact.decode(frames, nbest=2, confidence=True)
    assert [entry.text for entry in found.nbest] == ["天 地", "天 天 地"] and found.confidence < 0.6
    assert few.graph.meta["topology"] == ("compact" if extra else "normal")
    if not extra:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = few.decode(frames, nbest=2, confidence=True, mbr=True)
        assert found.text == found.mbr.text == "天 地" and found.nbest[1].posterior < 0.05 and found.confidence > 0.9
    with pytest.raises(ValueError, match="topology: expected one of"):
        arcbeam.ctc_decoder(tokens, words=words, topology="ctc")


def test_lists_of_a_greedy_graph():
    """A label that lasts is in them twice, of which a decoder warns; not with the topology normal, and few tokens."""
    tokens = ["a", "b", "<blank>"]
    frames = lasting("aab-", tokens)
    greedy = arcbeam.CtcDecoder(arcbeam.Graph.greedy(tokens))
    with pytest.warns(UserWarning, match="topology normal, got a greedy one.*Graph.greedy.tokens, topology='normal'"):
        found = greedy.decode(frames, nbest=2, confidence=True)
    assert [entry.text for entry in found.nbest] == ["ab", "aab"] and found.confidence < 0.6
    with pytest.warns(UserWarning, match="topology normal, got a greedy one"):
        greedy.stream(confidence=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for decoder in arcbeam.ctc_decoder(tokens), arcbeam.CtcDecoder(arcbeam.Graph.greedy(tokens, topology="normal")):
            found = decoder.decode(frames, nbest=2, confidence=True, mbr=True)
            assert found.text == found.mbr.text == "ab" and found.nbest[1].text != "aab" and found.confidence > 0.9
            assert decoder.stream(nbest=2).decode_chunk(frames, last=True).text == "ab"
    with pytest.raises(ValueError, match="topology: expected one of 'greedy', 'normal', got 'compact'"):
        arcbeam.Graph.greedy(tokens, topology="compact")


def test_the_text_of_a_word_list():
    with pytest.raises(
        ValueError, match=r"words: expected the path .*, got text of 2 words, 'cab\\ndad'; give the path"
    ):
        arcbeam.ctc_decoder(LABELS, words="cab\ndad")


def test_a_language_model_over_letters(tmp_path):
    def arpa(words):
        rows = [f"-1.0\t{word}" for word in ("<s>", "</s>", *words)]
        path = tmp_path / "letters.arpa"
        path.write_text(f"\\data\\\nngram 1={len(rows)}\n\n\\1-grams:\n" + "\n".join(rows) + "\n\n\\end\\\n")
        return path

    for _ in range(2):  # built, and from the cache
        with pytest.warns(UserWarning, match=r"letters.arpa: lm: expected a .* over words, .* is it over letters\?"):
            arcbeam.ctc_decoder(LABELS, arpa([*CHARACTERS, "<space>"]))
    with warnings.catch_warnings(action="error"):
        arcbeam.ctc_decoder(LABELS, arpa([*CHARACTERS, "cab", "dad", "bad"]))
        arcbeam.ctc_decoder(LABELS[:-1], arpa(CHARACTERS))  # words of one character, such as Chinese, without a space


def test_a_lexicon(tmp_path, lm):
    path = tmp_path / "lexicon.txt"
    path.write_text("taxi c a b\nfather d a d\n")
    assert str(arcbeam.ctc_decoder(LABELS, lexicon=path).decode(SPOKEN)) == "taxi father"
    table = arcbeam.TokenTable.from_list(LABELS)
    from arcbeam.recipe.lexicon import Lexicon

    decoders = [arcbeam.ctc_decoder(LABELS, lexicon=given) for given in (path, Lexicon.from_file(path, table))]
    assert [decoder.graph.separator for decoder in decoders] == ["<space>"] * 2
    with pytest.raises(ValueError, match="no word of the language model is in the lexicon"):
        arcbeam.ctc_decoder(LABELS, lm, lexicon=path)
    with pytest.raises(ValueError, match="expected lexicon or words, got both"):
        arcbeam.ctc_decoder(LABELS, lexicon=path, words=["cab"])


def test_words_of_the_model_or_fewer(lm):
    assert str(arcbeam.ctc_decoder(LABELS, lm).decode(SPOKEN)) == "cab dad"
    assert str(arcbeam.ctc_decoder(LABELS, lm, words=["bad", "dad"]).decode(SPOKEN)) == "bad dad"


def test_a_token_that_no_word_uses(lm):
    labels = [*LABELS, "z", "<unk>"]
    decoder = arcbeam.ctc_decoder(labels, lm)
    assert str(decoder.decode(said(["c", "a", "b", "z"], labels, 0))) == "cab"


def test_options_of_the_decoder(lm):
    decoder = arcbeam.ctc_decoder(LABELS, lm, beam=9.0, acoustic_scale=1.5, threads=1)
    assert (decoder.options.beam, decoder.options.acoustic_scale, decoder.options.threads) == (9.0, 1.5, 1)
    with pytest.raises(TypeError, match=r"unknown option beam_width: expected one of tokens, lm, lexicon, .*beam"):
        arcbeam.ctc_decoder(LABELS, lm, beam_width=9)


def test_the_second_start_loads(cache, lm):
    first, second = (arcbeam.ctc_decoder(LABELS, lm) for _ in range(2))
    [name] = kept(cache)
    assert name.startswith("ctc-") and name.endswith(".arcbeam")
    assert f"mapped from '{cache / name}'" in repr(second.graph) and "mapped" not in repr(first.graph)
    assert first.decode(SPOKEN).score == second.decode(SPOKEN).score


def test_what_a_kept_graph_depends_on(cache, tmp_path, lm):
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("cab c a b\n")
    other = write_arpa(tmp_path / "other.arpa", ("cab", "dad"))
    calls = [
        (LABELS, {"lm": lm}),
        (LABELS, {"lm": other}),
        ([*LABELS, "z"], {"lm": lm}),
        ([*LABELS[:-1], "|"], {"lm": lm}),
        (["<blank>", *CHARACTERS, "<space>"], {"lm": lm, "blank": "<space>", "word_delimiter": "<blank>"}),
        (LABELS, {"lm": lm, "words": ["cab"]}),
        (LABELS, {"words": ["cab"]}),
        (LABELS, {"words": ["cab", "dad"]}),
        (LABELS, {"lm": lm, "lexicon": lexicon}),
    ]
    for i, (tokens, options) in enumerate(calls):
        arcbeam.ctc_decoder(tokens, **options)
        assert len(kept(cache)) == i + 1, options
    for tokens, options in calls:
        arcbeam.ctc_decoder(tokens, **options)
    lexicon.write_text("dad d a d\n")
    arcbeam.ctc_decoder(LABELS, lm, lexicon=lexicon)
    assert len(kept(cache)) == len(calls) + 1


def test_without_the_cache(cache, lm):
    assert str(arcbeam.ctc_decoder(LABELS, lm, cache=False).decode(SPOKEN)) == "cab dad"
    assert kept(cache) == []


def test_a_cache_that_cannot_be_used(cache, lm):
    arcbeam.ctc_decoder(LABELS, lm)
    [name] = kept(cache)
    (cache / name).write_bytes(b"\x93ARCBEAM")
    with pytest.warns(UserWarning, match="the cached graph cannot be used and is built again"):
        arcbeam.ctc_decoder(LABELS, lm)
    (cache / name).unlink()
    cache.rmdir()
    cache.write_text("no folder")
    with pytest.warns(UserWarning, match="the graph is not kept"):
        assert str(arcbeam.ctc_decoder(LABELS, lm).decode(SPOKEN)) == "cab dad"


def test_models_that_were_made_from_an_arpa(lm):
    wanted = arcbeam.ctc_decoder(LABELS, lm).decode(SPOKEN)
    found = arcbeam.ctc_decoder(LABELS, arcbeam.LanguageModel.build(lm, progress=False)).decode(SPOKEN)
    assert found.score == wanted.score


def test_a_model_that_lacks_its_words(tmp_path, lm):
    binary, saved = tmp_path / "3gram.bin", tmp_path / "3gram.arcbeam-lm"
    binary.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(64))
    arcbeam.LanguageModel.build(lm, progress=False).save(saved)
    for path, lacks in (
        (binary, "KenLM's binary format, which has no list of its words"),
        (saved, "LanguageModel.save"),
    ):
        with pytest.raises(
            ValueError, match=rf"{path.name}: lm: expected an ARPA, got .*{lacks}; give the ARPA .*words="
        ):
            arcbeam.ctc_decoder(LABELS, path)


@pytest.mark.filterwarnings("ignore:.*do not sum to 1")
def test_a_large_model_rescores(tmp_path, lm):
    large = write_arpa(tmp_path / "large.arpa")
    large.write_text(re.sub(r"\S+\tdad", "-5\tdad", large.read_text()))
    for model in (lm, arcbeam.LanguageModel.build(lm, progress=False)):
        assert str(arcbeam.ctc_decoder(LABELS, model, language_model=large).decode(SPOKEN)) == "cab bad"
    with pytest.raises(ValueError, match="language_model: expected lm, too"):
        arcbeam.ctc_decoder(LABELS, language_model=large)


def test_words_in_another_case(tmp_path):
    upper = write_arpa(tmp_path / "upper.arpa", [word.upper() for word in WORDS])
    with pytest.raises(ValueError, match=r"upper.arpa: .* such as 'A'.*in the same case; or give lexicon="):
        arcbeam.ctc_decoder(LABELS, upper)
    # What has no case would be all that is left.
    some = write_arpa(tmp_path / "some.arpa", [*[word.upper() for word in WORDS], "1"])
    with pytest.raises(ValueError, match=r"5 words .* such as 'A'.*in the same case"):
        arcbeam.ctc_decoder([*LABELS, "1"], some)
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("CAB C A B\n")
    with pytest.raises(ValueError, match=r"lexicon.txt, line 1: .*'c' is one: write spellings in the tokens' case"):
        arcbeam.ctc_decoder(LABELS, lexicon=lexicon)


@pytest.mark.parametrize("foreign", [["ünd"], ["ünd", "öder", "ßo"]])
def test_words_that_cannot_be_spelled(tmp_path, foreign):
    path = write_arpa(tmp_path / "foreign.arpa", ["cab", "dad", *foreign])
    for _ in range(2):  # built, and from the cache
        with pytest.warns(
            UserWarning, match=rf"2 words can be written; left out are {len(foreign)} word.*'ünd'.*lexicon="
        ):
            decoder = arcbeam.ctc_decoder(LABELS, path)
        assert str(decoder.decode(SPOKEN)) == "cab dad"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"words": 3}, r"words: expected the path of a file with a word a line, or words, got int"),
        ({"words": ["cab", 1]}, r"words: expected words as str, got int \(1\)"),
        ({"words": b"cab"}, r"words: expected the path .* got bytes"),
        (
            {"lexicon": {"cab": ["c", "a", "b"]}},
            r"lexicon: expected a path, .*Lexicon or None, got dict; Lexicon.spell",
        ),
        ({"lm": ["cab"]}, r"lm: expected the path of an ARPA, an arcbeam.LanguageModel or an arcbeam.KenLM, got list"),
    ],
)
def test_parts_of_a_wrong_type(parts, message):
    with pytest.raises(TypeError, match=f"^{message}"):
        arcbeam.ctc_decoder(LABELS, cache=False, **parts)


def test_words_of_the_callers_that_are_lost(tmp_path):
    (tmp_path / "words.txt").write_text("cab\nDad\n")
    for words, message in [
        (["cab", "dad", "cab dad"], r"words: the graph lacks 'cab dad', which .*of a phrase give each word"),
        (["<eps>", "<s>", "cab"], r"words: the graph lacks '<eps>', '<s>', which cannot be spelled"),
        (tmp_path / "words.txt", r"words: the graph lacks 'Dad', which cannot be spelled .*; or give lexicon="),
    ]:
        for _ in range(2):  # the second graph comes from the cache
            with pytest.warns(UserWarning, match=message):
                arcbeam.ctc_decoder(LABELS, words=words)


def test_words_that_the_language_model_lacks(lm):
    for _ in range(2):
        with pytest.warns(UserWarning, match="words: the graph never writes 'bb', which the language model lacks"):
            decoder = arcbeam.ctc_decoder(LABELS, lm, words=["cab", "bb"])
    assert str(decoder.decode(said("cab", LABELS, 0))) == "cab"


def test_words_of_a_lexicon_that_the_language_model_lacks(lm, tmp_path):
    (tmp_path / "lexicon.txt").write_text("cab c a b\nbb b b\n")
    for _ in range(2):  # the second graph comes from the cache
        with pytest.warns(UserWarning, match="lexicon: the graph never writes 'bb', which the language model lacks"):
            arcbeam.ctc_decoder(LABELS, lm, lexicon=tmp_path / "lexicon.txt")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_long_build_shows_its_progress_on_a_terminal(monkeypatch, lm, stream):
    monkeypatch.setattr(sys, "stderr", shown := stream())
    arcbeam.ctc_decoder(LABELS, lm, cache=False)
    assert shown.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.OnTerminal() as say:
        say(progress.BuildEvent("lm", "read", 0.1))
        deadline = time.monotonic() + 10.0
        while stream is Terminal and "read" not in shown.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        say(progress.BuildEvent("graph", "made", 0.2))
    lines = ["arcbeam is building a graph", "[    0.1 s] lm: read", "[    0.2 s] graph: made"]
    assert shown.getvalue().splitlines() == (lines if stream is Terminal else [])


def test_a_batch_too(lm):
    decoder = arcbeam.ctc_decoder(LABELS, lm)
    assert [str(one) for one in decoder.decode(np.stack([SPOKEN, SPOKEN]))] == ["cab dad"] * 2
