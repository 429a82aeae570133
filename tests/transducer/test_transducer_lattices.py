"""What lattices of transducers give: texts, words, posteriors, minimum Bayes risk, oracles, rescoring, files."""

import itertools
import math
import pickle
import random

import numpy as np
import pytest

import arcbeam
from arcbeam import CapacityError, GraphError, InputError, LanguageModel, TransducerDecoder, UnsupportedError
from arcbeam.core.pieces import join_pieces
from arcbeam.ctc.lattice import word_lattice
from tests.lattice.oracle import edit_distance
from tests.transducer import beam_oracle
from tests.transducer.beam_searches import DURATIONS, INF, PREDICTIONS
from tests.transducer.networks import random_arrays, random_frames
from tests.transducer.test_beam_lattice import by_text, paths_of

PIECES = ["<blk>", "\u2581a", "b", "\u2581", "\u2581ab", "c"]
CASES = [0, 1, 2, 3, 4, 7, 8, 9]  # others have millions of paths, all of which are gone through


def found_of(seed, frames=7, pieces=PIECES, **given):
    """(hypothesis, its tokens as words with the best score and the sum of their paths)."""
    draw = random.Random(seed)
    durations = draw.choice(DURATIONS)
    arrays = random_arrays(seed, tokens=6, durations=len(durations or ()), **draw.choice(PREDICTIONS))
    options = {"durations": durations, "max_symbols": draw.choice([1, 2]), "beam": 4.0, "max_hypotheses": 5}
    options |= {"merge_context": draw.choice([1, 2]), "device": "cpu", "tokenizer": pieces, **given}
    decoder = TransducerDecoder.from_arrays(arrays, 0, **options)
    return decoder.decode(random_frames(seed, frames), lattice=True)


def texts_of(lattice):
    """{words: scores of paths}, put together from the pieces of all paths."""
    texts = {}
    for tokens, scores in by_text(paths_of(lattice)).items():
        words = tuple(word for word, *_ in join_pieces([PIECES[token] for token in tokens], "\u2581"))
        texts.setdefault(words, []).extend(scores)
    return texts


def words_of(path):
    return tuple(path.text.split())


@pytest.mark.parametrize("seed", CASES)
def test_whole_words_are_those_of_the_pieces(seed):
    """The same texts, each with all its paths: none is lost, doubled, or joined otherwise."""
    lattice = found_of(seed).lattice
    texts, words = texts_of(lattice), lattice.whole_words()
    entries = words.nbest(10_000)
    assert {words_of(entry) for entry in entries} == texts.keys() and len(texts) > 1
    assert len(entries) == len(texts) and entries.is_all
    total = beam_oracle.log_sum([score for scores in texts.values() for score in scores])
    for entry in entries:
        scores = texts[words_of(entry)]
        assert entry.score == pytest.approx(max(scores), abs=1e-5)
        assert entry.posterior == pytest.approx(math.exp(beam_oracle.log_sum(scores) - total), abs=1e-6)
    assert len(paths_of(words)) == len(paths_of(lattice))
    assert words.text == lattice.text == entries[0].text
    assert words.num_frames == lattice.num_frames == 7
    assert words.whole_words() is words


