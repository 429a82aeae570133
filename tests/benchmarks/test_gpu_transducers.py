"""The experiment on transducers on a GPU, on an emulated one: a small network, and NeMo is a stub or missing."""

import os
import signal
import sys
import types

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from benchmarks.adapters import gpu as on_gpu
from benchmarks.experiments import gpu_ll24, gpu_ll24_modes, gpu_transducer_beam, gpu_transducer_best
from benchmarks.harness.registry import Context
from data import synthetic_transducer as synthetic
from tests.cuda_host.conftest import fake_library  # noqa: F401
from tests.transducer.conftest import gpu  # noqa: F401

SIZES = synthetic.Sizes(tokens=17, units=64, joint=120, features=96)


class Peer:
    """Says what arcbeam's CPU engine says."""

    def __init__(self, arrays, blank, durations=None, **mode):
        if mode.get("compiled"):
            raise ImportError("no compiler")
        options = {"durations": durations, "activation": "relu", "device": "cpu"}
        self.decoder = TransducerDecoder.from_arrays(arrays, blank, **options)

    def prepare(self, frames):
        return frames

    def decode(self, frames):
        return self.decoder.decode(frames)

    def tokens(self, hypotheses):
        return [h.tokens.tolist() for h in hypotheses]


@pytest.fixture
def small(gpu, monkeypatch):  # noqa: F811
    monkeypatch.setattr(synthetic, "Sizes", lambda: SIZES)
    monkeypatch.setattr(gpu_ll24, "FRAMES", 8)
    monkeypatch.setattr(gpu_ll24, "BATCHES", (1, 3))
    calls = gpu.fake.library.fake_calls
    before = [calls()]

    def rows_or_failure(what, function, *arguments):
        """In this process; but between children, nobody may have used CUDA: their parent could not fork them."""
        assert calls() == before[0]
        rows = list(function(*arguments))
        before[0] = calls()
        return rows

    monkeypatch.setattr(on_gpu, "rows_or_failure", rows_or_failure)


@pytest.mark.parametrize("peer", [True, False])
def test_rows(small, monkeypatch, peer):
    module = types.ModuleType("benchmarks.adapters.nemo_transducer")
    if peer:
        module.NemoTransducer = Peer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    options = {} if peer else {"batches": "1,3", "before": "1"}
    rows = list(gpu_ll24.run(Context(1, 3 if peer else 1, options)))
    batches = (1, 3) if peer else (1,)
    assert [(row["model"], row["precision"], row["batch"]) for row in rows] == [
        (model, precision, batch)
        for model in ("RNN-T", "TDT")
        for batch in batches
        for precision in ("float32", "bfloat16")
    ]
    for row in rows:
        assert row["wrong"] == 0
        assert row["ms"] > 0 and row["rtfx"] > 0
        assert (row["status"] is None, row.get("equal")) == ((True, 100) if peer else (False, None))


def test_a_peer_that_fails(small, monkeypatch):
    module = types.ModuleType("benchmarks.adapters.nemo_transducer")
    module.NemoTransducer = type("Broken", (Peer,), {"decode": lambda self, frames: 1 / 0})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rows = list(gpu_ll24.run(Context(1, None, {"batches": "1"})))
    assert len(rows) == 4
    assert all(row["status"].startswith("NeMo failed: ") and "ratio" not in row for row in rows)


def test_tokens_that_are_wrong():
    found = [types.SimpleNamespace(tokens=np.array(tokens)) for tokens in ([1, 2, 3], [1, 3, 4, 4], [])]
    assert gpu_ll24.wrong(found, [[1, 2, 3], [1, 2, 3, 4], [5]]) == 100 * 3 / 8


