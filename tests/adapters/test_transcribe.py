"""Transcribing with models of other libraries, tiny ones with random weights: their words, also window by window."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from arcbeam.transcribe.nemo_model import NemoModel, uses_joint
from tests.transcribe import tones

soundfile = pytest.importorskip("soundfile", reason="soundfile is missing")

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected the blank:UserWarning")
RATE = 16_000


def noise(seconds, seed=0):
    return np.random.default_rng(seed).uniform(-0.3, 0.3, int(RATE * seconds)).astype(np.float32)


class TestOnnx:
    @pytest.fixture(autouse=True)
    def packages(self):
        for needed in ("onnx", "onnxruntime", "onnx_asr"):
            pytest.importorskip(needed, reason=f"{needed} is missing")

    def test_ctc(self, tmp_path):
        from tests.adapters import onnx_models

        onnx_models.nemo_ctc(tmp_path, onnx_models.LETTERS)
        samples = noise(20)
        soundfile.write(tmp_path / "a.flac", samples, RATE, subtype="PCM_16")
        model = arcbeam.from_onnx(tmp_path, device="cpu")
        transcriber = arcbeam.Transcriber(tmp_path, device="cpu")
        patient = arcbeam.Endpoint({"never": arcbeam.EndpointRule(min_trailing_silence=30.0)})
        at_once = arcbeam.Transcriber(model, endpoint=patient).transcribe(tmp_path / "a.flac")
        assert at_once.text == str(model.transcribe(tmp_path / "a.flac")) != ""
        found = transcriber.transcribe(tmp_path / "a.flac")
        assert found.text.replace(" ", "") == at_once.text.replace(" ", "") and found.duration == 20.0
        # The features are normalised by the window, so a window changes what is near its ends, and not the grid.
        parts = arcbeam.Transcriber(model, window_seconds=6.0, overlap_seconds=2.0, batch_size=2).transcribe(samples)
        assert parts.duration == 20.0 and parts.words[-1].end == pytest.approx(found.words[-1].end, abs=0.5)
        assert transcriber.sample_rate == RATE and repr(transcriber).startswith("<Transcriber of <OnnxCtcModel of ")

    def test_windows_of_the_model_are_stitched_on_its_frame_grid(self, tmp_path):
        """Each frame that is kept is the one that the model gives for this window at this place."""
        from arcbeam.transcribe.windows import Plan, Windower, kept_rows
        from tests.adapters import onnx_models

        onnx_models.nemo_ctc(tmp_path, onnx_models.LETTERS)
        model, samples = arcbeam.from_onnx(tmp_path, device="cpu"), noise(9.33)
        windower = Windower(Plan.of_files(40, 10), 1280)
        windows = [*windower.add(samples), *windower.finish()]
        rows = [kept_rows(model.encode(window.samples), window, 1280) for window in windows]
        assert sum(map(len, rows)) == len(model.encode(samples)) and len(windows) == 4
        for window, kept in zip(windows, rows, strict=True):
            alone = model.encode(samples[window.begin * 1280 : window.begin * 1280 + len(window.samples)])
            assert kept.tobytes() == alone[window.kept - window.begin :][: len(kept)].tobytes()

    def test_a_transducer(self, tmp_path):
        from tests.adapters import onnx_models

        onnx_models.nemo_transducer(tmp_path, 5)
        transcriber = arcbeam.Transcriber(tmp_path, device="cpu", confidence=True)
        model, samples = arcbeam.from_onnx(tmp_path, device="cpu"), noise(8)
        never = arcbeam.Endpoint({"never": arcbeam.EndpointRule(min_trailing_silence=30.0)})
        at_once = arcbeam.Transcriber(model, endpoint=never).transcribe(samples)
        assert at_once.text == str(model.transcribe(samples)) != ""
        found = transcriber.transcribe(samples)
        assert found.words and all(0 <= word.confidence <= 1 for word in found.words)
        assert [*transcriber.stream(np.array_split(samples, 40))][-1].is_final
        long = arcbeam.Transcriber(model, window_seconds=4.0, overlap_seconds=1.0).transcribe(noise(20, 1))
        assert long.words and long.words == sorted(long.words, key=lambda word: word.start)
        with pytest.raises(ValueError, match=r"^confidence: expected a transducer whose decoder measures it; open the"):
            arcbeam.Transcriber(model, confidence=True)

    def test_boosting_trees_on_the_command_line(self, tmp_path, monkeypatch):
        from tests.adapters import onnx_models
        from tests.package.test_guide import command

        monkeypatch.chdir(tmp_path)
        Path("tdt").mkdir()
        onnx_models.nemo_transducer(Path("tdt"), 5)
        soundfile.write("a.wav", noise(8), RATE)
        Path("boost.txt").write_text("h\t30\n")
        plain, boosted = (
            command(["transcribe", "tdt", "a.wav"]),
            command(["transcribe", "tdt", "a.wav", "--boost", "boost.txt"]),
        )
        assert boosted.split().count("h") > plain.split().count("h")
        from typer.testing import CliRunner

        from arcbeam.cli.app import app

        wrong = ["transcribe", "tdt", "a.wav", "--boost", "boost.txt", "--boost-score", "3"]
        result = CliRunner().invoke(app, wrong)
        assert result.exit_code == 2 and "is for CTC models" in result.stderr

    def test_errors(self, tmp_path):
        from tests.adapters import onnx_models

        onnx_models.nemo_ctc(tmp_path, onnx_models.LETTERS, subsampling_factor=4)
        with pytest.raises(arcbeam.FormatError, match=r"config.json: subsampling_factor: 4 gives 250 frames"):
            arcbeam.Transcriber(tmp_path, device="cpu").transcribe(noise(10))
        with pytest.raises(
            arcbeam.InputError, match=r"expected about 500 frames .* got 1\d\d from the model in .*: give fr"
        ):
            onnx_models.nemo_ctc(tmp_path, onnx_models.LETTERS)
            arcbeam.Transcriber(tmp_path, device="cpu", frame_shift=0.02).transcribe(noise(10))
        with pytest.raises(ValueError, match=r"^processor: expected None for .*, because an export has its tokens$"):
            arcbeam.Transcriber(tmp_path, processor=object())

    def test_the_page(self, tmp_path, monkeypatch, capsys):
        pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
        from tests.adapters import onnx_models
        from tests.package.test_guide import command, commands, examples

        monkeypatch.chdir(tmp_path)
        Path("parakeet-ctc-0.6b-onnx").mkdir()
        onnx_models.nemo_ctc(Path("parakeet-ctc-0.6b-onnx"), onnx_models.LETTERS)
        words = "\n".join(f"-1 {letter}" for letter in "abcdefgh")
        Path("3gram.arpa").write_text(f"\\data\\\nngram 1=10\n\n\\1-grams:\n-1 <s>\n-1 </s>\n{words}\n\n\\end\\\n")
        Path("tokens.txt").write_text("".join(f"{name}\n" for name in tones.TOKENS))
        Path("recordings").mkdir()
        for name, seconds in (("talk.flac", 40), ("recordings/a.wav", 3), ("b.wav", 2)):
            soundfile.write(name, noise(seconds), RATE)
        Path("manifest.jsonl").write_text('{"audio_filepath": "b.wav"}\n')

        subtitles, objects = commands("guide/transcribe.md")
        command(subtitles)
        command(objects)
        found = [json.loads(line) for line in Path("transcripts.jsonl").read_text().splitlines()]
        assert [one["id"] for one in found] == ["a", "b"] and all(one["segments"] for one in found)
        first, rules, live, own = examples("guide/transcribe.md")
        exec(compile(first, "transcribe.md", "exec"), names := {})
        transcript = names["transcript"]
        assert len(capsys.readouterr().out.splitlines()) == len(transcript.segments) > 0
        assert Path("talk.srt").read_text() == transcript.render("srt")
        assert Path("talk.vtt").read_text() == transcript.render("vtt")
        exec(compile(rules, "transcribe.md", "exec"), names)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 32
        exec(compile(live, "transcribe.md", "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed and all(" | " in line or line.startswith("* ") for line in printed)
        assert names["recording"].is_finished

        soundfile.write("talk.flac", tones.recording(["a b", "c"]), RATE)
        names["network"] = tones.ToneModel()._frames
        exec(compile(own, "transcribe.md", "exec"), names)
        assert capsys.readouterr().out == "a b c\n"


class TestTransformers:
    @pytest.fixture(autouse=True)
    def packages(self):
        for needed in ("torch", "transformers"):
            pytest.importorskip(needed, reason=f"{needed} is missing")

    def test_ctc(self, tmp_path):
        import torch
        import transformers

        from tests.adapters import test_hugging_face as own

        (tmp_path / "vocab.json").write_text(own.json.dumps({name: i for i, name in enumerate(own.LETTERS)}))
        processor = transformers.Wav2Vec2Processor(
            transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True),
            transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json")),
        )
        model = own.seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**own.WAV2VEC2))
        model.save_pretrained(tmp_path / "model")
        processor.save_pretrained(tmp_path / "model")
        samples = noise(3)
        with torch.no_grad():
            logits = model(**processor(samples, sampling_rate=RATE, return_tensors="pt")).logits
        [expected] = arcbeam.from_transformers(model, processor, device="cpu").decode(logits)
        for transcriber in (
            arcbeam.Transcriber(model, processor=processor, device="cpu"),
            arcbeam.Transcriber(tmp_path / "model", device="cpu"),
        ):
            assert transcriber.transcribe(samples).text == str(expected) != ""
        # 400 samples make the first frame, so that a window has one frame less than 320 go into it.
        long = arcbeam.Transcriber(model, processor=processor, device="cpu", window_seconds=1.0, overlap_seconds=0.2)
        assert long.transcribe(samples).words
        with pytest.raises(ValueError, match=r"^processor: expected the processor of the model, with its feature extr"):
            arcbeam.Transcriber(model, processor=processor.tokenizer, device="cpu")

    def test_a_transducer(self):
        import torch
        import transformers

        from tests.adapters import test_hugging_face as own

        config = transformers.ParakeetTDTConfig(
            vocab_size=len(own.PIECES) + 1, blank_token_id=len(own.PIECES), decoder_hidden_size=16,
            num_decoder_layers=1, durations=[0, 1, 2], max_symbols_per_step=3, encoder_config=own.CONFORMER,
        )  # fmt: skip
        model = own.seeded(transformers.ParakeetForTDT, config)
        extractor = transformers.ParakeetFeatureExtractor(feature_size=80)
        processor = SimpleNamespace(feature_extractor=extractor, tokenizer=own.Tokenizer(own.PIECES))
        transcriber = arcbeam.Transcriber(
            model, processor=processor, device="cpu", transducer={"tokenizer": own.PIECES}, confidence=True
        )
        samples = noise(4)
        with torch.no_grad():
            encoded = model.get_audio_features(**extractor(samples, sampling_rate=RATE, return_tensors="pt"))
        expected = transcriber.decoder.decode(encoded.last_hidden_state, encoded.attention_mask)
        never = arcbeam.Endpoint({"never": arcbeam.EndpointRule(min_trailing_silence=30.0)})
        patient = arcbeam.Transcriber(
            model, processor=processor, device="cpu", transducer={"tokenizer": own.PIECES}, endpoint=never
        )
        assert patient.transcribe(samples).text == str(expected[0])
        assert transcriber.transcribe(samples).duration == 4.0


class TestNemo:
    """What is read of a model of NeMo, 3.0.0: the attributes and the calls of its classes."""

    def model(self, hybrid=False):
        torch = pytest.importorskip("torch", reason="torch is missing")

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(1))
                self.cfg = {"preprocessor": {"sample_rate": RATE}}
                featurizer = SimpleNamespace(dither=1e-5, pad_to=16)
                self.preprocessor = SimpleNamespace(featurizer=featurizer)
                if hybrid:
                    self.joint, self.cur_decoder = object(), "rnnt"

            def ctc_decoder(self, encoder_output):
                return encoder_output.transpose(1, 2).log_softmax(-1)

            def forward(self, input_signal, input_signal_length):
                assert not self.training and input_signal.shape == (1, int(input_signal_length[0]))
                frames = input_signal.reshape(1, -1, 1280)[:, :, :3].transpose(1, 2)  # [batch, features, frames]
                lengths = torch.tensor([frames.shape[2] - 1])
                return (frames, lengths) if hybrid else (self.ctc_decoder(frames), lengths, None)

        return Model()

    def test_log_probs_and_encoder_output(self):
        samples = noise(1280 * 5 / RATE)
        frames = samples.reshape(-1, 1280)[:4, :3]
        decoder = arcbeam.ctc_decoder(["|", "a", "<blank>"], device="cpu", frame_shift=0.08)
        for hybrid in (False, True):
            model = self.model(hybrid)
            nemo = NemoModel(model, decoder)
            assert nemo.sample_rate == RATE and vars(model.preprocessor.featurizer) == {"dither": 0, "pad_to": 0}
            [found] = nemo.encode([samples], sample_rate=RATE)
            expected = frames - np.log(np.exp(frames).sum(axis=1, keepdims=True))
            np.testing.assert_allclose(found, expected, atol=1e-6)
        assert uses_joint(model) and not uses_joint(self.model())
        [found] = NemoModel(model, SimpleNamespace()).encode([samples], sample_rate=RATE)
        assert found.tobytes() == np.ascontiguousarray(frames).tobytes()
        model.cur_decoder = "ctc"
        assert not uses_joint(model)

    def test_nemo_is_needed(self, tmp_path):
        if pytest.importorskip("importlib.util").find_spec("nemo"):
            pytest.skip("NeMo is installed")
        (tmp_path / "m.nemo").write_bytes(b"")
        for name in (tmp_path / "m.nemo", "stt_en_conformer_ctc_large"):
            with pytest.raises(arcbeam.MissingDependencyError, match=r"needs the package nemo_toolkit"):
                arcbeam.Transcriber(name)
