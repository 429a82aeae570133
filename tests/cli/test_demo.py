"""The demo and the whole command line on the real recordings that come with the source."""

import json
import re
import shutil

import pytest

from arcbeam.cli import demo
from arcbeam.recipe import cache
from arcbeam.report.score import Score
from tests.front.models import write_arpa
from tests.lattice.oracle import edit_distance

pytest.importorskip("kaldifst")


@pytest.fixture
def run_small(run, monkeypatch, tmp_path):
    """`run` with a demo whose graph is built in a moment: its language model has the words of its recordings alone."""
    folder = tmp_path / "demo"
    shutil.copytree(demo.data_folder(), folder, ignore=shutil.ignore_patterns("*.arpa*", "*.flac"))
    texts = [line.split("\t")[1] for line in (folder / "reference.tsv").read_text().splitlines()]
    write_arpa(folder / "small.arpa", sorted({word for text in texts for word in text.split()}))
    monkeypatch.setattr(demo, "data_folder", lambda: folder)
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "cache"))
    return run


@pytest.fixture
def references():
    lines = (demo.data_folder() / "reference.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


def word_errors(references, transcripts):
    errors = sum(edit_distance(said.split(), transcripts[name].split()) for name, said in references.items())
    return errors, sum(len(said.split()) for said in references.values())


def decode(run, graph, *options):
    folder = demo.data_folder()
    return run("decode", graph, folder / "log_probs.npz", "--acoustic-scale", demo.ACOUSTIC_SCALE, *options)


def test_demo(run, references, monkeypatch, tmp_path):
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path))
    result = run("demo", "--threads", 1)
    assert result.exit_code == 0, result.output
    beam, greedy = re.findall(r"WER ([\d.]+) % \[ (\d+) / (\d+):", result.stdout)
    assert float(beam[0]) < float(greedy[0])
    assert re.search(
        r"decoded 13 utterances, 2,215 frames, 44\.3 s of audio in .*RTFx \d+.* on cpu, 1 thread", result.stdout
    )
    for name in references:
        assert name in result.stdout
    transcripts = {
        fields["id"]: fields["text"]
        for line in decode(run, next(tmp_path.glob("demo-*")), "-f", "json").stdout.splitlines()
        for fields in [json.loads(line)]
    }
    assert (int(beam[1]), int(beam[2])) == word_errors(references, transcripts)


def test_demo_of_the_transducer(run, references, monkeypatch):
    """The same table and lines of it, and no graph is built; what it writes is what `transduce` says."""
    monkeypatch.setattr(demo, "demo_graph", None)
    result = run("demo", "--transducer", "--threads", 1)
    assert result.exit_code == 0, result.output
    ours, greedy = re.findall(r"^(\w+ ?\w+) +WER ([\d.]+) % \[ (\d+) / (\d+):", result.stdout, re.MULTILINE)
    assert re.search(
        r"decoded 13 utterances, 559 frames, 44\.7 s of audio in .*RTFx \d+.* on cpu, 1 thread", result.stdout
    )
    folder = demo.data_folder()
    written = run("transduce", folder / "transducer.npz", folder / "encoder_output.npz", "-f", "json")
    rows = {row["id"]: row for row in map(json.loads, written.stdout.splitlines())}
    assert "note: " not in written.stderr
    errors = word_errors(references, {name: row["text"] for name, row in rows.items()})
    assert (ours[0], int(ours[2]), int(ours[3])) == ("transducer", *errors)
    assert (greedy[0], greedy[1]) == ("greedy CTC", "4.72")
    assert float(ours[1]) < 10
    for name, row in rows.items():
        assert re.search(rf" {name} .* {row['words'][0]['start']:.2f}-{row['words'][-1]['end']:.2f} ", result.stdout)
    wrong = run("demo", "--transducer", "--rebuild")
    assert wrong.exit_code == 2 and "a transducer has no graph" in wrong.stderr


def test_demo_keeps_its_graph(run_small, tmp_path):
    assert "building" in run_small("demo").stderr
    [graph] = (tmp_path / "cache").glob("demo-*")
    again = run_small("demo")
    assert again.exit_code == 0
    assert "building" not in again.stderr
    outdated = graph.with_name("demo-of-yesterday.arcbeam")
    outdated.write_bytes(b"")
    assert "building" in run_small("demo", "--rebuild").stderr
    assert not outdated.exists()
    whole = graph.read_bytes()
    graph.unlink()  # never shortened in place: it may still be mapped
    graph.write_bytes(whole[: len(whole) // 2])
    repaired = run_small("demo")
    assert repaired.exit_code == 0, repaired.output
    assert "the cached graph cannot be used and is built again" in repaired.stderr
    assert "building" not in run_small("demo").stderr


def test_demo_without_a_place_to_keep_its_graph(run_small, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "file" / "below"))
    result = run_small("demo")
    assert result.exit_code == 0, result.output
    assert "note: the graph is not kept" in result.stderr


def test_demo_without_its_data(run, monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path / "pyx" / "arcbeam")
    result = run("demo")
    assert result.exit_code == 1
    assert "error: the recordings of the demo are not in this installation" in result.stderr


def test_times_of_no_words():
    assert demo.spoken_between([]) == ""


def test_marks():
    score = Score(keep_alignments=True)
    score.add(["a b c d"], ["a x c d e"])
    score.add(["a b"], ["b"])
    decoded, said = demo.mark_errors(*score.alignments[0])
    assert (str(decoded), str(said)) == ("a X c d E", "a B c d ***")
    decoded, said = demo.mark_errors(*score.alignments[1])
    assert (str(decoded), str(said)) == ("*** b", "A b")


def test_cache_key(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x")
    two.write_text("y")
    keys = {cache.key([one, two], "r"), cache.key([two, one], "r"), cache.key([one, two], "s"), cache.key([one], "r")}
    assert len(keys) == 4


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("ARCBEAM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == tmp_path / "arcbeam"
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path / "mine"))
    assert cache.folder() == tmp_path / "mine"