def test_wrong_answers_are_not_timed():
    decoder = TransducerDecoder.from_arrays(synthetic.weights(SIZES, tdt=False), SIZES.blank, activation="relu")
    frames, texts, _ = synthetic.utterances(2, 12, SIZES)
    found = decoder.decode(frames)
    gpu_ll24.check(found, found, texts)
    with pytest.raises(on_gpu.Wrong, match="utterance 0: its tokens"):
        gpu_ll24.check(found, found[::-1], texts)
    with pytest.raises(on_gpu.Wrong, match=r"utterance 1: \d+ tokens, not the"):
        gpu_ll24.check(found, found, [texts[0], []])
    found[1].log_probs[:] = np.float32(-1)
    with pytest.raises(on_gpu.Wrong, match="utterance 1: its log_probs"):
        gpu_ll24.check(found, decoder.decode(frames), texts)


class OnCpu(TransducerDecoder):
    @classmethod
    def from_arrays(cls, *arguments, **options):
        return super().from_arrays(*arguments, **{**options, "device": "cpu"})


@pytest.fixture
def modes(monkeypatch):
    """Contenders in real processes, ours on the CPU; of NeMo's stubs two break in ways of their own."""
    monkeypatch.setattr(synthetic, "Sizes", lambda: SIZES)
    monkeypatch.setattr(on_gpu, "require", lambda: None)
    monkeypatch.setattr(on_gpu, "send", list)
    ours = {name: (OnCpu, precision) for name, (_, precision) in gpu_ll24_modes.OURS.items()}
    monkeypatch.setattr(gpu_ll24_modes, "OURS", ours)

    class Fails(Peer):
        def decode(self, frames):
            raise RuntimeError("no graph")

    class Dies(Peer):
        def decode(self, frames):
            if len(frames) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().decode(frames)

    module = types.ModuleType("benchmarks.adapters.nemo_transducer")
    kinds = {("partial", None): Fails, ("full", False): Dies}
    module.NemoTransducer = lambda *arguments, **mode: kinds.get((mode["graphs"], mode.get("precomputed")), Peer)(
        *arguments, **mode
    )
    module.FrameLooping = Peer
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr("benchmarks.adapters.nemo_transducer", module, raising=False)
    monkeypatch.setattr(gpu_ll24_modes, "SECONDS", 0.64)


def test_modes(modes, capfd):
    rows = list(gpu_ll24_modes.run(Context(2, None, {"batches": "1,2,3", "without": "eager", "subsampling": "8"})))
    assert [(row["model"], row["subsampling"], row["batch"]) for row in rows] == [
        (model, 8, batch) for model in ("RNN-T", "TDT") for batch in (1, 2, 3)
    ]
    for row in rows:
        assert row["wrong"] <= 50  # so small a network mistakes one of two
        assert min(row[name] for name in ("float32", "bfloat16", "our_frame_looping", "graph", "frame_looping")) > 0
        assert not {"eager", "partial", "compiled"} & set(row)
        assert ("every_step" in row) == (row["batch"] != 2)
        assert "compiled: ImportError: no compiler" in row["status"]
        assert "partial: RuntimeError: no graph" in row["status"]
        assert ("every_step: the process ended with -9" in row["status"]) == (row["batch"] == 2)
    said = capfd.readouterr().err
    assert "--set only=every_step --set batches=2 --set subsampling=8 gpu_ll24_modes" in said and "Traceback" in said


def test_modes_one_column(modes):
    rows = list(gpu_ll24_modes.run(Context(1, 1, {"batches": "1,2", "only": "float32"})))
    assert [(row["model"], row["subsampling"]) for row in rows] == [
        (model, subsampling) for subsampling in (8, 4) for model in ("RNN-T", "TDT")
    ]
    assert all(row["float32"] > 0 and row["status"] is None and "graph" not in row for row in rows)


def test_modes_without_their_library(modes, monkeypatch):
    monkeypatch.setitem(sys.modules, "benchmarks.adapters.nemo_transducer", None)
    monkeypatch.delattr("benchmarks.adapters.nemo_transducer")
    options = {"batches": "1", "only": "graph,float32", "subsampling": "4"}
    rows = list(gpu_ll24_modes.run(Context(1, None, options)))
    assert len(rows) == 2 and all(row["float32"] > 0 and row["status"].startswith("graph: ") for row in rows)


