"""``arcbeam transcribe``: audio files in, transcripts and subtitles out, with a model whose letters are tones."""

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from arcbeam.cli.transcribe import command as module
from arcbeam.cli.transcribe.progress import Progress
from arcbeam.transcribe import transcriber
from arcbeam.transcribe.recordings import Recording
from tests.transcribe import tones

soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: .[bench]")
pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")

TEXTS = {"one": ["abc ab", "cd"], "two": ["ed de"], "deep/three": ["a", "b", "c"]}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working directory, with recordings; `models` has what the last command opened its model with."""
    for name, sentences in TEXTS.items():
        path = tmp_path / "audio" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, tones.recording(sentences), tones.RATE)

    def open_model(model, lm, processor, toolkit, confidence, of_decoder, of_onnx):
        given = {name: one for name, one in of_decoder.items() if one is not None and name not in ("device", "threads")}
        opened.append(SimpleNamespace(model=model, lm=lm, toolkit=toolkit, onnx=of_onnx, options=given))
        return tones.ToneModel(lm, cache=False, **given)

    opened = []
    monkeypatch.setattr(transcriber, "open_model", open_model)
    return SimpleNamespace(folder=tmp_path, models=opened)


@pytest.fixture
def command(run, here, monkeypatch):
    monkeypatch.chdir(here.folder)
    return lambda *arguments: run("transcribe", "model", *arguments)


def test_one_file(command, here):
    result = command("audio/one.wav")
    assert result.exit_code == 0, result.output
    assert result.stdout == "abc ab\ncd\n" == command("./audio//one.wav").stdout
    assert "transcribed 1 recording, " in result.stderr and "decoding on cpu" in result.stderr
    assert here.models[0].model == "model" and here.models[0].options == {}


def test_a_folder_on_the_standard_output(command):
    result = command("audio")
    assert result.stdout.splitlines() == [
        "deep/three a", "deep/three b", "deep/three c", "one abc ab", "one cd", "two ed de",
    ]  # fmt: skip
    objects = [json.loads(line) for line in command("audio", "-f", "json", "--confidence").stdout.splitlines()]
    assert [(one["id"], [part["text"] for part in one["segments"]]) for one in objects] == [
        (name, TEXTS[name]) for name in sorted(TEXTS)
    ]
    assert all(0 <= word["confidence"] <= 1 for one in objects for part in one["segments"] for word in part["words"])


def test_a_file_for_each_recording(command, here):
    result = command("audio", "-f", "srt", "-o", "subtitles/")
    assert result.exit_code == 0, result.output
    assert "wrote 3 files into subtitles/" in result.stderr
    made = sorted(path.relative_to(here.folder).as_posix() for path in (here.folder / "subtitles").rglob("*.*"))
    assert made == ["subtitles/deep/three.srt", "subtitles/one.srt", "subtitles/two.srt"]
    expected = arcbeam.Transcriber(tones.ToneModel()).transcribe("audio/one.wav").render("srt")
    assert (here.folder / "subtitles/one.srt").read_text() == expected


@pytest.mark.parametrize("format", ["text", "json", "ctm", "srt", "vtt", "textgrid"])
def test_the_name_of_a_file_is_its_format(command, here, format):
    name = {"text": "out.txt", "textgrid": "out.TextGrid"}.get(format, f"out.{format}")
    result = command("audio/one.wav", "-o", name)
    assert result.exit_code == 0, result.output
    found = (here.folder / name).read_text()
    assert found == arcbeam.Transcriber(tones.ToneModel()).transcribe("audio/one.wav").render(format)


def test_rules_of_subtitles(command):
    result = command("audio/one.wav", "-f", "vtt", "--line-chars", "3", "--lines", "1", "--min-seconds", "0.2")
    assert [line for line in result.stdout.splitlines() if line[:1].isalpha()] == ["WEBVTT", "abc", "ab", "cd"]


def test_a_manifest_with_parts(command, here):
    lines = [{"audio_filepath": "audio/two.wav"}, {"audio_filepath": "audio/one.wav", "offset": 0, "duration": 2.0}]
    (here.folder / "parts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert command("parts.jsonl").stdout.splitlines() == ["two ed de", "one-1 abc ab"]


def test_options_of_the_model(command, here, tmp_path):
    (tmp_path / "lm.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 cd\n\n\\end\\\n")
    result = command("audio/one.wav", "--lm", "lm.arpa", "--beam", "12", "--acoustic-scale", "0.9", "--toolkit", "nemo")
    assert result.exit_code == 0, result.output
    assert set(result.stdout.split()) == {"cd"}
    (opened,) = here.models
    assert (opened.lm, opened.toolkit) == ("lm.arpa", "nemo")
    assert opened.options == {"beam": 12.0, "acoustic_scale": 0.9}


def test_the_seconds_of_a_frame(command):
    assert command("audio/one.wav", "--frame-shift", "0.02").stdout == command("audio/one.wav").stdout
    result = command("audio/one.wav", "--frame-shift", "0.03")
    assert result.exit_code == 1 and "give --frame-shift, the seconds of a frame of this model" in result.stderr


def test_the_pause_that_ends_a_sentence(command):
    assert command("audio/one.wav", "--sentence-pause", "1.5").stdout == "abc abcd\n"


def test_channels_and_rates_are_noted(command, here):
    both = np.stack([tones.recording(["abc"]), tones.recording(["eee"])], axis=1)
    for name in ("x", "y", "z"):
        soundfile.write(here.folder / f"{name}.flac", both, tones.RATE)
    assert command("x.flac", "--channel", "1").stdout == "eee\n"
    result = command("x.flac", "y.flac", "z.flac")
    assert "both channels were mixed of x.flac and 2 others; --channel 0 or 1 transcribes one" in result.stderr
    assert "mixed" not in command("x.flac", "--channel", "mean").stderr
    pytest.importorskip("soxr", reason="soxr is not installed: .[onnx]")
    soundfile.write(here.folder / "low.wav", tones.recording(["a"]), 8000)
    assert (
        "fewer than the model's 16,000 samples a second, so high frequencies are missing" in command("low.wav").stderr
    )


def test_progress_leaves_the_standard_input_alone():
    """libsndfile takes "-" for the standard input, of which it would read and then close it."""
    ours, (reading, writing) = os.dup(0), os.pipe()
    try:
        os.dup2(reading, 0)
        os.write(writing, b"samples")
        assert Progress([Recording("audio", Path("-"))]).total() is None
        assert os.read(0, 100) == b"samples"
    finally:
        os.dup2(ours, 0)
        for one in (ours, reading, writing):
            os.close(one)


def test_raw_samples_from_a_pipe(command, monkeypatch):
    samples = (tones.recording(["abc", "de"]) * 32767).astype("<i2").tobytes()
    stdin = SimpleNamespace(buffer=io.BytesIO(samples))
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdin=stdin))
    result = command("-", "--sample-rate", str(tones.RATE))
    assert result.exit_code == 0, result.output
    assert result.stdout == "abc\nde\n"
    stdin.buffer = io.BytesIO(samples[:-1])
    result = command("-", "--sample-rate", str(tones.RATE))
    assert result.exit_code == 1 and "error: standard input: expected samples of 2 bytes each" in result.stderr


def test_boosts(command, here):
    (here.folder / "boost.txt").write_text("cd\t-1000\n")
    (here.folder / "map.txt").write_text("two boost.txt\nfour boost.txt\n")
    (here.folder / "lm.arpa").write_text(
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 cd\n-1 ab\n\n\\end\\\n"
    )
    model = ("--lm", "lm.arpa", "--beam", "2000")
    assert "one cd" in command("audio", *model).stdout
    result = command("audio", *model, "--boost", "boost.txt")
    assert result.exit_code == 0 and "cd" not in result.stdout, result.output
    result = command("audio", *model, "--boost-map", "map.txt")
    assert "one cd" in result.stdout and "--boost-map: the input lacks" in result.stderr and "four" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.wav"], "gone.wav: No such file or directory"),
        (["audio", "gone.wav"], "gone.wav: No such file or directory"),
        (["empty"], "empty: expected a folder with audio files"),
        (["empty.wav"], "empty.wav: expected audio, got an empty file"),
        (["text.wav"], "text.wav: expected audio, got what cannot be read"),
        (["seven.wav"], "seven.wav: expected at most 2 channels, which are mixed, got 7"),
        (["audio/one.wav", "--channel", "1"], "audio/one.wav: expected a channel from 0 to 0 or 'mean'"),
        (["short.wav"], "short.wav: expected a recording of at least 0.025 s"),
        (["gone.jsonl"], "gone.jsonl: No such file or directory"),
        (["my talk.wav", "-f", "ctm"], "my talk.wav: expected a name without spaces for --format ctm"),
        (["list.jsonl"], "list.jsonl, line 1: expected an audio file, got gone.wav, where there is none"),
        (["list.jsonl", "-f", "json", "-o", "list.jsonl"], "--output: list.jsonl is one of the files to read"),
    ],
)
def test_bad_files_are_told_in_one_line(command, here, arguments, message):
    (here.folder / "empty").mkdir()
    (here.folder / "empty.wav").write_bytes(b"")
    (here.folder / "text.wav").write_text("no audio")
    (here.folder / "list.jsonl").write_text('{"audio_filepath": "gone.wav"}\n')
    soundfile.write(here.folder / "seven.wav", np.zeros((4000, 7)), tones.RATE)
    soundfile.write(here.folder / "my talk.wav", np.zeros(4000), tones.RATE)
    soundfile.write(here.folder / "short.wav", np.zeros(100), tones.RATE)
    result = command(*arguments)
    assert result.exit_code == 1 and message in " ".join(result.stderr.split()), result.output
    assert "Traceback" not in result.stderr and result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audio", "-f", "srt"], "a file of srt has one recording, got 3; give the folder for their files"),
        (["audio", "-f", "textgrid", "-o", "all.TextGrid"], "a file of textgrid has one recording, got 3"),
        (["audio", "-f", "ctm", "-o", "all.srt"], "the format is ctm, and all.srt is a name of srt files"),
        (["audio", "--lines", "3"], "is for --format srt and vtt, got --format text"),
        (["audio/one.wav", "-f", "srt", "--min-seconds", "9"], "expected at most --max-seconds 7, got 9"),
        (["audio", "--confidence"], "is for --format json and ctm, got --format text"),
        (["-"], "needs --sample-rate, such as 16000"),
        (["-", "audio", "--sample-rate", "8000"], "which comes alone"),
        (["audio", "--sample-rate", "8000"], "is for the standard input, -"),
        (["audio", "--channel", "left"], "expected a number from 0 on, or mean, got 'left'"),
        (["audio", "--boost-score", "3"], "needs --boost or --boost-map"),
        (["audio", "--beam", "-1"], "expected a number"),
    ],
)
def test_usage(command, arguments, message):
    result = command(*arguments)
    words = " ".join(result.stderr.replace("\u2502", " ").split())
    assert result.exit_code == 2 and message in words, result.output


def test_what_was_done_before_an_error_stays(command, here):
    (here.folder / "zero.wav").write_bytes(b"")
    result = command("audio/one.wav", "zero.wav", "-o", "all.txt")
    assert result.exit_code == 1 and "zero.wav: expected audio, got an empty file" in result.stderr
    assert (here.folder / "all.txt.partial").read_text() == "one abc ab\none cd\n"
    result = command("audio/one.wav", "zero.wav", "-o", "out/")
    assert result.exit_code == 1 and (here.folder / "out" / "one.txt").read_text() == "abc ab\ncd\n"
    assert "wrote 1 file into out/" in result.stderr


def test_an_output_that_is_an_input(command, here):
    (here.folder / "out").mkdir()
    (here.folder / "out" / "one.json").write_bytes((here.folder / "audio/one.wav").read_bytes())
    (here.folder / "list.jsonl").write_text('{"audio_filepath": "out/one.json"}\n')
    result = command("list.jsonl", "-f", "json", "-o", "out")
    assert result.exit_code == 1 and "--output: out/one.json is one of the files to read" in result.stderr


def test_progress(here, monkeypatch):
    monkeypatch.chdir(here.folder)
    recordings = [Recording("one", "audio/one.wav"), Recording("two", "audio/two.wav", 1.0, 0.5), Recording("x", "x")]
    progress = Progress(recordings)
    expected = soundfile.info("audio/one.wav").duration + 0.5
    assert progress.total() == round(expected)
    assert progress.say(None).startswith("0 of 3 recordings, 0:00:00, 0.0 times real time")
    progress.at(2.0)
    assert progress.seconds == 2.0
    progress.add(4000.0)
    progress.at(1.0)
    line = progress.say(8002)
    assert line.startswith("1 of 3 recordings, 1:06:41 of 2:13:22, ") and line.endswith(" left")
