"""The open slot: a word in it is as good as one of lexicon and model, and an unused slot changes nothing."""

import gzip
import math
import pickle

import numpy as np
import pytest

from arcbeam import CtcDecoder, FormatError, Graph
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.arrays import ArcArrays
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.lexicon_fst import SEPARATOR_RULES
from arcbeam.recipe.recipe import LEAST_SLOT_SCORE
from arcbeam.recipe.topology import TOPOLOGIES
from tests.decode.equality import same
from tests.recipe.definitions import said, strings

TOKENS = TokenTable.from_list(["<space>", "a", "b", "<blank>"])
SPACE, A, B, BLANK = 1, 2, 3, 4
TOLERANCE = 0.02  # quantization in minimization moves a cost by 2^-11 an arc
LM = """\\data\\
ngram 1=7
ngram 2=4

\\1-grams:
-1.25\t<unk>
-99\t<s>\t-0.3
-0.9\t</s>
-0.7\ta\t-0.2
-0.8\tab\t-0.1
-0.6\taba\t-0.25
-0.4\tb{new}

\\2-grams:
-0.3\t<s> a
-0.4\ta ab
-0.2\tab </s>
-0.5\t<unk> a

\\end\\
"""
UNIGRAMS = """\\data\\
ngram 1=5

\\1-grams:
-1.25\t<unk>
-99\t<s>
-0.9\t</s>
-0.7\ta
-0.4\tb{new}

\\end\\
"""
WORDS = ["a", "ab", "aba", "b"]
NEW = "baa"  # has a doubled token, begins as a word and is none


@pytest.fixture
def files(tmp_path):
    for name, text in (("lm", LM), ("unigrams", UNIGRAMS)):
        (tmp_path / f"{name}.arpa").write_text(text.format(new=""))
        more = text.format(new=f"\n-1.25\t{NEW}").replace("1=7", "1=8").replace("1=5", "1=6")
        (tmp_path / f"{name}_new.arpa").write_text(more)
    return tmp_path


def lexicon(words, rule):
    return Lexicon.spell(words, TOKENS, separator=None if rule == "none" else "<space>")


def as_fst(graph, more=(), num_states=None):
    """A graph as kaldifst has it, with more arcs."""
    first = graph.states["first_arc"].astype(np.int64)
    labels = np.where(graph.columns == 0xFFFF, 0, graph.columns.astype(np.int64) + 1)
    sources = np.repeat(np.arange(graph.num_states), np.diff(first))
    own = (sources, graph.targets["next_state"], labels, graph.words, graph.targets["weight"])
    finals = {s: float(cost) for s, cost in enumerate(graph.finals) if math.isfinite(cost)}
    return ArcArrays.join([own, *more], finals, graph.start).to_kaldifst()


def with_word(graph, spelling, word, topology, loops=True):
    """The graph with a word in its slot, as it is said in a topology: token states, and blank states between them."""
    slot, root = graph.open_slot, graph.num_states
    (leads_to,) = set(slot.exits.tolist())
    arcs = [(int(s), root, 0, 0, float(w)) for s, w in zip(slot.entrances, slot.weights, strict=True)]
    at, blank = [root], root + len(spelling) + 1  # states that the next token may follow
    for i, token in enumerate(spelling):
        here = root + 1 + i
        doubled = topology == "normal" and i and spelling[i - 1] == token
        arcs += [(s, here, token, word if i == 0 else 0, 0.0) for s in (at[1:] if doubled else at)]
        if loops and topology != "identity":
            arcs.append((here, here, token, 0, 0.0))
        arcs += [(here, blank + i, BLANK, 0, 0.0), (blank + i, blank + i, BLANK, 0, 0.0)]
        at = [here, blank + i]
    arcs.append((root + len(spelling), leads_to, 0, 0, 0.0))
    return as_fst(graph, arcs)


CASES = [(t, True, "one") for t in TOPOLOGIES] + [(t, False, "one") for t in ("compact", "normal", "eesen")]
CASES += [("compact", True, rule) for rule in SEPARATOR_RULES if rule != "one"] + [("normal", True, "many")]


