"""Log-probs of the host on their way to a GPU: in pieces, in parts, late, from pinned memory; always the CPU's bytes.

In the fake driver a launch runs when it is made, so it sees only the parts that were sent before: lanes run out of
log-probs, stop, and go on in the next launch.
"""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CapacityError, CtcDecoder, CudaError
from arcbeam.ctc.gpu._staging import plan_of
from arcbeam.gpu import _cuda
from arcbeam.gpu._memory import PinnedBuffer
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.equality import same
from tests.decode.small_search import GRAPH, OPTIONS, ROOMY, on_cpu
from tests.hypothesis_examples import examples

ROOT = Path(__file__).resolve().parents[2]
BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 29, 1, 17, 8))]


@pytest.fixture
def gpu(planned_gpu):
    return planned_gpu


def pinned(array):
    """A copy of the array in memory that the fake driver has pinned."""
    buffer = PinnedBuffer(_cuda.context_of(0))
    buffer.resize(max(1, array.nbytes))
    copy = np.frombuffer(buffer, array.dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


# The order in which pieces go


def table_of(arrays):
    rows = [(a.ctypes.data, a.strides[0] // a.itemsize, len(a), a.dtype == np.float16) for a in arrays]
    return np.array(rows, np.int64).reshape(-1, 4)


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=12),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(1, 9),
)
def test_pieces_cover_every_row_once(shapes, columns, lanes, piece_frames):
    arrays = [np.zeros((n, columns), np.float16 if half else np.float32) for n, half in sorted(shapes, reverse=True)]
    pieces = plan_of(table_of(arrays), columns, lanes, piece_frames)
    rows = sorted((u, row + i) for u, row, count, _ in pieces for i in range(count))
    assert rows == [(u, row) for u, array in enumerate(arrays) for row in range(len(array))]
    end = 0
    for u, row, count, line in pieces:
        assert row % piece_frames == 0
        assert line == end
        end += -(-count * columns * arrays[u].itemsize // 128)
    for first, array in enumerate(arrays[:lanes]):  # of those that start at once no row waits for a later one
        when = [at for at, piece in enumerate(pieces) if piece[0] == first]
        assert when == sorted(when)
        for at, (u, row, _, _) in enumerate(pieces):
            if u < lanes and len(array):
                assert (row <= pieces[when[-1]][1]) or at > when[-1]


def test_pieces_of_utterances_that_start_later_go_when_a_lane_is_free():
    arrays = [np.zeros((n, 32), np.float32) for n in (8, 4, 3, 2)]
    pieces = plan_of(table_of(arrays), 32, 2, 2)
    when = {piece[:2]: at for at, piece in enumerate(pieces)}
    assert max(when[0, 2], when[0, 0], when[1, 2]) < when[2, 2]  # the third starts at frame 4, the fourth at 7
    assert when[2, 0] < when[0, 6]
    assert when[3, 0] > when[0, 4]


def test_figures():
    assert search_plan.windows_of(np.array([5, 4, 3, 2, 1]), 7) == [(0, 1), (1, 3), (3, 5)]
    assert search_plan.windows_of(np.array([5, 4]), 1) == [(0, 1), (1, 2)]
    assert search_plan.windows_of(np.array([], int), 1) == []
    assert search_plan.piece_frames(2048, 264) == 7
    assert search_plan.piece_frames(2048, 1) == 128
    assert search_plan.piece_frames(1 << 20, 264) == 1
    assert (search_plan.gathering_threads(2), search_plan.gathering_threads(64)) == (2, 8)


# Decoding


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=20), max_size=5),
    st.sampled_from([0.5, 2.0, float("inf")]),
    st.sampled_from([(1, 1, 1), (16, 64, 64), (100, 1000, 200)]),
    st.booleans(),
)
def test_random_graphs(emulated_gpu, graph, batch, beam, sizes, tight):
    emulated_gpu.begin_with(TIGHT if tight else ROOMY)
    emulated_gpu.send_in_parts(*sizes)
    options = {"beam": beam, "max_active": 5}
    same(CtcDecoder(graph, device="cuda", **options).decode(batch), on_cpu(batch, graph=graph, **options))


def test_lanes_wait_for_what_has_not_come(gpu):
    gpu.send_in_parts()
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu(BATCH))
    assert len(gpu.shapes) == 2, "the second launch has all of it"
    same(decoder.decode(BATCH[::-1])[::-1], on_cpu(BATCH))


