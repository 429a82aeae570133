"""The commands from their arguments to their output and exit code, on a small graph."""

import json

import jiwer
import kaldiio
import numpy as np
import pytest
from typer.main import get_command

import arcbeam
from arcbeam.cli.app import app
from tests.cli.conftest import SAID, SPOKEN, WORDS, arcs_of_a_word_loop, log_probs_of
from tests.lm.test_lm_automaton import GOOD as GOOD_ARPA


def lines_of(result):
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("format", "lines"),
    [
        ("text", ["one ah bee", "two sea sea", "three"]),
        ("trn", ["ah bee (one)", "sea sea (two)", "(three)"]),
        ("stm", ["one 1 one 0.020 0.140 ah bee", "two 1 two 0.000 0.140 sea sea"]),
        ("ctm", ["one 1 0.020 0.040 ah", "one 1 0.100 0.040 bee", "two 1 0.000 0.060 sea", "two 1 0.080 0.060 sea"]),
    ],
)
def test_formats(run, format, lines):
    assert lines_of(run("decode", "graph.arc", "in.npz", "--format", format, "--frame-shift", "0.02")) == lines
    assert run("decode", "graph.arc", "in.npz").stdout.splitlines()[0] == "one ah bee"


def test_confidences_and_nbest_lists(run):
    said = ("decode", "graph.arc", "in.npz", "--confidence")
    rows = lines_of(run(*said, "--format", "ctm", "--frame-shift", "0.02"))
    assert rows[0].split()[:5] == ["one", "1", "0.020", "0.040", "ah"]
    assert all(0 < float(row.split()[5]) <= 1 for row in rows)
    found = [json.loads(line) for line in lines_of(run(*said, "--format", "json", "--nbest", "3"))]
    for one in found:
        assert 1 <= len(one["nbest"]) <= 3 and one["nbest"][0]["text"] == one["text"]
        assert one["confidence"] == one["nbest"][0]["posterior"]
        assert one["nbest_is_all"] == (len(one["nbest"]) < 3)
        assert not one["nbest_truncated"] and not one["confidence_truncated"]
        assert all(0 < word["confidence"] <= 1 for word in one["words"])
    certain = lines_of(run(*said, "--format", "json", "--posterior-scale", "9", "--lattice-beam", "0"))
    assert [json.loads(line)["confidence"] for line in certain] == [1.0] * 3


def test_minimum_bayes_risk(run):
    found = [json.loads(line) for line in lines_of(run("decode", "graph.arc", "in.npz", "-f", "json", "--mbr"))]
    for one in found:
        assert one["mbr"]["text"] == one["text"] == " ".join(word["word"] for word in one["mbr"]["words"])
        assert 0 <= one["mbr"]["errors"] < 1 and not one["mbr"]["truncated"]
        assert [rivals[0][0] for rivals in one["sausage"] if rivals[0][0]] == one["text"].split()
        assert all(0 < word["confidence"] <= 1 for word in one["mbr"]["words"]) and "confidence" not in one


def test_confidences_of_labels(run):
    said = ("decode", "graph.arc", "in.npz", "-f", "json", "--frame-confidence", "max_prob")
    for more in ((), ("--confidence-aggregation", "mean", "--frame-shift", "0.02")):
        for one in (json.loads(line) for line in lines_of(run(*said, *more))):
            assert all(0 < word["frame_confidence"] <= 1 and "confidence" not in word for word in one["words"])
            assert all(0 < label["confidence"] <= 1 for label in one["labels"]) and "frame_confidence" not in one
            assert [label["start"] is None for label in one["labels"]] == [not more] * len(one["labels"])
    result = run("decode", "graph.arc", "in.npz", "-f", "json", "--frame-confidence", "high")
    assert result.exit_code == 2 and "'--frame-confidence': expected max_prob or entropy, got" in result.stderr


