"""``arcbeam transduce --chunk-frames``: encoder output in chunks, and what is known of the words after each chunk."""

import json
import re
import subprocess

import numpy as np
import pytest

from arcbeam.report.score import Score
from tests.cli.test_process import COMMAND, ENVIRONMENT
from tests.cli.transducer_models import FRAMES, QUIET, speech, write_models
from tests.transducer.arpas import random_arpa

SHIFT = 0.08
TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "40", "LINES": "24", "TERM": "xterm"}


def silence(frames):
    rows = np.zeros((frames, 7), np.float32)
    rows[:, QUIET] = 10.0
    return rows


@pytest.fixture
def models(tmp_path):
    write_models(tmp_path)
    return tmp_path


@pytest.fixture
def transduce(run, models, monkeypatch):
    """``transduce("m.nemo", ...)`` in the folder `models`; the lines of its output, which must be there."""
    monkeypatch.chdir(models)

    def lines(*arguments, **given):
        result = run("transduce", *arguments, **given)
        assert result.exit_code == 0, result.output + result.stderr
        return result.stdout.splitlines()

    return lines


def finals(lines):
    return [row for row in map(json.loads, lines) if row["is_final"]]


def test_json_with_a_beam(transduce):
    """Words may be taken back until they are stable; the end has the list of the whole."""
    given = ("m.nemo", "in.npz", "-f", "json", "--beam", "3", "--nbest", "3")
    whole = {one["id"]: one for one in map(json.loads, transduce(*given))}
    rows = list(map(json.loads, transduce(*given, "--chunk-frames", "4")))
    for name, said in whole.items():
        *before, last = [row for row in rows if row["id"] == name]
        assert [row["is_final"] for row in before] == [False] * 8 and last["is_final"]
        for row in before:
            assert row["stable_words"] == said["words"][: len(row["stable_words"])] and "nbest" not in row
        assert (last["stable_words"], last["text"]) == (said["words"], said["text"])
        assert (last["posterior"], last["nbest"]) == (said["posterior"], said["nbest"])
    assert max(len(said["nbest"]) for said in whole.values()) > 1


def test_text_without_pieces(transduce, run):
    whole = transduce("m.pt", "in.npz")
    assert min(map(len, whole)) > 20
    shown = run("transduce", "m.pt", "in.npz", "--chunk-frames", 7)
    assert shown.stdout.splitlines() == whole and "tokens are numbers; give --tokenizer" in shown.stderr


@pytest.mark.parametrize(
    "options", [[], ["--confidence", "--confidence-method", "max_prob", "--confidence-aggregation", "mean"]]
)
def test_json(transduce, options):
    given = ("m.nemo", "in.npz", "-f", "json", *options)
    whole = {one["id"]: one for one in map(json.loads, transduce(*given))}
    rows = list(map(json.loads, transduce(*given, "--chunk-frames", "4")))
    for name, said in whole.items():
        ours = [row for row in rows if row["id"] == name]
        assert [row["frames"] for row in ours] == [*range(4, 30, 4), 30, 30]
        assert [row["is_final"] for row in ours] == [False] * 8 + [True]
        for row in ours:
            stable, words = row["stable_words"], row["stable_words"] + row["unstable_words"]
            assert stable == said["words"][: len(stable)] and " ".join(w["word"] for w in stable) == row["stable_text"]
            assert " ".join(word["word"] for word in words) == row["text"]
            assert said["text"].startswith(row["text"]) and all(
                ("confidence" in word) == bool(options) for word in words
            )
        assert ours[-1]["stable_words"] == said["words"] and ours[-1]["text"] == said["text"]
        assert 0 < len(ours[3]["stable_words"]) < len(said["words"])
        assert {"start", "end", "start_frame"} <= said["words"][0].keys()


def test_json_without_pieces(transduce):
    whole = list(map(json.loads, transduce("m.pt", "in.npz", "-f", "json")))
    rows = list(map(json.loads, transduce("m.pt", "in.npz", "-f", "json", "--chunk-frames", "7")))
    texts = [row["text"] for row in rows if row["is_final"]]
    assert texts == [" ".join(str(token["token"]) for token in one["tokens"]) for one in whole]
    assert all("stable_words" not in row and row["text"].startswith(row["stable_text"]) for row in rows)


