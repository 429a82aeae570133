"""Small and deviation are the large model: on sentences by the thousand, and on the speech of the demo."""

import lzma
import warnings

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, KenLM, LanguageModel, SymbolTable, TokenTable
from arcbeam.ctc.cpu._decode import rescoring_cost
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from arcbeam.lm._language_model import walk
from tests.decode.kenlm_files import need_kenlm
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs


def any_sentence(words, digest):
    """A graph of one state, whose arc w - 1 says word w."""
    arcs = [(0, 0, 1, w, 0.0) for w in range(1, len(words) + 1)]
    symbols = SymbolTable.from_list(["<eps>", *words])
    return Graph.from_arcs(arcs, finals={0: 0.0}, num_columns=1, word_symbols=symbols, meta={"lm_digest": digest})


def check_sentences(graph, words, large, small, sentences, **options):
    both = Rescoring(graph, large, small, DecoderOptions(**options))
    scale = options.get("lm_scale", 1.0)
    for sentence in sentences:
        text = [words[i] for i in sentence]
        added = rescoring_cost(graph, both, np.array(sentence, np.uint32), True)
        assert added - small.score(text) == pytest.approx(-scale * large.score(text), abs=1e-3), text


@pytest.mark.parametrize("orders", [(4, 3), (3, 1), (2, 4), (1, 1)])
def test_thousands_of_random_sentences(orders):
    rng = np.random.default_rng(sum(orders))
    words = list("abcdef")
    large, small = (random_model(rng, words, order, share=0.3) for order in orders)
    sentences = [rng.integers(0, 6, rng.integers(0, 9)).tolist() for _ in range(1500)]
    check_sentences(any_sentence(words, small.digest), words, large, small, sentences, lm_scale=0.5)


@pytest.fixture(scope="module")
def demo(demo_data, tmp_path_factory):
    """The demo's 3-gram, and a bigram model of its n-grams whose words are in the recordings."""
    folder = tmp_path_factory.mktemp("lm")
    references = [line.split("\t")[1].split() for line in (demo_data / "reference.tsv").read_text().splitlines()]
    short = sorted(range(len(references)), key=lambda i: len(references[i]))
    lines = lzma.decompress((demo_data / "novels.3gram.arpa.xz").read_bytes()).decode().splitlines()
    listed = {fields[1] for fields in (line.split("\t") for line in lines) if len(fields) > 1}
    words = sorted({word for i in short for word in references[i] if word in listed})
    known = {"<s>", "</s>", "<unk>", *words}
    levels = [[], []]
    for line in lines:
        fields = line.split("\t")
        if len(fields) > 1 and len(fields[1].split(" ")) < 3 and set(fields[1].split(" ")) <= known:
            levels[fields[1].count(" ")].append(line)
    bigrams = ["\t".join(line.split("\t")[:2]) for line in levels[1][::2]]
    text = ["\\data\\", f"ngram 1={len(levels[0])}", f"ngram 2={len(bigrams)}", "\\1-grams:", *levels[0]]
    (folder / "small.arpa").write_text("\n".join([*text, "\\2-grams:", *bigrams, "\\end\\", ""]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # half of the bigrams do not sum to one
        small = LanguageModel.build(folder / "small.arpa", progress=False)
        large = LanguageModel.build(demo_data / "novels.3gram.arpa.xz", progress=False)
    return folder / "small.arpa", small, large, words, short


def test_thousands_of_sentences_of_a_real_model(demo):
    _, small, large, words, _ = demo
    rng = np.random.default_rng(3)
    sentences = [rng.integers(0, len(words), rng.integers(0, 15)).tolist() for _ in range(2000)]
    check_sentences(any_sentence(words, small.digest), words, large, small, sentences)


def composed_by_kaldifst(kaldifst, graph, large, small, words):
    """The graph composed with the deviation automaton: a state for each pair of histories, an arc for each word."""
    from arcbeam.recipe.arrays import ArcArrays

    def costs_after(model, state):
        labels = np.array([model.label(w) for w in words] + [model.end_label], np.uint32)
        steps = [walk(model.columns, model.about, state, labels[i : i + 1]) for i in range(len(labels))]
        return [(float(cost[0]), int(following[0])) for cost, _, following in steps]

    start = (large.start, small.start)
    numbers, arcs, finals = {start: 0}, [], {}
    for pair in (queue := [start]):
        of_large, of_small = costs_after(large, pair[0]), costs_after(small, pair[1])
        finals[numbers[pair]] = of_large[-1][0] - of_small[-1][0]
        for word, ((a, next_a), (b, next_b)) in enumerate(zip(of_large[:-1], of_small[:-1], strict=True), 1):
            if (next_a, next_b) not in numbers:
                numbers[next_a, next_b] = len(numbers)
                queue.append((next_a, next_b))
            arcs.append((numbers[pair], numbers[next_a, next_b], word, word, a - b))
    deviation = ArcArrays.join([tuple(np.array(column) for column in zip(*arcs, strict=True))], finals).to_kaldifst()
    first = graph.states["first_arc"].astype(np.int64)
    columns = graph.columns.astype(np.int32)
    tlg = ArcArrays(
        sources=np.repeat(np.arange(graph.num_states, dtype=np.int32), np.diff(first)),
        targets=graph.targets["next_state"].astype(np.int32),
        inputs=np.where(columns == 0xFFFF, 0, columns + 1).astype(np.int32),
        outputs=graph.words.astype(np.int32),
        costs=graph.targets["weight"],
        finals=graph.finals,
        start=graph.start,
    ).to_kaldifst()
    kaldifst.arcsort(tlg, sort_type="olabel")
    kaldifst.arcsort(deviation, sort_type="ilabel")
    whole = kaldifst.compose(tlg, deviation)
    return Graph.from_fst(whole, num_columns=graph.num_columns, words=graph.word_symbols)


@pytest.mark.parametrize("seed", range(8))
def test_on_random_graphs_it_is_the_composition(seed):
    kaldifst = pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(1, 50)]
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731
    large, small = (random_model(rng, words, n, share=share, cost=cost) for n, share in ((3, 0.08), (2, 0.1)))
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *words]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**random_graph(seed, states=40, columns=6).fields() | fields)
    batch = [random_log_probs(100 * seed + i, 2 + 3 * i, 6) for i in range(4)]
    wide = {"beam": float("inf"), "max_active": None}
    wanted = CtcDecoder(composed_by_kaldifst(kaldifst, graph, large, small, words), **wide).decode(batch)
    one = CtcDecoder(graph, language_model=large, graph_language_model=small, **wide)
    for got, expected in zip(one.decode(batch), wanted, strict=True):
        assert got.text == expected.text
        assert got.score == pytest.approx(expected.score, abs=1e-3)
        assert got.reached_final and expected.reached_final
    assert any(h.rescoring_score != 0.0 and len(h.word_ids) > 1 for h in one.decode(batch))


