"""Forced alignment: the best path of each text, on both engines, and what is said of texts that cannot be aligned."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcbeam import Alignment, CtcDecoder, Graph, InputError
from arcbeam.ctc.align import aligner
from arcbeam.files.log_probs import find_inputs, read_all
from arcbeam.graph.text_graph import STAR, Rules, Texts, fewest_frames, text_graph, too_few_frames
from tests.decode import align_oracle, oracle
from tests.decode.alignments import BLANK, SEPARATOR, TOKENS, WORDS, a_decoder, a_graph, same

TOPOLOGIES = st.sampled_from(["compact", "normal", "eesen", "identity"])


@st.composite
def frames(draw, most=5, largest=12):
    """Log-probs that are multiples of 1/4, whose sums are exact and tie."""
    row = st.lists(st.integers(0, largest), min_size=len(TOKENS), max_size=len(TOKENS))
    rows = draw(st.lists(row, max_size=most))
    return -np.array(rows, np.float32).reshape(len(rows), len(TOKENS)) / 4


def texts(stars=False):
    return st.lists(st.sampled_from([*WORDS, STAR] if stars else list(WORDS)), max_size=3)


def test_a_text_by_hand():
    # frame        0    1    2    3    4    5
    # the best     a    a    _    b    |    a
    best = [1, 1, 0, 2, 3, 1]
    log_probs = np.full((6, 4), -4.0, np.float32)
    log_probs[np.arange(6), best] = -0.25
    found = a_decoder(frame_shift=0.5).align(log_probs, "ab a")
    assert isinstance(found, Alignment)
    assert found.text == "ab a"
    assert found.tokens.tolist() == best
    assert [tuple(word)[:5] for word in found.words] == [("ab", 0, 4, 0.0, 2.0), ("a", 5, 6, 2.5, 3.0)]
    assert [tuple(label)[:3] for label in found.labels] == [("a", 0, 2), ("b", 3, 4), ("|", 4, 5), ("a", 5, 6)]
    assert [word.confidence for word in found.words] == [math.exp(-0.25)] * 2
    assert found.frame_scores.tobytes() == log_probs[np.arange(6), best].tobytes()
    assert found.exact and found.complete and not found.doubtful and found.error is None
    assert (found.score, found.confidence) == (-1.5, math.exp(-0.25))


@given(frames(), texts(stars=True), TOPOLOGIES, st.booleans(), st.sampled_from([0.0, 0.5, 2.0]))
def test_no_reading_of_the_text_is_better(log_probs, words, topology, has_separator, star):
    """All sequences of columns are tried; costs are exact, so scores are equal."""
    separator = SEPARATOR if has_separator else None
    rules = {"blank": BLANK, "repeats_need_blank": topology == "normal", "loops": topology != "identity"}
    wanted = align_oracle.best_score(log_probs, words, WORDS, separator=separator, star=star, **rules)
    decoder = a_decoder(graph=a_graph(topology, "|" if has_separator else None))
    [found] = decoder.align([log_probs], [words], star=star, errors="return")
    if found.error is not None:
        assert "expected a text of at most" in str(found.error)
        assert wanted == -math.inf
        return
    assert found.score == wanted
    assert found.exact
    assert [word.word for word in found.words if word.word != STAR] == [word for word in words if word != STAR]
    assert len(found.tokens) == len(log_probs)
    reading = [w.word for w in found.words if w.word != STAR]
    if STAR not in words:
        assert any(
            align_oracle.reads(found.tokens.tolist(), text, separator=separator, **rules)
            for text in align_oracle.spelled_texts(reading, WORDS, separator)
        )
        assert found.score == float(found.frame_scores.sum(dtype=np.float64))


@given(frames(most=8, largest=2), texts(stars=True), TOPOLOGIES, st.booleans(), st.integers(0, 2))
def test_ties_are_settled_by_the_law(log_probs, words, topology, has_separator, before):
    """The oracle of the search, from the text's start state and without a beam, has the same path in every batch."""
    decoder = a_decoder(graph=a_graph(topology, "|" if has_separator else None))
    others = [["ab", "a"]] * before
    padding = [np.zeros((9, 4), np.float32)] * before
    found = decoder.align([*padding, log_probs], [*others, words], star=0.25, errors="return")[-1]
    if found.error is not None:
        return
    number = {word: i for i, word in enumerate(WORDS)} | {STAR: -1}
    merged = [word for i, word in enumerate(words) if word != STAR or words[i - 1 : i] != [STAR]]
    alone = text_graph(decoder.graph, Texts(list(WORDS.values()), [[number[word] for word in merged]]), 0.25)
    graph = Graph(**(alone.graph.fields() | {"start": int(alone.starts[0])}))
    wanted = oracle.decode(graph, log_probs, beam=math.inf)
    assert wanted.complete and wanted.reached_final
    assert found.score == -wanted.total_cost
    columns, _, items, is_star = alone.frame_path(np.array(wanted.arcs, np.uint32))
    assert found.tokens.tobytes() == columns.tobytes()
    places = [(item, bool(star)) for item, star in zip(items.tolist(), is_star.tolist(), strict=True) if item >= 0]
    spoken = list(dict.fromkeys(item for item, _ in places))
    assert [word.word for word in found.words] == [merged[item] for item in spoken]