def test_boosts(run, tmp_path):
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "one.txt").write_text("bee\t2.5\nah bee\n")
    (tmp_path / "all.txt").write_text("sea\nxylophone\t9\n")
    (tmp_path / "map.txt").write_text("one lists/one.txt\nfour  lists/one.txt\n")
    lists = ("--boost", str(tmp_path / "all.txt"), "--boost-map", str(tmp_path / "map.txt"), "--boost-score", "1.5")
    result = run("decode", "graph.arc", "in.npz", "--format", "json", *lists)
    one, two, three = (json.loads(line) for line in lines_of(result))
    assert [(b["phrase"], b["score"]) for b in one["boosts"]] == [("ah bee", 1.5), ("bee", 2.5)]
    assert [(b["phrase"], b["score"], b["first_word"]) for b in two["boosts"]] == [("sea", 1.5, 0), ("sea", 1.5, 1)]
    assert (one["boost_score"], two["boost_score"], three["boost_score"]) == (4.0, 3.0, 0.0)
    assert "1 of 2 phrases of " in result.stderr
    assert "all.txt is left out, because the graph cannot write 1 word ('xylophone'); " in result.stderr
    assert "note: --boost-map: the input lacks 1 utterance: four" in result.stderr


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--boost", "a\tnine\n", "line 1: expected a score after the tab, such as 3.5, got 'nine'"),
        ("--boost", "a\na\n", "line 2: phrase 'a' occurs twice"),
        ("--boost-map", "one\n", "line 1: expected an utterance and the file of its boost, got 'one'"),
        ("--boost-map", "one a\0b\n", "line 1: expected an utterance and the file of its boost, got 'one a\\x00b'"),
        ("--boost-map", "one x\none y\n", "line 2: utterance 'one' occurs twice"),
        ("--boost-map", "one bad.txt\ntwo absent.txt\n", "line 2: the list of 'two' cannot be read: "),
    ],
)
def test_bad_boosts(run, tmp_path, option, text, message):
    (tmp_path / "bad.txt").write_text(text)
    result = run("decode", "graph.arc", "in.npz", option, str(tmp_path / "bad.txt"))
    assert result.exit_code != 0
    assert message in result.stderr


def test_a_list_without_phrases(run, tmp_path):
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "map.txt").write_text("one empty.txt\n")
    result = run("decode", "graph.arc", "in.npz", "--boost", tmp_path / "empty.txt")
    assert result.exit_code == 0
    assert f"note: --boost: {tmp_path / 'empty.txt'} has no phrases" in result.stderr
    assert "no phrases" not in run("decode", "graph.arc", "in.npz", "--boost-map", tmp_path / "map.txt").stderr


def test_lattices_in_an_archive(run, tmp_path):
    rows = lines_of(run("decode", "graph.arc", "in.npz", "--lattice", str(tmp_path / "l.ark")))
    found = dict(arcbeam.read_lattices(tmp_path / "l.ark"))
    assert list(found) == list(SAID) and len(rows) == 3


def test_an_id_that_no_archive_has_is_found_before_anything_is_decoded(run, tmp_path, monkeypatch):
    np.savez(tmp_path / "spaced.npz", **{"one id": log_probs_of([0, 1, 1])})
    monkeypatch.setattr(arcbeam.CtcDecoder, "decode", None)
    result = run(
        "decode", "graph.arc", str(tmp_path / "spaced.npz"), "--lattice", str(tmp_path / "l.ark"), "-f", "json"
    )
    assert result.exit_code == 1 and "'one id' does not fit an archive of lattices" in result.stderr
    assert not (tmp_path / "l.ark").exists()


def test_json(run):
    found = [json.loads(line) for line in lines_of(run("decode", "graph.arc", "in.npz", "-f", "json"))]
    assert [f["id"] for f in found] == list(SAID)
    assert [f["text"] for f in found] == list(SAID.values())
    assert [f["frames"] for f in found] == [len(s) for s in SPOKEN.values()]
    assert found[0]["words"][1] == {"word": "bee", "start": None, "end": None, "start_frame": 5, "end_frame": 7}
    for f in found:
        acoustic = f["frames"] * np.log(0.97)
        assert f["acoustic_score"] == pytest.approx(acoustic, abs=1e-4)
        assert f["graph_score"] == pytest.approx(-0.5 * len(f["words"]), abs=1e-6)
        assert f["score"] == pytest.approx(f["acoustic_score"] + f["graph_score"], abs=1e-4)
        assert f["reached_final"] is True


