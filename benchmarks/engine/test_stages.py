"""``pytest benchmarks --benchmark-only``: each stage of the CPU engine, and whole engines, on fixed inputs.

Answers are checked before anything is timed. ``--benchmark-autosave`` and ``--benchmark-compare`` compare two runs.
"""

import pytest

import arcbeam
from arcbeam.gpu.devices import why_no_cuda
from benchmarks.engine import stage_timing

UTTERANCES = 16


@pytest.mark.parametrize("name", stage_timing.names())
def test_stage(benchmark, name):
    call, items, unit = stage_timing.checked_case(name)
    benchmark.extra_info["work"] = f"{items:,} {unit}"
    benchmark(call)


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
