"""The experiment beside torchaudio's decoder for CUDA, on an emulated GPU: its decoder is a stub or missing."""

import sys
import types

import pytest

from arcbeam.compat.torchaudio import cuda_ctc_decoder
from arcbeam.graph.symbols import TokenTable
from benchmarks.adapters import gpu
from benchmarks.data import graphs
from benchmarks.harness import registry
from benchmarks.harness.registry import Context
from tests.benchmarks.on_emulated_gpu import rows_of


class Tensor:
    """Stands for one of torch."""

    def __init__(self, array):
        self.array = array

    def cuda(self):
        return self.array


@pytest.fixture
def letters(small, monkeypatch):
    monkeypatch.setattr(graphs.GraphFiles, "tokens", TokenTable([*"abcdefgh", "<space>", "i", "<blank>", "j"], 10))


def give_torchaudio(monkeypatch, decoder):
    torch = types.ModuleType("torch")
    torch.from_numpy = torch.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("torchaudio", "torchaudio.models", "torchaudio.models.decoder"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["torchaudio.models.decoder"].cuda_ctc_decoder = decoder


def test_rows(letters, monkeypatch):
    give_torchaudio(monkeypatch, cuda_ctc_decoder)
    peer, ours, graph = rows_of("gpu_torchaudio")
    assert [row["decoder"] for row in (peer, ours, graph)] == [
        "torchaudio", "arcbeam.compat.torchaudio, on the CPU", "CtcDecoder",
    ]  # fmt: skip
    assert ours["equal"] == 100.0 and ours["wer"] == peer["wer"] and "ratio" not in peer
    assert graph["wer"] == 0.0 and graph["ratio"] > 0


def test_torchaudio_that_is_missing_or_better(letters, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchaudio", None)
    rows = list(registry.load("gpu_torchaudio").run(Context(1, 3)))
    assert rows[0]["status"].startswith("missing: ") and all(row["rtfx"] > 0 for row in rows[1:])

    class Knowing:
        """Answers without a word error: none has words at all but the references."""

        def __init__(self, names):
            self.decoder = cuda_ctc_decoder(names)

        def __call__(self, batch, lengths):
            return [[one[0]._replace(words=["w1"])] for one in self.decoder(batch, lengths)]

    give_torchaudio(monkeypatch, Knowing)
    monkeypatch.setattr(
        registry.load("gpu_torchaudio"), "word_error_rate", lambda references, said: float({*said} != {"w1"})
    )
    with pytest.raises(gpu.Wrong, match=r"100.00 % word errors, torchaudio's 0.00"):
        list(registry.load("gpu_torchaudio").run(Context(1, 3)))
