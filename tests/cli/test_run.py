"""The loop over batches: order, messages, scoring of what is missing; with a decoder that spells what it is given."""

import re
import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam.cli import terminal
from arcbeam.cli.run import Done, Speed, check_width, decode_all, decode_batch
from arcbeam.cli.score import Scorer
from arcbeam.core.errors import FormatError, InputError, InputWarning
from arcbeam.files.log_probs import Utterance

GRAPH = SimpleNamespace(num_columns=3, width_is_exact=True)


@dataclass
class Spelling:
    """Stands for the decoder: the text of an utterance is its best columns."""

    batches: list

    def finished(self):
        return 0

    def decode(self, log_probs, errors):
        assert errors == "return"
        self.batches.append(len(log_probs))
        return [self._spelled(i, u) for i, u in enumerate(log_probs)]

    def _spelled(self, i, log_probs):
        if np.isnan(log_probs).any():
            error = InputError("log_probs", "expected finite values, got nan", utterance=i, frame=0, column=0)
            return SimpleNamespace(text="", error=error)
        text = " ".join("abc"[c] for c in log_probs.argmax(1))
        return SimpleNamespace(text=text, reached_final=text != "c", complete=text != "b", error=None)


def utterance(name, text):
    log_probs = np.full((len(text), 3), -5, np.float32)
    log_probs[np.arange(len(text)), ["abc".index(c) for c in text]] = 0
    return Utterance(name, log_probs, Path("in.npz"))


UTTERANCES = [utterance("u1", "ab"), utterance("u2", "cab"), utterance("u3", "c")]
REFERENCES = {"u1": "a b", "u2": "c b", "u3": "c"}


def decode(utterances, referee=None, **settings):
    decoder, lines = Spelling([]), []
    speed = decode_all([decoder], utterances, lambda u, h: lines.append((u.id, h.text)),
                       check=partial(check_width, GRAPH), batch_size=2, referee=referee, **settings)  # fmt: skip
    return lines, speed, decoder.batches


def test_order_and_counts():
    done = Done()
    lines, speed, sizes = decode(UTTERANCES, done=done)
    assert lines == [("u1", "a b"), ("u2", "c a b"), ("u3", "c")]
    assert (speed.utterances, speed.frames, speed.unfinished, speed.dead.count) == (3, 6, 1, 0)
    assert sizes == [2, 1]
    assert done() == 3


def test_searches_that_died_are_named():
    lines, speed, _ = decode([*UTTERANCES, utterance("u4", "b")])
    assert lines[-1] == ("u4", "b")
    assert (speed.unfinished, speed.dead.count, speed.dead.first) == (1, 1, ["u4"])


def test_summary():
    speed = Speed(utterances=3, frames=1000, seconds=0.5, unfinished=1)
    assert speed.describe(0.02, "cpu") == (
        "decoded 3 utterances, 1,000 frames, 20.0 s of audio in 500.0 ms (RTFx 40) on cpu; "
        "1 did not end in a final state"
    )
    died = Speed(utterances=3, frames=1000, seconds=0.5)
    for name in ("u1", "u3"):
        died.dead.add(name)
    assert died.describe(None, "cpu").endswith("; the search died before the last frame of 2 utterances: u1, u3")
    assert "in 2.00 s (RTFx 10)" in Speed(3, 1000, 2.0).describe(0.02, "cpu")
    assert Speed(1, 10, 0.1).describe(None, "cpu") == (
        "decoded 1 utterance, 10 frames in 100.0 ms (100 frames/s; RTFx needs --frame-shift) on cpu"
    )
    run = Speed(3, 1000, 0.5, run_seconds=2.0)
    assert run.describe(0.02, "cpu").endswith("(RTFx 40) on cpu; with reading and writing 2.00 s (RTFx 10)")
    assert run.describe(None, "cpu").endswith("on cpu; with reading and writing 2.00 s (500 frames/s)")


def test_capitals_are_pointed_out():
    referee = Scorer({k: v.upper() for k, v in REFERENCES.items()})
    decode(UTTERANCES, referee)
    assert "--ignore-case" in referee.remarks()[0]
    blind = Scorer({k: v.upper() for k, v in REFERENCES.items()}, ignore_case=True)
    decode(UTTERANCES, blind)
    assert blind.left_out() == blind.remarks() == []
    assert blind.score.errors == 1
    for references, transcript, note in (
        ({"u1": "a b"}, "A B", "the transcripts have capitals and the reference has none; --ignore-case ignores that"),
        ({"u1": "the cat."}, "the cat", "the reference has punctuation and the transcripts have none"),
        ({"u1": "the cat."}, "the dog.", None),
        ({"u1": "at 5 p. m."}, "at 5 p m", None),
        ({"u1": "Ann sat"}, "Ann sits", None),
    ):
        referee = Scorer(references)
        referee.add({"u1": transcript})
        assert [said.startswith(note) for said in referee.remarks()] == [True] * (note is not None)


def test_warnings_name_utterances_and_leave_names_of_files_alone(capsys):
    class Telling(Spelling):
        def decode(self, log_probs, errors):
            warnings.warn(InputWarning("got a sum of 3 in", ": are they logits?", utterance=1, frame=2), stacklevel=2)
            warnings.warn("2 phrases of utterance 1, frame 2.txt are left out", stacklevel=2)
            return super().decode(log_probs, errors)

    assert len(decode_batch([Telling([])], UTTERANCES)) == 3
    assert capsys.readouterr().err.splitlines() == [
        "note: got a sum of 3 in utterance 'u2', frame 2: are they logits?",
        "note: 2 phrases of utterance 1, frame 2.txt are left out",
    ]


@pytest.mark.parametrize("total", [10640, None])
def test_progress_without_a_terminal(monkeypatch, capsys, total):
    monkeypatch.setattr(terminal, "BETWEEN_LINES", 0.001)
    told = ""
    with terminal.progress("decoding", lambda: total, lambda: 1512):
        assert not sys.stderr.isatty()
        while told.count("decoding: 1,512") < 2:
            time.sleep(0.001)
            told += capsys.readouterr().err
    of = "" if total is None else " of 10,640"
    assert re.fullmatch(rf"decoding: 1,512{of} utterances, [\d,]+\.\d a second", told.splitlines()[-1])


def test_progress_of_what_cannot_be_counted(monkeypatch, capsys):
    """The error is for whoever reads the file."""
    monkeypatch.setattr(terminal, "BETWEEN_LINES", 0.001)

    def count():
        raise FormatError("in.npz: damaged")

    told = ""
    with terminal.progress("decoding", count, lambda: 0):
        while not told:
            time.sleep(0.001)
            told = capsys.readouterr().err
    assert told.startswith("decoding: 0 utterances, 0.0 a second")