def test_summary_is_apart_from_the_results(run):
    result = run("decode", "graph.arc", "in.npz", "--frame-shift", "0.02", "--threads", "1", "--device", "cpu")
    assert "decoded 3 utterances, 19 frames, 0.4 s of audio in" in result.stderr
    assert "RTFx" in result.stderr
    assert "on cpu, 1 thread" in result.stderr
    assert "decoded" not in result.stdout
    assert "RTFx needs --frame-shift" in run("decode", "graph.arc", "in.npz").stderr


def test_output_file_and_word_error_rate(run, tmp_path):
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("one\tah sea\ntwo\tsea\nthree\tbee\n")
    result = run("decode", "graph.arc", "in.npz", "-o", tmp_path / "out.txt", "-r", wrong)
    assert (tmp_path / "out.txt").read_text().splitlines() == ["one ah bee", "two sea sea", "three"]
    assert lines_of(result) == [
        "WER 75.00 % [ 3 / 4: 1 substitutions, 1 insertions, 1 deletions ], 3 of 3 utterances with errors"
    ]
    assert jiwer.wer(["ah sea", "sea", "bee"], list(SAID.values())) == 0.75


def test_word_error_rate_beside_transcripts(run):
    result = run("decode", "graph.arc", "in.npz", "-r", "reference.tsv")
    assert len(lines_of(result)) == 3
    assert "WER 0.00 % [ 0 / 4:" in result.stderr


@pytest.mark.parametrize("options", [("--batch-size", 1), ("--batch-size", 2, "--threads", 2), ("--max-active", 0)])
def test_batches_and_threads_change_nothing(run, options):
    plain = lines_of(run("decode", "graph.arc", "in.npz", "-f", "json"))
    assert lines_of(run("decode", "graph.arc", "in.npz", "-f", "json", *options)) == plain


def test_blank_penalty_and_acoustic_scale_reach_the_decoder(run):
    found = lines_of(run("decode", "graph.arc", "in.npz", "-f", "json", "--acoustic-scale", 2, "--blank-penalty", 0.25))
    first = json.loads(found[0])
    assert first["acoustic_score"] == pytest.approx(2 * 7 * np.log(0.97) - 3 * 0.25, abs=1e-4)


def test_several_inputs_in_order(run, tmp_path):
    for name in ("z", "y"):
        np.save(tmp_path / f"{name}.npy", log_probs_of([1]))
    kaldiio.save_ark(str(tmp_path / "k.ark"), {"x": log_probs_of([2])})
    assert lines_of(run("decode", "graph.arc", tmp_path / "z.npy", tmp_path / "k.ark", tmp_path / "y.npy")) == [
        "z ah", "x bee", "y ah"
    ]  # fmt: skip
    assert lines_of(run("decode", "graph.arc", tmp_path)) == ["x bee", "y ah", "z ah"]


def test_graph_of_openfst(run, tmp_path):
    kaldifst = pytest.importorskip("kaldifst")
    fst = kaldifst.StdVectorFst()
    for _ in range(4):
        fst.set_final(fst.add_state(), 0.0)
    fst.start = 0
    for source, target, label, word, cost in arcs_of_a_word_loop():
        fst.add_arc(source, kaldifst.StdArc(label * 10, word, cost, target))
    fst.write(str(tmp_path / "TLG.fst"))
    (tmp_path / "table").write_text("10 0\n20 1\n30 2\n40 3\n")
    options = ("--words", "words.txt", "--label-to-column", tmp_path / "table", "--blank", "0")
    assert lines_of(run("decode", tmp_path / "TLG.fst", "in.npz", *options)) == lines_of(
        run("decode", "graph.arc", "in.npz")
    )
    shape = json.loads(run("info", tmp_path / "TLG.fst", "--json", *options).stdout)
    assert (shape["states"], shape["columns"], shape["words"]) == (4, 4, len(WORDS))
    numbers = run("decode", tmp_path / "TLG.fst", "in.npz", *options[2:])
    assert lines_of(numbers) == ["one 1 2", "two 3 3", "three"]
    assert "note: the graph has no word symbols, so words are numbers; give --words" in numbers.stderr
    lexicon = tmp_path / "lexicon.txt"
    lexicon.write_text("".join(f"{word} {word[0]} {word[1:]}\n" for word in WORDS[1:]))
    needs = run("decode", tmp_path / "TLG.fst", "in.npz", *options, "--lexicon", lexicon)
    assert is_one_error(needs, "lexicon: expected a graph with tokens, which name its columns; give tokens (--tokens)")
    bad = run("decode", tmp_path / "TLG.fst", "in.npz", "--words", "words.txt")
    assert bad.exit_code == 1
    assert "utterance 'one' has 4 columns, the graph expects at least 40" in bad.stderr