class BeamPeer:
    """Finds what arcbeam's CPU engine finds; its lists are the tokens alone."""

    def __init__(self, arrays, blank, durations, beam_size, *, device, precision):
        assert device == "cuda" and precision in ("float32", "bfloat16")
        options = {"durations": durations, "activation": "relu", "device": "cpu"}
        self.decoder = TransducerDecoder.from_arrays(arrays, blank, beam=4, max_hypotheses=beam_size, **options)

    def prepare(self, frames):
        return frames

    def decode(self, frames):
        return self.decoder.decode(frames, nbest=8)

    def nbest(self, hypotheses, *, normalized):
        assert not normalized
        return [[entry.tokens.tolist() for entry in h.nbest] for h in hypotheses]


@pytest.fixture
def beams(small, gpu, monkeypatch):  # noqa: F811
    gpu.plan(PATIENCE_CYCLES=10_000_000)
    monkeypatch.setattr(gpu_transducer_beam, "FRAMES", 6)
    monkeypatch.setattr(gpu_transducer_beam, "BATCHES", (1, 2))
    monkeypatch.setattr(gpu_transducer_beam, "BEAMS", {4.0: (1, 2), float("inf"): (1,)})
    module = types.ModuleType("benchmarks.adapters.nemo_malsd")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_beams(beams):
    beams.NemoMalsd = BeamPeer
    rows = list(gpu_transducer_beam.run(Context(1)))
    assert [(row["model"], row["beam"], row["batch"], row["precision"]) for row in rows] == [
        (model, beam, batch, precision)
        for model in ("RNN-T", "TDT")
        for precision in ("float32", "bfloat16")
        for beam, batch in ((4, 1), (4, 2), (float("inf"), 1))
    ]
    for row in rows:
        assert row["status"] is None and row["equal"] == 100
        assert 1 <= row["live"] <= 8 and 1 <= row["entries"] <= 8
        assert min(row[name] for name in ("ms", "lists_ms", "greedy_ms", "rtfx", "ratio", "lists_ratio")) > 0
    for usual, worst in zip(rows[0::3], rows[2::3], strict=True):
        assert worst["live"] > usual["live"]
        assert (worst["peer_ms"], worst["peer_lists_ms"]) == (usual["peer_ms"], usual["peer_lists_ms"])


@pytest.mark.parametrize("what", ["missing", "failed", "failed at once", "left out"])
def test_beams_without_their_peer(beams, what):
    if what == "failed":
        beams.NemoMalsd = type("Broken", (BeamPeer,), {"decode": lambda self, frames: 1 / 0})
    elif what == "failed at once":
        beams.NemoMalsd = lambda *arrays, **options: 1 / 0
    options = {"precision": "float32", "batches": "1"} | ({"peer": "none"} if what == "left out" else {})
    rows = list(gpu_transducer_beam.run(Context(1, None, options)))
    assert len(rows) == 4 and all(row["ms"] > 0 and "ratio" not in row for row in rows)
    assert all(row["status"].startswith(f"NeMo {what.removesuffix(' at once')}") for row in rows)


def test_lists_that_are_wrong():
    options = {"activation": "relu", "device": "cpu", "beam": 8, "max_hypotheses": 3}
    decoder = TransducerDecoder.from_arrays(synthetic.weights(SIZES, tdt=False), SIZES.blank, **options)
    frames, _, _ = synthetic.utterances(2, 12, SIZES, ambiguity=1.0)
    found, wanted = (decoder.decode(frames, nbest=3) for _ in range(2))
    gpu_transducer_beam.compare(found, wanted, "the CPU")
    gpu_transducer_beam.compare(found[:1], wanted, "the CPU")
    with pytest.raises(on_gpu.Wrong, match=r"utterance 1: 3 entries, not the 2 of the CPU"):
        gpu_transducer_beam.compare(found, [wanted[0], decoder.decode(frames, nbest=2)[1]], "the CPU")
    found[1].nbest[2].log_probs[0] = -1
    with pytest.raises(on_gpu.Wrong, match="utterance 1, entry 2: its log_probs is not that of the CPU"):
        gpu_transducer_beam.compare(found, wanted, "the CPU")


