"""Sets and graphs of the experiments: no more is made, and no more needed on a machine, than is requested."""

import numpy as np
import pytest

from benchmarks.data import datasets, graphs


@pytest.fixture
def made(monkeypatch):
    """The sizes of the workloads that were made."""
    sizes = []

    def make_workload(name, pieces, utterances):
        sizes.append(utterances)
        ids = [f"w{i}" for i in range(utterances)]
        values = np.arange(utterances, dtype=np.float32)[:, None]
        return datasets.Dataset(name, values, np.ones(utterances, int), ids, ids, 0.04, [])

    monkeypatch.setattr(datasets, "_made", {})
    monkeypatch.setattr(datasets, "make_workload", make_workload)
    return sizes


def test_a_workload_is_made_once_for_all_smaller_ones(made):
    assert [len(datasets.load("workload-512", n).ids) for n in (1, 300, 264, None, 7, 300)] == [
        1,
        300,
        264,
        264,
        7,
        300,
    ]
    assert made == [1, 300]
    assert datasets.load("workload-512", 2).log_probs.tolist() == [[0.0], [1.0]]
    datasets.load("workload-1024", 2)
    assert made == [1, 300, 2]


def test_sets_that_are_none():
    with pytest.raises(KeyError, match="no data set 'workload-x'"):
        datasets.load("workload-x")


def test_a_graph_is_built_without_the_words_of_others(tmp_path, monkeypatch):
    """Where only what it needs was carried to: its language model and the tokens."""
    lm = tmp_path / "large.arpa"
    lm.write_text("\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<s>\n-1\t</s>\n-1\tab\n-1\t<unk>\n\n\\end\\\n")
    (tmp_path / "tokens.txt").write_text("<blk> 0\n| 1\na 2\nb 3\n")
    monkeypatch.setenv("ARCBEAM_DATA", str(tmp_path))
    monkeypatch.setitem(graphs.LMS, "char-large", lm)
    assert graphs.make("char-large").num_states > 0