def test_a_lexicon_for_word_times(run, tmp_path):
    (tmp_path / "lexicon.txt").write_text("ah a\nbee b\nsea c\n")
    spelled = ("--lexicon", tmp_path / "lexicon.txt")
    assert json.loads(run("info", "graph.arc", "--json").stdout)["word_times"] == "writing frames"
    assert json.loads(run("info", "graph.arc", "--json", *spelled).stdout)["word_times"] == "spellings"
    assert lines_of(run("decode", "graph.arc", "in.npz", *spelled)) == lines_of(run("decode", "graph.arc", "in.npz"))
    (tmp_path / "lexicon.txt").write_text("other a\n")
    wrong = run("decode", "graph.arc", "in.npz", *spelled)
    assert is_one_error(wrong, "lexicon: it lacks 3 of the 3 words that the graph writes ('ah', 'bee', 'sea')")


def test_info(run):
    text = run("info", "graph.arc")
    assert text.exit_code == 0
    assert "states" in text.stdout
    fields = json.loads(run("info", "graph.arc", "--json").stdout)
    assert (fields["states"], fields["arcs"], fields["epsilon_arcs"], fields["columns"]) == (4, 16, 0, 4)


def test_info_of_a_language_model(run, tmp_path):
    (tmp_path / "lm.arpa").write_text(GOOD_ARPA)
    assert run("build-lm", tmp_path / "lm.arpa", "-o", tmp_path / "small.lm").exit_code == 0
    text = lines_of(run("info", tmp_path / "small.lm"))
    assert text[:3] == ["3-gram model of 3 words", "n-grams: 5 / 3 / 1", "5 states, 8 arcs"]
    fields = json.loads(run("info", tmp_path / "small.lm", "--json").stdout)
    assert (fields["order"], fields["words"], fields["ngrams"], fields["states"]) == (3, 3, [5, 3, 1], 5)
    wrong = run("info", tmp_path / "small.lm", "--label-to-column", "table")
    assert is_one_error(wrong, "small.lm is a language model, which takes no --label-to-column")
    assert is_one_error(run("info", tmp_path / "lm.arpa"), "build-lm makes one from an ARPA file")
    (tmp_path / "cut.lm").write_bytes((tmp_path / "small.lm").read_bytes()[:200])
    assert is_one_error(run("info", tmp_path / "cut.lm"), "cut.lm")
    assert is_one_error(run("info", "words.txt"), "expected a graph of arcbeam or an OpenFst vector or const file")


def test_version_and_help(run):
    assert run("--version").stdout.startswith("arcbeam ")
    for command in ([], ["decode"], ["build-graph"], ["info"], ["demo"]):
        result = run(*command, "--help")
        assert result.exit_code == 0
    text = " ".join(run("decode", "-h").stdout.split())
    for unit in ("NATS", "SECONDS", "TOKENS", "UTTERANCES", "default: 17.0", "default: 10000", "--label-to-column"):
        assert unit in text
    assert "build-graph" in run().output
    for command in ("decode", "build-graph"):
        assert " TLG.arcbeam" in run(command, "-h", env={"COLUMNS": "200"}).stdout


