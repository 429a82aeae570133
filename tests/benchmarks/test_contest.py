"""Adapters: one interface, and whoever is missing keeps a row that says why."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

import arcbeam
from benchmarks import adapters
from benchmarks.adapters import SearchOptions
from benchmarks.data import graphs
from benchmarks.data.datasets import DataMissing
from benchmarks.tasks import contest
from benchmarks.tasks.contest import Contender

FOLDER = Path(adapters.__file__).parent
OF_TASKS = {"baseline", "flashlight_text"}  # made from a lexicon and an LM, not from a graph; see lexicon_task
# By adapters, and none themselves.
NEEDED = {
    "cublas_engine",
    "fast_gpu_asr",
    "gpu",
    "lexicon_task",
    "nemo_malsd",
    "nemo_sources",
    "nemo_transducer",
    "nemo_trees",
    "sherpa_transducer",
    "transformers_transducer",
}
NAMES = sorted({p.stem for p in FOLDER.glob("[!_]*.py")} - OF_TASKS - NEEDED)
OPTIONS = SearchOptions(beam=9.0, max_active=100)
SAID = [[1, 1, 0, 2, 2, 0], [2, 0, 3, 3, 3, 3], [0, 0, 0]]
TEXTS = ["ah bee", "bee sea", ""]


@pytest.fixture
def small(tmp_path):
    """A loop over three words of a token each, as files; the blank is column 0."""
    arcs = [(0, 0, 1, 0, 0.0)]
    for token in (1, 2, 3):
        for source in range(4):
            arcs.append((source, token, token + 1, 0 if source == token else token, 0.0 if source == token else 0.5))
            arcs.append((source, 0, 1, 0, 0.0))
    graph = arcbeam.Graph.from_arcs(
        arcs,
        finals=dict.fromkeys(range(4), 0.0),
        tokens=arcbeam.TokenTable.from_list(["<blank>", "a", "b", "c"]),
        word_symbols=arcbeam.SymbolTable.from_list(["<eps>", "ah", "bee", "sea"]),
        pronunciations=arcbeam.graph.graph.Pronunciations.from_lists([(1, [1]), (2, [2]), (3, [3]), (3, [3, 1])]),
    )
    graph.save(tmp_path / "small.arcbeam")
    return graphs.GraphFiles("small", tmp_path / "small.arcbeam", tmp_path / "small.fst")


def log_probs(columns):
    values = np.full((len(columns), 4), np.log(0.01), np.float16)
    values[np.arange(len(columns)), columns] = np.log(0.97)
    return values


@pytest.mark.parametrize("name", NAMES)
def test_every_adapter_has_the_interface(name):
    """Read from the source, for most of their packages are not here."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    assert ast.get_docstring(tree), "says what the decoder is, and how it differs"
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assigned = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    exported = ast.unparse(assigned["ADAPTER"])
    body = classes[exported].body
    methods = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    assert methods >= {"__init__", "prepare", "decode", "answers"}
    constants = {ast.unparse(n.targets[0]): n.value for n in body if isinstance(n, ast.Assign)}
    assert isinstance(constants["name"], ast.Constant)
    assert ast.literal_eval(constants["device"]) in ("cpu", "cuda")


def test_a_contender_that_is_there(small):
    taken = contest.seat(Contender("ours, 2", "arcbeam_cpu", {"threads": 2}), small, OPTIONS)
    assert taken.row == {
        "decoder": "ours, 2",
        "adapter": "arcbeam_cpu",
        "device": "cpu",
        "settings": "beam 9, max_active 100, acoustic scale 1, 2 threads",
    }
    adapter = taken.adapter
    answers = adapter.answers(adapter.decode(adapter.prepare([log_probs(c) for c in SAID])))
    assert [a.text for a in answers] == TEXTS


def test_kaldi_decoder_agrees_where_it_is_there(small, tmp_path, monkeypatch):
    pytest.importorskip("kaldi_decoder", reason="a peer: .[peers]")
    monkeypatch.setattr(graphs, "FOLDER", tmp_path / "cache")
    files = graphs.own(small.arcbeam, progress=lambda text: None)
    taken = contest.seat(Contender("peer", "kaldi_decoder"), files, OPTIONS)
    answers = taken.adapter.answers(taken.adapter.decode(taken.adapter.prepare([log_probs(c) for c in SAID])))
    assert [a.text for a in answers] == TEXTS


def test_a_missing_package_has_a_row(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "kaldi_decoder", None)
    monkeypatch.delitem(sys.modules, "benchmarks.adapters.kaldi_decoder", raising=False)
    empty = contest.seat(Contender("Kaldi", "kaldi_decoder"), small, OPTIONS)
    assert empty.adapter is None
    assert empty.row["decoder"] == "Kaldi"
    assert "missing: " in empty.row["status"] and "kaldi_decoder" in empty.row["status"]
    assert "kaldi_decoder" in adapters.missing("kaldi_decoder")


