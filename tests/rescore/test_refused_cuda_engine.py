"""Where the system refuses pinned memory: every placement decodes to the same bytes, and one warning says so."""

import gc
import mmap
import warnings

import numpy as np
import pytest

from arcbeam import CtcDecoder, CudaOutOfMemoryError, LanguageModel
from arcbeam.gpu.tuned import search_plan
from arcbeam.lm import lm_file
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.rescore import test_rescore_cuda_engine as resident
from tests.rescore.placed import kenlm
from tests.rescore.test_rescore_cuda_engine import BATCH, GRAPH, LARGE, SMALL, check_same

OPTIONS = resident.OPTIONS | {"unknown_words": "unk", "hypotheses_per_state": 2}
PINNING = ("host_allocate", "host_register")
ARCS = [name for name in LARGE.columns if name in ("arcs", "backoff.weights")]
PLACES = {
    "none": {},
    "resident": {"placement": "resident"},
    "host-direct": {"placement": "host-direct", "arc_cache": 0},
    "buckets": {"placement": "host-direct", "gpu_budget": 512, "arc_cache": 0},
    "host": {"placement": "host", "arc_cache": 0},
    "cpu": {"placement": "cpu"},
}


@pytest.fixture(params=PLACES)
def make(request):
    """A decoder of a placement on a device."""
    if request.param == "none":
        return lambda device, **_: CtcDecoder(GRAPH, device=device, beam=5.0, max_active=40)
    model = kenlm() if request.param == "cpu" else LARGE
    options = OPTIONS | {"language_model": model, "graph_language_model": SMALL}

    def made(device, **more):
        where = PLACES[request.param] if device == "cuda" else {}
        return CtcDecoder(GRAPH, device=device, threads=2, **(options | where | more))

    made.place = request.param
    return made


def on_gpu(model=LARGE, **options):
    common = OPTIONS | {"device": "cuda", "language_model": model, "graph_language_model": SMALL} | PLACES["host"]
    return CtcDecoder(GRAPH, threads=2, **(common | options))


def arcs_bytes(model=LARGE):
    return sum(model.columns[name].nbytes for name in ARCS)


def test_all_of_it_is_refused(gpu, make):
    wanted = make("cpu").decode(BATCH)
    free = make("cuda")
    check_same(free.decode(BATCH), wanted)
    assert free.memory().pinned > 0
    del free
    gpu.start()
    gpu.fake.refuse(*PINNING)
    with pytest.warns(UserWarning, match="the host does not pin") as caught:
        decoder = make("cuda")
        check_same(decoder.decode(BATCH), wanted)
        check_same(decoder.decode([DeviceArray(logp) for logp in BATCH]), wanted)
        other = make("cuda")
        check_same(other.decode(BATCH), wanted)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert gpu.fake.living("pinned") == gpu.fake.living("registered") == 0
    managed = {"host-direct": 1 << 21, "buckets": 1 << 21, "host": 1 << 21, "cpu": 9 << 21}
    assert decoder.memory().pinned <= managed.get(getattr(make, "place", ""), 0)
    gpu.fake.allow()
    check_same(decoder.decode(BATCH), wanted)


def test_everything_grows_without_it(gpu, make, monkeypatch):
    gpu.begin_with(TIGHT)
    gpu.send_in_parts()
    monkeypatch.setattr(search_plan, "REQUEST_ENTRIES", 16)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 16)
    gpu.fake.refuse(*PINNING)
    with pytest.warns(UserWarning, match="the host does not pin") as caught:
        decoder = make("cuda")
        for _ in range(2):
            check_same(decoder.decode(BATCH), make("cpu").decode(BATCH))
    assert len(caught) == 1


@pytest.mark.parametrize("nth", range(1, 9))
def test_refused_from_some_time_on(gpu, make, nth, monkeypatch):
    """Boxes and words of histories, for one, are of different kinds then."""
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 16)
    wanted = make("cpu").decode(BATCH)
    gpu.fake.refuse("host_allocate", nth=nth)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decoder = make("cuda")
        check_same(decoder.decode(BATCH[:1]), wanted[:1])
        check_same(decoder.decode(BATCH), wanted)
    assert len(caught) <= 1
    gpu.fake.allow()
    monkeypatch.setattr(search_plan, "REQUEST_ENTRIES", 16)
    check_same(decoder.decode(BATCH), wanted)
    check_same(make("cuda").decode(BATCH), wanted)


@pytest.mark.parametrize("place", ["host", "cpu"])
def test_where_managed_memory_is_refused_too(gpu, place):
    """Kernels read buffers: there is no way without them."""
    model = LARGE if place == "host" else kenlm()
    wanted = on_gpu(model, placement=place).decode(BATCH)
    gpu.fake.refuse("managed_allocate")
    decoder = on_gpu(model, placement=place)
    gpu.fake.refuse("host_allocate")
    with (
        pytest.raises(CudaOutOfMemoryError, match=r"host memory can be pinned; .*'resident' needs none"),
        pytest.warns(UserWarning, match="the host does not pin"),
    ):
        decoder.decode(BATCH)
    gpu.fake.allow()
    check_same(decoder.decode(BATCH), wanted)