@pytest.mark.parametrize("command", ["decode", "stream", "transduce", "build-graph", "info", "demo", "bench"])
def test_help_shows_whole_names_on_a_narrow_terminal(run, command):
    shown = run(command, "--help", env={"COLUMNS": "80"}).stdout
    names = [name for option in get_command(app).commands[command].params for name in option.opts if name[:2] == "--"]
    assert "--debug" in names
    assert [name for name in names if name not in shown.split()] == []


USAGE = [
    (["decode"], "Missing argument 'GRAPH'"),
    (["decode", "graph.arc"], "Missing argument 'INPUT'"),
    (["translate"], "No such command 'translate'"),
    (["stream", "graph.arc", "in.npz", "--memory-limit", "8GiB"], "'--memory-limit': is about the memory of a GPU"),
    (
        ["stream", "graph.arc", "in.npz", "--language-model", "lm", "--arc-cache", "0"],
        "'--arc-cache': is about the memory of a GPU",
    ),
    (["stream", "graph.arc", "-", "--max-bytes", "1"], "and the standard input is none; leave it out"),
    (
        ["build-graph", "--tokens", "t", "--lm", "l", "-o", "o", "--topology", "flat"],
        "expected one of compact, normal, eesen or identity, got 'flat'",
    ),
    (
        ["build-graph", "--tokens", "t", "--lm", "l", "-o", "o", "--separator-rule", "x"],
        "expected one of auto, one, many, optional, loop or none, got 'x'",
    ),
    (["build-graph", "--tokens", "t", "--lm", "l"], "Missing option '--output'"),
    (
        ["build-graph", "--tokens", "t", "--lm", "l", "-o", "o", "--lexicon", "x", "--word-list", "w"],
        "give at most one of",
    ),
]
OF_DECODE = [
    (["--format", "srt"], "expected one of text, trn, ctm, stm or json, got 'srt'"),
    (["-f", "ctm"], "CTM gives times in seconds: set --frame-shift"),
    (["-f", "stm"], "STM gives times in seconds: set --frame-shift"),
    (["--beam", "wide"], "Invalid value for '--beam'"),
    (["--beam", "-1"], "expected a number of at least 0, got -1.0"),
    (["--beam", "nan"], "expected a number of at least 0, got nan"),
    (["--max-active", "-5"], "Invalid value for '--max-active'"),
    (["--acoustic-scale", "0"], "expected a number above 0, got 0.0"),
    (["--blank-penalty", "inf"], "expected a number that is finite, got inf"),
    (["--frame-shift", "0"], "expected a number of seconds above 0, got 0.0"),
    (["--frame-shift", "20"], "expected at most 1 second, got 20.0; write 20 milliseconds"),
    (["--memory-limit", "8G"], "expected a number of bytes, at least 1, or a size"),
    (
        ["--memory-limit", "8GiB", "--device", "cpu"],
        "'--memory-limit': is about the memory of a GPU, and the CPU decodes; leave it out, or give --device cuda",
    ),
    (["--threads", "0"], "Invalid value for '--threads'"),
    (["--batch-size", "0"], "Invalid value for '--batch-size'"),
    (["--device", "tpu"], "'tpu'"),
    (("--nbest", "3"), "'--nbest': only --format json has a place for it"),
    (("--frame-confidence", "entropy"), "'--frame-confidence': only --format json has a place for it"),
    (
        ("--frame-confidence", "entropy", "-f", "json", "--confidence-aggregation", "sum"),
        "expected one of mean, min, max, prod, got 'sum'",
    ),
    (("--mbr",), "'--mbr': only --format json has a place for it"),
    (("--confidence",), "confidences are for --format json or ctm"),
    (("--lattice", "l.ark", "--lattice-beam", "-1"), "expected a number of at least 0"),
    (("--mbr", "-f", "json", "--posterior-scale", "nan"), "expected a number of at least 0"),
    (("--lattice", "-"), "expected the name of a file, got -"),
    (("--lattice", "l.ark.gz"), "expected a name such as lattices.ark, got l.ark.gz"),
    (("--lattice", "l.ark", "-o", "./l.ark"), "expected another file than that of --output"),
    (["--language-model", "x.lm"], "'--language-model': needs --graph-language-model"),
]


