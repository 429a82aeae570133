"""``pytest benchmarks --benchmark-only``: each stage of both engines, and whole engines, on fixed inputs.

Answers are checked before anything is timed. Beside each stage stands the time that benchmarks/results has of it. On a
GPU a stage's time is the device's, of one block.
"""

import pytest

import arcbeam
from arcbeam.gpu.devices import why_no_cuda
from benchmarks.data.datasets import DataMissing
from benchmarks.engine import gpu_rescoring_stage_timing as rescoring
from benchmarks.engine import stage_timing
from benchmarks.engine.gpu_stage_timing import CASES, GpuStages
from benchmarks.engine.stage_kernel import STAGES
from benchmarks.harness import record

UTTERANCES, LAUNCHES = 16, 10
RESCORING = [
    (c, lookup, name) for c in rescoring.CASES for lookup in c.lookups() for name in rescoring.stages_of(lookup)
]


def beside(benchmark, path, **what):
    """Notes the stored time of the row of a result file that has these values."""
    if path.exists():
        for row in record.read(path)[1]:
            if what.items() <= row.items():
                benchmark.extra_info["stored_microseconds"] = row["microseconds"]


@pytest.mark.parametrize("name", stage_timing.names())
def test_stage(benchmark, name):
    call, items, unit = stage_timing.checked_case(name)
    benchmark.extra_info["work"] = f"{items:,} {unit}"
    beside(benchmark, record.RESULTS / "cpu" / "stages.jsonl", stage=name)
    benchmark(call)


class DeviceClock:
    """A timer that goes on by what a stage has taken on the device."""

    now = 0.0

    def __call__(self):
        return self.now


DEVICE_CLOCK = DeviceClock()


@pytest.fixture(scope="module")
def stages_on_gpu():
    if reason := why_no_cuda():
        pytest.skip(reason)
    return {case: GpuStages(case) for case in CASES}


@pytest.mark.benchmark(timer=DEVICE_CLOCK)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("name", STAGES)
def test_stage_on_gpu(benchmark, stages_on_gpu, name, case):
    time_on_gpu(benchmark, stages_on_gpu[case], name, stage=name, search=case.name)


def time_on_gpu(benchmark, stages, name, **stored):
    count, unit = stages.items[name]
    benchmark.extra_info["work"] = f"{count:,} {unit}"
    folder = record.device_folder(str(record.gpu().get("name", "")))
    beside(benchmark, record.RESULTS / folder / "gpu_stages.jsonl", **stored)

    def launch():
        DEVICE_CLOCK.now += stages.seconds()[name]

    benchmark.pedantic(launch, rounds=LAUNCHES, warmup_rounds=1)


@pytest.mark.benchmark(timer=DEVICE_CLOCK)
@pytest.mark.parametrize(("case", "lookup", "name"), RESCORING, ids=lambda value: rescoring.label(value))
def test_rescoring_stage_on_gpu(benchmark, case, lookup, name):
    if reason := why_no_cuda():
        pytest.skip(reason)
    try:
        stages = rescoring.GpuRescoringStages(case, lookup)
    except DataMissing as error:
        pytest.skip(str(error))
    model = {"model": rescoring.place_of(lookup)} if name == "lookup" else {}
    time_on_gpu(benchmark, stages, name, stage=rescoring.shown(name, lookup), search=case.name, **model)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_engine(benchmark, device):
    """The frames that the stages are cut from, as 16 equal utterances, on one core or on the GPU."""
    if device == "cuda" and (reason := why_no_cuda()):
        pytest.skip(reason)
    frame = stage_timing.frame()
    options = {"beam": stage_timing.BEAM, "max_active": stage_timing.MAX_ACTIVE}
    utterances = [frame.log_probs] * UTTERANCES
    (expected,) = arcbeam.CtcDecoder(frame.graph, **options, threads=1, device="cpu").decode(utterances[:1])
    decoder = arcbeam.CtcDecoder(frame.graph, **options, **({"threads": 1} if device == "cpu" else {}), device=device)
    for found in decoder.decode(utterances):
        assert (found.arcs.tobytes(), found.score) == (expected.arcs.tobytes(), expected.score)
    benchmark.extra_info["work"] = f"{UTTERANCES} utterances of {len(frame.log_probs)} frames"
    benchmark(decoder.decode, utterances)
