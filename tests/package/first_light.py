"""The least that an installed arcbeam must do, with numpy alone beside it; run by .ci/run in bare environments."""

import platform
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import arcbeam

assert "numpy" not in sys.modules, "import arcbeam loads numpy"

import numpy as np  # noqa: E402

from arcbeam.transducer._transducer import available_kernels  # noqa: E402

# A graph that accepts blanks, "h", "i", blanks, and writes "hi".
arcs = [(0, 0, 1, 0, 0.0), (0, 1, 2, 1, 0.5), (1, 1, 2, 0, 0.0), (1, 2, 3, 0, 0.0), (2, 2, 1, 0, 0.0)]
graph = arcbeam.Graph.from_arcs(
    arcs,
    finals={2: 0.25},
    tokens=arcbeam.TokenTable.from_list(["<blank>", "h", "i"]),
    word_symbols=arcbeam.SymbolTable.from_list(["<eps>", "hi"]),
)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "hi.graph")
    graph.save(path)
    graph = arcbeam.Graph.load(path)
    log_probs = np.log(np.array([[8, 1, 1], [1, 8, 1], [1, 6, 3], [1, 1, 8], [8, 1, 1]], np.float32) / 10)
    decoder = arcbeam.CtcDecoder(graph, beam=12.0, max_active=100, device="cpu", frame_shift=0.04)
    for kind in (np.float32, np.float16):
        (hypothesis,) = decoder.decode(log_probs[None].astype(kind))
        assert hypothesis.text == "hi" and hypothesis.reached_final, hypothesis
        expected = float(log_probs.max(axis=1).sum()) - 0.75
        assert abs(hypothesis.score - expected) < 0.01, (hypothesis.score, expected)

assert files("arcbeam").joinpath("py.typed").is_file()
demo = files("arcbeam").joinpath("demo_data")
assert demo.joinpath("log_probs.npz").is_file(), "the demo's data is not in the package"
encoder_output = np.load(str(demo.joinpath("encoder_output.npz")))["goforward"]
(said,) = arcbeam.TransducerDecoder.from_arrays(str(demo.joinpath("transducer.npz")), device="cpu").decode(
    [encoder_output]
)
assert said.text == "go forward ten meters", said
processor = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
if platform.machine() == "x86_64" and {"avx2", "fma"} <= set(processor.split()):
    assert "avx2" in available_kernels(), "compiled without kernels for this vector unit: 70 times slower"
print(f"arcbeam {arcbeam.__version__}, Python {sys.version.split()[0]}, numpy {np.__version__}: {hypothesis.text!r}")
