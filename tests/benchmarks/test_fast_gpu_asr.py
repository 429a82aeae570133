"""The adapter of fast-gpu-asr's search without a GPU: its engine on cuBLAS and, where its wheel is, the search itself.

Its kernels run in the emulator, compiled from its own sources (`tests.benchmarks.cupy_on_host`).
"""

import importlib
import sys
import textwrap
import types

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from data import synthetic_transducer as synthetic
from tests.benchmarks import cupy_on_host

SIZES = synthetic.Sizes(tokens=33, units=256, joint=296, features=256)
NAMES = ("benchmarks.adapters.cublas_engine", "benchmarks.adapters.fast_gpu_asr")


@pytest.fixture
def adapter(monkeypatch):
    """The module, with CuPy on the host."""
    for name, module in cupy_on_host.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in [*NAMES, *(name for name in sys.modules if name.startswith("fast_gpu_asr"))]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(importlib.import_module(NAMES[0]), "library", cupy_on_host.Cublas)
    yield importlib.import_module(NAMES[1])
    for name in [*NAMES, *(name for name in sys.modules if name.startswith("fast_gpu_asr"))]:
        sys.modules.pop(name, None)


@pytest.fixture(params=["float32", "bfloat16"])
def precision(request):
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="of NumPy's bfloat16")
    return request.param


@pytest.fixture
def engine(adapter):
    """Its class."""
    return sys.modules[NAMES[0]].CublasEngine


def network(arrays, frame, token, hidden, cell):
    """Log-probs of tokens and durations, and the next state, in float64."""
    wide = {name: value.astype(np.float64) for name, value in arrays.items()}
    gates = wide["embedding"][token] @ wide["weight_ih_l0"].T + wide["bias_ih_l0"]
    gates = gates + hidden @ wide["weight_hh_l0"].T + wide["bias_hh_l0"]
    i, f, g, o = np.split(gates, 4, axis=1)
    one = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    cell = one(f) * cell + one(i) * np.tanh(g)
    hidden = one(o) * np.tanh(cell)
    joint = frame @ wide["encoder_weight"].T + wide["encoder_bias"]
    joint = joint + hidden @ wide["prediction_weight"].T + wide["prediction_bias"]
    logits = np.maximum(joint, 0) @ wide["output_weight"].T + wide["output_bias"]
    parts = logits[:, : SIZES.tokens], logits[:, SIZES.tokens :]
    return [*(part - np.logaddexp.reduce(part, axis=1, keepdims=True) for part in parts), hidden, cell]


@pytest.mark.kernels
def test_the_network(engine, precision):
    """Of three hypotheses, in two steps that a graph has recorded: the second begins with what the first has made."""
    rng = np.random.default_rng(0)
    arrays = synthetic.weights(SIZES, tdt=True)
    made = engine(arrays, 3, len(synthetic.DURATIONS), precision)
    tensors = {
        name: cupy_on_host.Array(shape, made.get_tensor_dtype(name) if "put" in name else np.float32)
        for name, shape in made.shapes.items()
    }
    tensors["targets"] = np.array([[SIZES.blank], [4], [30]], np.int32).view(cupy_on_host.Array)
    frame = rng.standard_normal((3, SIZES.features)).astype(np.float32)
    tensors["encoder_output"][...] = frame
    for name in ("input_states_1", "input_states_2"):
        tensors[name][...] = 0.1 * rng.standard_normal(tensors[name].shape)
    state = [np.array(tensors[f"input_states_{i}"][0], np.float64) for i in (1, 2)]
    frame = np.array(tensors["encoder_output"], np.float64)
    assert all(made.set_tensor_address(name, tensor.data.ptr) for name, tensor in tensors.items())
    stream = cupy_on_host.Stream()
    with stream:
        stream.begin_capture()
        assert made.execute_async_v3(stream.ptr)
        graph = stream.end_capture()
    near = 2e-5 if precision == "float32" else 0.5
    for _ in range(2):
        graph.launch(stream)
        wanted = network(arrays, frame, tensors["targets"][:, 0], *state)
        found = [
            np.array(tensors[name], np.float64).reshape(len(frame), -1)
            for name in ("token_log_probs", "duration_log_probs", "output_states_1", "output_states_2")
        ]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=near)
        state = found[2:]
        for i in (1, 2):
            tensors[f"input_states_{i}"][...] = tensors[f"output_states_{i}"]


