"""The experiment `align_cpu` on the recordings of the demo."""

import numpy as np

import arcbeam
from benchmarks.data import datasets
from benchmarks.experiments import align_cpu
from benchmarks.harness.registry import Context


def test_texts_that_were_said_and_others():
    dataset = datasets.load("demo").first(4)
    graph = arcbeam.Graph.greedy(dataset.tokens)
    decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=1, frame_shift=dataset.frame_shift)
    utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
    texts = align_cpu.listed(dataset.references)
    assert list(texts) == [align_cpu.OWN, *align_cpu.REPLACED, align_cpu.NEXT]
    rows = {
        name: align_cpu.row(Context(repeats=1), decoder, utterances, of, dataset.seconds) for name, of in texts.items()
    }
    own, others = rows[align_cpu.OWN], rows[align_cpu.NEXT]
    assert (own["fit"], own["exact"], own["doubtful"]) == (4, 4, 0)
    assert others["doubtful"] == others["fit"] > 0
    assert own["smallest"] > others["largest"]
    assert set(own) <= {column.key for column in align_cpu.COLUMNS}