def test_phrases_and_a_model_of_tokens(transduce, run, models):
    (models / "phrases").write_text("ab\t9\nhi\t9\n")
    (models / "own").write_text("cj\t9\n")
    (models / "map").write_text("two own\nfour own\n")
    arpa = random_arpa(models / "tokens.arpa", range(12))
    plain, found = transduce("m.nemo", "in.npz"), []
    for options in (
        ["--boost", "phrases", "--boosting-tree-alpha", "2"],
        ["--boost-map", "map"],
        ["--ngram-lm", arpa, "--ngram-lm-alpha", "0.9"],
    ):
        found.append(transduce("m.nemo", "in.npz", *options))
        assert transduce("m.nemo", "in.npz", *options, "--chunk-frames", "7") == found[-1]
        assert found[-1] != plain
    assert [line == other for line, other in zip(found[1], plain, strict=True)] == [True, False]
    shown = run("transduce", "m.nemo", "in.npz", "--boost-map", "map", "--chunk-frames", "7").stderr
    assert "note: --boost-map: the input lacks 1 utterance: four" in shown


def test_precision_and_device(transduce):
    given = ("m.nemo", "in.npz", "--precision", "bfloat16", "--device", "cpu", "--threads", "1")
    assert transduce(*given, "--chunk-frames", "30") == transduce(*given)


@pytest.mark.parametrize("frames", ["7", "1000"])
def test_endpoints(transduce, models, frames):
    """Each sentence is what its frames alone give."""
    one, two = map(speech, FRAMES.values())
    np.savez(models / "long.npz", talk=np.concatenate([silence(35), one, silence(40), two, silence(16), one[:9]]))
    given = ("m.nemo", "long.npz", "--chunk-frames", frames, "--endpoint", "sherpa")
    rows = finals(transduce(*given, "-f", "json"))
    starts = [row["first_frame"] for row in rows]
    assert starts == [0, *(row["frames"] for row in rows[:-1])]
    assert [row["endpoint"] is None for row in rows] == [False] * (len(rows) - 1) + [True]
    talk = np.load(models / "long.npz")["talk"]
    pieces = zip(rows, starts, [*starts[1:], len(talk)], strict=True)
    np.savez(models / "parts.npz", **{f"{i:03}": talk[begin:end] for i, (_, begin, end) in enumerate(pieces)})
    alone = list(map(json.loads, transduce("m.nemo", "parts.npz", "-f", "json")))
    assert [row["text"] for row in rows] == [found["text"] for found in alone]
    said = [row for row in rows if row["text"]]
    assert len(said) == 3 and len(rows) > 3
    assert transduce(*given) == [f"talk-{number} {row['text']}" for number, row in enumerate(said, 1)]
    words = [word for row in said for word in row["stable_words"]]
    assert words[0]["start"] == pytest.approx(35 * SHIFT) and said[1]["stable_words"][0]["start_frame"] >= 35 + 30 + 15
    assert [word["start"] for word in words] == sorted(word["start"] for word in words)