# The arcs, where they are


def test_arcs_are_pinned_where_they_are(gpu, tmp_path):
    LARGE.save(tmp_path / "large.lm")
    for model in (LARGE, LanguageModel.load(tmp_path / "large.lm")):
        assert model.is_mapped == (model is not LARGE)
        decoder = on_gpu(model)
        pinned = gpu.fake.library.fake_registered_bytes()
        assert arcs_bytes(model) - 4 * mmap.PAGESIZE < pinned <= arcs_bytes(model)
        direct = on_gpu(model, placement="resident")
        assert decoder.memory().pinned >= pinned + direct.memory().pinned
        check_same(decoder.decode(BATCH), direct.decode(BATCH))
        del decoder, direct
        gc.collect()
        assert gpu.fake.living("registered") == 0


def test_they_are_shared_and_go_with_the_last_decoder(gpu):
    first = on_gpu()
    held = gpu.fake.living("registered")
    second = on_gpu(beam=3.0)
    assert gpu.fake.living("registered") == held > 0
    assert first.memory().pinned == second.memory().pinned
    del first
    gc.collect()
    assert gpu.fake.living("registered") == held
    check_same(second.decode(BATCH), on_gpu(placement="resident", beam=3.0).decode(BATCH))
    del second
    gc.collect()
    assert gpu.fake.living("registered") == 0


def test_they_are_shared_by_devices(gpu):
    gpu.start(devices=2)
    first, second = on_gpu(), on_gpu(device="cuda:1")
    held = gpu.fake.living("registered")
    del first
    gc.collect()
    assert gpu.fake.living("registered") == held > 0
    assert second.memory().pinned > arcs_bytes() - 4 * mmap.PAGESIZE


def test_nobody_else_pins_them(gpu):
    decoders = [on_gpu(placement="resident"), on_gpu(placement="host-direct"), on_gpu(kenlm(), placement="cpu")]
    assert gpu.fake.living("registered") == 0
    del decoders


@pytest.mark.parametrize("code", [1, 2, 304, 500, 800, 801])
def test_arcs_that_cannot_be_pinned(gpu, code):
    """They are read where they are; the first decoder says so."""
    wanted = on_gpu().decode(BATCH)
    gc.collect()
    gpu.fake.refuse("host_register", code=code)
    said = rf"does not pin the arcs of the language model \({arcs_bytes():,} bytes; \w+, {code}\).* results are the"
    with pytest.warns(UserWarning, match=said) as caught:
        decoder = on_gpu()
        other = on_gpu(beam=3.0)
        check_same(decoder.decode(BATCH), wanted)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert decoder.memory().pinned < arcs_bytes() + on_gpu(placement="resident").memory().pinned + (1 << 22)
    del decoder, other
    gc.collect()
    gpu.fake.allow()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = on_gpu()
    assert gpu.fake.living("registered") > 0, "the next decoder tries again"
    check_same(again.decode(BATCH), wanted)


def test_where_host_stands_in_the_arcs_are_pinned_too(gpu):
    """Where they lie, if that is allowed; one warning either way."""
    index = sum(LARGE.columns[name].nbytes for name in lm_file.INDEX)
    wanted = on_gpu().decode(BATCH)
    for refused in (False, True):
        gc.collect()
        gpu.start()
        gpu.fake.fail("managed_allocate", 2)
        gpu.fake.fail("host_allocate", 2)
        if refused:
            gpu.fake.refuse("host_register")
        with pytest.warns(UserWarning, match="keeps its index and requests the rest from the host, as") as caught:
            decoder = on_gpu(placement="host-direct", gpu_budget=index + 100)
            check_same(decoder.decode(BATCH), wanted)
        assert len(caught) == 1
        assert (gpu.fake.living("registered") > 0) == (not refused)
        del decoder


def test_large_models_for_kernels_are_managed(gpu, monkeypatch):
    arcs = on_gpu(placement="host-direct")
    assert gpu.fake.living("managed") == 0
    del arcs
    monkeypatch.setattr(search_plan, "PINNED_MODEL_BYTES", 4095)
    for options in (PLACES["host-direct"], PLACES["buckets"]):
        decoder = on_gpu(**options)
        assert gpu.fake.living("managed") == 1
        check_same(decoder.decode(BATCH), on_gpu(placement="resident").decode(BATCH))
        del decoder
        gc.collect()


def test_log_probs_that_wait_are_the_same(gpu):
    """float16, rows apart, in parts."""
    gpu.send_in_parts(1, 1, 700)
    batch = [np.concatenate([logp, logp], axis=1)[:, :12].astype(np.float16) for logp in BATCH]
    wanted = on_gpu().decode(batch)
    gc.collect()
    gpu.start()
    gpu.fake.refuse("host_allocate")
    with pytest.warns(UserWarning, match="the host does not pin"):
        decoder = on_gpu()
        check_same(decoder.decode(batch), wanted)
