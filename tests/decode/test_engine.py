"""The whole CPU engine against the oracle, and the invariances of the law, compared as bytes."""

import math
import struct
import threading
import time
from array import array
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph
from tests.decode import graphs, oracle
from tests.decode.equality import as_the_oracle
from tests.hypothesis_examples import examples
from tests.processes import NewThreads, in_threads, interrupted, of_a_child


def as_bytes(hypotheses):
    return [
        h.arcs.tobytes()
        + struct.pack("<4d2?", h.score, h.partial_score, h.acoustic_score, h.graph_score, h.reached_final, h.complete)
        + h.tokens.tobytes()
        + repr((h.text, h.words)).encode()
        for h in hypotheses
    ]


@settings(max_examples=examples(400), deadline=None)
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(), max_size=4),
    st.sampled_from([0.0, 0.5, 2.0, 17.0, float("inf")]),
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([1.0, 0.5, 2.0]),
    st.sampled_from([0.0, 0.25, -0.5]),
)
def test_agrees_with_the_oracle(graph, batch, beam, max_active, scale, penalty):
    options = {"beam": beam, "max_active": max_active, "acoustic_scale": scale, "blank_penalty": penalty}
    for logp, got in zip(batch, CtcDecoder(graph, device="cpu", threads=2, **options).decode(batch), strict=True):
        wanted = oracle.decode(graph, logp, **options)
        as_the_oracle(got, wanted)


@pytest.mark.parametrize("beam", [2.0, 6.0])
def test_agrees_with_the_oracle_on_real_weights(beam):
    graph = graphs.random_graph(3, states=300)
    batch = [graphs.random_log_probs(seed, 25) for seed in range(6)]
    options = {"beam": beam, "max_active": 60, "acoustic_scale": 0.7, "blank_penalty": 0.3}
    for logp, got in zip(batch, CtcDecoder(graph, device="cpu", **options).decode(batch), strict=True):
        wanted = oracle.decode(graph, logp, **options)
        as_the_oracle(got, wanted)


@pytest.fixture(scope="module")
def graph():
    return graphs.random_graph(1)


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(2)
    return [graphs.random_log_probs(seed, int(rng.integers(0, 60))) for seed in range(40)]


@pytest.fixture(scope="module")
def answer(graph, batch):
    return as_bytes(
        CtcDecoder(graph, device="cpu", beam=8.0, max_active=500, threads=1, frame_shift=0.02).decode(batch)
    )


def decoder(graph, **options):
    return CtcDecoder(
        graph, device="cpu", **{"beam": 8.0, "max_active": 500, "threads": 2, "frame_shift": 0.02} | options
    )


def test_something_is_decoded(graph, batch):
    found = decoder(graph).decode(batch)
    assert sum(len(h.words) for h in found) > 100
    assert any(h.reached_final for h in found)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_order_split_and_rerun(graph, batch, answer, threads):
    one, order = decoder(graph, threads=threads), np.random.default_rng(0).permutation(len(batch))
    for _ in range(5):
        assert as_bytes(one.decode(batch)) == answer
    shuffled = as_bytes(one.decode([batch[i] for i in order]))
    assert [shuffled[int(np.flatnonzero(order == i)[0])] for i in range(len(batch))] == answer
    for size in (1, 7):
        assert as_bytes([h for i in range(0, len(batch), size) for h in one.decode(batch[i : i + size])]) == answer


def padded(batch, dtype=np.float32, fill=np.nan):
    array = np.full((len(batch), max(map(len, batch)), batch[0].shape[1]), fill, dtype=dtype)
    for row, logp in zip(array, batch, strict=True):
        row[: len(logp)] = logp
    return array, [len(logp) for logp in batch]


def packed(lengths):
    return array("i", lengths)