@pytest.mark.parametrize("seed", CASES)
def test_oracle_and_minimum_bayes_risk(seed):
    """Against all texts, of pieces and of whole words."""
    lattice = found_of(seed).lattice
    texts = texts_of(lattice)
    total = beam_oracle.log_sum([score for scores in texts.values() for score in scores])
    posteriors = {words: math.exp(beam_oracle.log_sum(scores) - total) for words, scores in texts.items()}
    for reference in (max(texts, key=len), ("ab", "c", "x"), ()):
        errors = min(edit_distance(words, reference) for words in texts)
        for one in (lattice, lattice.whole_words()):
            found = one.oracle_wer(list(reference))
            assert found.errors == errors == edit_distance(tuple(found.words), reference)
    mbr = lattice.whole_words().mbr
    words = tuple(word.word for word in mbr.words)

    def risk(words):
        return sum(posterior * edit_distance(words, other) for other, posterior in posteriors.items())

    assert risk(words) <= mbr.errors + 1e-3  # which the algorithm bounds from above, and lowers from the best path on
    assert mbr.errors <= risk(words_of(lattice)) + 1e-3


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of words, which lacks some that the pieces make."""
    path = tmp_path_factory.mktemp("lm") / "words.arpa"
    path.write_text(
        "\\data\\\nngram 1=6\nngram 2=4\n\n\\1-grams:\n-1.5\t<unk>\n-99\t<s>\t-0.2\n-0.9\t</s>\n-0.6\ta\t-0.3\n"
        "-0.5\tab\t-0.1\n-1.1\tabc\n\n\\2-grams:\n-0.3\t<s> a\n-0.2\ta ab\n-0.7\tab ab\n-0.4\tab </s>\n\n\\end\\\n"
    )
    return path


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("seed", CASES)
def test_a_model_of_words_rescores_every_path(seed, scale, model):
    words = found_of(seed).lattice.whole_words()
    lm = LanguageModel.build(model, progress=False)
    rescored = words.rescore(lm, lm_scale=scale, unknown_words="unk")
    texts = {}
    for text, scores in texts_of(found_of(seed).lattice).items():
        texts[text] = max(scores) + scale * lm.score([w if w in lm else "<unk>" for w in text])
    entries = rescored.nbest(10_000)
    assert {words_of(one): one.score for one in entries} == pytest.approx(texts, abs=1e-4)
    assert rescored.text == " ".join(max(texts, key=texts.get))
    assert entries[0].rescoring_score == pytest.approx(
        scale * lm.score([w if w in lm else "<unk>" for w in words_of(entries[0])]), abs=1e-4
    )


def test_a_model_that_lacks_words_is_refused(model):
    words = found_of(1).lattice.whole_words()
    with pytest.warns(UserWarning, match="do not sum to 1"):
        lm = LanguageModel.build(model, progress=False)
    with pytest.raises(GraphError, match=r"it lacks .* unknown_words='unk' scores them as its unknown word$"):
        words.rescore(lm)
    with pytest.raises(ValueError, match='expected "error" or "unk"'):
        words.rescore(lm, unknown_words="small")
    with pytest.raises(ValueError, match="graph_language_model: expected None"):
        words.rescore(lm, lm, unknown_words="unk")
    rescored = words.rescore(lm, unknown_words="unk")  # it lacks most of them, which is no warning
    with pytest.raises(ValueError, match="rescored already"):
        rescored.rescore(lm, unknown_words="unk")
    with pytest.raises(ValueError, match="rescored already"):
        rescored.whole_words().rescore(lm, unknown_words="unk")
    pieces = [name.upper() for name in PIECES]
    with pytest.warns(UserWarning, match=r"it lacks \d+ words .*, most of the graph's words"):
        found_of(1, pieces=pieces).lattice.whole_words().rescore(lm, unknown_words="unk")


def test_lattices_of_too_many_words_are_refused(monkeypatch):
    lattice = found_of(1).lattice
    monkeypatch.setattr(word_lattice, "MOST_LINKS", 150)
    with pytest.raises(CapacityError, match=r"at most 150 links.*lattice\.prune\(4\.0\)\.whole_words\(\)"):
        lattice.whole_words()
    assert lattice.prune(0.5).whole_words().text == lattice.text


def test_parts_of_the_scores():
    """Models that take part in the search are the graph's part, and the network the rest."""
    tree = arcbeam.BoostingTree({(1, 2): 1.5}, vocab_size=6)
    arrays = random_arrays(4, tokens=6, layers=1)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=5.0, tokenizer=PIECES)
    found = decoder.decode(random_frames(4, 8), boost=tree, lattice=True, nbest=8)
    paths = {}
    for entry in found.lattice.nbest(100):
        paths[entry.text] = entry
    boosted = [entry for entry in found.nbest if entry.boost_score]
    assert boosted
    for one in found.nbest:
        entry = paths[one.text]
        assert entry.acoustic_score + entry.graph_score == pytest.approx(entry.score)
        assert abs(entry.graph_score) > 0.1  # W * P in labels and blanks
    for lattice in (found.lattice, found.lattice.whole_words()):
        assert lattice.scores == pytest.approx(lattice.acoustic_scores + lattice.graph_scores)
        assert (lattice.acoustic_scores < 1e-5).all()  # log-probs
        assert (lattice.graph_scores > 0).any()