def variants():
    rng = np.random.default_rng(1)
    padded = np.stack([graphs.random_log_probs(seed, 20, 12) for seed in range(5)])
    apart = np.concatenate([padded, padded], axis=-1)[..., :12]
    half = [logp.astype(np.float16 if i % 2 else np.float32) for i, logp in enumerate(BATCH)]
    values = graphs.random_log_probs(3, 40, 12)
    overlapping = np.lib.stride_tricks.sliding_window_view(values.reshape(-1), 12)[::5][:20]
    return {
        "padded": (padded, None),
        "lengths": (padded, rng.integers(0, 21, 5)),
        "rows apart": (apart, None),
        "backwards": (padded[:, ::-1], [20, 3, 0, 20, 7]),
        "float16": ([logp.astype(np.float16) for logp in BATCH], None),
        "mixed": (half, None),
        "rows of a list apart": ([np.concatenate([logp, logp], axis=1)[:, :12] for logp in BATCH], None),
        "rows on top of each other": ([overlapping, overlapping[::-1]], None),
        "one row": ([np.broadcast_to(values[:1], values.shape)], None),
        "values apart": (np.stack([padded, padded], axis=-1)[..., 0], None),
    }


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        for name in variants()
        for place in (np.asarray, pinned, DeviceArray)
        if (name, place) != ("values apart", DeviceArray)  # which kernels do not read
    ],
)
def test_kinds_of_arrays(gpu, name, place):
    gpu.send_in_parts()
    batch, lengths = variants()[name]
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    given = [place(logp) for logp in batch] if isinstance(batch, list) else place(batch)
    same(decoder.decode(given, lengths), on_cpu([np.array(logp) for logp in batch], lengths))
    assert len(gpu.shapes) == (1 if place is DeviceArray else 2)


@pytest.mark.parametrize("window_bytes", [1, 500, 1200, 10**6])
def test_more_than_the_device_has_room_for_goes_in_windows(gpu, window_bytes):
    gpu.begin_with(search_plan.Room(spill_states=512, log_entries=4096, shared_states=128, window_bytes=window_bytes))
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    same(decoder.decode(BATCH), on_cpu(BATCH))
    assert len(gpu.shapes) == {1: 6, 500: 4, 1200: 3, 10**6: 1}[window_bytes]
    gpu.send_in_parts(128, 128, 128)
    same(decoder.decode(BATCH), on_cpu(BATCH))


def test_a_window_takes_half_of_what_the_limit_leaves(gpu):
    batch = [graphs.random_log_probs(seed, 8000, 12) for seed in range(2)]  # 384 KB each
    options = {"beam": 0.5, "max_active": 2}
    free = CtcDecoder(GRAPH, device="cuda", **options)
    same(free.decode(batch[:1]), on_cpu(batch[:1], **options))
    limit = free.memory().device_bytes + (1 << 18)
    decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=limit, **options)
    gpu.launches.clear()
    same(decoder.decode(batch), on_cpu(batch, **options))
    assert decoder.memory().device_bytes <= limit
    assert len(gpu.shapes) == 2, "an utterance after the other, and no try in vain"


def test_memory_is_reported(gpu):
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    batch = [graphs.random_log_probs(seed, 3000, 12) for seed in range(3)]
    options = {"beam": 0.5, "max_active": 2}
    decoder = CtcDecoder(GRAPH, device="cuda", **options)
    decoder.decode(batch)
    values = sum(logp.nbytes for logp in batch)
    memory = decoder.memory()
    assert values <= memory.log_probs <= values + (1 << 18)
    assert memory.pinned >= 2 * values  # one part, and room for the next


def test_bad_values_that_come_late(gpu):
    gpu.send_in_parts()
    spoiled = [logp.copy() for logp in BATCH]
    spoiled[2][1, 3] = np.nan  # the kernel is done with this one long before its last part has come
    spoiled[4][16, 2] = np.inf
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with pytest.raises(ValueError, match="got nan in utterance 2, frame 1, column 3"):
        decoder.decode(spoiled)
    with pytest.raises(ValueError, match="got inf in utterance 1, frame 16, column 2"):
        decoder.decode(spoiled[3:])
    same(decoder.decode(BATCH), on_cpu(BATCH))


@pytest.mark.parametrize("place", [np.asarray, pinned])
def test_every_call_may_fail_while_parts_are_under_way(gpu, place):
    gpu.send_in_parts(1, 1, 1200)
    batch = place(np.stack([graphs.random_log_probs(seed, 12, 12) for seed in range(3)]))
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu(batch)
    same(decoder.decode(batch), wanted)
    before = gpu.fake.library.fake_calls()
    same(decoder.decode(batch), wanted)
    calls = gpu.fake.library.fake_calls() - before
    raised = 0
    for nth in range(1, calls + 1):
        gpu.fake.fail("", 803, nth)
        try:
            same(decoder.decode(batch), wanted)
        except CudaError as error:
            assert error.code == 803
            raised += 1
            same(decoder.decode(batch), wanted)
    assert raised > 20


def test_out_of_memory_in_the_middle(gpu):
    gpu.send_in_parts()
    for nth in range(1, 18):
        decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
        gpu.fake.fail("allocate", 2, nth)
        gpu.fake.fail("allocate", 2, nth)  # the second try, too
        same(decoder.decode(BATCH), on_cpu(BATCH))


