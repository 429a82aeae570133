"""The emulator: right kernels give the same bytes in every schedule, each kind of wrong one is caught and explained."""

import ctypes
import os
import re
import subprocess

import numpy as np
import pytest

from tests.simt import build
from tests.simt.build import HERE, POLICIES, Copy, KernelError, Kernels, kernel_params, load, schedules

u4, u8 = np.uint32, np.uint64


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return load(*[HERE / "kernels" / f"{name}.cu" for name in ("scan", "tables", "exchange", "access", "faulty")])


@pytest.fixture(params=[1, 33, 64, 1000])
def values(request) -> np.ndarray:
    return np.random.default_rng(request.param).integers(0, 1000, request.param).astype(u4)


@pytest.mark.parametrize("block", [1, 20, 32, 64, 256])
def test_prefix_sum(kernels, values, block):
    for schedule in schedules(10):
        sums = np.zeros_like(values)
        params = kernel_params(values=values, sums=sums, count=u4(values.size))
        kernels.launch("prefix_sum", params, block=block, shared_bytes=128, **schedule)
        assert np.array_equal(sums, np.cumsum(values, dtype=u4) - values)


@pytest.mark.parametrize("block", [1, 20, 32, 128])
def test_argmin(kernels, values, block):
    values %= 50  # ties
    expected = int(values.min()) << 32 | int(values.argmin())
    for schedule in schedules(10):
        best = np.zeros(2, u8)
        params = kernel_params(costs=values, best=best, count=u4(values.size))
        kernels.launch("argmin", params, grid=2, block=block, shared_bytes=16, **schedule)
        assert best.tolist() == [expected] * 2


@pytest.mark.parametrize("lanes", [64, 32, 20, 1])
def test_warp_operations(kernels, lanes):
    values = np.random.default_rng(lanes).integers(0, 10, lanes).astype(u4)
    expected = np.zeros((12, lanes), u4)
    for t in range(lanes):
        first = t // 32 * 32
        warp = values[first : first + 32]
        odd = warp % 2 == 1
        mine = odd if values[t] % 2 else ~odd
        same = warp[mine]
        bits = lambda flags: sum(1 << i for i in np.flatnonzero(flags))  # noqa: E731
        expected[:10, t] = [
            *(bits(odd), same.min(), same.max(), same.sum(), np.bitwise_or.reduce(same), bits(warp == values[t])),
            *((same == 3).any(), (same < 7).all(), same[0], np.count_nonzero(mine[: t - first])),
        ]
        expected[10, t] = values[t ^ 1] if (t ^ 1) < lanes else 0
        expected[11, t] = np.count_nonzero(values % 2)
    for schedule in schedules():
        out = np.zeros((12, lanes), u4)
        kernels.launch("warp_operations", kernel_params(values=values, out=out), block=lanes, **schedule)
        if lanes == 1:
            out[10] = 0  # from a lane that does not exist
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("detect_races", [True, False])
def test_hash_table(kernels, detect_races):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 150, 500).astype(u4)
    costs = rng.integers(0, 4, 500).astype(u4)
    expected = {}
    for i, (key, cost) in enumerate(zip(keys.tolist(), costs.tolist(), strict=True)):
        expected[key + 1] = min(expected.get(key + 1, 2**64), cost << 32 | i)
    layouts = set()
    for schedule in schedules(always=True):
        slots, best, status = np.zeros(211, u4), np.full(211, 2**64 - 1, u8), np.zeros(1, u4)
        params = kernel_params(keys=(keys,), costs=(costs,), slots=(slots,), best=(best,), status=status)
        kernels.launch("table_insert", params, grid=3, block=32, detect_races=detect_races, **schedule)
        used = slots != 0
        assert dict(zip(slots[used].tolist(), best[used].tolist(), strict=True)) == expected
        assert status[0] == 0
        layouts.add(slots.tobytes())
    assert len(layouts) > 10 or not kernels.emulated  # the schedules did differ


def test_full_hash_table_reports_its_status(kernels):
    keys, slots, best, status = np.arange(9, dtype=u4), np.zeros(8, u4), np.full(8, 2**64 - 1, u8), np.zeros(1, u4)
    params = kernel_params(keys=(keys,), costs=(keys,), slots=(slots,), best=(best,), status=status)
    kernels.launch("table_insert", params)
    assert status[0] == 1


