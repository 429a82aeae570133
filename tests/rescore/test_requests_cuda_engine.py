"""The engine where lanes send requests, which threads answer while kernels run, or between launches; and wherever a
model is."""

import gc
import os
import pickle

import numpy as np
import pytest

from arcbeam import CapacityError, CtcDecoder, CudaError, FormatError, LanguageModel, UnsupportedError
from arcbeam.ctc.search import BeamSearch
from arcbeam.gpu.tuned import search_plan
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.rescore import test_rescore_cuda_engine as resident
from tests.rescore.placed import kenlm
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, SMALL, check_same

OPTIONS = resident.OPTIONS | {"unknown_words": "unk"}


@pytest.fixture(scope="module", params=["host", "cpu"])
def requested(request):
    """The options of a decoder."""
    large = resident.LARGE if request.param == "host" else kenlm()
    return {"language_model": large, "graph_language_model": SMALL, "placement": request.param}


def on_gpu(requested, **options):
    return CtcDecoder(GRAPH, **(requested | {"device": "cuda", "threads": 2} | OPTIONS | options))


def on_cpu(requested, batch=None, **options):
    models = requested | {"placement": "cpu", "threads": 1}
    return CtcDecoder(GRAPH, device="cpu", **(models | OPTIONS | options)).decode(BATCH if batch is None else batch)


@pytest.mark.parametrize("n", [1, 3, None])
@pytest.mark.parametrize("cache", [None, 0, "512", "1MB"])
def test_equal_bytes(gpu, requested, n, cache):
    decoder = on_gpu(requested, hypotheses_per_state=n, arc_cache=cache)
    wanted = on_cpu(requested, hypotheses_per_state=n)
    check_same(decoder.decode(BATCH), wanted)
    first = decoder.stats
    assert first.distinct_lookups >= first.lookup_misses > 0
    assert first.lookups > first.distinct_lookups or requested["placement"] == "host", "of arcs: pieces of words"
    assert first.lookup_rounds * 16 <= first.model_bytes_read
    assert first.lookup_rounds > 0
    if requested["placement"] == "host":
        assert first.lookup_copies > 0
    else:
        assert first.lookup_copies is None
    assert 0 < first.lookup_waiting < 1
    check_same(decoder.decode(BATCH), wanted)
    if cache == "1MB":
        assert decoder.stats.lookup_hits > max(0.75, first.lookup_hits), "a cache with room for all is warm"
    assert gpu.errors == []


def answer_batches(gpu, before=0):
    """Of the journal since a line: the streams of the data of every batch of answers, each checked for its events."""
    lines, found = [line for line in gpu.fake.journal()[before:] if line[0] in ("record", "wait")], []
    for stream in {line[1] for line in lines if line[0] == "record"}:
        for event in {line[2] for line in lines if line[:2] == ["record", stream]}:
            marks = [line for line in lines if line[2] == event]
            waits = [line for line in marks if line[0] == "wait"]
            if waits and len(marks) == 2 * len(waits) and len({line[1] for line in waits}) == 1:
                assert [line[0] for line in marks] == ["record", "wait"] * len(waits)
                told = {line[2] for line in lines if line[:2] == ["record", waits[0][1]]}
                if len(told) == 1:  # after the count, for who fills the buffer
                    found += [stream] * len(waits)
    return found


def test_answers_travel_on_two_streams(gpu, requested):
    """Lanes are halves: each has a stream, and its counts follow after an event, on another one."""
    decoder = on_gpu(requested, arc_cache=0)
    before = len(gpu.fake.journal())
    check_same(decoder.decode([DeviceArray(logp) for logp in BATCH]), on_cpu(requested))
    streams = answer_batches(gpu, before)
    if requested["placement"] == "cpu":
        assert streams == []
    else:
        assert len(set(streams)) == 2
        assert len(streams) == decoder.stats.lookup_copies


def test_copies_are_waited_for(gpu, requested):
    """While the events of copies have not come nothing is sent; what lanes stop for is sent between launches."""
    decoder = on_gpu(requested, arc_cache=0)
    wanted = on_cpu(requested)
    check_same(decoder.decode(BATCH), wanted)
    for polls in (3, 50, 2000):
        gpu.fake.library.fake_not_ready(polls)
        check_same(decoder.decode(BATCH), wanted)


