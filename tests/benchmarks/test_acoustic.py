"""Features as NumPy computes them from their definition, QuartzNet as its shipped log-probs, models of users' own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="acoustic models of the benchmarks run in torch")
soundfile = pytest.importorskip("soundfile", reason="audio needs .[bench]")

from benchmarks.data import acoustic  # noqa: E402
from benchmarks.data.acoustic import open_model  # noqa: E402
from benchmarks.data.front_end import FrontEnd, FrontEndOptions, mel_filters, pad  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_definition(wave, options):
    """One utterance in float64, frame by frame."""
    wave = wave.astype(np.float64)
    wave = np.concatenate([wave[:1], wave[1:] - options.pre_emphasis * wave[:-1]])
    half = options.fft // 2
    padded = np.concatenate([wave[half:0:-1], wave, wave[-2 : -half - 2 : -1]])
    window, start = np.hanning(options.window), (options.fft - options.window) // 2
    rows = []
    for t in range(-(-len(wave) // options.hop)):
        frame = padded[t * options.hop :][: options.fft]
        power = np.abs(np.fft.rfft(window * frame[start : start + options.window], options.fft)) ** 2
        rows.append(np.log(mel_filters(options.mel_bins, options.fft) @ power + 2.0**-24))
    rows = np.array(rows)
    return ((rows - rows.mean(0)) / (rows.std(0, ddof=1) + 1e-5)).T


@pytest.mark.parametrize("options", [FrontEndOptions(), FrontEndOptions(80, 400)])
def test_features_of_a_batch_are_those_of_each_alone(options):
    rng = np.random.default_rng(2)
    waves = [(0.1 * rng.standard_normal(n)).astype(np.float32) for n in (4_000, 16_000, 5_121, 257)]
    values, frames = FrontEnd(options)(*pad(waves))
    assert values.shape == (4, options.mel_bins, 100) and values.dtype == torch.float32
    assert frames == [25, 100, 33, 2]
    for row, wave, n in zip(values.numpy(), waves, frames, strict=True):
        assert np.abs(row[:, :n] - by_definition(wave, options)).max() < 2e-3
        assert (row[:, n:] == 0).all()


def test_mel_filters_have_area_one():
    filters = mel_filters(64, 1 << 16)
    assert np.allclose(filters.sum(1) * 16_000 / (1 << 16), 1, rtol=1e-3)
    assert (filters >= 0).all()


def test_bad_front_ends():
    with pytest.raises(ValueError, match="window of 1 to 512 samples, got 600"):
        FrontEndOptions(window=600)
    with pytest.raises(ValueError, match="more than 256 samples, got one of 200"):
        FrontEnd()(*pad([np.zeros(200, np.float32)]))


def demo_waves(folder, count):
    with np.load(folder / "log_probs.npz") as file:
        lengths, ids = file["lengths"][:count], file["ids"][:count]
        log_probs = np.split(file["log_probs"][: lengths.sum()], np.cumsum(lengths)[:-1])
    return [soundfile.read(folder / f"{i}.flac", dtype="float32")[0] for i in ids], log_probs


def test_quartznet_says_what_the_shipped_log_probs_say(arcbeam_data, demo_data):
    waves, shipped = demo_waves(demo_data, 13)
    order = sorted(range(13), key=lambda i: len(waves[i]))[:5]  # the shortest
    waves, shipped = [waves[i] for i in order], [shipped[i] for i in order]
    model = open_model(arcbeam_data / "model" / "quartznet15x5.onnx", "cpu", 5, {})
    assert model.batch == 5 and model.settings.startswith("torch, float32")
    values, frames = model.log_probs(model.features(model.load(waves)))
    assert frames == [len(s) for s in shipped]
    for row, n, expected in zip(values.numpy(), frames, shipped, strict=True):
        # The shipped ones come from weights that were not rounded to float16 yet.
        assert np.abs(np.exp(row[:n]) - np.exp(expected.astype(np.float32))).max() < 0.05
        assert (row[:n].argmax(1) == expected.argmax(1)).all()
    alone, _ = model.log_probs(model.features(model.load(waves[:1])))
    assert np.abs(alone[0].numpy() - values[0, : frames[0]].numpy()).max() < 1e-3


def test_quartznet_is_what_onnxruntime_says(arcbeam_data, demo_data):
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime where it is there")
    waves, _ = demo_waves(demo_data, 6)
    path = arcbeam_data / "model" / "quartznet15x5.onnx"
    said = []
    for runtime in ("torch", "onnxruntime"):
        model = open_model(path, "cpu", 1, {"runtime": runtime})
        values, _ = model.log_probs(model.features(model.load(waves[5:6])))
        said.append(np.asarray(values))
    assert np.abs(said[0] - said[1]).max() < 5e-3


class Lengths(torch.nn.Module):
    """A toy that takes every second frame and says how many that are."""

    def forward(self, features: torch.Tensor, lengths: torch.Tensor):
        return torch.log_softmax(features[:, :5, ::2].transpose(1, 2), -1), (lengths + 1) // 2


class Plain(torch.nn.Module):
    def forward(self, features: torch.Tensor):
        return features[:, :5, ::2].transpose(1, 2)


def test_a_model_of_your_own(tmp_path):
    rng = np.random.default_rng(3)
    waves = [rng.standard_normal(n).astype(np.float32) for n in (3_200, 4_960)]
    torch.jit.script(Lengths()).save(tmp_path / "lengths.pt")
    model = open_model(tmp_path / "lengths.pt", "cpu", 8, {"mels": "40"})
    values, frames = model.log_probs(model.features(model.load(waves)))
    assert model.batch == 8 and values.shape == (2, 16, 5) and frames == [10, 16]

    torch.jit.script(Plain()).save(tmp_path / "plain.pt")
    model = open_model(tmp_path / "plain.pt", "cpu", 8, {"logits": "yes"})
    assert model.batch == 1, "it is not told lengths"
    values, frames = model.log_probs(model.features(model.load(waves[:1])))
    assert frames == [10] and np.allclose(values.exp().sum(-1), 1, atol=1e-5)
    model = open_model(tmp_path / "plain.pt", "cpu", 8, {})
    with pytest.raises(ValueError, match="say logits=yes"):
        model.log_probs(model.features(model.load(waves[:1])))
    with pytest.raises(FileNotFoundError, match=r"gone.onnx: there is no such model"):
        open_model(tmp_path / "gone.onnx", "cpu", 8, {})
    with pytest.raises(KeyError, match="got 'jax'"):
        open_model(tmp_path / "plain.pt", "cpu", 8, {"runtime": "jax"})


def test_frames_of_a_model_that_does_not_tell():
    assert acoustic._frames_of([100, 97, 1], 100, 25) == [25, 25, 1]
    assert acoustic._frames_of([101, 7], 101, 51) == [51, 4]
