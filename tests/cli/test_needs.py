"""Options that do nothing alone are refused, and taken beside one that they need."""

from functools import cache

import pytest
from typer.main import get_command

from arcbeam.cli import options, transduce
from arcbeam.cli.app import app
from arcbeam.cli.build import BUILD_NEEDS

COMMANDS = {
    "greedy": (("greedy", "in.npz", "--tokens", "tokens.txt"), options.NEEDS),
    "decode": (("decode", "graph.arc", "in.npz"), options.NEEDS),
    "stream": (("stream", "graph.arc", "in.npz"), options.NEEDS),
    "transduce": (("transduce", "m.nemo", "in.npz"), transduce.NEEDS),
    "build-graph": (("build-graph", "--tokens", "t", "--lm", "l", "-o", "o"), BUILD_NEEDS),
}

VALUES = {
    "confidence_method": "max_prob", "endpoint": "sherpa", "ilm_scale": "0.5", "lexicon_probabilities": "yes",
    "lodr_scale": "-0.5",
}  # fmt: skip


@cache  # typer makes all commands anew at each call
def parameters(command):
    return {one.name: one for one in get_command(app).commands[command].params}


def words_for(option):
    """An option on the command line, with a value that it takes."""
    return [option.opts[0]] if option.is_flag else [option.opts[0], VALUES.get(option.name, "2")]


CASES = [(command, name) for command, (_, needs) in COMMANDS.items() for name in needs if name in parameters(command)]


@pytest.mark.parametrize(("command", "option", "said"), [
    ("align", "--reference", "No such option: --reference. The file of the texts is the last argument, TEXTS"),
    ("align", "-r", "No such option: -r. The file of the texts is the last argument, TEXTS"),
    ("stream", "--lattice", "No such option: --lattice. Lattices are written by arcbeam decode and arcbeam"),
    ("greedy", "--lattice", "No such option: --lattice. Lattices are written by arcbeam decode and arcbeam"),
])  # fmt: skip
def test_an_option_of_another_command(run, command, option, said):
    result = run(command, option, "1")
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "option", "meant"),
    [
        ("decode", "--lm", "--language-model"),
        ("decode", "--beam-width", "--beam, --max-active"),
        ("stream", "--alpha", "--lm-scale"),
        ("transduce", "--lm", "--ngram-lm"),
        ("greedy", "--vocab", "--tokens"),
        ("tune", "--ref", "--reference"),
        ("decode", "--bem", "--beam"),
    ],
)
def test_an_option_of_another_program(run, command, option, meant):
    said = run(command, option, "1")
    assert said.exit_code == 2
    assert f"No such option: {option} (Possible options: {meant}" in " ".join(said.stderr.replace("│", " ").split())


def test_every_name_is_one_of_a_parameter():
    known = {name for command in ("decode", "stream") for name in parameters(command)}
    assert {*options.NEEDS} | {other for others in options.NEEDS.values() for other in others} <= known
    for command in ("transduce", "build-graph"):
        _, needs = COMMANDS[command]
        assert {*needs} | {other for others in needs.values() for other in others} <= {*parameters(command)}


@pytest.mark.parametrize(("command", "name"), CASES)
def test_alone_and_together(run, command, name):
    arguments, needs = COMMANDS[command]
    have = parameters(command)
    others = [have[other] for other in needs[name] if other in have]
    alone = run(*arguments, *words_for(have[name]))
    said = " ".join(alone.stderr.replace("│", " ").split())
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert f"'{have[name].opts[0]}': needs {' or '.join(other.opts[0] for other in others)}" in said
    for other in others:
        together = run(*arguments, *words_for(other), *words_for(have[name]))
        assert "'" + have[name].opts[0] + "': needs" not in " ".join(together.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--acoustic-scale", "x", "expected a number, got 'x'"),
        ("--frame-shift", "20ms", "expected a number, got '20ms'"),
        ("--batch-size", "1.5", "expected a whole number of at least 1, got '1.5'"),
        ("--nbest", "-1", "expected a whole number of at least 0, got '-1'"),
        ("--beam", "", "expected a number, got ''"),
    ],
)
def test_what_is_no_number(run, option, value, message):
    result = run("decode", "graph.arc", "in.npz", option, value)
    assert result.exit_code == 2
    text = " ".join(result.stderr.replace("│", " ").split())
    assert f"Invalid value for '{option}': {message}" in text


@pytest.mark.parametrize("command", ["decode", "stream"])
def test_a_boost_score(run, tmp_path, command):
    """A bad one is an error of usage; one that no phrase of any list takes is told."""
    own, others = tmp_path / "own.txt", tmp_path / "others.txt"
    own.write_text("ah bee\t2.5\nbee\t2\n")
    others.write_text("sea\n")
    (tmp_path / "map.txt").write_text("one others.txt\n")
    given = (command, "graph.arc", "in.npz", "--boost", own)
    bad = run(*given, "--boost-score", "nan")
    said = " ".join(bad.stderr.replace("│", " ").split())
    assert bad.exit_code == 2
    assert "Invalid value for '--boost-score': expected a natural log from -1000 to 1000, got nan" in said
    note = "note: --boost-score: all phrases have scores of their own, so it changes nothing; leave it out"
    assert note in run(*given, "--boost-score", "3").stderr
    for more in ((), ("--boost-score", "3", "--boost-map", tmp_path / "map.txt")):
        result = run(*given, *more)
        assert result.exit_code == 0 and "--boost-score" not in result.stderr


def test_a_number_has_two_limits(run):
    text = " ".join(run("stream", "graph.arc", "in.npz", "--chunk-frames", 10**9).stderr.replace("│", " ").split())
    assert "expected a whole number of at least 1 and of at most 100,000, got '1000000000'" in text


def test_tables_that_are_swapped(run):
    result = run("decode", "graph.arc", "in.npz", "--tokens", "words.txt", "--words", "tokens.txt")
    assert result.exit_code == 1
    assert "the tables of words and tokens are swapped" in " ".join(result.stderr.split())
