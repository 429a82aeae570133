"""riva-asrlib-decoder's n-best lists and minimum-Bayes-risk words on a real GPU, compared with ours on the same graph.

Each difference is listed where a test fails. riva's process may end with it: run this file alone.
"""

from dataclasses import replace

import pytest

from arcbeam.gpu.devices import why_no_cuda
from benchmarks import adapters
from benchmarks.adapters import gpu as on_gpu
from benchmarks.data import graphs
from benchmarks.experiments import gpu_lattice
from benchmarks.tasks import riva_answers, riva_confidences
from tests.gpu.test_speech_on_gpu import graph_named, set_named

COUNT = 64  # utterances of the set
MANY = 200  # entries of ours among which riva's ten have to be: their costs are rounded otherwise
WORKLOADS = [(*workload, options) for workload in on_gpu.WORKLOADS for options in on_gpu.BEAMS]


@pytest.fixture(scope="module", autouse=True)
def needs_riva(gpu):
    reason = why_no_cuda(gpu) or adapters.missing("riva")
    if reason:
        pytest.skip(reason)


def named(workload):
    graph, _, options = workload
    return f"{graph}, {on_gpu.beam_text(options)}"


@pytest.fixture(scope="module", params=WORKLOADS, ids=named)
def answers(request):
    """Our hypotheses, and of riva its lists, and its words and its lattices as it gives them several times."""
    graph, name, options = request.param
    graph_named(graph)  # skips where it has not been built
    files, dataset = graphs.files(graph), set_named(name).first(COUNT)
    options = replace(options, batch=COUNT)
    riva = adapters.make("riva")(files, options, max_batch_size=COUNT, frame_shift=dataset.frame_shift, nbest=10)
    arrays = on_gpu.send(dataset.utterances)
    decoder = on_gpu.decoder(files.graph, options, lattice_beam=options.lattice_beam)
    found = decoder.decode(arrays, nbest=MANY, confidence=True, lattice=True)
    ready = riva.look_into(arrays)
    padded = riva.padded(ready)
    words = [riva.decode_mbr(array) for array in [ready] * (1 + gpu_lattice.AGAIN) + [padded] * gpu_lattice.PADDED]
    return found, riva.decode_nbest(ready), words, [riva.lattices(padded) for _ in range(gpu_lattice.LATTICES)]


def test_its_entries_are_among_ours(answers):
    """Or it writes a word twice, or has kept a path that we have not: each is listed, and there are few.

    Where its search has lost the best path, which we have, its other paths are worse than our lattice beam."""
    found, lists, _, _ = answers
    count = sum(map(len, lists))
    assert count > len(lists)
    missing = riva_answers.missing_entries(found, lists)
    known = (riva_answers.LATER, riva_answers.IN_LATTICE, riva_answers.LOST)
    others = [one for one in missing if one.why not in known]
    assert len(others) <= count // 20, "\n".join(map(str, others))


def test_its_first_entry_is_ours(answers):
    """Or one of the same cost, or a worse one: of those that differ otherwise, all are listed."""
    found, lists, _, _ = answers
    lost = riva_answers.lost_best_paths(found, lists)
    assert len(lost) <= len(found) // 10, str(lost)
    other = [
        f"utterance {i}: {h.text!r}, riva: {list(entries[0].words)}"
        for i, (h, entries) in enumerate(zip(found, lists, strict=True))
        if entries and i not in lost and h.word_ids.tolist() != [word for word in entries[0].words if word]
    ]
    assert len(other) <= len(found) // 50, "\n".join(other)


def test_every_other_confidence_has_a_cause(answers):
    """Those within 0.02 need none; of the others, one of riva's own lattices gives what riva says, or riva says another
    thing when it is asked again, or a word that only a search which has lost the best path can say."""
    found, _, words, lattices = answers
    compared = riva_confidences.compare(found, words, lattices)
    assert compared.words > 5 * len(found)
    assert len(compared.differences) <= compared.words // 10, "\n".join(map(str, compared.differences))
    assert not compared.unexplained, "\n".join([f"{compared.causes()}", *map(str, compared.unexplained)])
