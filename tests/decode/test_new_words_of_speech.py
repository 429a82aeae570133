"""Words taken out of the vocabulary of real speech and given back as new words: all that a hypothesis has of them."""

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from arcbeam import Boost, CtcDecoder, Graph, LanguageModel
from arcbeam.cli.app import app
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.word_lists import words_of_arpa
from tests.decode.entries import check_entries
from tests.decode.equality import same

DEMO = Path(__file__).resolve().parents[2] / "data" / "demo"
MODEL = DEMO / "novels.3gram.arpa.xz"
TABLE = TokenTable.read(DEMO / "tokens.txt")
NEW = [
    "amiable", "consider", "dashwood", "disposed", "forward", "hearted", "himself", "leisure", "married", "meters",
    "mister", "prudently", "rather", "respectable", "selfish", "somewhere", "spades", "unless",
]  # fmt: skip
TEXTS = {
    "0870": "and mister john dashwood had then leisure to consider how much there might be prudently in his power to "
    "do for them",
    "0880": "he was not an ill disposed young man",
    "0890": "unless to be rather cold hearted and rather selfish is to be ill disposed",
    "0920": "had he married a more amiable woman he might have been made still more respectable than he was",
    "0930": "he might even have been made amiable himself",
    "goforward": "go forward ten meters",
}


@pytest.fixture(scope="module")
def graph():
    words = Lexicon.spell((word for word in words_of_arpa(MODEL) if word not in NEW), TABLE)
    return Graph.build(TABLE, words, MODEL, open_slot=True, progress=False)


@pytest.fixture(scope="module")
def speech():
    with np.load(DEMO / "log_probs.npz") as found:
        batch = np.split(found["log_probs"], np.cumsum(found["lengths"])[:-1])
        return {name: log_probs for name, log_probs in zip(found["ids"].tolist(), batch, strict=True) if name in TEXTS}


@pytest.fixture(scope="module")
def decoder(graph):
    return CtcDecoder(graph, acoustic_scale=1.5, frame_shift=0.02, lattice_beam=16.0, device="cpu")


@pytest.fixture(scope="module")
def found(decoder, speech):
    requested = {"nbest": 5, "confidence": True, "lattice": True, "mbr": True, "frame_confidence": "max_prob"}
    return decoder.decode(list(speech.values()), boost=Boost(NEW, 5.0), **requested)


def test_all_of_them_are_found(decoder, speech, found):
    assert [one.text for one in found] == [TEXTS[name] for name in speech]
    without = decoder.decode(list(speech.values()))
    assert not set(NEW) & {word for one in without for word in one.text.split()}
    for one in found:
        assert [boosted.phrase for boosted in one.boosts] == [word for word in one.text.split() if word in NEW]
        assert one.boost_score == 5.0 * len(one.boosts)
        assert one.score == pytest.approx(one.acoustic_score + one.graph_score + one.boost_score)


def test_their_times_are_those_of_their_letters(found):
    for one in found:
        assert [word.word for word in one.words] == one.text.split()
        ends = [0]
        for word in one.words:
            read = one.tokens[word.start_frame : word.end_frame].tolist()
            letters = [TABLE.tokens[column] for column, _ in itertools.groupby(read) if column != TABLE.blank]
            squeezed = [letter for letter, _ in itertools.groupby(word.word)]
            assert [letter for letter, _ in itertools.groupby(letters)] == squeezed
            assert word.start == word.start_frame * 0.02
            assert word.start_frame >= ends[-1]
            ends.append(word.end_frame)


def test_confidences_and_other_answers(found):
    for one in found:
        assert all(0.5 < word.confidence <= 1.0 for word in one.words if word.word in NEW)
        assert len(one.word_confidence) == len(one.words)
        assert one.nbest[0].text == one.text
        assert len({entry.text for entry in one.nbest}) == len(one.nbest)
        for entry in one.nbest:
            assert entry.boost_score == sum(boosted.score for boosted in entry.boosts)
            assert [word.word for word in entry.words] == entry.text.split()
        assert set(one.mbr.text.split()) >= {word for word in one.text.split() if word in NEW}
        assert {word for rivals in one.sausage for word, _ in rivals} >= set(one.mbr.text.split())

    assert max(len(one.nbest) for one in found) == 5
    assert check_entries(found)[1] > 100


