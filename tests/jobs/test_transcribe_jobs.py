"""Jobs of ``arcbeam transcribe``: killed runs go on, shards, and recordings that cannot be read."""

import json
import os
import random
import signal
import time

import pytest

from arcbeam.transcribe import transcriber
from tests.jobs.conftest import command, often, outputs, run
from tests.transcribe import tones

soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: .[bench]")
pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")

COUNT = 24


@pytest.fixture(scope="module", autouse=True)
def model():
    """What opens a model opens one whose letters are tones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcriber, "open_model", lambda *_: tones.ToneModel(cache=False))
        yield


@pytest.fixture(scope="module")
def audio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audio")
    for number in range(COUNT):
        sentences = ["abcde"[number % 5 :] + " ab", "de"[: number % 3] or "c"]
        soundfile.write(folder / f"{number:02d}.wav", tones.recording(sentences), tones.RATE)
    return folder


def arguments(audio, *options):
    return ["transcribe", "model", audio, "--device", "cpu", *options]


def words(files):
    """The files of a job without what says how far it has come."""
    return {name: content for name, content in files.items() if not name.endswith((".journal", ".partial"))}


@pytest.mark.parametrize("output", ["words.jsonl", "folder/"])
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_a_random_time(audio, tmp_path, output, seed):
    for name in ("whole", "broken"):
        (tmp_path / name / "folder").mkdir(parents=True)
    began = time.monotonic()
    options = ["-o", output, "-f", "json"]
    assert run(tmp_path / "whole", *arguments(audio, *options))[0] == 0
    seconds = time.monotonic() - began
    draw = random.Random(seed)
    child = command(tmp_path / "broken", *arguments(audio, *options, "--resume"), before=often)
    time.sleep(draw.uniform(0.2, 0.9) * seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    code, said = run(tmp_path / "broken", *arguments(audio, *options, "--resume"))
    assert code == 0, said
    place = "folder" if output == "folder/" else "."
    assert words(outputs(tmp_path / "broken" / place)) == words(outputs(tmp_path / "whole" / place))
    code, said = run(tmp_path / "broken", *arguments(audio, *options, "--resume"))
    assert code == 0 and f"is complete, with {COUNT} utterances: nothing is left to do" in " ".join(said.split())
    code, said = run(tmp_path / "broken", *arguments(audio, *options, "--resume", "--window-seconds", "20"))
    assert code == 1 and "--window-seconds is 20.0, and was 30.0" in " ".join(said.split())


def test_shards_are_the_whole(audio, tmp_path):
    assert run(tmp_path, *arguments(audio, "-o", "whole.txt"))[0] == 0
    for part in (1, 2, 3):
        assert run(tmp_path, *arguments(audio, "-o", f"{part}.txt", "--shard", f"{part}/3"))[0] == 0
    parts = [(tmp_path / f"{part}.txt").read_text() for part in (1, 2, 3)]
    assert "".join(parts) == (tmp_path / "whole.txt").read_text()
    assert all(part.count("\n") == COUNT // 3 * 2 for part in parts)


@pytest.mark.parametrize("output", ["words.txt", "folder/"])
def test_recordings_with_errors_are_left_out(audio, tmp_path, output):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("no audio")
    names = [audio / "00.wav", tmp_path / "empty.wav", tmp_path / "text.wav", tmp_path / "none.wav", audio / "01.wav"]
    lines = [json.dumps({"audio_filepath": os.fspath(name)}) + "\n" for name in names]
    (tmp_path / "manifest.jsonl").write_text("".join(lines))
    code, said = run(tmp_path, *arguments("manifest.jsonl", "-o", output))
    assert code == 1 and "line 4: expected an audio file" in " ".join(said.split())
    code, said = run(tmp_path, *arguments("manifest.jsonl", "-o", output, "--skip-errors"))
    assert code == 3 and "left out 3 utterances: 'empty', 'text', 'none'" in " ".join(said.split()), said
    listed = (tmp_path / (output.rstrip("/") + ".errors.tsv")).read_text().splitlines()
    assert [line.split("\t")[0] for line in listed] == ["empty", "text", "none"]
    assert "expected audio, got an empty file" in listed[0] and "No such file" in listed[2]
    named = [one for one in names if one.name != "text.wav"]
    code, said = run(tmp_path, "transcribe", "model", *named, "--device", "cpu", "-o", output)
    assert code == 1 and "none.wav: No such file" in " ".join(said.split())
    code, said = run(tmp_path, "transcribe", "model", *named, "--device", "cpu", "-o", output, "--skip-errors")
    assert code == 3 and "left out 2 utterances: 'empty', 'none'" in " ".join(said.split()), said
    if output == "folder/":
        assert sorted(os.listdir(tmp_path / "folder")) == ["00.txt", "01.txt"]
    else:
        assert (tmp_path / "words.txt").read_text().startswith("00 abcde ab\n00 c\n01 ")
