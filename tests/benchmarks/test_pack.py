"""What is packed for another machine comes out there as it was."""

import json
import lzma
import shutil

import numpy as np
import pytest

from benchmarks.data import corpus, datasets, graphs
from benchmarks.pack import packing as pack
from data import workload

ARPA = "\\data\\\nngram 1=3\n"
TEXT = [f"{a} {b} the {c}" for a in ("one", "two", "red") for b in ("saw", "took") for c in ("sea", "road", "house")]


@pytest.fixture
def packed(demo_data, tmp_path, monkeypatch, capsys):
    """A folder packed from a little data, and the cache there; every set is the demo's."""
    pytest.importorskip("sentencepiece", reason="workloads need .[build]")
    data, cache = tmp_path / "data", tmp_path / "cache"
    for name in pack.REAL:
        shutil.copytree(demo_data, data / name)
    shutil.copy(demo_data / "tokens.txt", data)
    (data / "lm").mkdir()
    (data / "lm" / "books.3gram.arpa.xz").write_bytes(lzma.compress(ARPA.encode()))
    (data / "lm" / "words.txt").write_text("one\ntwo\n")
    (data / "text").mkdir()
    (data / "text" / "books.txt.xz").write_bytes(lzma.compress("\n".join(TEXT * 9).encode()))
    lm = tmp_path / "lm" / "pieces.arpa.xz"
    lm.parent.mkdir()
    lm.write_bytes(b"an lm")
    monkeypatch.setenv("ARCBEAM_DATA", str(data))
    monkeypatch.setattr(datasets, "CACHE", cache / "here")
    monkeypatch.setattr(graphs, "LMS", {"spm512-5gram": lm, "char-large": tmp_path / "none.arpa.xz"})
    monkeypatch.setattr(pack, "PIECES", (64,))
    monkeypatch.setattr(pack, "UTTERANCES", 6)
    pack.pack(tmp_path / "carried")
    assert "MiB in all: speech, lm, workloads, pieces-lm" in capsys.readouterr().out
    return tmp_path / "carried", cache / "there"


def test_everything_comes_out_as_it_was(packed, monkeypatch, demo_data):
    folder, cache = packed
    monkeypatch.setattr(datasets, "CACHE", datasets.CACHE)
    here = workload.generate(
        datasets.workload_lines(64), datasets.sentencepiece_model(64), workload.WorkloadOptions(utterances=5)
    )
    pack.unpack(folder, cache)
    assert (cache / "lm" / "pieces.arpa.xz").read_bytes() == b"an lm"
    assert (cache / "data" / "lm" / "words.txt").read_text() == "one\ntwo\n"
    assert lzma.decompress((cache / "data" / "lm" / "books.3gram.arpa.xz").read_bytes()).decode() == ARPA
    monkeypatch.setattr(datasets, "CACHE", cache)
    monkeypatch.setenv("ARCBEAM_DATA", "")
    monkeypatch.setattr(datasets, "ROOT", cache / "no checkout")
    assert datasets.data_folder() == cache / "data"
    there = datasets.load("workload-64", 5)
    assert there.log_probs.tobytes() == here.log_probs.tobytes()
    assert there.references == here.references
    for name in pack.REAL:
        dataset = datasets.load(name)
        with np.load(demo_data / "log_probs.npz") as file:
            assert dataset.log_probs.tobytes() == file["log_probs"].tobytes()
            assert dataset.lengths.tolist() == file["lengths"].tolist()
        assert len(dataset.references) == len(dataset.ids) == 13


def test_harm_on_the_way_is_seen(packed):
    folder, cache = packed
    (folder / "tokens.txt").write_text("other")
    with pytest.raises(ValueError, match=r"tokens\.txt is not what was packed"):
        pack.unpack(folder, cache)


def test_the_command(packed, capsys, monkeypatch):
    folder, _ = packed
    assert pack.main([str(folder), "--only", "large-lm"]) == 1
    assert "data/make_lm.py makes it" in capsys.readouterr().err
    assert pack.main([str(folder), "--only", "speech"]) == 0
    assert json.loads((folder / "manifest.json").read_text())["items"] == ["speech"]
    assert not (folder / "lm").exists()
    with pytest.raises(SystemExit):
        pack.main([str(folder), "--only", "speach"])
    assert "no 'speach'" in capsys.readouterr().err
    assert pack.main(["--unpack", str(folder.parent / "nowhere")]) == 1


def test_what_training_takes(packed, monkeypatch):
    folder, cache = packed
    data = datasets.data_folder()
    (data / "tokenizers").mkdir()
    (data / "tokenizers" / "librispeech_bpe_256.model").write_bytes(b"a model")
    monkeypatch.setattr(pack, "TRAINING_LINES", len(TEXT))
    assert pack.main([str(folder), "--only", "training"]) == 0
    pack.unpack(folder, cache)
    assert (cache / "data" / "tokenizers" / "librispeech_bpe_256.model").read_bytes() == b"a model"
    lines = workload.read_lines(cache / "data" / "text" / "lines.txt.xz")
    assert lines == (TEXT * 9)[::9]


def test_recordings_and_the_acoustic_model(packed, demo_data):
    pytest.importorskip("soundfile", reason="recordings are read to be packed")
    folder, cache = packed
    data = datasets.data_folder()
    (data / "model").mkdir()
    (data / "model" / "quartznet15x5.onnx").write_bytes(b"a model")
    assert pack.main([str(folder), "--only", "recordings"]) == 0
    pack.unpack(folder, cache)
    assert (cache / "data" / "model" / "quartznet15x5.onnx").read_bytes() == b"a model"
    found = corpus.load(str(cache / "audio" / "manifest.json"))
    assert [r.text for r in found.recordings] == datasets.load("demo").references
