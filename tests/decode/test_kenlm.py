"""The engine with a KenLM model: against an oracle of its states, against our automaton, and whatever the file."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, KenLM, LanguageModel, SymbolTable
from tests.decode import graphs, kenlm_files, rescoring_oracle
from tests.decode.equality import as_the_oracle
from tests.decode.language_models import language_model, random_model
from tests.decode.test_engine import as_bytes
from tests.decode.test_rescoring import WORDS, with_words
from tests.hypothesis_examples import examples

f32 = np.float32
LN10 = 2.302585092994045684


@pytest.fixture(scope="module", autouse=True)
def kenlm():
    return kenlm_files.need_kenlm()


class KenLmDeviations(rescoring_oracle.Deviations):
    """KenLM's states as its documentation has them: the words that may still matter, newest first.

    `model` is a dictionary of n-grams. A history is a state of each model; the order of KenLM's is by length, and by
    the words as the graph numbers them.
    """

    NAMES = ("<unk>", "<s>", "<eps>", *WORDS)

    def __init__(self, graph, model, small, lm_scale=1.0, graph_lm_scale=1.0):
        super().__init__(graph, None, small, lm_scale, graph_lm_scale)
        self.model = model
        self.goes_on = {gram[:-1] for gram in model.prob}

    def state(self, context):
        """How much of a context KenLM keeps: the longest end that an n-gram continues, or that backing off costs."""
        known = [w if (w,) in self.model.prob else "<unk>" for w in context]
        for n in range(min(len(known), self.model.order - 1), 0, -1):
            gram = tuple(known[len(known) - n :])
            if gram in self.goes_on or self.model.backoff.get(gram, 0.0) != 0.0:
                return n, tuple(self.rank(word) for word in reversed(gram))
        return 0, ()

    def rank(self, word):
        return self.NAMES.index(word) - 2

    def context(self, state):
        return [self.NAMES[rank + 2] for rank in reversed(state[1])]

    def start(self):
        return self.state(["<s>"]), self.small.start

    def cost(self, context, word):
        return f32(-LN10 * self.model.word_score(tuple(context), word))

    def __call__(self, history, word):
        text, context = self.graph.word_symbols[word], self.context(history[0])
        small, next_small = rescoring_oracle.step(self.small, history[1], self.small.label(text))
        return self._cost(self.cost(context, text), small), (self.state([*context, text]), next_small)

    def end(self, history):
        small, _ = rescoring_oracle.step(self.small, history[1], self.small.end_label)
        return self._cost(self.cost(self.context(history[0]), "</s>"), small)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Models as dictionaries and as KenLM has them, of all orders, with ties or without, some of fewer words."""
    folder, found = tmp_path_factory.mktemp("kenlm"), []
    for seed in range(8):
        words = WORDS if seed % 4 else WORDS[:2]
        model = kenlm_files.random_ngrams(words, 2 + seed % 3, seed, few=seed < 4)
        arpa = model.write(folder / f"{seed}.arpa")
        binary = kenlm_files.write_binary(arpa, folder / f"{seed}.binary", kenlm_files.TRIE) if seed % 2 else arpa
        found.append((model, KenLM(binary)))
    return found


@settings(deadline=None, max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from([None, None, 1, 4]),
    st.sampled_from([(1.0, 1.0), (0.5, 1.0), (0.0, 0.0)]),
)
def test_agrees_with_the_oracle(pairs, data, graph, batch, beam, n, max_active, scales):
    model, large = data.draw(st.sampled_from(pairs))
    few = data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    small = random_model(
        rng, WORDS, 2, cost=lambda r: int(r.integers(0, 3)) / 2 if few else int(r.integers(0, 99)) / 64
    )
    graph = with_words(graph, small, lm_scale=scales[1])
    options = {"beam": beam, "hypotheses_per_state": n, "max_active": max_active}
    one = CtcDecoder(
        graph, language_model=large, graph_language_model=small, lm_scale=scales[0], device="cpu", placement="cpu",
        unknown_words="unk", threads=2, **options,
    )  # fmt: skip
    deviations = KenLmDeviations(graph, model, small, *scales)
    for logp, got in zip(batch, one.decode(batch), strict=True):
        wanted = rescoring_oracle.decode(graph, deviations, logp, **options)
        as_the_oracle(got, wanted)


MANY = [f"w{i}" for i in range(1, 50)]


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """A graph of 2 000 states, a batch, the small model, and a 3-gram as ARPA, KenLM's binaries and our automaton."""
    folder = tmp_path_factory.mktemp("kenlm")
    model = kenlm_files.random_ngrams(MANY[:44], 3, 5)
    goes_on = {gram[:-1] for gram in model.prob}  # with back-offs elsewhere, too, the two pay them at different times
    model.backoff = {gram: weight if gram in goes_on else 0.0 for gram, weight in model.backoff.items()}
    arpa = model.write(folder / "lm.arpa")
    (folder / "lm.arpa.gz").write_bytes(gzip.compress(arpa.read_bytes()))
    large = {"arpa": KenLM(arpa), "gz": KenLM(folder / "lm.arpa.gz")}
    for kind in (kenlm_files.PROBING, kenlm_files.TRIE, kenlm_files.ARRAY_TRIE):
        large[str(kind)] = KenLM(kenlm_files.write_binary(arpa, folder / f"lm.{kind}", kind))
    rng = np.random.default_rng(7)
    small = random_model(rng, MANY, 2, share=0.3, cost=lambda r: float(r.gamma(4.0)))
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *MANY]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**graphs.random_graph(1).fields() | fields)
    batch = [graphs.random_log_probs(seed, int(rng.integers(0, 40))) for seed in range(12)]
    with pytest.warns(UserWarning, match="sum"):
        automaton = LanguageModel.build(arpa, progress=False)
    return graph, batch, small, large, automaton


