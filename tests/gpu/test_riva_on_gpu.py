"""riva-asrlib-decoder's n-best lists and minimum-Bayes-risk words on a real GPU, compared with ours on the same graph.

Each difference is listed where a test fails. riva's process may end with it: run this file alone.
"""

from dataclasses import replace

import pytest

from benchmarks import adapters
from benchmarks.adapters import gpu as on_gpu
from benchmarks.data import graphs
from benchmarks.experiments.gpu_lattice import CLOSE
from benchmarks.tasks import riva_answers
from tests.gpu.test_speech_on_gpu import graph_named, set_named

COUNT = 64  # utterances of the set
MANY = 200  # entries of ours among which riva's ten have to be: their costs are rounded otherwise
WORKLOADS = [(*workload, options) for workload in on_gpu.WORKLOADS for options in on_gpu.BEAMS]


@pytest.fixture(scope="module", autouse=True)
def needs_riva():
    reason = adapters.missing("riva")
    if reason:
        pytest.skip(reason)


def named(workload):
    graph, _, options = workload
    return f"{graph}, {on_gpu.beam_text(options)}"


@pytest.fixture(scope="module", params=WORKLOADS, ids=named)
def answers(request):
    """Our hypotheses, and riva's lists and words."""
    graph, name, options = request.param
    graph_named(graph)  # skips where it has not been built
    files, dataset = graphs.files(graph), set_named(name).first(COUNT)
    options = replace(options, batch=COUNT)
    riva = adapters.make("riva")(files, options, max_batch_size=COUNT, frame_shift=dataset.frame_shift, nbest=10)
    arrays = on_gpu.send(dataset.utterances)
    decoder = on_gpu.decoder(files.graph, options, lattice_beam=options.lattice_beam)
    found = decoder.decode(arrays, nbest=MANY, confidence=True, lattice=True)
    ready = riva.look_into(arrays)
    return found, riva.decode_nbest(ready), riva.decode_mbr(ready)


def test_its_entries_are_among_ours(answers):
    """Or it writes a word twice, or has kept a path that we have not: each is listed, and there are few.

    Where its search has lost the best path, which we have, its other paths are worse than our lattice beam."""
    found, lists, _ = answers
    count = sum(map(len, lists))
    assert count > len(lists)
    missing = riva_answers.missing_entries(found, lists)
    known = (riva_answers.LATER, riva_answers.IN_LATTICE, riva_answers.LOST)
    others = [one for one in missing if one.why not in known]
    assert len(others) <= count // 20, "\n".join(map(str, others))


def test_its_first_entry_is_ours(answers):
    """Or one of the same cost, or a worse one: of those that differ otherwise, all are listed."""
    found, lists, _ = answers
    lost = riva_answers.lost_best_paths(found, lists)
    assert len(lost) <= len(found) // 10, str(lost)
    other = [
        f"utterance {i}: {h.text!r}, riva: {list(entries[0].words)}"
        for i, (h, entries) in enumerate(zip(found, lists, strict=True))
        if entries and i not in lost and h.word_ids.tolist() != [word for word in entries[0].words if word]
    ]
    assert len(other) <= len(found) // 50, "\n".join(other)


def test_its_confidences_are_ours(answers):
    """Within 0.02, but for a sixth of the words: its search drops other paths, and not the same ones in each run."""
    found, _, words = answers
    _, differences = riva_answers.confidences(found, words)
    assert len(differences) > 5 * len(found)
    assert sum(one > CLOSE for one in differences) <= len(differences) // 6
