"""riva-asrlib-decoder's n-best lists and minimum-Bayes-risk words on a real GPU, compared with ours on the same graph.

Each difference is listed where a test fails. riva's process may end with it: run this file alone.
"""

from dataclasses import replace

import numpy as np
import pytest

from arcbeam.gpu.devices import why_no_cuda
from benchmarks import adapters
from benchmarks.adapters import gpu as on_gpu
from benchmarks.data import graphs
from benchmarks.tasks import riva_answers
from tests.gpu.test_speech_on_gpu import graph_named, set_named

COUNT = 64  # utterances of the set
MANY = 200  # entries of ours among which riva's ten have to be: their costs are rounded otherwise


@pytest.fixture(scope="module", autouse=True)
def needs_riva(gpu):
    reason = why_no_cuda(gpu) or adapters.missing("riva")
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module", params=on_gpu.BEAMS, ids=on_gpu.beam_text)
def answers(request):
    """Our hypotheses, and of riva what `decode_nbest` and `decode_mbr` return."""
    graph_named("char-3gram")  # skips where it has not been built
    files, dataset = graphs.files("char-3gram"), set_named("throughput").first(COUNT)
    options = replace(request.param, batch=COUNT)
    riva = adapters.make("riva")(files, options, max_batch_size=COUNT, frame_shift=dataset.frame_shift, nbest=10)
    arrays = on_gpu.send(dataset.utterances)
    decoder = on_gpu.decoder(files.graph, options, lattice_beam=options.lattice_beam)
    found = decoder.decode(arrays, nbest=MANY, confidence=True, lattice=True)
    ready = riva.look_into(arrays)
    return found, riva.decode_nbest(ready), riva.decode_mbr(ready)


def test_its_entries_are_among_ours(answers):
    found, lists, _ = answers
    assert sum(map(len, lists)) > len(lists)
    missing = riva_answers.missing_entries(found, lists)
    assert not missing, "\n".join(missing)


def test_its_first_entry_is_ours(answers):
    """Or one of the same cost: of those that differ, all are listed."""
    found, lists, _ = answers
    other = [
        f"utterance {i}: {h.text!r}, riva: {list(entries[0].words)}"
        for i, (h, entries) in enumerate(zip(found, lists, strict=True))
        if entries and h.word_ids.tolist() != list(entries[0].words)
    ]
    assert len(other) <= len(found) // 50, "\n".join(other)


def test_confidences(answers):
    found, _, words = answers
    others = riva_answers.other_words(found, words)
    assert len(others) <= len(found) // 10, "\n".join(others)
    differences = np.abs(riva_answers.confidence_differences(found, words))
    assert len(differences) > 5 * len(found)
    worst = np.sort(differences)[::-1][:20]
    assert worst[0] <= riva_answers.CONFIDENCE, f"the largest: {worst.tolist()}\n" + "\n".join(others)