@pytest.mark.parametrize("name", ["in.npy", "in.scp"])
def test_a_limit_for_packed_files_where_there_are_none(run, tmp_path, name):
    np.save(tmp_path / "in.npy", np.load("in.npz")["one"])
    (tmp_path / "in.scp").write_text("")
    result = run("decode", "graph.arc", tmp_path / name, "--max-bytes", "1")
    assert result.exit_code == 2
    said = "".join(result.stderr.replace("│", " ").split())
    assert f"'--max-bytes':limitswhatacompressedfilemayunpackto,and{tmp_path / name}isnone;leaveitout" in said
    assert run("decode", "graph.arc", tmp_path / "in.npy", "in.npz", "--max-bytes", "1MB").exit_code in (0, 1)
    assert run("decode", "graph.arc", "in.npz", "--max-bytes", "1MB").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    USAGE + [(["decode", "graph.arc", "in.npz", *arguments], message) for arguments, message in OF_DECODE],
)
def test_usage(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    unframed = " ".join(result.stderr.replace("│", " ").split())
    assert message in unframed
    assert result.stdout == ""


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


GOOD = log_probs_of([1, 2])
BAD = [
    (["gone.arc", "in.npz"], "gone.arc: No such file or directory"),
    (["graph.arc", "gone.npz"], "gone.npz: No such file or directory"),
    (["words.txt", "in.npz"], "words.txt: expected a graph of arcbeam or an OpenFst"),
    (["graph.arc", "words.txt"], "words.txt: unknown kind of input '.txt'"),
    (["graph.arc", "in.npz", "in.npz"], "'one' occurs twice"),
    (["graph.arc", "in.npz", "-r", "gone.tsv"], "gone.tsv: No such file or directory"),
    (
        ["graph.arc", "in.npz", "-r", "words.txt"],
        "the reference lacks 3 utterances: one, two, three, all of them; its first is",
    ),
    (["graph.arc", "in.npz", "-o", "no/such/folder"], "no/such/folder: the folder no/such does not exist"),
    (["graph.arc", "in.npz", "--label-to-column", "words.txt"], "words.txt:1: expected 'label column', got '<eps> 0'"),
]
BAD_ARRAYS = [
    (
        {"logits": GOOD, "lengths": np.array([len(GOOD)])},
        "expected an array 'log_probs' of all utterances, because there is 'lengths', got 'logits'",
    ),
    ({"x": GOOD[:, :3]}, "utterance 'x' has 3 columns, the graph expects 4"),
    ({"x": np.zeros((3, 5), np.float32)}, "the graph expects 4; was a line missing from the tokens of the graph"),
    ({"x": np.zeros((4, 9), np.float32)}, "the graph expects 4; is it [columns, frames]? Transpose it"),
    (
        {"x": GOOD * np.float32("nan")},
        "utterance 'x': log_probs: expected finite values or -inf, got nan in frame 0, column 0",
    ),
    ({"x": -np.inf * GOOD}, "expected finite values or -inf, got inf"),
    ({"x": GOOD.astype(np.int64)}, "utterance 'x': log-probs must be float16, float32 or float64, got int64"),
    ({"log_probs": GOOD, "lengths": np.array([3]), "ids": np.array(["x"])}, "the lengths add up to 3 frames"),
    ({"log_probs": GOOD[None], "lengths": np.array([-1]), "ids": np.array(["x"])}, "must not be negative"),
    ({"log_probs": np.zeros((0, 4), np.float32), "lengths": np.array([], int)}, "the input contains no utterances"),
]


def is_one_error(result, message):
    assert result.exit_code == 1, result.output
    errors = result.stderr.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert message in errors[0]
    return True


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_files_are_told_in_one_line(run, arguments, message):
    assert is_one_error(run("decode", *arguments), message)


@pytest.mark.parametrize(("arrays", "message"), BAD_ARRAYS)
def test_bad_arrays_are_told_in_one_line(run, arrays, message, tmp_path):
    assert is_one_error(run("decode", "graph.arc", write(tmp_path / "bad.npz", **arrays)), message)


def test_the_graph_comes_first(run, tmp_path):
    (tmp_path / "my.arcbeam").touch()
    assert is_one_error(run("decode", "graph.arc", tmp_path / "my.arcbeam"), "commands that take a graph take it first")


def test_bad_label_tables(run, tmp_path):
    for text, message in [("", "the table is empty"), ("1 0\n1 2\n", "2: label 1 has the columns 0 and 2"),
                          ("999999999 0\n", "is far beyond")]:  # fmt: skip
        (tmp_path / "table").write_text(text)
        assert is_one_error(run("info", "graph.arc", "--label-to-column", tmp_path / "table"), message)


def test_a_reference_of_other_utterances(run, tmp_path):
    others = tmp_path / "others.tsv"
    others.write_text("v0\tah\nv1\tsea\n")
    result = run("decode", "graph.arc", "in.npz", "-r", others, "--allow-missing", "-o", tmp_path / "out.txt")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: the inputs and the reference have no utterance in common" in result.stderr


def test_missing_on_the_other_side(run, tmp_path):
    more = tmp_path / "more.tsv"
    more.write_text("one\tah bee\ntwo\tsea\n" + "".join(f"v{number}\tah\n" for number in range(7)))
    result = run("decode", "graph.arc", "in.npz", "-r", more)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the reference lacks 1 utterance: three; --allow-missing" in result.stderr
    result = run("decode", "graph.arc", "in.npz", "-r", more, "--allow-missing", "-o", tmp_path / "out.txt")
    assert result.stdout.startswith("WER 33.33 % [ 1 / 3:")
    assert "note: not scored: 1 without a reference, 7 without a transcript" in result.stderr
    with more.open("a") as file:
        file.write("three\t\n")
    result = run("decode", "graph.arc", "in.npz", "-r", more)
    assert result.exit_code == 1
    assert "the input lacks utterances of the reference (7 utterances: v0, v1, v2, v3, v4 and 2 more)" in result.stderr


def test_log_probs_without_a_column(run, tmp_path):
    np.save(tmp_path / "less.npy", np.zeros((3, GOOD.shape[1] - 1), np.float32))
    result = run("decode", "graph.arc", tmp_path / "less.npy")
    assert is_one_error(result, "; do the log-probs lack a column, such as the blank's?")


def test_debug_shows_the_traceback(run):
    result = run("decode", "gone.arc", "in.npz", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1] == "error: gone.arc: No such file or directory"


def test_what_looks_wrong_is_a_note_that_names_the_utterance(run, tmp_path):
    bad = {name: np.exp(log_probs_of([1, 2, 0])) for name in ("one", "two")}
    np.savez(tmp_path / "bad.npz", **bad)
    result = run("decode", "graph.arc", tmp_path / "bad.npz", "--batch-size", 1)
    assert result.exit_code == 0
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: log_probs: expected natural logs")]
    (note,) = notes
    assert "got 0.97 in utterance 'one', frame " in note
    assert "UserWarning" not in result.stderr


@pytest.mark.parametrize(
    ("name", "offered"),
    [("nope.npz", None), ("mime.npz", "mine.npz"), ("mine.npy", "mine.npz"), ("min.npz", "mine.npz")],
)
def test_only_near_names_are_offered(run, tmp_path, name, offered):
    (tmp_path / "mine.npz").touch()
    result = run("decode", "graph.arc", tmp_path / name)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "No such file or directory" in said
    assert ("is it" in said) == (offered is not None) and (offered is None or f"{offered}?" in said)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("in.npz", "the graph comes first, and then the log-probs"), ("lm.arpa", "build-graph --lm makes a graph")],
)
def test_other_files_in_the_place_of_a_graph(run, tmp_path, name, hint):
    (tmp_path / "lm.arpa").write_text("\\data\\\nngram 1=1\n")
    np.savez(tmp_path / "in.npz", one=np.zeros((3, 4), np.float32))
    result = run("decode", tmp_path / name, "in.npz")
    assert result.exit_code == 1 and hint in " ".join(result.stderr.split())