def test_every_call_of_a_decode_may_fail(gpu, requested):
    """Those of threads, too: a copy that fails is the exception of the decode, and the next one is as ever."""
    decoder = on_gpu(requested, arc_cache=0, hypotheses_per_state=2)
    wanted = on_cpu(requested, hypotheses_per_state=2, batch=BATCH[:3])
    check_same(decoder.decode(BATCH[:3]), wanted)
    actions = set()
    for nth in range(1, 90):
        gpu.fake.fail("", 803, nth)
        try:
            check_same(decoder.decode(BATCH[:3]), wanted)
        except CudaError as error:
            assert error.code == 803
            actions.add(error.action)
        gpu.fake.library.fake_fail_no_more()
    check_same(decoder.decode(BATCH[:3]), wanted)
    assert len(actions) > 3


@pytest.mark.parametrize("call", ["copy_to_device", "event_record", "stream_wait_event", "event_query", "context_push"])
def test_copies_that_fail(gpu, call):
    """Of threads, which cannot raise; lanes then wait in vain, and stop."""
    requested = {"language_model": resident.LARGE, "graph_language_model": SMALL, "placement": "host"}
    decoder = on_gpu(requested, arc_cache=0)
    gpu.fake.library.fake_fail_beside(call.encode(), 803)
    with pytest.raises(CudaError, match="while sending answers to lanes") as caught:
        decoder.decode(BATCH)
    assert caught.value.code == 803
    gpu.fake.library.fake_fail_no_more()
    check_same(decoder.decode(BATCH), on_cpu(requested))


def test_nobody_answers_beside_the_kernel(gpu, requested, monkeypatch):
    """As where launches block: every round takes a launch."""
    monkeypatch.setattr(search_plan, "ANSWERING_THREADS", 0)
    monkeypatch.setattr(search_plan, "WAIT_CYCLES", 1)
    decoder = on_gpu(requested, hypotheses_per_state=2)
    check_same(decoder.decode(BATCH), on_cpu(requested, hypotheses_per_state=2))
    assert len(gpu.shapes) > 10


def test_everything_grows(gpu, requested, monkeypatch):
    gpu.begin_with(TIGHT)
    monkeypatch.setattr(search_plan, "REQUEST_ENTRIES", 16)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 16)
    for n in (2, None):
        decoder = on_gpu(requested, hypotheses_per_state=n)
        for _ in range(2):
            check_same(decoder.decode(BATCH), on_cpu(requested, hypotheses_per_state=n))


def test_memory(gpu, requested):
    """Neither arcs nor KenLM are on the device."""
    decoder = on_gpu(requested, arc_cache=0)
    decoder.decode(BATCH)
    direct = on_gpu({**requested, "language_model": resident.LARGE, "placement": "resident"}, arc_cache=0)
    assert decoder.memory().pinned > direct.memory().pinned
    del decoder, direct
    gc.collect()