def test_who_does_not_fit_says_so(small, monkeypatch):
    def made(error):
        def make(name):
            raise error

        monkeypatch.setattr(adapters, "make", make)
        return contest.seat(Contender("x", "any"), small, OPTIONS).row["status"]

    assert made(adapters.Unavailable("torch sees no CUDA device")) == "missing: torch sees no CUDA device"
    assert made(ValueError("the blank comes last")) == "cannot: the blank comes last"
    assert made(DataMissing("say lm=FILE")) == "cannot: say lm=FILE"
    assert made(RuntimeError("error\n 700")) == "failed: RuntimeError: error 700"
    empty = contest.seat(Contender("x", "any", needs_token_lm=True), small, OPTIONS)
    assert empty.row["status"] == "cannot: its LM is one of tokens, that of this graph is one of words"


def test_a_missing_file_is_no_missing_package(small):
    gone = graphs.GraphFiles("gone", small.arcbeam.with_name("gone.arcbeam"), small.fst)
    with pytest.raises(FileNotFoundError):
        contest.seat(Contender("ours", "arcbeam_cpu"), gone, OPTIONS)


def test_contenders_are_chosen_by_name():
    every = [Contender("one core", "arcbeam_cpu"), Contender("two cores", "arcbeam_cpu"), Contender("Kaldi", "kaldi")]
    assert contest.chosen(every, None) == every
    assert contest.chosen(every, "arcbeam_cpu") == every[:2]
    assert contest.chosen(every, "two cores,kaldi") == every[1:]
    with pytest.raises(KeyError, match="no contender 'riva'; there are: arcbeam_cpu"):
        contest.chosen(every, "riva")


def test_decoders_without_a_graph_get_tables(small, tmp_path):
    assert small.lexicon() == [("ah", [1]), ("bee", [2]), ("sea", [3]), ("sea", [3, 1])]
    assert small.tokens.blank == 0
    with pytest.raises(DataMissing, match="say lm=FILE"):
        small.arpa()
    bare = arcbeam.Graph.from_arcs([(0, 0, 1, 1, 0.0)], finals={0: 0.0}, num_columns=1)
    bare.save(tmp_path / "bare.arcbeam")
    files = graphs.GraphFiles("bare", tmp_path / "bare.arcbeam", tmp_path / "bare.fst")
    for call, message in (
        (files.words, "words=FILE"),
        (files.lexicon, "pronunciations"),
        (lambda: files.tokens, "toke"),
    ):
        with pytest.raises(DataMissing, match=message):
            call()


def test_a_graph_of_your_own_in_either_format(small, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "FOLDER", tmp_path / "cache")
    ours = graphs.own(small.arcbeam, progress=lambda text: None)
    assert ours.arcbeam == small.arcbeam and ours.fst.exists()
    (tmp_path / "words.txt").write_text("<eps> 0\nah 1\nbee 2\nsea 3\n")
    (tmp_path / "tokens.txt").write_text("<blank>\na\nb\nc\n")
    theirs = graphs.own(
        ours.fst, words=tmp_path / "words.txt", tokens=tmp_path / "tokens.txt", progress=lambda text: None
    )
    assert theirs.fst == ours.fst and theirs.arcbeam != ours.arcbeam
    assert theirs.words() == ["<eps>", "ah", "bee", "sea"]
    assert theirs.graph.targets.tobytes() == small.graph.targets.tobytes()


def test_a_packed_language_model_is_unpacked_once(small, tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr(graphs, "FOLDER", tmp_path / "cache")
    (tmp_path / "lm.arpa.gz").write_bytes(gzip.compress(b"\\data\\\nngram 1=1\n"))
    files = graphs.own(small.arcbeam, lm=tmp_path / "lm.arpa.gz", progress=lambda text: None)
    assert files.arpa().read_bytes() == b"\\data\\\nngram 1=1\n"
    assert files.arpa() == files.arpa()


def test_decoders_with_a_trie_take_the_words_of_a_graph(small, tmp_path):
    pytest.importorskip("kenlm", reason="the baseline's LM is KenLM's")
    lexicon_task = pytest.importorskip("benchmarks.adapters.lexicon_task")
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=6\nngram 2=1\n\n\\1-grams:\n-99\t<s>\t0\n-1\t</s>\n-9\t<unk>\n-0.5\tah\t0\n-0.6\tbee\t0\n"
        "-0.6\tsea\t0\n\n\\2-grams:\n-0.4\tah bee\n\n\\end\\\n"
    )
    files = graphs.GraphFiles(small.name, small.arcbeam, small.fst, tmp_path / "lm.arpa")
    task = lexicon_task.task_of(files, SearchOptions(beam_size=50, beam_size_token=32, lm_weight=2.0))
    assert list(task.lexicon.pronunciations()) == [(w, tuple(c), 0.0) for w, c in small.lexicon()]
    assert task.silence is None and task.lm == tmp_path / "lm.arpa"
    assert task.options["beam_size_token"] == 4 and task.options["lm_weight"] == pytest.approx(2 * np.log(10))
    taken = contest.seat(Contender("baseline", "baseline_words", {"mended": True}), files, OPTIONS)
    assert "the last token of a word may repeat" in taken.row["settings"]
    answers = taken.adapter.answers(taken.adapter.decode(taken.adapter.prepare([log_probs(c) for c in SAID])))
    assert [a.text for a in answers] == TEXTS
    assert lexicon_task.best([[]])[0].text == ""