def test_what_an_engine_refuses(engine):
    arrays = synthetic.weights(SIZES, tdt=True)
    with pytest.raises(ValueError, match="one LSTM layer, got 2"):
        engine(arrays | {"weight_hh_l1": arrays["weight_hh_l0"]}, 1, 5, "float32")
    with pytest.raises(ValueError, match="each of 33 tokens and 2 durations, got 38"):
        engine(arrays, 1, 2, "float32")
    made = engine(arrays, 1, 5, "float32")
    assert not made.set_tensor_address("logits", 1) and not made.set_optimization_profile_async(1, 0)
    stream = cupy_on_host.Stream()
    with stream, pytest.raises(ValueError, match=r"got \['duration_log_probs', .*\], 7"):
        made.execute_async_v3(stream.ptr)


def test_errors_of_cublas(engine, monkeypatch):
    module = sys.modules[NAMES[0]]
    one = module.Cublas()
    with pytest.raises(RuntimeError, match="cublasGemmEx returned the status 7"):
        one.call("cublasGemmEx", *[0] * 19)
    monkeypatch.undo()
    found = types.SimpleNamespace(load_nvidia_dynamic_lib=lambda name: types.SimpleNamespace(abs_path="/no/lib.so"))
    monkeypatch.setitem(sys.modules, "cuda", types.SimpleNamespace(pathfinder=found))
    with pytest.raises(ImportError, match=r"cuBLAS is missing: /no/lib\.so"):
        module.library()


def test_its_module_is_loaded_alone(adapter, tmp_path, monkeypatch):
    """Of a package that cannot be imported as a whole; what stands in for others is there meanwhile."""
    pytest.importorskip("ml_dtypes", reason="the adapter needs it")
    monkeypatch.setattr(adapter.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"fast-gpu-asr is not installed: its wheel .* alone"):
        adapter.load()
    folder = tmp_path / "fast_gpu_asr"
    (folder / "decoder").mkdir(parents=True)
    (folder / "__init__.py").write_text("import a_package_that_nobody_has")
    (folder / "decoder" / "parakeet_tdt_decoder.py").write_text(
        textwrap.dedent(
            """
            import tensorrt as trt
            from ..utils import ASRInferenceError, get_engine
            made = get_engine("an engine"), trt.nptype("a type"), trt.bfloat16 == "a type", ASRInferenceError("x")
            """
        )
    )
    monkeypatch.setattr(adapter, "find", lambda: folder)
    monkeypatch.setitem(sys.modules, "tensorrt", "somebody's")
    module = adapter.load()
    assert module.made[:3] == ("an engine", "a type", False) and isinstance(module.made[3], RuntimeError)
    assert adapter.load() is module
    assert sys.modules["tensorrt"] == "somebody's" and "fast_gpu_asr.utils" not in sys.modules


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["RNN-T", "TDT"])
def test_known_labels(adapter, precision, kind):
    """Of its search; a graph has decoded most of it. It cuts an utterance at its length."""
    for package in ("torch", "ml_dtypes"):
        pytest.importorskip(package, reason="its search needs it")
    try:
        adapter.find()
    except ImportError as error:
        pytest.skip(str(error))
    durations = synthetic.DURATIONS if kind == "TDT" else None
    arrays = synthetic.weights(SIZES, tdt=durations is not None)
    frames, texts, _ = synthetic.utterances(2, 12, SIZES)
    search = adapter.FastGpuAsr(arrays, SIZES.blank, durations, 2, precision=precision)
    ready = search.prepare(frames)
    before = ready[0].cuda_graph.launches
    assert search.decode(ready) == texts
    assert ready[0].cuda_graph.launches > before
    options = {"activation": "relu", "device": "cpu", "beam": float("inf"), "max_hypotheses": 2, "length_power": 1.0}
    decoder = TransducerDecoder.from_arrays(arrays, SIZES.blank, durations=durations, **options)
    cut = [frames[0], frames[1, :7]]
    wanted = [one.tokens.tolist() for one in decoder.decode(cut)]
    assert search.decode(search.prepare(frames, [12, 7])) == wanted != texts