class BestPeer:
    """Finds what arcbeam's CPU engine finds with one hypothesis fewer."""

    def __init__(self, arrays, blank, durations, beam_size, *, precision):
        assert precision in ("float32", "bfloat16")
        options = {"durations": durations, "activation": "relu", "device": "cpu", "length_power": 1.0}
        self.decoder = TransducerDecoder.from_arrays(arrays, blank, beam=4, max_hypotheses=beam_size - 1, **options)

    def prepare(self, frames):
        return frames

    def decode(self, frames):
        return [found.tokens.tolist() for found in self.decoder.decode(frames)]


@pytest.fixture
def best(small, gpu, monkeypatch):  # noqa: F811
    gpu.plan(PATIENCE_CYCLES=10_000_000)
    for name, value in {"FRAMES": 6, "BATCHES": (1, 2), "CHECKED": 3, "NUMBERS": (2, 3), "WIDEST": (9.0, 4)}.items():
        monkeypatch.setattr(gpu_transducer_best, name, value)
    module = types.ModuleType("benchmarks.adapters.fast_gpu_asr")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_best_paths(best):
    best.FastGpuAsr = BestPeer
    rows = list(gpu_transducer_best.run(Context(1)))
    assert [(row["model"], row["precision"], row["most"], row["batch"]) for row in rows] == [
        (model, precision, most, batch)
        for model in ("RNN-T", "TDT")
        for precision in ("float32", "bfloat16")
        for most in (2, 3)
        for batch in (1, 2)
    ]
    for row in rows:
        assert row["status"] is None and 0 <= row["equal"] <= 100
        assert min(row[name] for name in ("ms", "rtfx", "peer_ms", "ratio")) > 0
        if row["errors"] is not None:
            assert 0 <= row["errors"] <= 3 and 0 <= row["peer_errors"] <= 3


@pytest.mark.parametrize("what", ["missing", "failed", "failed at once"])
def test_best_paths_without_their_peer(best, what):
    if what == "failed":
        best.FastGpuAsr = type("Broken", (BestPeer,), {"prepare": lambda self, frames: 1 / 0})
    elif what == "failed at once":
        best.FastGpuAsr = lambda *network, **options: 1 / 0
    rows = list(gpu_transducer_best.run(Context(1, None, {"precision": "float32", "batches": "1"})))
    assert len(rows) == 4 and all(row["ms"] > 0 and not {"ratio", "peer_errors"} & set(row) for row in rows)
    assert all(row["status"].startswith(f"fast-gpu-asr {what.removesuffix(' at once')}: ") for row in rows)


def test_search_errors():
    """Of a network whose texts have these log-probs; the second utterance is the same to all."""
    pytest.importorskip("torch", reason="exact log-probs")
    frames, _, _ = synthetic.utterances(2, 6, SIZES, ambiguity=1.0)
    network = synthetic.weights(SIZES, tdt=False), SIZES.blank, None
    decoder = TransducerDecoder.from_arrays(*network[:2], activation="relu", device="cpu", beam=20, max_hypotheses=64)
    some = sorted((tuple(entry.tokens.tolist()) for entry in decoder.decode(frames, nbest=20)[0].nbest), key=len)
    from benchmarks.tasks.exact_transducer import ExactTransducer

    value = ExactTransducer(*network).log_prob
    best = max(some, key=lambda text: value(frames[0], text) / (len(text) + 1))
    errors = gpu_transducer_best.SearchErrors(network, frames, [[list(text), [1]] for text in some])
    assert errors.of([list(best), [1]]) == 0
    assert all(errors.of([list(text), [1]]) == 1 for text in some if text != best)