@pytest.mark.parametrize("durations", [None, [0, 1, 2, 3, 4], [1, 2, 4]], ids=str)
def test_times(durations):
    """A word stands where its first piece was written, and its frames count as the hypothesis counts them."""
    arrays = random_arrays(6, tokens=6, durations=len(durations or ()), layers=1)
    pieces = ["<blk>", "\u2581a", "b", "\u2581b", "\u2581ab", "c"]
    options = {"durations": durations, "max_symbols": 1, "frame_shift": 0.08, "tokenizer": pieces, "merge": "max"}
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=5.0, **options)
    found = decoder.decode(random_frames(6, 24), lattice=True, nbest=8)
    lattice = found.lattice
    assert lattice.times[-1] == pytest.approx(24 * 0.08)
    assert np.diff(lattice.steps).min() == 0 and lattice.steps[-1] == 24
    reads = lattice.columns != 0xFFFF
    links = lattice.links
    assert (lattice.steps[links["target"]] - lattice.steps[links["source"]] == reads).all()
    by_text = {entry.text: entry for entry in lattice.whole_words().nbest(1000)}
    in_pieces = {entry.text: entry for entry in lattice.nbest(1000)}
    for one in found.nbest:
        begins = [word.start_frame for word in one.words]
        assert [word.start_frame for word in by_text[one.text].words] == begins
        assert [word.start_frame for word in in_pieces[one.text].words] == begins
        ends = [one.frames[i - 1] + 1 for i, token in enumerate(one.tokens) if i and pieces[token][0] == "\u2581"]
        assert [word.end_frame for word in by_text[one.text].words] == [*ends, one.frames[-1] + 1]


def test_several_labels_on_a_frame():
    """The first reads the frame, and the others follow between it and the next."""
    arrays = random_arrays(5, tokens=4, blank_bias=-9.0)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=3.0, max_symbols=3)
    lattice = decoder.decode(random_frames(5, 3), lattice=True).lattice
    links = lattice.links[lattice.best]
    reads = lattice.columns[lattice.best] != 0xFFFF
    assert lattice.steps[links["source"]][reads].tolist() == [0, 1, 2]
    assert reads.sum() == lattice.num_frames == 3
    assert (lattice.words[lattice.best] > 0).sum() == 9
    assert lattice.text == " ".join(str(word) for word in lattice.words[lattice.best] if word)


def test_files_and_pictures(tmp_path):
    lattice = found_of(3, frames=12).lattice
    fst = lattice.to_openfst()
    assert fst.num_states == lattice.num_tokens
    for one in (lattice, lattice.whole_words()):
        kaldi = one.to_kaldi()
        arcbeam.write_lattices(tmp_path / "lattices.ark", {"one": one})
        [(name, read)] = arcbeam.read_lattices(tmp_path / "lattices.ark")
        assert name == "one" and read == kaldi
        assert one.to_dot().startswith("digraph")
        again = pickle.loads(pickle.dumps(one))
        assert again.text == one.text and again.links.tobytes() == one.links.tobytes()
        assert again.mbr.text == one.mbr.text
        assert (again.posteriors == one.posteriors).all()
        pruned = again.prune(1.0)
        assert pruned.num_links <= one.num_links and pruned.text == one.text
        assert pruned.links.tobytes() == one.prune(1.0).links.tobytes()
    with pytest.raises(ValueError, match="expected a lattice with its graph, got one from a pickle"):
        again.whole_words()


def test_hypotheses_are_pickled_with_their_lattices():
    found = found_of(2)
    again = pickle.loads(pickle.dumps(found))
    assert again.lattice.text == found.lattice.text
    assert again.to_dict() == found.to_dict()
    assert pickle.loads(pickle.dumps(again)).lattice.text == found.lattice.text


@pytest.mark.parametrize("tokenizer", [None, lambda tokens: "?"], ids=["none", "function"])
def test_tokens_without_names(tokenizer):
    lattice = found_of(2, pieces=tokenizer).lattice
    tokens = [int(word) - 1 for word in lattice.words[lattice.best] if word]
    assert lattice.text == " ".join(str(token + 1) for token in tokens)
    assert lattice.word_symbols == {}
    with pytest.raises(ValueError, match=r"give words= to Graph\.load, or tokenizer= to a transducer's decoder"):
        lattice.whole_words()


def test_pieces_with_equal_names_and_without_text():
    pieces = ["<blk>", "\u2581a", "b", "", "\u2581a", "b"]
    lattice = found_of(5, pieces=pieces).lattice
    assert set(lattice.word_symbols.values()) <= {"\u2581a", "b"}
    assert len({entry.text for entry in lattice.nbest(100)}) == len(lattice.nbest(100))
    with pytest.raises(UnsupportedError, match=r"got token 2, 'b▁c'"):
        found_of(5, pieces=["<blk>", "\u2581a", "b\u2581c", "d", "e", "f"])