def test_a_chunk_of_a_pipe_is_shown_before_the_next_one_comes(models):
    rows = speech(FRAMES["one"])
    command = [*COMMAND, "transduce", "m.nemo", "-", "--chunk-frames", "10", "-f", "json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=models, env=ENVIRONMENT, **pipes) as process:
        for at in range(0, 30, 10):
            process.stdin.write(rows[at : at + 10].tobytes())
            process.stdin.flush()
            shown = json.loads(process.stdout.readline())
            assert (shown["frames"], shown["is_final"]) == (at + 10, False)
        process.stdin.close()
        assert json.loads(process.stdout.readline())["is_final"]
    assert process.returncode == 0


def test_a_terminal_shows_what_is_stable_in_bold(run, transduce):
    [whole, _] = transduce("m.nemo", "in.npz")
    rows = list(map(json.loads, transduce("m.nemo", "in.npz", "-f", "json", "--chunk-frames", "2")))
    shown = run("transduce", "m.nemo", "in.npz", "--chunk-frames", "2", env=TERMINAL)
    assert shown.stdout.splitlines()[0] == whole
    captions = re.split(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*", shown.stderr)
    short = [row for row in rows if row["stable_text"] and len(row["text"]) < 40]
    assert short
    for row in short:
        rest = row["text"].removeprefix(row["stable_text"])
        assert any(f"\x1b[1m{row['stable_text']}\x1b[0m\x1b[2m{rest}\x1b[0m" in caption for caption in captions)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["m.nemo", "-"], 2, "needs --chunk-frames"),
        (["m.nemo", "in.npz", "--chunk-frames", "5", "--batch-size", "256"], 2, "'--batch-size': leave it out"),
        (["unknown.nemo", "in.npz", "--chunk-frames", "5", "-f", "ctm"], 2, "CTM gives times in seconds"),
        (["m.nemo", "in.npz", "--chunk-frames", "5", "--confidence"], 2, "--format json"),
        (["m.nemo", "in.npz", "--chunk-frames", "5", "--endpoint", "kaldi"], 2, "(max_relative_cost)"),
        (["unknown.nemo", "in.npz", "--chunk-frames", "5", "--endpoint", "sherpa"], 2, "set --frame-shift"),
        (["unknown.nemo", "in.npz", "--chunk-frames", "5", "--real-time"], 2, "set --frame-shift"),
        (["m.nemo", "wide.npz", "--chunk-frames", "5"], 1, "utterance 'one' has 8 features, the model expects 7"),
    ],
)
def test_bad_arguments(run, models, monkeypatch, arguments, code, said):
    monkeypatch.chdir(models)
    np.savez("wide.npz", one=np.zeros((3, 8), np.float32))
    result = run("transduce", *arguments)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", ["stream", "decode"])
def test_commands_for_graphs_name_this_one(run, models, monkeypatch, command):
    monkeypatch.chdir(models)
    result = run(command, "m.nemo", "in.npz")
    assert result.exit_code == 1
    assert (
        "expected a graph" in result.stderr and "arcbeam transduce, which streams with --chunk-frames" in result.stderr
    )


def test_rules_of_kaldi_without_their_costs(transduce, models):
    np.savez(models / "long.npz", talk=np.concatenate([speech(FRAMES["one"]), silence(40), speech(FRAMES["two"])]))
    given = ("m.nemo", "long.npz", "--chunk-frames", "7", "-f", "json", "--endpoint")
    free = [f"--endpoint-rule={rule}.max_relative_cost=inf" for rule in ("rule2", "rule3")]
    rows = finals(transduce(*given, "kaldi", *free))
    assert rows[0]["endpoint"] == "rule2"
    same = [f"--endpoint-rule=rule{n}.min_trailing_silence={s}" for n, s in ((1, 5.0), (2, 0.5))]
    assert [row["text"] for row in finals(transduce(*given, "sherpa", *same))] == [row["text"] for row in rows]


def test_word_errors_are_the_same_in_chunks_and_at_once(run, models, monkeypatch):
    monkeypatch.chdir(models)
    texts = dict(line.split(" ", 1) for line in run("transduce", "m.nemo", "in.npz").stdout.splitlines())
    wrong = {name: text.split(" ", 1)[-1] + " more" for name, text in texts.items()}
    (models / "wrong.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in wrong.items()))
    (models / "right.tsv").write_text("".join(f"{name}\t{text.upper()}\n" for name, text in texts.items()))
    for options in ([], ["--chunk-frames", "4"], ["--chunk-frames", "4", "--endpoint", "sherpa"]):
        result = run("transduce", "m.nemo", "in.npz", "-r", "wrong.tsv", *options)
        assert result.exit_code == 0 and "WER" not in result.stdout
        score = Score()
        score.add(list(wrong.values()), [texts[name] for name in wrong])
        assert score.errors > 0 and str(score) in result.stderr.splitlines()
        result = run("transduce", "m.nemo", "in.npz", "-r", "right.tsv", "--ignore-case", "-o", "out.txt", *options)
        assert result.stdout.startswith("WER 0.00 %")
    (models / "few.tsv").write_text("none of these\n")
    for options in ([], ["--chunk-frames", "4"]):
        result = run("transduce", "m.nemo", "in.npz", "-r", "few.tsv", *options)
        assert result.exit_code == 1 and result.stdout == "" and "error: few.tsv:1: expected 'id<TAB>" in result.stderr
        (models / "few2.tsv").write_text("x\tnone of these\n")
        result = run("transduce", "m.nemo", "in.npz", "-r", "few2.tsv", *options)
        assert result.exit_code == 1 and result.stdout == "" and "error: the reference lacks" in result.stderr
