"""Answers of lattices that are made while a GPU decodes: the bytes of the CPU's, whatever stops a launch."""

import itertools
import threading
import time
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder
from arcbeam.ctc.lattice import _lattice
from arcbeam.gpu.tuned import search_plan
from tests.decode.emulated_gpu import TIGHT
from tests.decode.random_graphs import random_log_probs
from tests.decode.small_search import ROOMY
from tests.decode.test_new_words import said, small_graph
from tests.decode.test_streams import GRAPH

BATCH = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7, 30))]
OPTIONS = {"beam": 6.0, "max_active": 60}
REQUESTED = {"nbest": 5, "confidence": True, "mbr": True}
ALL_REQUESTS = [
    {"nbest": nbest, "confidence": confidence, "mbr": mbr, "lattice": lattice}
    for nbest, confidence, mbr, lattice in itertools.product((None, 1, 5), *[(False, True)] * 3)
]


def arrays_of(value):
    """The bytes of all arrays in dataclasses of them."""
    if is_dataclass(value):
        return {field.name: arrays_of(getattr(value, field.name)) for field in fields(value)}
    return (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def everything(hypotheses):
    """All that a batch says: arrays of answers, lattices, times."""
    results = hypotheses[0]._results
    lattices = results.paths.lattices
    return (
        arrays_of(results.answers),
        lattices and [arrays_of_lattice(lattices, i) for i in range(len(hypotheses))],
        [
            (h.text, h.words, h.score, h.confidence, h.mbr, h.sausage, h.arcs.tobytes(), str(h.error))
            for h in hypotheses
        ],
    )


def arrays_of_lattice(lattices, index):
    return {name: np.asarray(array).tobytes() for name, array in lattices.arrays(index).items()}


def check(batch=BATCH, requests=(REQUESTED,), graph=GRAPH, call=None, **options):
    """Both engines say the same, one decoder for all requests."""
    of_gpu, of_cpu = (
        CtcDecoder(graph, device=device, frame_shift=0.04, **OPTIONS | options) for device in ("cuda", "cpu")
    )
    for requested in requests:
        found, wanted = (made.decode(batch, **requested, **call or {}) for made in (of_gpu, of_cpu))
        assert everything(found) == everything(wanted)
    return found


def test_every_request(gpu):
    found = check(requests=ALL_REQUESTS)
    assert sum(len(h.nbest) for h in found) > len(BATCH)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("room", [TIGHT, replace(ROOMY, links=8), replace(ROOMY, lattice_bytes=1)])
def test_lanes_that_stop(gpu, room, threads):
    """Lattices of one launch are answered while the next one writes to the same memory."""
    gpu.begin_with(room)
    check(requests=[REQUESTED, {"lattice": True}, REQUESTED], threads=threads)
    assert len(gpu.launched) > 3


def test_windows_and_arrays_of_the_host(gpu):
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    check(requests=[REQUESTED, REQUESTED | {"lattice": True}], threads=1)


def test_hot_utterances_go_on_in_clusters(gpu, monkeypatch):
    monkeypatch.setattr(search_plan, "HOT_TOKENS", 4)
    gpu.launch_as(search_plan.WIDE)
    check([random_log_probs(seed, frames, 12) for seed, frames in enumerate((20, 3, 60, 2, 40))])
    assert gpu.launched[-1][0] == "cluster"


def test_an_utterance_that_died_and_one_that_is_refused(gpu):
    dying, bad = BATCH[-1].copy(), BATCH[-1].copy()
    dying[11:] = -np.inf
    bad[3, 2] = np.nan
    found = check([BATCH[0], dying, bad, BATCH[2]], ALL_REQUESTS, call={"errors": "return"})
    assert [h.complete for h in found] == [True, False, False, True] and found[2].error is not None


def test_new_words(gpu):
    """Each utterance has a graph of its own, and so words and labels of its own."""
    boosts = [Boost({"zz": 6.0, "xy": 6.0}), None, Boost({"x": 5.0}), Boost({"a": 1.0})]
    batch = [said(word) for word in ("zz", "xy", "zx", "y")]
    check(batch, ALL_REQUESTS, small_graph(1), {"boost": boosts})


def test_batches_one_after_another(gpu):
    """Here answers are made while the next batch is decoded."""
    batches = [BATCH, BATCH[::-1], BATCH[2:]]
    of_gpu, of_cpu = (CtcDecoder(GRAPH, device=device, **OPTIONS) for device in ("cuda", "cpu"))
    found, wanted = (list(made.decode_batches(batches, **REQUESTED)) for made in (of_gpu, of_cpu))
    assert [everything(one) for one in found] == [everything(one) for one in wanted]


def test_answers_are_made_while_the_kernel_runs(gpu, monkeypatch):
    """The kernel is said to run until all of its lattices have been answered."""
    wanted = everything(CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH, **REQUESTED))

    class Late(_lattice.AnswerEngine):
        def answers(self, lattices, request):
            raise AssertionError("expected answers that were made before")

    monkeypatch.setattr("arcbeam.ctc.answering.AnswerEngine", Late)
    decoder = CtcDecoder(GRAPH, device="cuda", threads=2, **OPTIONS)
    engine, seen = decoder._search.reader.engine, []

    def end_the_kernel():
        limit = time.monotonic() + 60
        while engine.finished() < len(BATCH) and time.monotonic() < limit:
            time.sleep(0.001)
        seen.append(engine.finished())
        gpu.fake.library.fake_not_ready(0)

    gpu.fake.library.fake_not_ready(10**9)
    thread = threading.Thread(target=end_the_kernel)
    thread.start()
    found = decoder.decode(BATCH, **REQUESTED)
    thread.join()
    assert seen == [len(BATCH)]
    assert everything(found) == wanted


def test_interrupts_leave_a_decoder_that_works(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", threads=1, **OPTIONS)
    wanted = everything(CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode(BATCH, **REQUESTED))
    for _ in range(3):
        with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
            decoder.decode(BATCH, **REQUESTED)
        assert everything(decoder.decode(BATCH, **REQUESTED)) == wanted


def test_memory_that_is_too_short_for_an_answer(gpu, monkeypatch):
    """The error of an answer comes after those of the batch, and the decoder works on."""
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    paths = decoder._search.paths

    def short(*args, **more):
        found, work, refused = paths(*args, **more)
        assert found.answers is not None
        return found._replace(answers=MemoryError("out of memory for the answers of utterance 0")), work, refused

    monkeypatch.setattr(decoder._search, "paths", short)
    with pytest.raises(MemoryError, match="answers of utterance 0"):
        decoder.decode(BATCH, **REQUESTED)
    bad = BATCH[-1].copy()
    bad[3, 2] = np.nan
    with pytest.raises(ValueError, match="got nan"):
        decoder.decode([bad], **REQUESTED)
    monkeypatch.undo()
    assert len(decoder.decode(BATCH, **REQUESTED)) == len(BATCH)