@pytest.mark.parametrize("by_last_token", [False, True])
def test_on_the_demos_speech_it_is_the_composition(demo, demo_data, by_last_token):
    kaldifst = pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    from arcbeam.recipe.lexicon import Lexicon

    arpa, small, large, words, short = demo
    tokens = TokenTable.read(demo_data / "tokens.txt")
    graph = Graph.build(tokens, Lexicon.spell(words, tokens), arpa, words_by_last_token=by_last_token, progress=False)
    assert graph.meta["lm_digest"] == small.digest
    assert (graph.info().epsilon_arcs_with_word == 0) == by_last_token
    known = [graph.word_symbols[i] for i in range(1, len(words) + 1)]
    whole = composed_by_kaldifst(kaldifst, graph, large, small, known)
    archive = np.load(demo_data / "log_probs.npz")
    utterances = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])
    batch = [utterances[i].astype(np.float32) for i in short]
    wide = {"beam": 40.0, "max_active": None}
    # Without any beam a frame has 35 000 hypotheses: the two shortest recordings, for all take a minute.
    for beam, some in ((40.0, batch), (float("inf"), batch[:2])):
        search = wide | {"beam": beam}
        one = CtcDecoder(graph, language_model=large, graph_language_model=small, **search)
        wanted = CtcDecoder(whole, **wide | {"beam": beam}).decode(some)
        for got, expected in zip(one.decode(some), wanted, strict=True):
            assert got.text == expected.text
            assert got.score == pytest.approx(expected.score, abs=1e-3)
            assert got.reached_final and len(got.word_ids) > 0
    plain = [h.text for h in CtcDecoder(graph, **wide).decode(batch)]
    assert len(set(plain)) > 1


def test_on_the_demos_speech_kenlm_says_the_same(demo, demo_data):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    need_kenlm()
    from arcbeam.recipe.lexicon import Lexicon

    arpa, small, large, words, _ = demo
    tokens = TokenTable.read(demo_data / "tokens.txt")
    graph = Graph.build(tokens, Lexicon.spell(words, tokens), arpa, progress=False)
    archive = np.load(demo_data / "log_probs.npz")
    batch = np.split(archive["log_probs"], np.cumsum(archive["lengths"])[:-1])
    ours, kenlm = (
        CtcDecoder(graph, language_model=model, graph_language_model=small, hypotheses_per_state=3).decode(batch)
        for model in (large, KenLM(demo_data / "novels.3gram.arpa.xz"))
    )
    assert sum(len(h.words) for h in ours) > 50
    for a, b in zip(ours, kenlm, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-3)
        assert a.text == b.text