@pytest.mark.parametrize("device", ["cpu", "cuda"], indirect=True)
def test_both_engines_in_any_batch(device):
    rng = np.random.default_rng(4)
    batch = [np.log(rng.dirichlet(np.ones(4), n)).astype(np.float32) for n in (30, 0, 9, 60, 17)]
    said = ["a ab bee", "", "<star> ab", "bee aa <star> a ab", ["aa", "a"]]
    alone = [a_decoder().align(x, text, star=1.0) for x, text in zip(batch, said, strict=True)]
    decoder = a_decoder(device, threads=2)
    same(decoder.align(batch, said, star=1.0), alone)
    same(decoder.align(batch[::-1], said[::-1], star=1.0), alone[::-1])
    padded = np.full((5, 60, 4), np.nan, np.float32)
    for i, one in enumerate(batch):
        padded[i, : len(one)] = one
    same(decoder.align(padded, said, [len(one) for one in batch], star=1.0), alone)
    halves = [one.astype(np.float16) for one in batch]
    same(decoder.align(halves, said, star=1.0), a_decoder().align(halves, said, star=1.0))
    shifted = [one + np.float32(3) for one in batch]
    same(decoder.align(shifted, said, logits=True, star=1.0), a_decoder().align(shifted, said, logits=True, star=1.0))


@pytest.mark.parametrize("device", ["cpu", "cuda"], indirect=True)
def test_a_beam_that_is_too_narrow_is_widened(device, monkeypatch):
    """The best beginning is a wrong one, so no path within the first beam reaches the end."""
    log_probs = np.full((40, 4), -30.0, np.float32)
    log_probs[:, 0] = 0.0
    decoder, beams = a_decoder(device), []
    make = aligner.make_engine

    def noting(graph, options, rescoring, ordinal, answers):
        beams.append(options.beam)
        return make(graph, options, rescoring, ordinal, answers)

    monkeypatch.setattr(aligner, "make_engine", noting)
    monkeypatch.setattr(aligner, "PROVEN_WORK", 0)
    found = decoder.align([log_probs, log_probs], ["ab ab ab", ""])
    assert [one.exact for one in found] == [True, True]
    assert beams[:3] == [17.0, 85.0, 425.0] and len(beams) <= 4
    assert found[0].score == -6 * 30.0
    assert found[0].doubtful and found[0].confidence < 1e-9
    assert found[1].score == 0.0 and found[1].words == [] and found[1].confidence == 1.0


@given(st.integers(0, 2**32 - 1))
@example(1259)  # the other one needs a wider beam, with which the path would be proven
def test_what_is_exact_is_what_an_infinite_beam_finds(seed):
    """With a narrow first beam, and with proofs that are forbidden where they take another search."""
    rng = np.random.default_rng(seed)
    log_probs, other = -rng.integers(0, 40, (2, 40, 4)).astype(np.float32) / 4  # so that scores are exact
    said, of_other = rng.choice(list(WORDS), (2, 8)).tolist()
    decoder = a_decoder()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligner, "FIRST_BEAM", math.inf)
        [best] = decoder.align([log_probs], [said])
    assert best.exact
    [found] = decoder.align([log_probs], [said])
    same([found], [best])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligner, "FIRST_BEAM", float(rng.uniform(0.1, 5.0)))
        patch.setattr(aligner, "PROVEN_WORK", 0)
        patch.setattr(aligner, "WIDER", 1.5)
        narrow = a_decoder(beam=0.0)
        [found] = narrow.align([log_probs], [said])
        same(narrow.align([other, log_probs], [of_other, said])[1:], [found])
    assert found.complete
    if found.exact:
        same([found], [best])
    assert found.score == float(found.frame_scores.sum(dtype=np.float64))
    assert found.score <= best.score


