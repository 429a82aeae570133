"""Log-probs of logits that lie on a GPU: the kernel has the twin's bytes, and the logits stay where they are."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from arcbeam import CtcDecoder, InputError, InputWarning
from arcbeam.arrays import batches
from arcbeam.arrays._log_softmax import log_softmax
from tests.decode import graphs
from tests.decode.emulated_gpu import LOG_SOFTMAX, DeviceArray
from tests.decode.equality import same
from tests.decode.small_search import ROOMY
from tests.simt.build import ROOT, kernel_params, load, schedules
from tests.simt.ptx import functions, inexact_arithmetic, nvcc, ptx_of

KERNEL = "cuda/arrays/log_softmax.cu"
COLUMNS = 12
GRAPH = graphs.random_graph(0, columns=COLUMNS)
INFINITY = np.inf


def bfloat16(values):
    """Values of bfloat16 as float32, as libraries round them for us."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


KINDS = {
    "float32": lambda values: values.astype(np.float32),
    "float16": lambda values: values.astype(np.float16),
    "bfloat16": bfloat16,
    "float64": lambda values: batches.rounded(values.astype(np.float64)),
}


def rows_of_all_kinds(rng, columns):
    """float64[frames, columns]: usual ones, and rows that are likely to go wrong."""
    rows = rng.normal(0, 4, (13, columns))
    rows[1, : columns // 2] = -INFINITY
    rows[2] = -INFINITY
    rows[3, columns // 2] = np.nan
    rows[4, -1] = INFINITY
    rows[5, 0], rows[5, columns // 2] = INFINITY, np.nan
    rows[6] *= 2e4 / np.abs(rows[6]).max()
    rows[7, 0], rows[7, 1:] = 60000.0, -60000.0
    rows[8] = -1e38  # as large a sum of differences as there is
    rows[8, :1] = 1e38
    rows[9] = 0.0
    rows[9, ::2] = -0.0
    rows[10], rows[10, -1] = -INFINITY, -0.0
    rows[11] = 1e-40
    rows[12, 1:] = -90.0  # powers of which some vanish
    return rows


def check(columns, kind, schedule, block=96, grid=2):
    """Several utterances, of a batch whose rows lie apart, one in reverse order, one without frames in their midst."""
    rng = np.random.default_rng(columns)
    with np.errstate(over="ignore"):
        memory = [KINDS[kind](rows_of_all_kinds(rng, columns + gap)) for gap in (0, 3, 1, 0)]
    arrays = [memory[0], memory[1][:5, :columns], memory[2][::-1, :columns], memory[3][:0]]
    table = np.array([
        (one.ctypes.data, one.strides[0] // one.itemsize, len(one), one.dtype == np.float16) for one in arrays
    ], np.int64)  # fmt: skip
    first = np.cumsum(table[:, 2]) - table[:, 2]
    views = np.ascontiguousarray(np.column_stack((table[:, [0, 1, 3]], first)))
    wanted = log_softmax(table, columns)
    found = np.full_like(wanted, 7.0)
    params = kernel_params(
        utterances=views, rows=np.uint64(len(wanted)), num_utterances=np.uint32(len(views)),
        columns=np.uint32(columns), log_probs=found,
    )  # fmt: skip
    load(KERNEL).launch(
        "arcbeam_log_softmax", params, grid=grid, block=block, arrays=dict(zip("abcd", memory, strict=True)), **schedule
    )
    different = np.argwhere(found.view(np.uint32) != wanted.view(np.uint32))
    assert not len(different), (
        f"row, column {different[0].tolist()}: expected {wanted[*different[0]]}, got {found[*different[0]]}"
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 2, 31, 32, 33, 70, 400, 2049])
def test_the_kernel_has_the_bytes_of_the_twin(columns, kind):
    for schedule in schedules(2) if columns > 100 else schedules():
        check(columns, kind, schedule)


@pytest.mark.parametrize(("block", "grid"), [(32, 1), (64, 3), (256, 1), (256, 9)])
def test_any_shape_of_a_launch(block, grid):
    check(33, "float32", {}, block, grid)


@pytest.mark.skipif(nvcc() is None, reason="nvcc is neither on the PATH nor under CUDA_HOME")
@pytest.mark.parametrize("architecture", ["80", "90"])
def test_nothing_is_fused_but_what_says_so(architecture):
    ptx = ptx_of(ROOT / KERNEL, architecture)
    found = inexact_arithmetic(ptx, [LOG_SOFTMAX])
    assert found and [line for line in found if ": fma.rn.f32 " not in line] == []
    assert "add.rn.f32" in functions(ptx)[LOG_SOFTMAX]


def there(gpu, arrays):
    """The arrays on the GPU; the fake driver's memory is the host's."""
    for array in arrays:
        if array.size:
            gpu.fake.lend("memory", array.ctypes.data, array.nbytes)
    return [DeviceArray(array) for array in arrays]


def logits_of(kind, frames=(40, 0, 23, 31)):
    rng = np.random.default_rng(1)
    return [KINDS[kind](rng.normal(0, 4, (count, COLUMNS))) for count in frames]


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("more", [{}, {"nbest": 3, "confidence": True}])
def test_a_batch_stays_on_the_gpu(emulated_gpu, kept_there, kind, more):
    decoder, twin = (CtcDecoder(GRAPH, device=device, beam=9.0) for device in ("cuda", "cpu"))
    logits = logits_of(kind)
    emulated_gpu.bounded = True
    arrays = there(emulated_gpu, logits)
    for lengths in (None, [30, 0, 23, 1]):
        found, wanted = (
            decoder.decode(arrays, lengths, logits=True, **more),
            twin.decode(logits, lengths, logits=True, **more),
        )
        same(found, wanted)
        assert [one.to_dict() for one in found] == [one.to_dict() for one in wanted]
    assert decoder.decode([], logits=True) == []
    same(decoder.decode(arrays, [0, 0, 0, 0], logits=True), twin.decode(logits, [0, 0, 0, 0], logits=True))
    assert sum(name == LOG_SOFTMAX for name, _ in emulated_gpu.launches) == 2, "none where there is no frame"


def test_frame_confidences_are_those_of_the_log_probs(emulated_gpu):
    decoder, twin = (CtcDecoder(GRAPH, device=device, beam=9.0) for device in ("cuda", "cpu"))
    logits = logits_of("float32")
    options = {"logits": True, "frame_confidence": "entropy"}
    found, wanted = decoder.decode(there(emulated_gpu, logits), **options), twin.decode(logits, **options)
    same(found, wanted)
    assert [one.frame_confidence.tolist() for one in found] == [one.frame_confidence.tolist() for one in wanted]


def test_a_large_batch_is_normalised_part_by_part(emulated_gpu, kept_there):
    logits = logits_of("float16", (40, 3, 23, 31, 0, 12))
    arrays = there(emulated_gpu, logits)
    wanted = CtcDecoder(GRAPH, device="cpu", beam=9.0).decode(logits, logits=True, nbest=2)
    emulated_gpu.begin_with(ROOMY)
    whole = CtcDecoder(GRAPH, device="cuda", beam=9.0)
    same(whole.decode(arrays, logits=True, nbest=2), wanted)
    emulated_gpu.begin_with(replace(ROOMY, window_bytes=45 * COLUMNS * 4))
    decoder = CtcDecoder(GRAPH, device="cuda", beam=9.0)
    before = len(emulated_gpu.launches)
    same(decoder.decode(arrays, logits=True, nbest=2), wanted)
    assert [name for name, _ in emulated_gpu.launches[before:]].count(LOG_SOFTMAX) == 3
    assert decoder.memory().log_probs >= 45 * COLUMNS * 4
    decoder.release()
    assert decoder.memory().log_probs == 0
    same(decoder.decode(arrays, logits=True, nbest=2), wanted)


def test_calls_that_fail(emulated_gpu):
    """Each call of the driver in turn: the next batch has its bytes."""
    logits = logits_of("float32", (9, 5))
    arrays = there(emulated_gpu, logits)
    wanted = CtcDecoder(GRAPH, device="cpu", beam=5.0).decode(logits, logits=True)
    emulated_gpu.begin_with(ROOMY)
    decoder = CtcDecoder(GRAPH, device="cuda", beam=5.0)
    said = list(emulated_gpu.fake.failures(lambda: decoder.decode(arrays, logits=True)))
    assert len(said) > 5
    same(decoder.decode(arrays, logits=True), wanted)
    for nth in range(1, 20):
        fresh = CtcDecoder(GRAPH, device="cuda", beam=5.0)
        emulated_gpu.fake.fail("allocate", 2, nth)
        emulated_gpu.fake.fail("allocate", 2, nth)
        same(fresh.decode(arrays, logits=True), wanted)


@pytest.mark.parametrize("value", [np.nan, INFINITY])
def test_a_bad_value_is_the_one_that_was_given(emulated_gpu, value):
    logits = logits_of("float32")
    logits[2][4, 7] = value
    arrays = there(emulated_gpu, logits)
    decoder = CtcDecoder(GRAPH, device="cuda", beam=9.0)
    with pytest.raises(InputError, match=rf"got {value} in utterance 2, frame 4, column 7"):
        decoder.decode(arrays, logits=True)
    found = decoder.decode(arrays, logits=True, errors="return")
    wanted = CtcDecoder(GRAPH, device="cpu", beam=9.0).decode(logits, logits=True, errors="return")
    same(found, wanted)
    assert [str(one.error) for one in found] == [str(one.error) for one in wanted]


def test_no_warning_of_logits(emulated_gpu):
    """The frames that are checked are those of the log-probs, in every part of a batch."""
    emulated_gpu.begin_with(replace(ROOMY, window_bytes=40 * COLUMNS * 4))
    logits = [one + 5.0 for one in logits_of("float32")]
    decoder = CtcDecoder(GRAPH, device="cuda", beam=9.0)
    arrays = there(emulated_gpu, logits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.decode(arrays, logits=True)
        with pytest.raises(InputWarning, match=r"got \d+\.\d* in utterance [023], frame \d+: are they probabilities"):
            decoder.decode(arrays)
