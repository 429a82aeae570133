"""Graphs of k2 decode as the same graphs of OpenFst do; whatever else the file has is not run."""

import os
import sys
import types
from unittest import mock

import numpy as np
import pytest

import arcbeam
from arcbeam.core.errors import FormatError
from arcbeam.graph.openfst import write_vector
from tests.decode import graphs
from tests.decode.equality import same
from tests.files.mutants import MUTANTS, attack, little_memory, mutate  # noqa: F401 - a fixture
from tests.files.test_fuzz import within_zip
from tests.transducer.archives import torch_file

TOKENS = ["<blk>", "a", "b", "c"]
# Source, destination, token, words, score. A frame of a token or of a blank each; "ab" writes two words at once.
HLG = [
    (0, 0, 0, [], -0.1),
    (0, 1, 1, [1], -0.5),
    (0, 1, 2, [], -0.25),
    (1, 1, 1, [], 0.0),
    (1, 1, 0, [], 0.0),
    (1, 2, 2, [2, 3], -0.75),
    (1, 2, 3, [3, 1, 2], -1.25),
    (2, 2, 0, [], -0.5),
    (1, 3, -1, [], -2.0),
    (2, 3, -1, [], 0.0),
]


class RaggedTensor:
    """Stands for k2's, whose pickle has only its state."""

    def __init__(self, state):
        self.state = state

    def __getstate__(self):
        return self.state


RaggedTensor.__module__ = "_k2.ragged"


def k2_arcs(arcs):
    rows = np.zeros((len(arcs), 4), np.int32)
    rows[:, :3] = [arc[:3] for arc in arcs]
    rows[:, 3] = np.array([arc[4] for arc in arcs], np.float32).view(np.int32)
    return rows


def ragged(words):
    splits = np.append(0, np.cumsum([len(one) for one in words])).astype(np.int32)
    return RaggedTensor((splits, "row_ids1", np.array([w for one in words for w in one], np.int32)))


def write(path, arcs=HLG, aux="ragged", **more):
    """What ``torch.save(fsa.as_dict())`` writes."""
    words = [arc[3] for arc in arcs]
    labels = ragged(words) if aux == "ragged" else np.array([one[0] if one else 0 for one in words], np.int32)
    content = {"arcs": k2_arcs(arcs), "aux_labels": labels, **more}
    modules = {"_k2": types.SimpleNamespace(), "_k2.ragged": types.SimpleNamespace(RaggedTensor=RaggedTensor)}
    with mock.patch.dict(sys.modules, modules):
        path.write_bytes(torch_file(content))
    return path


def openfst(path, arcs=HLG):
    """The same graph as OpenFst has it: labels are one more, and further words stand on arcs of their own."""
    final = max(arc[1] for arc in arcs)
    finals, rows, states = {}, [], final
    for source, destination, token, words, score in arcs:
        if token == -1:
            finals[source] = 0.0 - score
            continue
        first, *more = words or [0]
        chain = [source, *range(states, states + len(more)), destination]
        rows.append((chain[0], chain[1], token + 1, first, 0.0 - score))
        rows += [(chain[i + 1], chain[i + 2], 0, word, 0.0) for i, word in enumerate(more)]
        states += len(more)
    write_vector(path, 0, *zip(*rows, strict=True), finals, states)
    return path


def decoded(graph):
    batch = [graphs.random_log_probs(seed, 9, graph.num_columns) for seed in range(6)]
    return arcbeam.CtcDecoder(graph, device="cpu", threads=1).decode(batch)


@pytest.mark.parametrize("aux", ["ragged", "one word"])
def test_a_graph_with_its_topology(tmp_path, aux):
    arcs = HLG if aux == "ragged" else [(*arc[:3], arc[3][:1], arc[4]) for arc in HLG]
    words = ["<eps>", "x", "y", "z"]
    given = {"tokens": TOKENS, "words": words}
    graph = arcbeam.Graph.load(
        write(tmp_path / "HLG.pt", arcs, aux, lm_scores=np.zeros(len(arcs), np.float32)), **given
    )
    wanted = arcbeam.Graph.load(openfst(tmp_path / "HLG.fst", arcs), **given)
    assert graph.blank == 0 and graph.tokens == wanted.tokens
    for name, array in wanted.fields()["columns"].items():
        assert graph.fields()["columns"][name].tobytes() == array.tobytes(), name
    same(decoded(graph), decoded(wanted))
    assert any(hypothesis.text.count(" ") for hypothesis in decoded(graph))


def test_without_tables(tmp_path):
    graph = arcbeam.Graph.load(write(tmp_path / "HLG.pt"))
    assert (graph.num_columns, graph.width_is_exact, graph.blank, graph.tokens) == (4, False, 0, None)
    assert arcbeam.Graph.load(tmp_path / "HLG.pt", num_columns=6).num_columns == 6
    graph.save(tmp_path / "HLG.arcbeam")
    same(decoded(arcbeam.Graph.load(tmp_path / "HLG.arcbeam")), decoded(graph))