@given(frames(most=7), st.lists(st.sampled_from(list(WORDS)), max_size=4), st.sampled_from(["compact", "normal"]))
def test_the_fewest_frames_of_a_text(log_probs, words, topology):
    """A text that takes more is refused; one that takes no more has a path."""
    graph = a_graph(topology)
    rules = Rules.of(graph)
    number = {word: i for i, word in enumerate(WORDS)}
    items = [number[word] for word in words]
    texts = Texts(list(WORDS.values()), [items])
    needed = fewest_frames(texts, items, rules)
    assert too_few_frames(texts, rules, [needed]) == {}
    assert too_few_frames(texts, rules, [needed - 1]) == {0: needed}
    decoder = a_decoder(graph=graph)
    [found] = decoder.align([log_probs], [words], errors="return")
    assert (found.error is None) == (needed <= len(log_probs))
    assert found.complete == (found.error is None)
    if found.error is not None:
        said = f"texts: expected a text of at most {len(log_probs)} frames, got one that takes at least {needed} in"
        assert str(found.error).startswith(said)


def test_times_are_those_of_the_states():
    """A word whose spelling begins another's, and equal words in a row."""
    log_probs = np.log(
        np.full((9, 4), 0.05, np.float32) + 0.8 * np.eye(4, dtype=np.float32)[[1, 0, 1, 0, 1, 2, 2, 0, 1]]
    )
    [found] = a_decoder().align([log_probs], ["a aa bee a"])
    assert [tuple(word)[:3] for word in found.words] == [("a", 0, 1), ("aa", 2, 5), ("bee", 5, 7), ("a", 8, 9)]


def test_words_that_the_graph_lacks():
    decoder = a_decoder()
    log_probs = np.zeros((8, 4), np.float32)
    assert [label.label for label in decoder.align(log_probs, "bab").labels] == ["b", "a", "b"]
    given = decoder.align(log_probs, "b c", pronunciations={"c": "a a", "b": ["a b", "b b"]})
    assert [word.word for word in given.words] == ["b", "c"]
    assert "".join(label.label for label in given.labels if label.label != "|") in ("abaa", "bbaa")


def test_a_lexicon_in_a_file(tmp_path):
    path = tmp_path / "lexicon.txt"
    path.write_text("c a b\nd b\n")
    found = a_decoder().align(np.zeros((8, 4), np.float32), "d c", pronunciations=path)
    assert "".join(label.label for label in found.labels if label.label != "|") == "bab"


def test_pieces():
    graph = Graph.greedy(["▁he", "llo", "▁", "<blk>", "l", "o"])
    best = [0, 3, 1, 3, 2, 5]
    log_probs = np.log(np.full((6, 6), 0.02, np.float32) + 0.9 * np.eye(6, dtype=np.float32)[best])
    found = CtcDecoder(graph, device="cpu").align(log_probs, "hello o")
    assert [label.label for label in found.labels] == ["▁he", "llo", "▁", "o"]
    assert [tuple(word)[:5] for word in found.words] == [("hello", 0, 3, None, None), ("o", 4, 6, None, None)]


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (["<blank>", "a", "b", "|"], ["a", "b", "|", "a"]),
        (["<blank>", "▁a", "b", "a"], ["▁a", "b", "a", "▁a"]),  # a mark, and no separator
        (["<blank>", "a", "b", "<unk>"], ["a", "b", "a"]),
    ],
)
def test_the_separator_of_a_graph_from_elsewhere(tokens, labels):
    """Graphs of OpenFst have tokens, but do not say which of them separates words; one with a lexicon says it."""
    graph = Graph.from_arcs([(0, 0, 1, 1, 0.0)], finals={0: 0.0}, tokens=tokens, word_symbols=["<eps>", "ab"])
    columns = [tokens.index(label) for label in labels]
    log_probs = np.log(np.full((len(labels), 4), 0.02, np.float32) + 0.9 * np.eye(4, dtype=np.float32)[columns])
    found = CtcDecoder(graph, device="cpu").align(log_probs, "aba a" if tokens[1] == "▁a" else "ab a")
    assert [label.label for label in found.labels] == labels
    assert not found.doubtful


