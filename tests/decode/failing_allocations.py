"""Calls of which each allocation of C++ fails once, at the border to Python: MemoryError, and the process lives on.

``test_failing_allocations.py`` runs this file with the allocator of ``failing_allocations.cpp``.
"""

import ctypes

import numpy as np
import pytest

from arcbeam import CtcDecoder, KenLM, TransducerDecoder
from arcbeam.ctc.lattice._lattices import Lattices
from arcbeam.ctc.streams import state as stream_state
from tests.decode import graphs, kenlm_files
from tests.decode.language_models import over, random_model
from tests.decode.test_streams import BATCH, COLUMNS, GRAPH, OPTIONS, WORDS, boost
from tests.transducer.networks import random_arrays
from tests.transducer.test_transducer_sentences import SPEECH

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
ALLOCATOR = ctypes.CDLL(None)
ALLOCATOR.allocations_to_go.restype = ctypes.c_long
ALLOCATOR.fail_allocation.argtypes = [ctypes.c_long]
DECODER = CtcDecoder(GRAPH, **OPTIONS | {"threads": 1})


def each_fails(call):
    """Calls it until each of its allocations has failed once, and returns what it gives without."""
    for n in range(10_000):
        ALLOCATOR.fail_allocation(n)
        try:
            found = call()
        except MemoryError:
            assert ALLOCATOR.allocations_to_go() < 0
        else:
            if ALLOCATOR.allocations_to_go() >= 0:
                assert n > 0
                return found
    raise AssertionError("expected an end of what is allocated")


def test_batches_and_lattices():
    requested = {"nbest": 3, "lattice": True, "mbr": True, "confidence": True}
    [wanted] = DECODER.decode([BATCH[0]], **requested)
    [found] = each_fails(lambda: DECODER.decode([BATCH[0]], **requested))
    assert found.lattice.words.tobytes() == wanted.lattice.words.tobytes()
    arrays = found.lattice._arrays
    assert len(each_fails(lambda: Lattices.of_arrays([arrays]))) == 1
    assert each_fails(lambda: found.lattice.oracle_wer("w1 w2")).errors >= 0


def test_streams_that_are_saved_and_restored():
    stream = DECODER.stream(boost=boost(0), nbest=2, posteriors=True, interim_answers=True)
    stream.decode_chunk(BATCH[5][:20])
    data = each_fails(stream.save)
    moved = each_fails(lambda: DECODER.restore(data, boost=boost(0), posteriors=True))
    assert each_fails(moved.save) == data
    nothing = BATCH[5][:0]
    wanted = stream.decode_chunk(nothing).posteriors
    partials = iter([moved.decode_chunk(nothing) for _ in range(1000)])
    assert np.array_equal(each_fails(lambda: next(partials).posteriors), wanted)


def test_streams_of_a_transducer():
    arrays = random_arrays(0, layers=0, context=2, groups=3)  # whose state is the last tokens
    one = TransducerDecoder.from_arrays(arrays, 0, device="cpu", threads=1)
    stream = one.stream()
    stream.decode_chunk(SPEECH[:30])
    data = stream.save()
    restored = each_fails(lambda: one.restore(data))
    state = restored.partial.state
    [found] = each_fails(lambda: one.decode([SPEECH[30:]], state=[state]))
    [wanted] = one.decode([SPEECH[30:]], state=[state])
    assert found.tokens.tobytes() == wanted.tokens.tobytes()


def test_histories_of_a_kenlm(gpu, tmp_path):
    """A stream on a GPU keeps them by themselves until its next chunk."""
    kenlm_files.need_kenlm()
    large = KenLM(kenlm_files.random_ngrams(WORDS, 3, 5).write(tmp_path / "lm.arpa"))
    small = random_model(np.random.default_rng(3), WORDS, 2, share=0.2)
    graph = over(graphs.random_graph(4, states=120, columns=COLUMNS), small, WORDS)
    models = {"language_model": large, "graph_language_model": small, "hypotheses_per_state": 3}
    cpu, cuda = (CtcDecoder(graph, **models, **OPTIONS | {"device": device}) for device in ("cpu", "cuda"))
    stream = cpu.stream()
    stream.decode_chunk(BATCH[5][:20])
    wanted = stream._state.search()
    _, saved, _ = stream_state.read(stream.save(), cuda._search, None)
    state = cuda._search.engine.new_stream(None, None, None, saved)
    state.search()  # makes them; the driver of these tests may not fail
    found = each_fails(state.search)
    assert {name: np.asarray(value).tobytes() for name, value in found.items()} == {
        name: np.asarray(value).tobytes() for name, value in wanted.items()
    }
