"""Which recordings names stand for: files, folders and manifests; what is not there is an error before any work."""

import json

import pytest

import arcbeam
from arcbeam.transcribe.recordings import Recording, find_recordings


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in ("b.wav", "a.FLAC", "sub/b.mp3", "sub/._b.mp3", "sub/notes.txt"):
        (tmp_path / "audio" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "audio" / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def manifest(*entries):
    with open("manifest.jsonl", "w") as file:
        for entry in entries:
            file.write((entry if isinstance(entry, str) else json.dumps(entry)) + "\n")
    return ["manifest.jsonl"]


def found(*paths):
    return [(one.id, str(one.path), one.offset, one.duration) for one in find_recordings(paths)]


def test_files_and_folders(here):
    assert found("audio/sub/notes.txt", "audio") == [
        ("notes", "audio/sub/notes.txt", 0.0, None), ("a", "audio/a.FLAC", 0.0, None),
        ("b", "audio/b.wav", 0.0, None), ("sub/b", "audio/sub/b.mp3", 0.0, None),
    ]  # fmt: skip


def test_manifests(here):
    lines = manifest(
        {"audio_filepath": "audio/b.wav", "duration": 3.14, "text": "words"},
        "",
        {"audio_filepath": str(here / "audio/a.FLAC"), "offset": 1.5, "duration": 2},
        {"audio_filepath": "audio/a.FLAC", "offset": 7},
        {"audio_filepath": "audio/sub/b.mp3", "id": "other"},
    )
    assert find_recordings(lines) == [
        Recording("b", here.relative_to(here) / "audio/b.wav"),
        Recording("a-1", here / "audio/a.FLAC", 1.5, 2.0),
        Recording("a-2", here.relative_to(here) / "audio/a.FLAC", 7.0, None),
        Recording("other", here.relative_to(here) / "audio/sub/b.mp3"),
    ]


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ({"audio_filepath": "gone.wav"}, FileNotFoundError, "line 2: expected an audio file, got gone.wav, where"),
        ({"audio_filepath": 3}, arcbeam.FormatError, 'line 2: expected an object of JSON with "audio_filepath"'),
        ("[1]", arcbeam.FormatError, 'line 2: expected an object of JSON with "audio_filepath"'),
        ("audio/b.wav", arcbeam.FormatError, "line 2: expected an object of JSON, got 'audio/b.wav'"),
        ({"audio_filepath": "audio/a.FLAC", "offset": -1}, arcbeam.FormatError, 'line 2: expected seconds as "offset"'),
        ({"audio_filepath": "audio/a.FLAC", "duration": "1"}, arcbeam.FormatError, 'expected seconds as "duration"'),
        ({"audio_filepath": "audio/a.FLAC", "id": ""}, arcbeam.FormatError, 'line 2: expected text as "id"'),
        ({"audio_filepath": "audio/b.wav"}, arcbeam.FormatError, "the name 'b' occurs twice: for audio/b.wav and"),
    ],
)
def test_wrong_manifests(here, entry, error, message):
    with pytest.raises(error, match=message):
        find_recordings(manifest({"audio_filepath": "audio/b.wav"}, entry))


def test_what_has_no_recordings(here):
    with pytest.raises(FileNotFoundError):
        find_recordings(["audio/gone.wav"])
    (here / "empty").mkdir()
    with pytest.raises(arcbeam.FormatError, match=r"^empty: expected a folder with audio files \(\.aac, .*\), got one"):
        find_recordings(["empty"])
    with pytest.raises(arcbeam.FormatError, match=r'expected lines such as \{"audio_filepath": "a.wav"\}, got none'):
        find_recordings(manifest(""))
    with pytest.raises(arcbeam.FormatError, match="the name 'b' occurs twice"):
        find_recordings(["audio/b.wav", "audio/sub/b.mp3"])
