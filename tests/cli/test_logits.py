"""The option --logits: what is printed of logits is what is printed of their log-probs."""

import re

import numpy as np
import pytest

from arcbeam.arrays.batches import InputSpec, as_inputs, as_log_probs
from tests.cli.conftest import SPOKEN, TOKENS, log_probs_of


@pytest.fixture
def speech(tmp_path):
    """Files of logits and of their log-probs."""
    rng = np.random.default_rng(0)
    logits, rows = {}, {}
    for name, columns in SPOKEN.items():
        said = log_probs_of([int(column) for column in columns])
        logits[name] = 1.7 * said + rng.normal(0, 5, (len(said), 1)).astype(np.float32)
        taken = as_log_probs(as_inputs([logits[name]], None, InputSpec(len(TOKENS), True)), np.ones(1, np.bool_))
        rows[name] = taken.rows(0, 0, len(TOKENS))
    np.savez(tmp_path / "logits.npz", **logits)
    np.savez(tmp_path / "rows.npz", **rows)
    return tmp_path / "logits.npz", tmp_path / "rows.npz", logits["one"]


@pytest.mark.parametrize(
    "command",
    [
        ("decode", "graph.arc", "INPUT", "-f", "json", "--nbest", 3, "--confidence"),
        ("stream", "graph.arc", "INPUT", "-f", "json", "--chunk-frames", 3, "--frame-confidence", "entropy"),
        ("greedy", "INPUT", "--tokens", "tokens.txt", "-f", "json", "--frame-confidence", "entropy"),
    ],
    ids=lambda command: command[0],
)
def test_the_same_output(run, speech, command):
    logits, rows, _ = speech
    of = {name: [path if word == "INPUT" else word for word in command] for name, path in (("x", logits), ("p", rows))}
    wanted, found, without = run(*of["p"]), run(*of["x"], "--logits"), run(*of["x"])
    assert wanted.exit_code == found.exit_code == 0, found.output
    assert found.stdout == wanted.stdout
    assert "logits" not in found.stderr
    assert "as --logits does" in without.stderr and without.stdout != wanted.stdout


def test_a_pipe(run, speech):
    _, _, logits = speech
    found = run("stream", "graph.arc", "-", "--logits", input=logits.tobytes())
    assert found.stdout == "- ah bee\n" and "note" not in found.stderr


def test_tuning(run, speech):
    logits, rows, _ = speech
    grid = ("-r", "reference.tsv", "--beam", "5", "--acoustic-scale", "0.1,0.5", "--word-insertion-penalty", "3")
    ours, theirs = run("tune", "graph.arc", logits, "--logits", *grid), run("tune", "graph.arc", rows, *grid)
    assert ours.exit_code == 0, ours.output
    assert "as --logits does" not in ours.stderr
    rates = [re.findall(r"WER [\d.]+ %", one.stdout) for one in (ours, theirs)]
    assert rates[0] == rates[1] and rates[0]
    assert re.search(r"arcbeam decode \S+ \S+ --logits --acoustic-scale", " ".join(ours.stdout.split()))