@pytest.mark.parametrize(
    "options", [{}, {"lm_scale": 0.5, "word_insertion_penalty": 0.25}, {"words_by_last_token": True}]
)
@pytest.mark.parametrize(("topology", "loops", "rule"), CASES)
@pytest.mark.parametrize("model", ["lm", "unigrams"])
def test_a_word_in_the_slot_is_one_of_the_lexicon_and_the_model(files, topology, loops, rule, options, model):
    options = {"separator_rule": rule, "token_self_loops": loops, "progress": False} | options
    graph = Graph.build(TOKENS, lexicon(WORDS, rule), files / f"{model}.arpa", topology, open_slot=True, **options)
    whole = Graph.build(TOKENS, lexicon([*WORDS, NEW], rule), files / f"{model}_new.arpa", topology, **options)
    assert graph.meta["open_slot_score"] == pytest.approx(-1.25 * math.log(10.0))
    spelling = [TOKENS.column(token) + 1 for token in NEW]
    left = with_word(graph, spelling, len(WORDS) + 1, topology, loops)
    right = as_fst(whole)
    rng = np.random.default_rng(len(topology) + len(rule))
    inputs = list(strings([SPACE, A, B, BLANK], 4))
    inputs += [rng.choice([SPACE, A, B, BLANK], 8, p=[0.2, 0.4, 0.3, 0.1]).tolist() for _ in range(60)]
    inputs += [[B, A, BLANK, A, SPACE, B, A, BLANK, A], [A, SPACE, B, A, BLANK, A, SPACE, A, B]]
    used = 0
    for frames in inputs:
        one, other = said(left, frames), said(right, frames)
        assert one.keys() == other.keys(), frames
        used += sum(len(WORDS) + 1 in words for words in one)
        for words, cost in one.items():
            assert cost == pytest.approx(other[words], abs=TOLERANCE), (frames, words)
    assert used


@pytest.mark.parametrize("model", ["lm", "unigrams"])
@pytest.mark.parametrize(("topology", "loops", "rule"), CASES)
def test_the_rest_is_the_graph_without_a_slot(files, topology, loops, rule, model):
    options = {"separator_rule": rule, "token_self_loops": loops, "progress": False}
    graph, plain = (
        Graph.build(TOKENS, lexicon(WORDS, rule), files / f"{model}.arpa", topology, open_slot=slot, **options)
        for slot in (True, False)
    )
    for name in ("targets", "columns", "words"):
        assert getattr(graph, name)[: plain.num_arcs].tobytes() == getattr(plain, name).tobytes()
    assert graph.finals[: plain.num_states].tobytes() == plain.finals.tobytes()
    assert graph.states[: plain.num_states].tobytes() == plain.states[:-1].tobytes()
    assert graph.num_states - plain.num_states <= 1


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_unused_it_changes_nothing(files, topology):
    graph = Graph.build(TOKENS, lexicon(WORDS, "one"), files / "lm.arpa", topology, open_slot=True, progress=False)
    plain = Graph.build(TOKENS, lexicon(WORDS, "one"), files / "lm.arpa", topology, progress=False)
    rng = np.random.default_rng(1)
    batch = [np.log(rng.dirichlet(np.ones(4), 30)).astype(np.float32) for _ in range(20)]
    for options in ({}, {"beam": 3.0}, {"max_active": 3}):
        got, wanted = (
            CtcDecoder(one, device="cpu", **options).decode(batch, nbest=5, confidence=True) for one in (graph, plain)
        )
        for one, other in zip(got, wanted, strict=True):
            read = lambda h: [h.to_dict() | {"arcs": None, "nbest": None}, [e.to_dict() for e in h.nbest]]  # noqa: E731
            assert read(one) == read(other)
    without = Graph(**graph.fields() | {"open_slot": None})
    same(CtcDecoder(graph, device="cpu").decode(batch), CtcDecoder(without, device="cpu").decode(batch))


