"""The workload generator: same bytes for the same seed, and log-probs that look like those of a real model."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import workload
from data.pieces import Pieces, spelling_distances, train_sentencepiece
from data.word_errors import word_errors
from data.workload import WorkloadOptions, generate
from tests.lattice.oracle import edit_distance

pytest.importorskip("sentencepiece")

ROOT = Path(__file__).resolve().parent.parent.parent
SUBJECTS = ("the captain", "my sister", "an old sailor", "nobody", "the doctor's man", "his letter", "the morning")
VERBS = ("found", "carried", "remembered", "waited for", "would have sold", "never quite understood", "laughed at")
OBJECTS = ("a broken wheel", "the little garden", "your promise", "all that money", "the road to the village", "him")
TEXT = [f"{s} {v} {o}" for s in SUBJECTS for v in VERBS for o in OBJECTS]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    return Pieces(train_sentencepiece(TEXT, 128, tmp_path_factory.mktemp("spm") / "spm.model"))


@pytest.fixture(scope="module")
def made(pieces):
    return generate(TEXT, pieces, WorkloadOptions(utterances=40, seed=3))


def test_the_same_seed_gives_the_same_bytes(pieces, made, tmp_path):
    again = generate(TEXT, pieces, WorkloadOptions(utterances=40, seed=3))
    assert again.log_probs.tobytes() == made.log_probs.tobytes()
    assert again.lengths.tobytes() == made.lengths.tobytes()
    assert again.references == made.references
    retrained = Pieces(train_sentencepiece(TEXT, 128, tmp_path / "spm.model"))
    assert generate(TEXT, retrained, WorkloadOptions(utterances=2)).log_probs.tobytes() == (
        generate(TEXT, pieces, WorkloadOptions(utterances=2)).log_probs.tobytes()
    )


def test_another_seed_gives_others(pieces, made):
    other = generate(TEXT, pieces, WorkloadOptions(utterances=40, seed=4))
    assert other.log_probs.tobytes() != made.log_probs.tobytes()
    assert other.references != made.references


def test_a_larger_workload_starts_with_the_smaller(pieces, made):
    smaller = generate(TEXT, pieces, WorkloadOptions(utterances=7, seed=3))
    assert smaller.references == made.references[:7]
    assert smaller.log_probs.tobytes() == made.log_probs[: smaller.lengths.sum()].tobytes()


def test_the_lines_that_are_drawn_are_all_that_is_needed(pieces, made, tmp_path):
    text = [*TEXT, "", *TEXT[::-1]] * 7
    whole = generate(text, pieces, WorkloadOptions(utterances=12, seed=3))
    kept = workload.KeptLines.of(text, pieces, WorkloadOptions(utterances=12, seed=3))
    (tmp_path / "lines.tsv").write_text(kept.text(), encoding="utf-8")
    read = workload.KeptLines.read(tmp_path / "lines.tsv")
    assert len(read) == 7 * 2 * len(TEXT) and len(read.lines) < 120
    for count in (12, 5):
        again = generate(read, pieces, WorkloadOptions(utterances=count, seed=3))
        assert again.references == whole.references[:count]
        assert again.log_probs.tobytes() == whole.log_probs[: again.lengths.sum()].tobytes()
    with pytest.raises(KeyError):
        generate(read, pieces, WorkloadOptions(utterances=40, seed=3))


def test_log_probs_are_normalised_and_finite(pieces, made):
    assert made.log_probs.dtype == np.float16
    assert made.log_probs.shape == (made.lengths.sum(), len(pieces) + 1)
    assert made.tokens[-1] == "<blank>"
    assert np.isfinite(made.log_probs).all()
    mass = np.exp(made.log_probs.astype(np.float64)).sum(axis=1)
    assert np.abs(mass - 1).max() < 5e-3  # of float16
    single = generate(TEXT, pieces, WorkloadOptions(utterances=3, seed=3, dtype="float32"))
    assert single.log_probs.dtype == np.float32
    assert np.allclose(single.log_probs, made.log_probs[: len(single.log_probs)], rtol=1e-3, atol=1e-6)


def test_without_confusion_greedy_reads_the_text(pieces):
    clear = generate(TEXT, pieces, WorkloadOptions(utterances=30, confusion=1e-3))
    assert clear.greedy_wer() < 0.02


def test_confusion_is_calibrated_to_a_word_error_rate(pieces):
    options = WorkloadOptions(utterances=400)
    confusion = workload.calibrate(TEXT, pieces, 0.08, options)
    assert generate(TEXT, pieces, replace(options, confusion=confusion)).greedy_wer() == pytest.approx(0.08, abs=0.01)


def test_speech_has_the_pace_of_speech(made):
    words = sum(len(r.split()) for r in made.references)
    assert 2.0 < words / made.seconds < 3.4
    blank = (made.log_probs.argmax(axis=1) == made.log_probs.shape[1] - 1).mean()
    assert 0.6 < blank < 0.85
    assert made.lengths.min() * workload.FRAME_SECONDS >= 1.2


def test_padded_and_list_hold_the_same(made):
    padded = made.padded()
    assert padded.shape == (40, made.lengths.max(), made.log_probs.shape[1])
    for row, utterance, length in zip(padded, made.utterances, made.lengths, strict=True):
        assert row[:length].tobytes() == utterance.tobytes()
        assert (row[length:, -1] == 0).all() and (row[length:, :-1] == -np.inf).all()


def test_a_piece_said_twice_is_heard_twice(pieces):
    clear = generate(["so so so so so so", "no no no no no no"], pieces, WorkloadOptions(utterances=9, confusion=1e-3))
    assert clear.greedy_wer() < 0.03


def test_options_are_checked():
    for wrong, telling in (
        ({"utterances": 0}, "at least 1, got 0"),
        ({"durations": "long"}, "librispeech-test"),
        ({"dtype": "int8"}, "float16 or float32"),
    ):
        with pytest.raises(ValueError, match=telling):
            WorkloadOptions(**wrong)


def test_text_without_words_is_refused(pieces):
    with pytest.raises(ValueError, match="no words"):
        generate(["", ""], pieces)


WORDS = st.lists(st.sampled_from("abc"), max_size=7)


@given(WORDS, WORDS)
def test_word_errors_are_an_edit_distance(reference, hypothesis):
    assert word_errors(reference, hypothesis) == edit_distance(reference, hypothesis)


@given(st.lists(st.text("abz▁", min_size=1, max_size=5), min_size=1, max_size=8, unique=True))
def test_spelling_distances_are_symmetric_and_tell_pieces_apart(names):
    distances = spelling_distances(names)
    assert np.allclose(distances, distances.T)
    assert (np.diag(distances) == 0).all()
    assert (distances[~np.eye(len(names), dtype=bool)] > 0).all()


def test_command_line_writes_a_set(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TEXT))
    command = [sys.executable, "-m", "data.workload", "--text", tmp_path / "text.txt", "--pieces", "128"]
    done = subprocess.run(
        [*command, "--utterances", "5", "--out", tmp_path / "set"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "5 utterances" in done.stdout and "greedy WER" in done.stdout
    with np.load(tmp_path / "set" / "log_probs.npz") as file:
        assert file["log_probs"].shape == (file["lengths"].sum(), 129)
        ids = file["ids"].tolist()
    assert [line.split("\t")[0] for line in (tmp_path / "set" / "reference.tsv").read_text().splitlines()] == ids
    assert (tmp_path / "set" / "tokens.txt").read_text().endswith("<blank> 128\n")