def test_a_graph_without_topology(tmp_path):
    pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    arcs = [(0, 1, 1, [1], -0.5), (1, 0, 2, [], 0.0), (0, 0, 3, [2, 2], -0.25), (0, 2, -1, [], -0.125)]
    path = write(tmp_path / "LG.pt", arcs)
    with pytest.raises(ValueError, match=r"LG.pt; got neither"):
        arcbeam.Graph.load(path)
    graph = arcbeam.Graph.load(path, tokens=TOKENS, words=["<eps>", "ab", "c"])
    same(decoded(arcbeam.Graph.load(path, num_columns=4, words=graph.word_symbols)), decoded(graph))
    columns = [1, 1, 0, 2, 3, 0, 0, 3]
    log_probs = np.full((len(columns), 4), np.log(0.02), np.float32)
    log_probs[np.arange(len(columns)), columns] = np.log(0.94)
    [found] = arcbeam.CtcDecoder(graph, device="cpu").decode([log_probs])
    assert found.text == "ab c c c c" and found.reached_final
    assert found.graph_score == -0.5 - 0.25 - 0.25 - 0.125


BAD = {
    "no arcs": ({"aux_labels": np.zeros(3, np.int32)}, "without its arcs"),
    "several": ({"arcs": np.zeros(20, np.int32)}, r"expected one graph of k2 as arcs \[arcs, 4\], got \[20\]"),
    "other arcs": ({"arcs": np.zeros((3, 4), np.float32)}, "without its arcs"),
    "no words": ({"arcs": k2_arcs(HLG)}, "expected aux_labels, the words of the arcs"),
    "few words": ({"arcs": k2_arcs(HLG), "aux_labels": np.zeros(3, np.int32)}, "of 10 arcs, got those of"),
    "list": ([1, 2], "without its arcs"),
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_have_no_graph(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / "HLG.pt").write_bytes(torch_file(content))
    with pytest.raises(FormatError, match=message) as raised:
        arcbeam.Graph.load(tmp_path / "HLG.pt")
    assert "HLG.pt" in str(raised.value)


@pytest.mark.parametrize(
    ("arc", "message"),
    [
        ((1, 2, -1, [], 0.0), "expected the label -1 on the arcs to the final state 3, and on no other"),
        ((1, 3, 2, [], 0.0), "expected the label -1 on the arcs to the final state 3"),
        ((3, 1, 2, [], 0.0), "expected states from 0 to 3, the last one final"),
        ((-1, 1, 2, [], 0.0), "expected states from 0 to 3"),
        ((1, 2, -2, [], 0.0), "and labels from -1"),
        ((2, 3, -1, [1], 0.0), "expected no words on arcs to the final state"),
    ],
)
def test_arcs_that_k2_does_not_write(tmp_path, arc, message):
    with pytest.raises(FormatError, match=message):
        arcbeam.Graph.load(write(tmp_path / "HLG.pt", [*HLG, arc]))


def test_damaged_files(tmp_path):
    whole = write(tmp_path / "HLG.pt").read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 30):
        (tmp_path / "HLG.pt").write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"HLG\.pt"):
            arcbeam.Graph.load(tmp_path / "HLG.pt")
    bad = [(0, 0, 1, [1], float("nan")), *HLG]
    with pytest.raises(arcbeam.GraphError, match="weight is nan"):
        arcbeam.Graph.load(write(tmp_path / "HLG.pt", bad))
    wide = [(0, 0, 70_000, [], 0.0), *HLG]
    with pytest.raises((arcbeam.GraphError, FormatError)):
        arcbeam.Graph.load(write(tmp_path / "HLG.pt", wide))
    with pytest.raises(ValueError, match="label_to_column: expected None"):
        arcbeam.Graph.load(write(tmp_path / "HLG.pt"), label_to_column=[0, 1])


class Runs:
    """Would run a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_nothing_in_the_file_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert arcbeam.Graph.load(write(tmp_path / "HLG.pt", other=Runs())).num_arcs == 11
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("little_memory")
def test_mutants(tmp_path):
    def load(path):
        decoded(arcbeam.Graph.load(path, num_columns=4))

    data, path = write(tmp_path / "whole.pt").read_bytes(), tmp_path / "HLG.pt"
    attack("k2", data, path, load, MUTANTS)
    for member in ("data.pkl", "0", "1", "2"):
        attack(member, data, path, load, MUTANTS, within_zip(mutate, member))


def test_a_far_state_takes_no_memory(tmp_path):
    with pytest.raises(FormatError, match="expected states from 0 to"):
        arcbeam.Graph.load(write(tmp_path / "HLG.pt", [(0, 0, 0, [], 0.0), (0, 2**31 - 1, -1, [], 0.0)]))