def test_a_text_that_was_not_said(demo_data):
    references = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    utterances = list(read_all(find_inputs([str(demo_data / "log_probs.npz")])))
    decoder = CtcDecoder(Graph.greedy(demo_data / "tokens.txt"), device="cpu", frame_shift=0.02)
    said = [references[u.id] for u in utterances]
    found = decoder.align([u.log_probs for u in utterances], said)
    assert [one.text for one in found] == said
    assert not any(one.doubtful for one in found)
    assert all(one.exact for one in found)
    others = decoder.align([u.log_probs for u in utterances], said[1:] + said[:1])
    assert all(one.doubtful for one in others)
    # What the text lacks goes to the star, and the other words keep their frames.
    words = said[0].split()
    starred = " ".join([*words[:5], STAR, *words[11:]])
    [one] = decoder.align([utterances[0].log_probs], [starred], star=1.0)
    kept = [word for word in one.words if word.word != STAR]
    assert [word[:3] for word in kept] == [word[:3] for word in found[0].words[:5] + found[0].words[11:]]
    assert one.words[5].word == STAR and one.words[5].confidence is None
    assert one.words[4].end_frame <= one.words[5].start_frame < one.words[5].end_frame <= one.words[6].start_frame


def test_recordings_in_one_piece(demo_data):
    """Each word has the frames that it has in its own recording, also where a frontier is all that is searched."""
    references = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    utterances = list(read_all(find_inputs([str(demo_data / "log_probs.npz")])))
    decoder = CtcDecoder(Graph.greedy(demo_data / "tokens.txt"), device="cpu", frame_shift=0.02)
    alone = decoder.align([u.log_probs for u in utterances], [references[u.id] for u in utterances])
    whole = np.concatenate([u.log_probs for u in utterances])
    said = " ".join(references[u.id] for u in utterances)
    found = decoder.align(whole, said)
    before = np.cumsum([0, *(len(u.log_probs) for u in utterances)])
    assert [word[:3] for word in found.words] == [
        (word.word, word.start_frame + first, word.end_frame + first)
        for first, one in zip(before.tolist(), alone, strict=False)
        for word in one.words
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligner, "PROVEN_WORK", 0)
        patch.setattr(aligner, "WIDER", 1.0)
        unproven = decoder.align(whole, said)
    assert found.exact and not unproven.exact
    assert [word[:3] for word in unproven.words] == [word[:3] for word in found.words]


def test_an_impossible_text():
    log_probs = np.zeros((4, 4), np.float32)
    log_probs[:, 2] = -np.inf
    found = a_decoder().align([log_probs] * 2, ["ab", "a"])
    assert (found[0].complete, found[0].exact, found[0].score, found[0].words) == (False, False, -math.inf, [])
    assert found[0].doubtful and found[0].confidence == 0.0 and found[0].error is None
    assert found[1].complete


def test_the_decoders_options():
    log_probs = np.log(np.random.default_rng(3).dirichlet(np.ones(4), 12)).astype(np.float32)
    one, other = a_decoder(), a_decoder(acoustic_scale=0.5, blank_penalty=2.0, max_active=1, beam=0.0)
    plain = other.align(log_probs, "a ab")
    blanks = int((plain.tokens == BLANK).sum())
    assert plain.exact
    assert plain.score == pytest.approx(0.5 * float(plain.frame_scores.sum(dtype=np.float64)) - 2.0 * blanks, abs=1e-4)
    assert blanks <= int((one.align(log_probs, "a ab").tokens == BLANK).sum())


def test_pickles_and_json():
    [found, refused] = a_decoder().align([np.zeros((3, 4), np.float32)] * 2, ["ab", "x"], errors="return")
    copy = pickle.loads(pickle.dumps(found))
    same([copy], [found])
    assert repr(found).startswith("Alignment('ab', score=")
    assert repr(refused) == f"Alignment(error={refused.error!r})"
    assert refused.to_dict()["error"].startswith(
        "texts: expected words that the tokens of the model can spell, got 'x'"
    )