def test_spaces_as_tokens():
    """Letters and a space, as character models have them."""
    lattice = found_of(1, frames=9, pieces=["<blk>", "a", "b", " ", "c", "d"]).lattice
    entries = {entry.text for entry in lattice.nbest(10_000)}
    assert entries == {entry.text for entry in lattice.whole_words().nbest(10_000)}
    assert any(" " in text for text in entries)
    assert not any("\u2581" in text for text in entries)


def test_utterances_without_paths():
    arrays = random_arrays(1, tokens=6)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=4.0, tokenizer=PIECES)
    bad = random_frames(1, 4)
    bad[2, 3] = np.nan
    empty, broken, whole = decoder.decode(
        [np.empty((0, 7), np.float32), bad, random_frames(1, 4)], errors="return", lattice=True
    )
    assert (empty.lattice.num_tokens, empty.lattice.text, empty.lattice.num_frames) == (1, "", 0)
    assert [entry.text for entry in empty.lattice.nbest(3)] == [""]
    assert empty.lattice.whole_words().text == ""
    assert isinstance(broken.error, InputError)
    assert (broken.lattice.num_tokens, broken.lattice.text, len(broken.lattice.nbest(3))) == (0, "", 0)
    assert broken.lattice.whole_words().num_tokens == 0
    assert broken.lattice.mbr.text == "" and broken.lattice.oracle_wer("a b").errors >= 0
    assert whole.lattice.num_frames == 4


def test_what_is_refused():
    arrays = random_arrays(1, tokens=6)
    greedy = TransducerDecoder.from_arrays(arrays, 0, device="cpu")
    frames = random_frames(1, 4)
    with pytest.raises(ValueError, match="lattice: expected a decoder with a beam, got a greedy one"):
        greedy.decode(frames, lattice=True)
    decoder = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=4.0)
    with pytest.raises(TypeError, match="lattice"):
        decoder.decode(frames, lattice="yes")
    assert decoder.decode(frames).lattice is None
    for value, error, message in [
        (0, ValueError, "merge_context: expected a whole number of at least 1, or None, got 0"),
        (2.5, TypeError, "merge_context: expected a whole number of at least 1, or None, got float"),
        (True, TypeError, "merge_context"),
    ]:
        with pytest.raises(error, match=message):
            TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=4.0, merge_context=value)
    merging = TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=4.0, merge_context=3)
    for what, call in {
        "stream": merging.stream,
        "restore": lambda: merging.restore(decoder.stream().save()),
        "Batcher": lambda: arcbeam.Batcher(merging),
    }.items():
        with pytest.raises(UnsupportedError, match=rf"^{what}: expected a decoder without merge_context, .*=3; leave"):
            call()
    with pytest.raises(ValueError, match=r"^merge_context: expected None with settle_frames=9, .* got 3; leave out"):
        TransducerDecoder.from_arrays(arrays, 0, device="cpu", beam=4.0, merge_context=3, settle_frames=9)
    with pytest.raises(ValueError, match="merge_context: expected a beam, too"):
        TransducerDecoder.from_arrays(arrays, 0, device="cpu", merge_context=3)


def test_a_graph_with_a_model_needs_that_model(model):
    """A lattice of CTC is not rescored without the model whose scores it has."""
    graph = arcbeam.Graph.from_arcs([(0, 0, 1, 1, 0.5)], finals={0: 0.0}, word_symbols=["<eps>", "a"], num_columns=1)
    [found] = arcbeam.CtcDecoder(graph, device="cpu").decode([np.zeros((2, 1), np.float32)], lattice=True)
    with pytest.warns(UserWarning, match="do not sum to 1"), pytest.raises(ValueError, match="have to be subtracted"):
        found.lattice.rescore(model)
    assert found.lattice.whole_words() is found.lattice


@pytest.mark.parametrize("merge_context", [None, 2])
def test_the_list_is_in_the_lattice(merge_context):
    arrays = random_arrays(11, tokens=6, layers=2)
    decoder = TransducerDecoder.from_arrays(
        arrays, 0, device="cpu", beam=INF, max_hypotheses=16, merge_context=merge_context, tokenizer=PIECES
    )
    found = decoder.decode(random_frames(11, 10), nbest=16, lattice=True)
    texts = {entry.word_ids.tobytes() for entry in found.lattice.nbest(2_000)}
    for entry in found.nbest:
        assert (entry.tokens + 1).astype(np.uint32).tobytes() in texts
    assert (len(texts) > len(found.nbest)) == (merge_context is not None)
    pairs = itertools.pairwise([entry.score for entry in found.lattice.nbest(50)])
    assert all(a >= b for a, b in pairs)