def decoder(speech, large="arpa", **options):
    graph, _, small, known, automaton = speech
    settings = {"beam": 6.0, "max_active": 400, "threads": 2, "frame_shift": 0.02, "unknown_words": "unk"} | options
    model = automaton if large == "automaton" else known[large]
    return CtcDecoder(graph, language_model=model, graph_language_model=small, device="cpu", **settings)


@pytest.mark.parametrize("n", [1, 2, 5, None])
def test_equal_bytes(speech, n, monkeypatch):
    """Whatever the file, the threads, the order and the room for histories; and again."""
    _, batch, *_ = speech
    wanted = as_bytes(decoder(speech, hypotheses_per_state=n, threads=1).decode(batch))
    assert len(set(wanted)) == len(batch)
    for large in ("gz", "0", "2", "4"):
        assert as_bytes(decoder(speech, large, hypotheses_per_state=n).decode(batch)) == wanted
    one = decoder(speech, hypotheses_per_state=n, threads=3)
    assert as_bytes(one.decode(batch)) == as_bytes(one.decode(batch)) == wanted
    assert as_bytes(one.decode(batch[::-1])) == wanted[::-1]
    assert [as_bytes(one.decode([logp]))[0] for logp in batch] == wanted
    monkeypatch.setattr("arcbeam.ctc.engines.COLLECT_ABOVE", 1)
    assert as_bytes(decoder(speech, hypotheses_per_state=n).decode(batch)) == wanted


def test_long_audio_forgets_histories(speech, monkeypatch):
    long = [graphs.random_log_probs(3, 1000)]
    whole = as_bytes(decoder(speech, hypotheses_per_state=2, max_active=50).decode(long))
    monkeypatch.setattr("arcbeam.ctc.engines.COLLECT_ABOVE", 800)
    assert as_bytes(decoder(speech, hypotheses_per_state=2, max_active=50).decode(long)) == whole


@pytest.mark.parametrize("unknown", ["unk", "small"])
@pytest.mark.parametrize("n", [1, 3, None])
def test_the_automaton_says_the_same(speech, n, unknown):
    _, batch, *_ = speech
    options = {"hypotheses_per_state": n, "unknown_words": unknown}
    mine, theirs = (decoder(speech, large, **options).decode(batch) for large in ("automaton", "2"))
    assert sum(len(h.words) for h in mine) > 20
    for a, b in zip(mine, theirs, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-3)
        assert a.rescoring_score == pytest.approx(b.rescoring_score, abs=1e-3) or a.text != b.text
    assert [h.text for h in mine] == [h.text for h in theirs]


def test_scores_add_up_and_memory_is_counted(speech):
    graph, batch, small, large, _ = speech
    one = decoder(speech, "2")
    for found in one.decode(batch):
        if found.reached_final:
            text = [graph.word_symbols[int(i)] for i in found.word_ids]
            assert found.rescoring_score == pytest.approx(large["2"].score(text) - small.score(text), abs=1e-3)
    assert one.stats.lookups > one.stats.lookup_misses > 0
    assert one.memory().language_models == large["2"].nbytes + small.info().bytes
    assert large["2"].nbytes == large["2"].path.stat().st_size


def tied_arpa(path, vocabulary, contexts):
    """Every word costs the same after everything; `contexts` are histories all the same, since c follows them."""
    unigrams = ["<unk>", "<s>", "</s>", *vocabulary]
    lines = ["\\data\\", f"ngram 1={len(unigrams)}", f"ngram 2={len(contexts)}", "", "\\1-grams:"]
    lines += [f"-1\t{word}\t0" for word in unigrams]
    lines += ["", "\\2-grams:", *(f"-1\t{word} c" for word in contexts), "", "\\end\\", ""]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("n", [1, 2, None])
@pytest.mark.parametrize("kind", [None, kenlm_files.PROBING, kenlm_files.TRIE])
@pytest.mark.parametrize("vocabulary", ["abc", "bac", "cba"])
@pytest.mark.parametrize("arcs", [(1, 2), (2, 1)])
@pytest.mark.parametrize(("contexts", "wanted"), [("ab", None), ("ba", None), ("a", "b"), ("b", "a")])
def test_ties_are_settled_by_words(tmp_path, n, kind, vocabulary, arcs, contexts, wanted):
    """Equal costs, one arc to one history: the one with fewer words wins, or whose word the graph has first.

    KenLM numbers words otherwise, by the file and its kind, and the search meets histories in the order of the arcs.
    """
    path = tied_arpa(tmp_path / "lm.arpa", vocabulary, contexts)
    large = KenLM(path if kind is None else kenlm_files.write_binary(path, tmp_path / "lm.binary", kind))
    small = language_model([*"abc"], {(): (dict.fromkeys([*"abc", "</s>"], 1.0), 0.0)})
    for words in ("abc", "bac"):
        said = [(0, 1, 1, label, 0.0) for label in arcs]
        graph = Graph.from_arcs(
            [*said, (1, 2, 1, 3, 0.0)], finals={2: 0.0}, num_columns=1, word_symbols=["<eps>", *words],
            meta={"lm_digest": small.digest},
        )  # fmt: skip
        logp = np.zeros((2, 1), np.float32)
        one = CtcDecoder(
            graph, language_model=large, graph_language_model=small, hypotheses_per_state=n, threads=1, device="cpu"
        )
        for frames in (2, 1):
            assert one.decode([logp[:frames]])[0].text.split()[0] == (wanted or words[0])