def test_bad_frames():
    bad = np.zeros((3, 4), np.float32)
    bad[1, 2] = np.nan
    decoder = a_decoder()
    with pytest.raises(InputError, match="log_probs: expected finite values or -inf, got nan in utterance 1, frame 1"):
        decoder.align([np.zeros((3, 4), np.float32), bad], ["a", "a"])
    found = decoder.align([np.zeros((3, 4), np.float32), bad, np.zeros((3, 4), np.float32)], ["a"] * 3, errors="return")
    assert [one.error is None for one in found] == [True, False, True]
    assert found[1].error.utterance == 1
    assert (found[1].score, found[1].exact, found[1].words) == (-math.inf, False, [])
    same([found[0]], [decoder.align(np.zeros((3, 4), np.float32), "a")])


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ("ab", {}, TypeError, "texts: expected a text for each utterance, got str"),
        (7, {}, TypeError, "texts: expected a text for each utterance, got int"),
        ({"b": "a", "a": "b"}, {}, TypeError, r"texts: expected a list in .*, got dict; list\(texts.values\(\)\) has"),
        ({"a", "b"}, {}, TypeError, "texts: expected a list in the order of the utterances, got set$"),
        (["a", "b", "c"], {}, ValueError, "texts: expected one for each utterance, 2, got 3"),
        (["a", None], {}, TypeError, r"texts\[1\]: expected a str, or a list of words, got NoneType"),
        (["a", ["a", 3]], {}, TypeError, r"texts\[1\]\[1\]: expected a word, got int"),
        (["a", ["a b"]], {}, ValueError, r"texts\[1\]\[0\]: expected a word without white space, got 'a b'"),
        (["a", "A"], {}, InputError, "got 'A', no token for 'A', but one for 'a' in utterance 1: pronunciations= "),
        (["a", "<star>"], {}, InputError, "got '<star>', .* in utterance 1: star=, the cost of a frame, makes <star>"),
        (["a", "a"], {"star": -1.0}, ValueError, "star: expected a number of at least 0, got -1.0"),
        (["a", "a"], {"star": "x"}, TypeError, "star: expected a number of at least 0, got str"),
        (["a", "a"], {"errors": "skip"}, ValueError, "errors: expected 'raise' or 'return', got 'skip'"),
        (["a", "a"], {"logits": 1}, TypeError, "logits: expected"),
        (["a", "c"], {"pronunciations": {"c": "x"}}, InputError, "its spelling has 'x', which is no token in utte"),
        (["aaaaaaaa", "a"], {}, InputError, "expected a text of at most 4 frames, got one that takes at least 8 in"),
        (["a", "a"], {"stars": 1.0}, TypeError, "unknown option stars: expected one of log_probs, texts, lengths"),
    ],
)  # fmt: skip
def test_what_is_refused(texts, options, error, message):
    decoder = a_decoder()
    with pytest.raises(error, match=message):
        decoder.align([np.zeros((4, 4), np.float32)] * 2, texts, **options)
    assert decoder.align(np.zeros((4, 4), np.float32), "a").complete


def test_a_list_with_the_text_of_one_utterance():
    message = r"^texts\[0\]: expected a word without white space, got 'ab a'; a list is .* here: give the text itself$"
    with pytest.raises(ValueError, match=message):
        a_decoder().align(np.zeros((8, 4), np.float32), ["ab a"])


def test_a_graph_without_tokens():
    graph = Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=4, blank=0)
    with pytest.raises(InputError, match=r"the graph has no tokens; give tokens= to Graph\.load"):
        CtcDecoder(graph, device="cpu").align(np.zeros((4, 4), np.float32), "a")
    assert CtcDecoder(graph, device="cpu").align(np.zeros((4, 4), np.float32), "").tokens.tolist() == [0, 0, 0, 0]


def test_a_model_without_a_blank():
    graph = a_graph("identity", None, ["a", "b"], {"ab": [(0, 1)], "b": [(1,)]})
    assert graph.blank is None
    found = CtcDecoder(graph, device="cpu").align([np.zeros((n, 2), np.float32) for n in (3, 4, 0)], ["ab b", "ab", ""])
    assert [one.complete for one in found] == [True, False, True]
    assert found[0].tokens.tolist() == [0, 1, 1]
    assert [label.label for label in found[0].labels] == ["a", "b", "b"]
    assert [word[:3] for word in found[0].words] == [("ab", 0, 2), ("b", 2, 3)]


def test_none_at_all():
    assert a_decoder().align([], []) == []


def test_as_torchaudio_has_it():
    """With the topology `normal` and no separator the rules are the same; log-probs do not tie."""
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchaudio.functional")
    rng = np.random.default_rng(7)
    decoder = a_decoder(graph=a_graph("normal", None))
    for frames_of_one in (6, 20, 60):
        log_probs = np.log(rng.dirichlet(np.full(4, 0.5), frames_of_one) + 1e-6).astype(np.float32)
        said = rng.choice(["ab", "aa", "a"], frames_of_one // 6).tolist()
        targets = torch.tensor([[column for word in said for column in WORDS[word][0]]])
        path, scores = functional.forced_align(torch.from_numpy(log_probs)[None], targets, blank=BLANK)
        found = decoder.align(log_probs, said)
        assert found.tokens.tolist() == path[0].tolist()
        assert found.frame_scores.tobytes() == scores[0].numpy().tobytes()
