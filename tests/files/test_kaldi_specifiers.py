"""Kaldi's specifiers: what is read and written by them, and what is refused instead of becoming a file's name."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from arcbeam import read_log_probs
from arcbeam.core.errors import FormatError
from arcbeam.files.kaldi_specifiers import Written, read, written

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
ENTRY = b"one \0BFM \4" + (2).to_bytes(4, "little") + b"\4" + (3).to_bytes(4, "little") + MATRIX.tobytes()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x.ark", Written("x.ark")),
        ("C:x", Written("C:x")),
        ("ark:x.ark", Written("x.ark")),
        ("ark:-", Written("-")),
        ("ark,t:x", Written("x", None, True)),
        ("t,ark:x", Written("x", None, True)),
        ("ark,scp:a,b", Written("a", "b")),
        ("ark,scp,t:a,b", Written("a", "b", True)),
        ("ark,f,b:x", Written("x")),
    ],
)
def test_written(given, expected):
    assert written(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("x.scp", "got the index x.scp; ark,scp:x.ark,x.scp writes both"),
        ("scp:x.scp", "expected ark:FILE or ark,scp:ARCHIVE,INDEX"),
        ("ark:x.scp", "got the index x.scp; ark,scp:x.ark,x.scp writes both"),
        ("ark:x.ark,y.scp", "got x.ark,y.scp; ark,scp:x.ark,y.scp writes an archive and its index"),
        ("ark:x.ark,scp:y.scp", "got x.ark,scp:y.scp; ark,scp:x.ark,y.scp writes an archive and its index"),
        ("ark,scp:x.scp,x.ark", "expected ark,scp:ARCHIVE,INDEX, the archive first, got 'ark,scp:x.scp,x.ark'"),
        ("scp,ark:x.scp,x.ark", "expected ark,scp:ARCHIVE,INDEX, the archive first"),
        ("ark:", "expected a name after the colon"),
        ("ark,p:x", "expected options among b, f, nf, t in front of the colon"),
        ("ark,scp:a", "expected the names of an archive and its index"),
        ("ark,scp:-,b", "expected the names of an archive and its index"),
        ("ark:|gzip -c", "has a shell command, and arcbeam runs none"),
        ("l.ark.gz", "expected a name such as lattices.ark, got l.ark.gz; compress the archive"),
        ("ark,scp:l.ark.gz,l.scp", "expected a name such as lattices.ark"),
    ],
)
def test_not_written(given, message):
    with pytest.raises(ValueError, match=message):
        written(given)


def test_read(tmp_path, monkeypatch):
    assert read("x.ark") is None and read("ark,s,cs:x") == ("ark", "x") and read("scp:x") == ("scp", "x")
    for given, message in [
        ("ark,scp:a,b", "expected ark:FILE or scp:FILE"),
        ("ark,p:x", "expected options among"),
        ("ark:cat x |", "a shell command"),
        ("ark:x.scp", "expected an archive after ark:, got x.scp, an index; give scp:x.scp"),
        ("ark,t:x.scp", "expected an archive after ark:, got x.scp, an index; give scp:x.scp"),
        ("scp:x.ark", "expected an index of archives after scp:, got x.ark, an archive; give ark:x.ark"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(given)
        with pytest.raises(FormatError, match=message):
            read_log_probs(given)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ark:old").touch()  # a file of this very name is read, and never written
    assert read("ark:old") is None and written("ark:old") == Written("old")
    (tmp_path / "x").write_bytes(ENTRY)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ENTRY + ENTRY.replace(b"one", b"two"))))
    for given, names in [(f"ark:{tmp_path}/x", ["one"]), (f"ark,s,t:{tmp_path}/x", ["one"]), ("ark:-", ["one", "two"])]:
        found = list(read_log_probs(given))
        assert [name for name, _ in found] == names
        assert all(np.array_equal(matrix, MATRIX) for _, matrix in found)


def test_what_is_no_output_of_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, kind in [("speech.FLAC", "audio"), ("model.onnx", "an acoustic model")]:
        Path(name).touch()
        with pytest.raises(FormatError, match=f"^{name}: expected the log-probs .*, got {kind}; run the model first"):
            read_log_probs(name)
    with pytest.raises(FormatError, match="ark:- is an archive of Kaldi from the standard input"):
        read_log_probs("-")