def test_pinned_memory_that_is_refused(gpu):
    """Once or from some time on: log-probs go through pageable memory, and a later growth is pinned again."""
    gpu.send_in_parts()
    longer = [graphs.random_log_probs(seed, 120, 12) for seed in range(2)]
    wanted = on_cpu(longer)
    for fail in (gpu.fake.fail, lambda call, code, nth: gpu.fake.refuse(call, code=code, nth=nth)):
        for nth in range(1, 3):  # the memory of the batch, and that of the log-probs
            gc.collect()
            gpu.start()
            decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
            fail("host_allocate", 2, nth)
            with pytest.warns(UserWarning, match="the host does not pin .* the process waits for copies") as caught:
                same(decoder.decode(BATCH), on_cpu(BATCH))
            assert len(caught) == 1 and caught[0].filename == __file__
            same(decoder.decode(BATCH), on_cpu(BATCH))
            assert gpu.fake.living("pinned") < 3
            gpu.fake.allow()
            gpu.send_in_parts(largest=1 << 16)
            same(decoder.decode(longer), wanted)
            assert gpu.fake.living("pinned") > 0
            gpu.send_in_parts()
            del decoder


def test_no_pinned_memory_at_all(gpu):
    gpu.fake.refuse("host_allocate")
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    with pytest.warns(UserWarning, match="the host does not pin"):
        same(decoder.decode(BATCH), on_cpu(BATCH))
    assert decoder.memory().pinned == 0


@pytest.mark.parametrize("is_pinned", [True, False])
def test_results_are_not_copied_back_before_the_kernel_has_ended(gpu, is_pinned):
    """Else a copy to pageable memory would wait for a kernel that may wait for log-probs, which come after it."""
    gpu.send_in_parts()
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    if not is_pinned:
        gpu.fake.refuse("host_allocate")
        with pytest.warns(UserWarning, match="the host does not pin"):
            decoder.decode(BATCH)
    before = len(gpu.fake.journal())
    decoder.decode(BATCH)
    lines = [line for line in gpu.fake.journal()[before:] if line[0] in ("launch", "to_host", "read")]
    assert {line[1] for line in lines if line[0] == "to_host"} == {"pinned" if is_pinned else "pageable"}
    following = {lines[i + 1][0] for i, line in enumerate(lines) if line == ["launch"]}
    assert following == {"to_host" if is_pinned else "read"}


def test_control_c_while_parts_are_under_way(gpu):
    gpu.send_in_parts(1, 1, 1200)
    decoder = CtcDecoder(GRAPH, device="cuda", **OPTIONS)
    wanted = on_cpu(BATCH)
    same(decoder.decode(BATCH), wanted)
    with gpu.interrupted(), pytest.raises(KeyboardInterrupt):  # the third part waits until the first has been read
        decoder.decode(BATCH)
    same(decoder.decode(BATCH), wanted)


def test_decoders_of_one_thread_and_of_several(gpu):
    gpu.send_in_parts()
    for threads in (1, 2, 5):
        decoder = CtcDecoder(GRAPH, device="cuda", threads=threads, **OPTIONS)
        same(decoder.decode(BATCH), on_cpu(BATCH))
    del decoder
    gc.collect()


STARVED = """
import ctypes, resource, sys
import numpy as np
import pytest
import arcbeam
from tests.cuda_host.conftest import FakeDriver
from tests.decode.emulated_gpu import EmulatedGpu

gpu = EmulatedGpu(FakeDriver(ctypes.CDLL(sys.argv[1])), pytest.MonkeyPatch())
gpu.send_in_parts()
graph = arcbeam.Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=2)
log_probs = np.zeros((1, 90, 2), np.float32)
arcbeam.CtcDecoder(graph, device="cuda", threads=1).decode(log_probs)
decoder = arcbeam.CtcDecoder(graph, device="cuda", threads=2000)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.RLIM_INFINITY))
try:
    decoder.decode(log_probs)
    raise SystemExit("2000 threads fit in 256 MiB of addresses")
except arcbeam.CapacityError as error:
    print(error)
print(len(arcbeam.CtcDecoder(graph, device="cuda", threads=2).decode(log_probs)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space through /proc")
def test_no_thread_to_be_had(fake_library):
    library = fake_library.library._name
    got = subprocess.run(
        [sys.executable, "-c", STARVED, library], capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert got.returncode == 0, got.stderr
    message, decoded = got.stdout.splitlines()
    assert message.startswith("threads: 2000 threads cannot be started (")
    assert decoded == "1"


def test_a_limit_that_leaves_no_room_for_one_utterance(gpu):
    graph_bytes = CtcDecoder(GRAPH, device="cuda").memory().graph
    decoder = CtcDecoder(GRAPH, device="cuda", memory_limit=graph_bytes + (1 << 21), **OPTIONS)
    with pytest.raises(CapacityError, match=r"memory_limit: cannot allocate [\d,]+ bytes for the log-probs on cuda:0"):
        decoder.decode([np.zeros((100_000, 12), np.float32)])
    same(decoder.decode(BATCH), on_cpu(BATCH))
