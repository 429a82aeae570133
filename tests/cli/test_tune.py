"""``arcbeam tune``: each place of the grid is what ``arcbeam decode`` gives there."""

import csv
import re
import shlex

import numpy as np
import pytest

import arcbeam
from arcbeam.cli.tune import Point, _advise, with_penalty
from arcbeam.report.score import Score, difference
from tests.cli.conftest import TOKENS, WORDS, arcs_of_a_word_loop, log_probs_of

WRONG = {"one": "ah sea", "two": "sea", "three": "bee"}


@pytest.fixture
def reference(tmp_path):
    path = tmp_path / "wrong.tsv"
    path.write_text("".join(f"{name}\t{words}\n" for name, words in WRONG.items()))
    return path


def table(path):
    return list(csv.DictReader(path.open()))


def word_loop(penalty):
    arcs = [(*arc[:4], arc[4] + penalty * bool(arc[3])) for arc in arcs_of_a_word_loop()]
    return arcbeam.Graph.from_arcs(arcs, finals=dict.fromkeys(range(4), 0.0), tokens=TOKENS, word_symbols=WORDS)


def test_every_place_of_the_grid(run, tmp_path, reference):
    result = run(
        "tune", "graph.arc", "in.npz", "-r", reference, "--acoustic-scale", "0.1,1", "--beam", "5,3",
        "--word-insertion-penalty", "0,2.5", "-o", tmp_path / "grid.csv", "--frame-shift", 0.02,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = table(tmp_path / "grid.csv")
    places = {tuple(float(row[name]) for name in ("acoustic_scale", "beam", "word_insertion_penalty")) for row in rows}
    assert len(rows) == len(places) == 8
    assert [float(row["wer"]) for row in rows] == sorted(float(row["wer"]) for row in rows)
    assert len({row["wer"] for row in rows}) > 1 and all(float(row["rtfx"]) > 0 for row in rows)
    for penalty in (0, 2.5):
        word_loop(penalty).save(tmp_path / "penalised.arc")
        for row in (row for row in rows if float(row["word_insertion_penalty"]) == penalty):
            options = ("--acoustic-scale", row["acoustic_scale"], "--beam", row["beam"], "-r", reference)
            [said] = re.findall(
                r"(\d+) / 4: (\d+) substitutions, (\d+) insertions, (\d+) deletions",
                run("decode", tmp_path / "penalised.arc", "in.npz", *options).stderr,
            )
            assert said == (
                str(round(float(row["wer"]) * 4)),
                row["substitutions"],
                row["insertions"],
                row["deletions"],
            )


def test_the_command_that_is_advised(run, reference):
    result = run("tune", "graph.arc", "in.npz", "-r", reference, "--word-insertion-penalty", "0")
    best, said = re.findall(r"the fewest errors: WER ([\d.]+) %.*\n  arcbeam (.*)", result.stdout)[0]
    assert f"WER {best} %" in run(*shlex.split(said), "-r", reference).stderr
    assert "greedy" not in result.stdout  # a graph without a separator
    assert "tuning on 3 utterances of 3 references" in result.stderr


def test_a_penalty_is_one_that_the_graph_is_built_with():
    penalised, built = with_penalty(word_loop(0.0), 1.25), word_loop(1.25)
    for name in ("states", "targets", "columns", "words", "finals"):
        assert getattr(penalised, name).tobytes() == getattr(built, name).tobytes()
    batch = [log_probs_of([0, 1, 1, 0, 2])]
    decoders = [arcbeam.CtcDecoder(graph, device="cpu") for graph in (penalised, built)]
    assert decoders[0].decode(batch)[0].to_dict() == decoders[1].decode(batch)[0].to_dict()


def test_of_equals_the_graph_that_is_there_comes_first(run, tmp_path, reference):
    run(
        "tune", "graph.arc", "in.npz", "-r", reference, "--acoustic-scale", "1", "--beam", "5",
        "--word-insertion-penalty=-0.001,0,0.001", "-o", tmp_path / "grid.csv",
    )  # fmt: skip
    rows = table(tmp_path / "grid.csv")
    assert len({row["wer"] for row in rows}) == 1
    assert float(rows[0]["word_insertion_penalty"]) == 0


def test_a_plot(run, tmp_path, reference):
    pytest.importorskip("matplotlib")
    result = run("tune", "graph.arc", "in.npz", "-r", reference, "--plot", tmp_path / "wer.svg")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "wer.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--beam", "8,x"), 2, "'--beam': expected numbers of at least 0 with commas between, such as 1,1.5,2"),
        (("--acoustic-scale", "0"), 2, "'--acoustic-scale': expected numbers of at least 0.01"),
        (("--word-insertion-penalty", "inf"), 2, "'--word-insertion-penalty': expected numbers with commas"),
        (("--plot", "wer.xyz"), 2, "'--plot': expected a name such as wer.svg, wer.png or wer.pdf, got wer.xyz"),
        (("--output", "grid.json"), 2, "'--output': writes CSV, got grid.json; type --output grid.csv"),
        (("--output", "grid.xlsx"), 2, "'--output': writes CSV, got grid.xlsx; type --output grid.csv"),
        (("--output", "nowhere/grid.csv"), 1, "nowhere/grid.csv: the folder does not exist"),
    ],
)
def test_what_is_refused(run, reference, arguments, code, message):
    result = run("tune", "graph.arc", "in.npz", "-r", reference, *arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_reference_of_another_set(run, tmp_path):
    (tmp_path / "other.tsv").write_text("four\tah\n")
    result = run("tune", "graph.arc", "in.npz", "-r", tmp_path / "other.tsv")
    assert result.exit_code == 1
    assert "the reference lacks 3 utterances: one, two, three, all of them; its first is 'four'" in result.stderr


@pytest.mark.parametrize(
    ("reference", "options", "code", "message"),
    [
        ({"one": "AH BEE", "two": "SEA SEA", "three": ""}, (), 0, "the reference is in capitals and the transcripts"),
        ({"one": "AH BEE", "two": "SEA SEA", "three": ""}, ("--ignore-case",), 0, "tuning on 3 utterances of 3"),
        ({"one": "3 4", "two": "5 5", "three": ""}, (), 0, "the reference has no letters and the transcripts have"),
        ({"one": "ah bee"}, (), 1, "the reference lacks 2 utterances: two, three; --allow-missing scores the others"),
        ({"one": "ah bee"}, ("--allow-missing",), 0, "not scored: 2 without a reference, 0 without a transcript"),
        (WRONG | {"four": "ah"}, (), 1, "the input lacks utterances of the reference (1 utterance: four); --allow-mi"),
        (WRONG | {"four": "ah"}, ("--allow-missing",), 0, "tuning on 3 utterances of 4 references"),
        ({"one": "ah, bee.", "two": "sea sea.", "three": ""}, (), 0, "the reference has punctuation and the transcri"),
    ],
)
def test_what_references_lack_is_told_as_decode_does(run, tmp_path, reference, options, code, message):
    path = tmp_path / "some.tsv"
    path.write_text("".join(f"{name}\t{words}\n" for name, words in reference.items()))
    grid = ("--beam", "8", "--acoustic-scale", "1", "--word-insertion-penalty", "0")
    result = run("tune", "graph.arc", "in.npz", "-r", path, *grid, *options)
    assert result.exit_code == code
    assert message in result.stderr
    if not message.startswith("tuning"):
        assert message in run("decode", "graph.arc", "in.npz", "-r", path, *options).stderr
    assert ("in capitals" in result.stderr) == ("in capitals" in message)


def point(speed, by_utterance):
    errors, words = (sum(column) for column in zip(*by_utterance, strict=True))
    score = Score(substitutions=errors, words=words, utterances=len(by_utterance), by_utterance=by_utterance)
    return Point(1.0, 8.0, 0.0, score, speed)


def advice(capsys, *points):
    _advise(list(points), ["g.arc", "in.npz"], word_loop(0.0), "RTFx")
    return capsys.readouterr().out


def test_a_difference_that_is_noise_is_said_to_be(capsys):
    best = [(index % 3, 20) for index in range(100)]
    noisy = [(errors + (1, 0, -1)[index // 2 % 3], 20) for index, (errors, _) in enumerate(best)]
    said = advice(capsys, point(100.0, best), point(150.0, noisy))
    assert "1.5 times as fast, 0.10 points worse on these 100 utterances (on as many others like them" in said
    low, high = map(float, re.search(r"([\d.]+) better to ([\d.]+) worse, in 95 of 100 cases", said).groups())
    assert 0.5 < low < 1.0 < 2 * high < 2.2
    sure = [(errors + (index == 7), 20) for index, (errors, _) in enumerate(best * 20)]
    said = advice(capsys, point(100.0, best * 20), point(150.0, sure))
    assert "1.5 times as fast, 0.00 points worse on these 2,000 utterances: WER" in said


def test_speeds_that_hardly_differ_are_no_advice(capsys):
    best, other = [(index % 3, 20) for index in range(100)], [(index % 3 + (index == 4), 20) for index in range(100)]
    assert advice(capsys, point(100.0, best), point(105.0, other)).count("arcbeam decode") == 1
    assert advice(capsys, point(100.0, best), point(115.0, other)).count("arcbeam decode") == 2


def test_a_paired_bootstrap():
    same = [(index % 4, 10 + index % 7) for index in range(50)]
    assert difference(same, same) == (0.0, 0.0)  # paired: utterances that are hard for both differ by nothing
    worse = [(errors + words, words) for errors, words in same]
    assert difference(same, worse) == (1.0, 1.0) and difference(worse, same) == (-1.0, -1.0)
    rng = np.random.default_rng(5)
    one, other = ([(int(e), 10) for e in rng.poisson(2.0, 400)] for _ in range(2))
    low, high = difference(one, other)
    by_hand = 1.96 * np.std([b - a for (a, _), (b, _) in zip(one, other, strict=True)]) / 10 / 400**0.5
    assert abs((high - low) / 2 - by_hand) < 0.1 * by_hand  # a normal distribution's, as the sum of many nearly is