def test_lattices(found):
    for one in found:
        lattice = one.lattice
        assert lattice.text == one.text
        assert lattice.oracle_wer(one.text).errors == 0
        assert set(lattice.word_symbols.values()) >= set(one.text.split())
        assert [entry.text for entry in lattice.nbest(5)] == [entry.text for entry in one.nbest]
        assert lattice.mbr.text == one.mbr.text
        pruned = lattice.prune(1.0)
        assert pruned.text == one.text
        assert set(np.unique(pruned.words)) <= set(np.unique(lattice.words))
        end = lattice.links["target"][lattice.best[-1]]
        assert lattice.boost_scores[lattice.best].sum() + lattice.final_boost_scores[end] == one.boost_score
        assert lattice.graph_scores[lattice.best].sum() + lattice.final_graph_scores[end] == pytest.approx(
            one.graph_score
        )
        assert all(word in lattice.to_dot() for word in one.text.split() if word in NEW)
        fst = lattice.to_openfst()
        assert {fst.output_symbols.find(word) for word in lattice.word_symbols if word} == set(
            lattice.word_symbols.values()
        )
        assert set(lattice.to_kaldi().arcs["word"].tolist()) <= {0, *lattice.word_symbols}


def test_pickled_and_as_json(found):
    for one, again in zip(found, pickle.loads(pickle.dumps(list(found))), strict=True):
        assert again.to_dict() == json.loads(json.dumps(one.to_dict())) == one.to_dict()
        kept = again.lattice
        assert (kept.text, kept.word_symbols) == (one.lattice.text, one.lattice.word_symbols)
        assert kept.prune(1.0).text == one.text


def test_utterances_with_and_without_new_words(decoder, speech, found):
    batch, boost = list(speech.values()), Boost(NEW, 5.0)
    boosts = [boost if at % 2 else None for at in range(len(batch))]
    mixed = decoder.decode(batch, boost=boosts, nbest=3, confidence=True, mbr=True, lattice=True)
    plain = decoder.decode(batch, nbest=3, confidence=True, mbr=True, lattice=True)
    for at, one in enumerate(mixed):
        wanted = found[at] if at % 2 else plain[at]
        same([one], [wanted])
        assert (one.text, one.words, one.mbr) == (wanted.text, wanted.words, wanted.mbr)
        assert [entry.text for entry in one.nbest] == [entry.text for entry in wanted.nbest][:3]
        assert one.lattice.links.tobytes() == wanted.lattice.links.tobytes()
    backwards = decoder.decode(batch[::-1], boost=boost, confidence=True)
    same(list(backwards)[::-1], found)
    alone = CtcDecoder(decoder.graph, acoustic_scale=1.5, frame_shift=0.02, lattice_beam=16.0, device="cpu", threads=1)
    same(alone.decode(batch, boost=boost, confidence=True), found)


def test_rescored(graph, decoder, speech, found):
    """With one model in both places deviations are 0, that of new words, too."""
    model = LanguageModel.build(MODEL, progress=False)
    models = {"language_model": model, "graph_language_model": model}
    one = CtcDecoder(graph, acoustic_scale=1.5, frame_shift=0.02, device="cpu", **models)
    for got, wanted in zip(one.decode(list(speech.values()), boost=Boost(NEW, 5.0)), found, strict=True):
        assert (got.text, got.words) == (wanted.text, [word._replace(confidence=None) for word in wanted.words])
        assert got.rescoring_score == 0.0
        assert got.score == wanted.score
    for wanted in found:
        assert wanted.lattice.rescore(model, model).text == wanted.text


def test_on_the_command_line(graph, speech, tmp_path):
    graph.save(tmp_path / "graph.arcbeam")
    np.savez(tmp_path / "log_probs.npz", **speech)
    (tmp_path / "boost.txt").write_text("".join(f"{word}\t5\n" for word in NEW))
    files = [str(tmp_path / "graph.arcbeam"), str(tmp_path / "log_probs.npz")]
    options = ["--boost", str(tmp_path / "boost.txt"), "--acoustic-scale", "1.5", "--device", "cpu", "-f", "json"]
    told = CliRunner().invoke(app, ["decode", *files, *options])
    assert told.exit_code == 0, told.output
    texts = [json.loads(line)["text"] for line in told.stdout.splitlines() if line.startswith("{")]
    assert texts == [TEXTS[name] for name in speech]