def test_work_queue_between_blocks(kernels):
    work = np.random.default_rng(2).integers(0, 40, 30).astype(u4)
    for schedule in schedules():
        results, following = np.zeros_like(work), np.zeros(1, u4)
        params = kernel_params(work=(work,), results=(results,), next=following)
        kernels.launch("work_queue", params, grid=4, block=8, shared_bytes=32, **schedule)
        assert np.array_equal(results, work * (work - 1) // 2 * (work > 0))
        assert following[0] == len(work) + 4


def chain(kernels, patience=10**9, **options):
    totals, flags, status = np.zeros((4, 40), u4), np.zeros(4, u4), np.zeros(1, u4)
    params = kernel_params(totals=totals, flags=flags, status=status, patience=u8(patience))
    kernels.launch("chain", params, grid=4, block=40, **options)
    return totals, status[0]


def test_blocks_that_publish_to_each_other(kernels):
    for schedule in schedules():
        totals, status = chain(kernels, **schedule)
        b, t = np.indices(totals.shape)
        assert np.array_equal(totals, b * (b + 1) // 2 + t * (b + 1))
        assert status == 0


def test_a_bounded_spin_gives_up(kernels):
    assert chain(kernels, patience=1)[1] == 7


def test_blocks_may_run_one_after_another(kernels):
    b, t = np.indices((4, 40))
    assert np.array_equal(chain(kernels, resident=1)[0], b * (b + 1) // 2 + t * (b + 1))


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_cluster_exchange(kernels, cluster):
    values = np.random.default_rng(3).integers(0, 2**32, (4, 16), dtype=u4)
    outputs = set()
    for schedule in schedules():
        out = np.zeros_like(values)
        params = kernel_params(values=values, out=out)
        kernels.launch("cluster_exchange", params, grid=4, block=16, cluster=cluster, shared_bytes=80, **schedule)
        outputs.add(out.tobytes())
    assert len(outputs) == 1
    sums = np.zeros((4 // cluster, 16), u4)
    for rank in range(cluster):
        sums = sums * u4(31) + values[rank::cluster]
    ranks = np.arange(4, dtype=u4)[:, None] % u4(cluster)
    expected = (np.repeat(sums, cluster, axis=0) ^ ranks) + np.repeat(sums.sum(1, dtype=u4) * u4(cluster), cluster)[
        :, None
    ]
    assert np.array_equal(out, expected)


def test_asynchronous_copies(kernels):
    values = np.random.default_rng(4).integers(0, 2**32, (4, 4, 32), dtype=u4)
    expected = np.zeros(32, u4)
    for row in values.reshape(16, 32):
        expected = expected * u4(3) + row
    for schedule in schedules():
        out = np.zeros(32, u4)
        kernels.launch("copy_tiles", kernel_params(values=values, out=out), shared_bytes=1024, **schedule)
        assert np.array_equal(out, expected)


def test_products_of_matrices():
    matrix = load(HERE / "kernels" / "matrix.cu")
    rng = np.random.default_rng(6)
    a, b, sums = (rng.integers(-128, 128, shape).astype(np.float32) for shape in ((16, 16), (8, 16), (16, 8)))
    a /= 8
    words = [np.ascontiguousarray((x.view(u4) >> 16).astype(np.uint16)).view(u4) for x in (a, b)]
    wanted = sums + a @ b.T  # exact
    for schedule in schedules(10):
        found = sums.copy()
        matrix.launch("multiply_matrices", kernel_params(a=words[0], b=words[1], sums=found), **schedule)
        assert np.array_equal(found, wanted)


def test_named_barriers_hand_a_buffer_over(kernels):
    for schedule in schedules():
        out = np.zeros((5, 32), u4)
        kernels.launch("two_warps", kernel_params(out=out, rounds=u4(5)), block=64, shared_bytes=128, **schedule)
        assert np.array_equal(out, 100 * np.arange(5)[:, None] + (np.arange(32) + 1) % 32)


def test_every_load_store_and_atomic(kernels):
    rng = np.random.default_rng(5)
    n = 64
    wide = rng.integers(0, 2**30, (n, 4)).astype(u4)
    pairs = rng.integers(0, 2**64, n, dtype=u8)
    halves = rng.integers(0, 2**16, n).astype(np.uint16)
    numbers = pairs.astype(u4).view(np.int32)
    for schedule in schedules():
        wide_out, pairs_out, halves_out = np.zeros((5, n, 4), u4), np.zeros((8, n), u8), np.zeros((2, n), np.uint16)
        ints = np.array([2**31 - 1, -(2**31), 0, 0], np.int32)
        longs = np.array([2**64 - 1, 0, 0, 0, 2**64 - 1, 0], u8)
        params = kernel_params(
            wide=wide,
            pairs=pairs,
            halves=halves,
            wide_out=wide_out,
            pairs_out=pairs_out,
            halves_out=halves_out,
            ints=ints,
            longs=longs,
        )
        kernels.launch("every_access", params, block=n, **schedule)
        assert (wide_out == wide).all() and (halves_out == halves).all() and (pairs_out[:7] == pairs).all()
        assert np.array_equal(pairs_out[7], wide[:, 2] | u8(9) << u8(32))
        assert ints.tolist() == [numbers.min(), numbers.max(), numbers.sum(dtype=np.int32), -5]
        reduced = [pairs.min(), pairs.max(), pairs.sum(), np.bitwise_or.reduce(pairs), np.bitwise_and.reduce(pairs)]
        assert longs[:5].tolist() == reduced
        assert longs[5] in pairs | u8(1)


# ---- kernels and the host

HOST = (HERE / "kernels" / "host.cu", HERE / "kernels" / "host.cpp")
WAYS = re.findall(r"^    k(\w+),$", HOST[0].read_text(), re.MULTILINE)
HOST_FAULTS = ("None", "RelaxedLook", "RelaxedAnswer", "EarlyAnswer")


@pytest.fixture(scope="module")
def with_host() -> Kernels:
    return load(*HOST)


def read_what_comes(kernels, way, *, flag="released_word", steps=(40, 60), **schedule):
    """Two blocks read 32 words that the host copies meanwhile."""
    values = np.arange(100, 132, dtype=u4)
    data, come, out = np.zeros(32, u4), np.zeros(1, u4), np.zeros((2, 32), u4)
    params = kernel_params(data=data, come=come, out=out, way=u4(WAYS.index(way)))
    copies = [Copy(steps[0], data, values), Copy(steps[1], come, np.ones(1, u4), flag)]
    kernels.launch("read_what_comes", params, grid=2, copies=copies, **schedule)
    assert (out == values).all()


def request_of_host(kernels, way="Acquire", *, fault="None", every=7, **schedule):
    """Each thread sends three requests; the host reads them every so many scheduling points."""
    question, answer, out = (np.zeros(40, u4) for _ in range(3))
    posted, answered = np.zeros(1, u4), np.zeros(1, u4)
    params = kernel_params(
        question=question, posted=posted, answered=answered, answer=answer, out=out, rounds=u4(3),
        way=u4(WAYS.index(way)),
    )  # fmt: skip
    requested = kernel_params(
        question=question, posted=posted, answered=answered, answer=answer, count=u4(40),
        fault=u4(HOST_FAULTS.index(fault)),
    )  # fmt: skip
    context = ctypes.cast(kernels.library.answer_host, ctypes.c_void_p).value, ctypes.addressof(requested), every
    kernels.launch("request_of_host", params, block=40, host=context, **schedule)
    assert np.array_equal(out, 27 * np.arange(40) + 13)


@pytest.mark.parametrize("way", ["Acquire", "Fence"])
def test_what_the_host_copies_is_read_after_an_acquire_or_a_fence(with_host, way):
    for schedule in schedules(always=True):
        read_what_comes(with_host, way, **schedule)
        read_what_comes(with_host, way, steps=(1, 2), **schedule)


def test_the_host_answers(with_host):
    for schedule in schedules(always=True):
        request_of_host(with_host, every=1 + schedule["seed"] % 9, **schedule)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("way", "flag", "message"),
    [
        ("Relaxed", "released_word", r"race: read of 4 bytes of data .* at host.cu:\d+, unordered with the write by"),
        ("NarrowAcquire", "released_word", "race: atomic load of 4 bytes of come .* of too narrow a scope"),
        ("NarrowFence", "released_word", "race: read of 4 bytes of data .* unordered with the write by a copy"),
        ("ReadOnly", "released_word", "read-only data is written in this launch: read-only load of 4 bytes of data"),
        ("Acquire", "relaxed_word", "race: read of 4 bytes of data .* unordered with the write by a copy of the host"),
        ("Fence", "relaxed_word", "race: read of 4 bytes of data .* unordered with the write by a copy of the host"),
        ("Acquire", "bytes", "race: (atomic load of 4 bytes of come .* the write|write of .* atomic read)"),
    ],
)
def test_what_the_host_copies_is_read_too_soon(with_host, way, flag, message, policy):
    for seed in range(4):
        with pytest.raises(KernelError, match=f"^read_what_comes: ({message})"):
            read_what_comes(with_host, way, flag=flag, policy=policy, seed=seed)


def test_the_host_may_not_write_what_was_read_as_if_it_never_changed(with_host):
    data, come, out = np.zeros(32, u4), np.ones(1, u4), np.zeros((2, 32), u4)
    params = kernel_params(data=data, come=come, out=out, way=u4(WAYS.index("ReadOnly")))
    steps = with_host.launch("read_what_comes", params, grid=2, resident=1)
    late = Copy(steps - 1, data, np.ones(32, u4))
    with pytest.raises(KernelError, match="read-only data is written in this launch: write of 128 bytes of data at 0"):
        with_host.launch("read_what_comes", params, grid=2, resident=1, copies=[late])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("way", "fault", "message"),
    [
        ("Relaxed", "None", r"race: read of .* of question .* by the host's thread at host.cpp:\d+, unordered with"),
        ("NarrowFence", "None", "race: read of .* of question .* by the host's thread .* unordered with the write"),
        ("NarrowAcquire", "None", "race: .* of posted .* of too narrow a scope"),
        ("Acquire", "RelaxedLook", "race: read of .* of question .* by the host's thread .* unordered with the write"),
        ("Acquire", "RelaxedAnswer", r"race: read of 4 bytes of answer .* write by the host's thread at host.cpp:\d"),
        ("Acquire", "EarlyAnswer", "race: read of 4 bytes of answer .* unordered with the write by the host's thread"),
    ],
)
def test_kernel_and_host_answer_too_soon(with_host, way, fault, message, policy):
    for seed in range(4):
        with pytest.raises(KernelError, match=f"^request_of_host: ({message})"):
            request_of_host(with_host, way, fault=fault, policy=policy, seed=seed)


# ---- kernels with a fault

FAULTS = re.findall(r"^    k(\w+),$", (HERE / "kernels" / "faulty.cu").read_text(), re.MULTILINE)


def run_fault(kernels, fault, *, grid=1, block=4, out=None, **options):
    out = np.zeros(8192, u4)[:128] if out is None else out  # what lies after it is nobody else's
    params = kernel_params(out=out, fault=u4(FAULTS.index(fault)))
    kernels.launch("faulty", params, grid=grid, block=block, shared_bytes=256, **options)
    return out


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("fault", "shape", "message"),
    [
        ("NoBarrier", {}, r"race: .* of shared memory of block 0 at \d+ by thread \d of block 0 at faulty.cu:\d+, "),
        ("BlindUpdate", {"grid": 2}, r"race: .* of out at 0 by .* unordered with the \w+ by thread 0 of block"),
        ("NoRelease", {"grid": 2}, "race: read of 4 bytes of out at 0 .* unordered with the write by thread 0"),
        ("NarrowScope", {"grid": 2}, "race: atomic load .* of too narrow a scope|race: atomic store .* too narrow"),
        ("ShuffleIsNoBarrier", {}, "race: (read|write) of 4 bytes of shared memory"),
        ("PlainFlag", {"grid": 2}, "race: (atomic load|write) of 4 bytes of out at 4"),
        ("NarrowAtomics", {"grid": 2}, "race: atomic update .* too narrow a scope for one of the two by thread"),
        ("OnlyReleased", {}, "hazard: read of 4 bytes of shared memory of block 0 at 4 .* no barrier since the write"),
        ("RelaxedStore", {}, "hazard: atomic (load|store) .* no barrier since the (read|write) by thread"),
        ("Uninitialised", {}, "uninitialised: read of 4 bytes of shared memory of block 0 at"),
        ("BeyondShared", {}, "out of bounds of 256 bytes: write of 4 bytes of shared memory of block 0 at 256"),
        ("BeyondGlobal", {}, "out of bounds: write of 4 bytes of global memory by thread"),
        ("BeyondArray", {}, r"index 4 into an array of 4 at faulty.cu:\d+, by thread"),
        ("Misaligned", {}, "misaligned: write of 8 bytes of shared memory of block 0 at 4"),
        ("DivergentBarrier", {}, r"divergent barrier: block_barrier at faulty.cu:\d+ while others wait in block_barr"),
        ("EarlyEnd", {}, "divergent barrier: .*ended"),
        ("MissingLane", {}, r"deadlock: .*block 0: ballot at faulty.cu:\d+ \(thread 1-3\)"),
        ("TwoShuffles", {}, "divergent warp: .* shuffle .* while others of mask 0x0000000f wait in shuffle at"),
        ("EndedLane", {}, "divergent warp: mask 0x0000000f of ballot at .* names lane 1, which has ended"),
        ("EndlessSpin", {"max_steps": 1000}, r"no end after 1000 scheduling points; .*nanosleep at faulty.cu:\d+"),
        (
            "EndlessWalk",
            {"max_steps": 1000},
            r"no end after 1000 plain accesses, the last one: read .* at faulty.cu:\d+",
        ),
        ("MissingWarp", {"block": 64}, r"deadlock: .*block 0: named_barrier at faulty.cu:\d+ \(thread 0-31\)"),
        ("EarlyCopy", {}, "asynchronous copy not finished: read of 4 bytes of shared memory"),
        ("PeerTooSoon", {"grid": 2, "cluster": 2}, "no cluster barrier since the other block started"),
        ("PeerEnded", {"grid": 2, "cluster": 2}, "shared memory of a block that has ended"),
        ("ReadOnlyWritten", {}, "read-only data is written in this launch"),
        (
            "WildWrite",
            {"detect_races": False},
            "out of bounds: something wrote without a wrapper to byte 256 of the 256 bytes",
        ),
    ],
)
def test_fault_is_caught_in_every_schedule(kernels, fault, shape, message, policy):
    for seed in range(4):
        with pytest.raises(KernelError, match=f"^faulty: ({message})"):
            run_fault(kernels, fault, policy=policy, seed=seed, **shape)


@pytest.mark.parametrize(("fault", "grid", "read"), [("NoBarrier", 1, slice(0, 4)), ("BlindUpdate", 2, slice(0, 1))])
def test_races_change_bytes_when_they_are_not_looked_for(kernels, fault, grid, read):
    options = {"grid": grid, "detect_races": False}
    seen = {run_fault(kernels, fault, **options, **s)[read].tobytes() for s in schedules(always=True)}
    assert len(seen) > 1


@pytest.mark.parametrize("fault", ["OnlyReleased", "RelaxedStore"])
def test_what_racecheck_alone_would_report_is_no_race(kernels, fault):
    for schedule in schedules(10):
        assert run_fault(kernels, fault, detect_hazards=False, **schedule)[0] == (5 if fault == "OnlyReleased" else 0)


def test_an_element_of_an_array_cannot_be_kept(tmp_path):
    source = tmp_path / "kept.cu"
    source.write_text(
        '#include "shared/simt.cuh"\n'
        "using namespace arcbeam::simt;\n"
        "unsigned kept(Array<unsigned> a) { auto x = a[0]; a[0] = 1U; return x; }\n"
    )
    with pytest.raises(
        RuntimeError, match=r"error: passing .*Element<unsigned int>.* discards qualifiers|error: .*convert"
    ):
        load(source)


@pytest.mark.parametrize(
    "source", ["cuda/decode/kernels/search.cu", "cuda/transducer/transducer.cu", "tests/simt/scheduler.cpp"]
)
def test_what_a_source_includes_is_what_the_compiler_reads(source):
    path = build.ROOT / source
    command = [*os.environ.get("CXX", "g++").split(), *build.FLAGS, *build.INCLUDES, "-MM", "-x", "c++", str(path)]
    rule = subprocess.run(command, cwd=build.ROOT, check=True, capture_output=True, text=True).stdout
    read = {(build.ROOT / name).resolve() for name in rule.replace("\\\n", " ").split(": ")[1].split()}
    assert read <= set(build.files_of(path))
    assert build.files_of(path)[0] == path