def test_saved_and_pickled(files):
    graph = build(files, topology="normal", open_slot_score=-3.0)
    graph.save(files / "graph.arcbeam")
    loaded = Graph.load(files / "graph.arcbeam")
    for other in (loaded, pickle.loads(pickle.dumps(graph)), pickle.loads(pickle.dumps(loaded))):
        for part in ("entrances", "weights", "exits"):
            assert getattr(other.open_slot, part).tobytes() == getattr(graph.open_slot, part).tobytes()
    assert graph.meta["open_slot_score"] == -3.0
    assert (graph.open_slot.weights == np.float32(3.0)).all()
    assert len(graph.open_slot.entrances) > 1  # one for each label that may come before a word
    assert (graph.states["depth"][graph.open_slot.exits] > 0).all()
    plain = build(files, open_slot=False)
    plain.save(files / "plain.arcbeam")
    assert plain.open_slot is None
    assert Graph.load(files / "plain.arcbeam").open_slot is None


def build(files, lm="lm.arpa", open_slot=True, **options):
    options = {"topology": "compact", "progress": False} | options
    return Graph.build(TOKENS, lexicon(WORDS, "one"), files / lm, open_slot=open_slot, **options)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_arc_reads_the_pseudo_token_or_writes_the_unknown_word(files, topology):
    graph = build(files, topology=topology)
    assert set(graph.columns.tolist()) <= {0, 1, 2, 3, 0xFFFF}
    assert int(graph.words.max()) == len(WORDS)
    assert graph.num_columns == len(TOKENS)
    assert sorted(graph.pronunciations.words.tolist()) == [1, 2, 3, 4]


def test_a_model_without_the_unknown_word(files):
    text = LM.format(new="").replace("-1.25\t<unk>\n", "").replace("1=7", "1=6")
    (files / "closed.arpa").write_text(text.replace("-0.5\t<unk> a\n", "").replace("2=4", "2=3"))
    with pytest.raises(ValueError, match=r"expected a unigram <unk>.*open_slot_score= .*--open-slot-score"):
        build(files, "closed.arpa")
    assert (build(files, "closed.arpa", open_slot_score=-2.0).open_slot.weights == np.float32(2.0)).all()


@pytest.mark.parametrize(("unknown", "score"), [("-2.5", -2.5 * math.log(10.0)), ("-6.8", LEAST_SLOT_SCORE)])
def test_a_new_word_does_not_cost_more_than_a_beam_can_bear(files, unknown, score):
    (files / "rare.arpa").write_text(LM.format(new="").replace("-1.25\t<unk>", f"{unknown}\t<unk>"))
    graph = build(files, "rare.arpa", lm_scale=0.5)
    assert graph.meta["open_slot_score"] == pytest.approx(score)
    cost = round(-0.5 * score * 1024) / 1024  # as the graph's weights are rounded
    assert graph.open_slot.weights.tolist() == [cost] * len(graph.open_slot.weights)
    assert build(files, "rare.arpa", open_slot_score=-20.0).meta["open_slot_score"] == -20.0


def test_a_packed_model(files):
    with gzip.open(files / "lm.arpa.gz", "wt") as file:
        file.write(LM.format(new=""))
    assert build(files, "lm.arpa.gz").meta["open_slot_score"] == build(files).meta["open_slot_score"]


def test_a_damaged_model(files):
    (files / "bad.arpa").write_text(LM.format(new="").replace("-1.25", "one"))
    with pytest.raises(FormatError, match=r"bad.arpa, line 6: expected"):
        build(files, "bad.arpa")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"open_slot": False, "open_slot_score": -1.0}, ValueError, "open_slot_score: this needs open_slot=True"),
        ({"open_slot_score": math.nan}, ValueError, "open_slot_score: expected a finite number, got nan"),
        ({"open_slot_score": "-1"}, TypeError, "open_slot_score: expected a number, got str"),
        ({"epsilon_free": True}, ValueError, "open_slot: expected epsilon_free=False"),
        ({"openfst": "TLG.fst"}, ValueError, "open_slot: expected no openfst="),
    ],
)
def test_bad_options(files, options, kind, message):
    with pytest.raises(kind, match=message):
        build(files, **options)


def test_an_open_vocabulary_needs_no_slot(files):
    with pytest.raises(ValueError, match="open_slot: this needs a lexicon"):
        Graph.build(TOKENS, None, files / "lm.arpa", open_slot=True, progress=False)