class Arraylike:
    """As a Series of pandas: neither a sequence nor an array of numpy, and it can be iterated over."""

    def __init__(self, values):
        self.values = values

    def __iter__(self):
        return iter(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def test_list_or_padded(graph, batch, answer):
    """Padding is never read, not even NaN in it."""
    array, lengths = padded(batch)
    assert as_bytes(decoder(graph).decode(array, lengths)) == answer
    for given_as in (tuple, deque, packed, Arraylike, lambda n: np.array(n, dtype=np.uint16)):
        assert as_bytes(decoder(graph).decode(array, given_as(lengths))) == answer


def test_float16_equals_its_float32_copy(graph, batch):
    halves = [logp.astype(np.float16) for logp in batch]
    singles = [logp.astype(np.float32) for logp in halves]
    assert as_bytes(decoder(graph).decode(halves)) == as_bytes(decoder(graph).decode(singles))


def test_strides_and_read_only(graph, batch, answer):
    array, lengths = padded(batch, fill=0)
    strided = np.zeros((array.shape[1], array.shape[0], array.shape[2] * 2), dtype=np.float32)[:, :, ::2]
    strided[:] = array.transpose(1, 0, 2)  # frames first, columns apart
    strided.flags.writeable = False
    assert as_bytes(decoder(graph).decode(strided.transpose(1, 0, 2), lengths)) == answer
    frames_first = np.ascontiguousarray(array.transpose(1, 0, 2)).transpose(1, 0, 2)
    assert as_bytes(decoder(graph).decode(frames_first, lengths)) == answer
    reversed_rows = [np.ascontiguousarray(logp[::-1])[::-1] for logp in batch]
    assert as_bytes(decoder(graph).decode(reversed_rows)) == answer
    swapped = [logp.astype(">f4") for logp in batch]
    assert as_bytes(decoder(graph).decode(swapped)) == answer


def test_a_row_of_the_batch_is_not_copied(graph):
    from arcbeam.arrays.batches import InputSpec, as_inputs

    array = np.zeros((3, 5, 32), dtype=np.float16)
    utterances = as_inputs(array[:, 1:], None, InputSpec(32, True))
    assert [a.__array_interface__["data"][0] for a in utterances.arrays] == [
        array[i, 1:].__array_interface__["data"][0] for i in range(3)
    ]


def test_log_collection_does_not_change_the_bytes(graph, batch, answer, monkeypatch):
    monkeypatch.setattr("arcbeam.ctc.engines.COLLECT_ABOVE", 1)
    assert as_bytes(decoder(graph).decode(batch)) == answer


def test_several_python_threads_share_a_decoder(graph, batch, answer):
    shared = decoder(graph)
    assert in_threads(*[lambda: as_bytes(shared.decode(batch))] * 6) == [answer] * 6


def test_python_runs_on_while_decoding(graph):
    """The GIL is released: another Python thread makes progress during one decode."""
    long = [graphs.random_log_probs(9, 3000)] * 2
    one = decoder(graph)
    done = threading.Event()
    worker = threading.Thread(target=lambda: (one.decode(long), done.set()))
    worker.start()
    ticks = 0
    while not done.is_set():
        ticks += 1
        time.sleep(0.0005)
    worker.join()
    assert ticks > 5


def test_a_forked_child_decodes_too(graph, batch, answer):
    one = decoder(graph)
    assert of_a_child(lambda: as_bytes(one.decode(batch))) == answer


def test_a_child_forked_during_a_decode_has_its_own_turn(graph, batch, answer):
    one = decoder(graph)
    long = [graphs.random_log_probs(9, 40_000)] * 4
    worker = threading.Thread(target=one.decode, args=(long,))
    worker.start()
    time.sleep(0.1)  # for the parent's thread to be decoding
    try:
        assert of_a_child(lambda: as_bytes(one.decode(batch))) == answer
    finally:
        worker.join()


def test_ctrl_c_ends_a_decode_and_the_decoder_goes_on(graph, batch, answer):
    one = decoder(graph)
    long = [graphs.random_log_probs(9, 40_000)] * 4
    interrupted(lambda: one.decode(long))
    assert as_bytes(one.decode(batch)) == answer


def test_many_decoders_come_and_go(graph, batch):
    """And take their threads with them."""
    started = NewThreads()
    for _ in range(200):
        CtcDecoder(graph, device="cpu", threads=2).decode(batch[:1])
    assert started.become(0)


def test_empty_batch_and_zero_frames(graph):
    one = decoder(graph)
    assert one.decode([]) == []
    assert one.decode(np.zeros((0, 5, 32), dtype=np.float32)) == []
    (found,) = one.decode(np.zeros((1, 0, 32), dtype=np.float32))
    assert found.tokens.tolist() == []
    assert found.text == ""


def test_a_dead_search_reports_its_last_live_frame():
    graph = Graph.from_arcs([(0, 1, 1, 4, 1.0), (1, 2, 2, 5, 1.0)], start=0, finals={1: 0.0, 2: 0.0}, num_columns=2)
    rows = np.log(np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], dtype=np.float32))
    (found,) = CtcDecoder(graph, device="cpu").decode([rows])
    assert found.word_ids.tolist() == [4, 5]
    assert not found.reached_final
    assert not found.complete
    assert len(found.tokens) == 2
    assert (found.score, found.partial_score) == (-math.inf, 2 * float(rows[0, 0]) - 2.0)
    assert found.acoustic_score == 2 * float(rows[0, 0])
    assert repr(found) == "Hypothesis('4 5', score=-inf, complete=False)"
    rows[1] = -np.inf
    (found,) = CtcDecoder(graph, device="cpu").decode([rows])
    assert found.word_ids.tolist() == [4]
    assert not found.complete
    rows[0] = -np.inf
    (found,) = CtcDecoder(graph, device="cpu").decode([rows])
    assert (found.text, found.score, found.partial_score, found.complete) == ("", -math.inf, 0.0, False)


def test_an_end_in_no_final_state_is_complete():
    """It is told apart from a search that died, and ranks by its score."""
    graph = Graph.from_arcs([(0, 1, 1, 4, 1.0), (1, 2, 2, 5, 1.0)], start=0, finals={2: 0.0}, num_columns=2)
    (found,) = CtcDecoder(graph, device="cpu").decode([np.full((1, 2), np.log(0.5), np.float32)])
    assert (found.complete, found.reached_final) == (True, False)
    assert found.score == found.partial_score == float(np.log(np.float32(0.5))) - 1.0


def test_work_is_counted(graph, batch):
    one = decoder(graph)
    one.decode(batch)
    stats = one.stats
    assert stats.frames == sum(map(len, batch))
    assert stats.leaving_arcs >= stats.read_arcs >= stats.candidates >= stats.admitted > 0
    assert stats.tokens >= stats.expanded_tokens > stats.frames


def test_the_acoustic_score_is_that_of_the_path(graph, batch):
    for logp, found in zip(batch, decoder(graph, acoustic_scale=0.7, blank_penalty=0.5).decode(batch), strict=True):
        read = logp[np.arange(len(found.tokens)), found.tokens].sum()
        blanks = np.count_nonzero(found.tokens == graph.blank)
        assert found.acoustic_score == pytest.approx(0.7 * read - 0.5 * blanks, abs=1e-3)
