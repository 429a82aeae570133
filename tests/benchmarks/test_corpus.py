"""A LibriSpeech folder, made from the demo's recordings, and its manifest."""

import json
import shutil

import numpy as np
import pytest

from benchmarks.data import corpus
from benchmarks.data.datasets import DataMissing

soundfile = pytest.importorskip("soundfile", reason="audio needs .[bench]")
SAID = {"0870": "AND MISTER JOHN", "0880": "HE WAS NOT", "goforward": "GO FORWARD TEN METERS"}


@pytest.fixture
def folder(demo_data, tmp_path):
    root = tmp_path / "LibriSpeech" / "test-small"
    for key, chapter in (("0870", "12/345"), ("0880", "12/345"), ("goforward", "67/8")):
        (root / chapter).mkdir(parents=True, exist_ok=True)
        shutil.copy(demo_data / f"{key}.flac", root / chapter / f"{chapter.replace('/', '-')}-{key}.flac")
        with (root / chapter / f"{chapter.replace('/', '-')}.trans.txt").open("a") as file:
            file.write(f"{chapter.replace('/', '-')}-{key} {SAID[key]}\n")
    return root


def test_a_folder_in_the_layout_of_librispeech(folder):
    found = corpus.load(str(folder))
    assert found.name == "test-small"
    assert [r.id for r in found.recordings] == ["12-345-0870", "12-345-0880", "67-8-goforward"]
    assert found.references == ["and mister john", "he was not", "go forward ten meters"]
    assert found.seconds == pytest.approx(7.1 + 2.99 + 2.78625)
    samples = found.recordings[1].samples()
    assert samples.dtype == np.float32 and samples.shape == (47_840,)
    assert found.first(1).references == ["and mister john"] and found.first(None) is found


def test_a_manifest_says_the_same(folder):
    path = folder / "manifest.jsonl"
    rows = [
        {"audio_filepath": str(r.audio.relative_to(folder)), "duration": r.seconds, "text": r.text}
        for r in corpus.load(str(folder)).recordings
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert corpus.load(str(path)).recordings == corpus.load(str(folder)).recordings


def test_what_is_wrong_is_said(folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataMissing, match="no corpus 'no-such'"):
        corpus.load("no-such")
    with pytest.raises(DataMissing, match=r"LibriSpeech's layout, with \.trans\.txt files"):
        corpus.load(str(empty))
    (folder / "12" / "345" / "12-345-0880.flac").unlink()
    with pytest.raises(DataMissing, match=r"12-345\.trans\.txt, line 2: there is no audio 12-345-0880\.flac"):
        corpus.load(str(folder))
    path = tmp_path / "m.jsonl"
    for line, message in [
        ("{}", "line 1: expected JSON with audio_filepath, duration and text: no 'audio_filepath'"),
        ("hello", "line 1: expected JSON"),
        ('{"audio_filepath": "a.flac", "duration": 1, "text": ""}', "line 1: there is no "),
        ("", "the manifest is empty"),
    ]:
        path.write_text(line)
        with pytest.raises(DataMissing, match=message):
            corpus.load(str(path))


def test_audio_of_another_kind_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros((800, 2)), 8_000)
    with pytest.raises(ValueError, match=r"a\.wav: expected one channel at 16000 Hz, got 2 at 8000 Hz"):
        corpus.Recording("a", tmp_path / "a.wav", 0.1, "").samples()


def test_sets_of_arcbeam_data(arcbeam_data):
    demo = corpus.load("demo")
    assert len(demo.recordings) == 13 and demo.seconds == pytest.approx(44.19, abs=0.01)
    with pytest.raises(DataMissing, match="no audio"):
        corpus.load("throughput")