def test_a_memory_limit_counts_the_tables(gpu, requested):
    decoder = on_gpu(requested, arc_cache=0)
    wanted = decoder.decode(BATCH)
    before, after = on_gpu(requested, arc_cache=0).memory(), decoder.memory()
    tables = after.language_models - before.language_models
    assert tables >= 24 * search_plan.REQUEST_ENTRIES
    one = 24 * search_plan.REQUEST_ENTRIES  # of a lane, which needs more than its table
    small = on_gpu(requested, arc_cache=0, memory_limit=before.graph + before.language_models + one)
    with pytest.raises(CapacityError, match=r"memory_limit: cannot allocate .* bytes for .* on cuda:0"):
        small.decode(BATCH)
    tight = on_gpu(requested, arc_cache=0, memory_limit=after.device_bytes - tables // 2)
    check_same(tight.decode(BATCH), wanted)


def test_interrupted(gpu, requested):
    decoder = on_gpu(requested)
    with gpu.interrupted(), pytest.raises(KeyboardInterrupt):
        decoder.decode(BATCH)
    check_same(decoder.decode(BATCH), on_cpu(requested))


def test_a_file_that_shrinks_while_lanes_ask(gpu, tmp_path, monkeypatch):
    """What is lost reads as zeros, in threads of the host; the search ends, and says so."""
    resident.LARGE.save(tmp_path / "large.lm")
    models = {"language_model": LanguageModel.load(tmp_path / "large.lm"), "graph_language_model": SMALL}
    decoder = on_gpu(models, placement="host", arc_cache=0)
    check = BeamSearch.check_files
    checks = []

    def check_then_shrink(self):
        check(self)
        checks.append(os.truncate(tmp_path / "large.lm", 64))

    monkeypatch.setattr(BeamSearch, "check_files", check_then_shrink)
    with pytest.raises(FormatError, match="shrank from"):
        decoder.decode(BATCH)
    assert len(checks) == 1 and gpu.errors == []


def test_what_does_not_go_together(gpu, requested):
    if requested["placement"] == "cpu":
        assert on_gpu(requested, placement="auto")._search.engine.placement == "cpu"
        for placement in ("auto", "cpu"):
            assert on_gpu(requested, device="auto", placement=placement).device == "cuda:0"
        with pytest.raises(UnsupportedError, match=r"placement: expected .* because KenLM.s files"):
            on_gpu(requested, placement="host")
    else:
        assert on_gpu(requested, device="auto", placement="cpu").device == "cpu"
        with pytest.raises(UnsupportedError, match=r"placement: 'cpu' with a GPU .* needs an arcbeam.KenLM"):
            on_gpu(requested, placement="cpu")
        with pytest.raises(CapacityError, match=r"gpu_budget: the language model and its cache take .*'host'"):
            on_gpu(requested, gpu_budget=512)


def test_memory_is_given_back_and_grows_again(gpu, requested):
    """Boxes and tables of answers, too; histories have new numbers then, and what is cached means nothing any more."""
    decoder, wanted = on_gpu(requested, arc_cache="1MB"), on_cpu(requested)
    decoder.release()
    before = decoder.memory()
    for _ in range(3):
        check_same(decoder.decode(BATCH), wanted)
        assert decoder.memory().pinned > before.pinned
        decoder.release()
        assert decoder.memory() == before
    check_same(decoder.decode(BATCH), wanted)


# Wherever the model is


@pytest.fixture(params=["resident", "host-direct", "host", "cpu"])
def placed(request):
    """The options of a decoder."""
    large = kenlm() if request.param == "cpu" else resident.LARGE
    return {"language_model": large, "graph_language_model": SMALL, "placement": request.param}


def test_arrays_of_host_and_device(gpu, placed):
    decoder = on_gpu(placed, hypotheses_per_state=3)
    wanted = on_cpu(placed, hypotheses_per_state=3)
    check_same(decoder.decode([DeviceArray(logp) for logp in BATCH]), wanted)
    gpu.send_in_parts()
    check_same(decoder.decode(BATCH), wanted)
    half = [logp.astype(np.float16) for logp in BATCH]
    check_same(decoder.decode(half), on_cpu(placed, half, hypotheses_per_state=3))
    assert decoder.decode([]) == []


def test_memory_that_runs_out_while_decoding(gpu, placed):
    decoder = on_gpu(placed, hypotheses_per_state=3)
    wanted = on_cpu(placed, hypotheses_per_state=3)
    decoder.decode(BATCH[:1])
    gpu.fake.fail("allocate", 2)
    check_same(decoder.decode(BATCH), wanted)


@pytest.mark.parametrize("placed", ["resident", "host-direct", "host"], indirect=True)
def test_pickled_decoders(gpu, placed):
    again = pickle.loads(pickle.dumps(on_gpu(placed, arc_cache="1kB")))
    assert (again._search.engine.placement, again.device) == (placed["placement"], "cuda:0")
    check_same(again.decode(BATCH), on_cpu(placed))


def test_bad_log_probs(gpu, placed):
    """An utterance that is none costs itself alone, also in the midst of its questions, and lanes that have met it."""
    one = on_gpu(placed)
    batch = [BATCH[0], BATCH[2].copy(), BATCH[2], BATCH[3], BATCH[4].copy()]
    batch[1][4, 6] = np.nan
    batch[4][6, 11] = np.inf
    with pytest.raises(ValueError, match="got nan in utterance 1, frame 4, column 6"):
        one.decode(batch)
    found, wanted = one.decode(batch * 2, errors="return"), on_cpu(placed, [batch[i] for i in (0, 2, 3)])
    for at in (0, 5):
        check_same([found[at + i] for i in (0, 2, 3)], wanted)
        assert f"got nan in utterance {at + 1}, frame 4, column 6" in str(found[at + 1].error)
        assert f"got inf in utterance {at + 4}, frame 6, column 11" in str(found[at + 4].error)
        assert found[at + 1].rescoring_score == 0.0
