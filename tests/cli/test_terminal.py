"""What a terminal shows while a command works: steps, bars and errors."""

import os
import pty
import re
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam
from arcbeam.cli import terminal
from tests.cli.test_process import COMMAND, ENVIRONMENT

TERMINAL = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"}


def shown(*arguments, cwd, env=TERMINAL):
    """What a command shows on a terminal, in the pieces in which it writes, with their times."""
    process, terminal_of = pty.fork()
    if process == 0:
        os.chdir(cwd)
        os.execvpe(COMMAND[0], [*COMMAND, *map(str, arguments)], env)
    pieces = []
    try:
        while data := os.read(terminal_of, 1 << 16):
            pieces.append((time.monotonic(), data.decode(errors="replace")))
    except OSError:  # the command has ended
        pass
    os.close(terminal_of)
    return pieces, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def test_a_build_names_each_step_and_moves(demo_data, tmp_path):
    """Also in the algebra, which holds the lock of the interpreter."""
    pytest.importorskip("kaldifst", reason="a graph is built with the package kaldifst")
    given = ("--tokens", demo_data / "tokens.txt", "--lm", demo_data / "novels.3gram.arpa.xz", "--lm-words")
    pieces, code = shown("build-graph", *given, "-o", tmp_path / "graph", cwd=tmp_path)
    text = "".join(piece for _, piece in pieces)
    assert code == 0, text
    for step in ("reading the words", "composing L o G", "determinizing L o G", "minimizing L o G", "composing T o LG"):
        assert step in text
    assert re.search(r"wrote \S+: [\d,]+ states, [\d,]+ arcs, [\d.]+ MB\s*$", text)
    frames = [moment for moment, piece in pieces if re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", piece)]
    assert len(frames) >= 5 and max(np.diff(frames)) < 1.0
    assert text.rindex(terminal.CLEAR) < text.rindex("wrote ")


def test_no_spinner_where_a_line_cannot_be_written_anew(files):
    pieces, code = shown("info", "graph.arc", cwd=files, env={**TERMINAL, "TERM": "dumb"})
    assert code == 0 and "\x1b" not in "".join(piece for _, piece in pieces)


@pytest.mark.parametrize(("env", "label"), [({}, "\x1b[31merror:\x1b[0m"), ({"NO_COLOR": "1"}, "error:")])
def test_the_label_of_an_error_is_red(files, env, label):
    pieces, code = shown("info", "gone.arc", cwd=files, env=TERMINAL | env)
    text = "".join(piece for _, piece in pieces)
    assert code == 1 and f"{label} gone.arc: No such file or directory" in text
    assert ("\x1b[31m" in text) == (env == {})


def test_a_bar_moves_within_a_batch(monkeypatch):
    """It asks for what is done again and again, and does not go back."""
    screen, done = [], [0]
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    monkeypatch.setattr(terminal, "BETWEEN_FRAMES", 0.001)
    from rich import progress

    monkeypatch.setattr(
        progress.Progress, "update", lambda self, task, *, total, completed: screen.append((completed, total))
    )
    with terminal.progress("decoding", lambda: 9, lambda: done[0]):
        for number in (3, 7, 5):
            done[0] = number
            seen = len(screen)
            while len(screen) < seen + 2:
                time.sleep(0.001)
    assert {3, 7} <= {completed for completed, _ in screen} and 5 not in {completed for completed, _ in screen}
    assert screen == sorted(screen) and {total for _, total in screen} == {9}


def test_what_is_said_of_the_progress(monkeypatch, capsys):
    """In place of numbers of things: beside a bar, and in lines where there is no terminal."""
    from rich import progress

    screen = []
    monkeypatch.setattr(
        progress.Progress, "update", lambda self, task, *, total, completed, said: screen.append((completed, said))
    )
    monkeypatch.setattr(terminal, "BETWEEN_FRAMES", 0.001)
    monkeypatch.setattr(terminal, "BETWEEN_LINES", 0.001)
    for is_terminal in (True, False):
        monkeypatch.setattr(terminal, "is_terminal", lambda there=is_terminal: there)
        with terminal.progress("listening", lambda: 60, lambda: 12, say=lambda total: f"12 s of {total} s"):
            while not screen and "12 s" not in (shown := capsys.readouterr().err):
                time.sleep(0.001)
            if is_terminal:
                assert screen.pop() == (12, "12 s of 60 s")
                screen.clear()
        screen.clear()
    assert "listening: 12 s of 60 s\n" in shown


def test_a_decoder_counts_the_utterances_of_its_batch(files):
    decoder = arcbeam.CtcDecoder(arcbeam.Graph.load(files / "graph.arc"), device="cpu", threads=1)
    rows = np.tile(np.load(files / "in.npz")["one"], (3000, 1))
    assert decoder.finished() == 0
    decoding = threading.Thread(target=decoder.decode, args=([rows] * 40,))
    seen = set()
    decoding.start()
    while decoding.is_alive():
        seen.add(decoder.finished())
        time.sleep(0.0005)
    assert len(seen) > 2 and max(seen) <= 40 and decoder.finished() == 0
    decoder.release()
    assert decoder.finished() == 0


def test_the_drawer_ends_with_its_input(monkeypatch):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(encoding="ascii"))
    drawn, (reads, writes) = [], os.pipe()
    monkeypatch.setattr(terminal.select, "select", lambda *_: ([0], [], []))
    os.write(writes, b"minimizing\n")
    os.close(writes)
    monkeypatch.setattr(terminal.os, "read", lambda _, size, read=os.read: read(reads, size))
    monkeypatch.setattr(terminal.os, "write", lambda _, data: drawn.append(data))
    terminal._draw()
    os.close(reads)
    assert drawn == [b"\r\x1b[2K| minimizing, 0 s"]


OPTIONS = {"blank": "--blank", "channel": "--channel", "device": "--device", "words": "--words", "window_seconds": "-w"}


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("a.txt: expected a blank; give blank=, its token: blank=28 if", "a.txt: expected a blank; give --blank, its "
         "token: --blank 28 if"),
        ("a.wav: channel=0 to 3, or channel='mean' for all", "a.wav: --channel 0 to 3, or --channel mean for all"),
        ("window_seconds: expected more, got 3", "-w: expected more, got 3"),
        ("give pronunciations= (--boost-lexicon), lines", "give --boost-lexicon, lines"),
        ("no words; give words= to Graph.load", "no words; give --words"),
        ("note: words: none for 'a'; give blank=", "note: --words: none for 'a'; give --blank"),
        ("no blank; give blank= when it is loaded", "no blank; give --blank"),
        ("words: expected blank=False, got device=True", "--words: expected no --blank, got --device"),
        ("pass words=' ' or blank='a b'", "pass --words ' ' or --blank 'a b'"),
        ("lm: expected device='cuda:0'; lengths= says", "lm: expected --device cuda:0; lengths= says"),
        # no option: a part of a name, of a path or of a word
        ("blank=3/x.npz: my_blank=3, my.blank=, blank=1.npz", "blank=3/x.npz: my_blank=3, my.blank=, blank=1.npz"),
    ],
)  # fmt: skip
def test_messages_name_options_as_they_are_typed(python, typed):
    assert terminal.as_typed(python) == python.replace(" (--boost-lexicon)", "") or "pronunciations" in python
    with terminal.options_of(OPTIONS):
        assert terminal.as_typed(python) == typed
        assert terminal.as_typed("words: give blank=", is_of_file=True) == "words: give --blank"
    assert terminal.as_typed("give blank=") == "give blank="


def test_errors_notes_and_lists_of_a_command(demo_data, tmp_path):
    """The first error that ends a run, and the lists of what is left out."""
    arcbeam.Graph.greedy(demo_data / "tokens.txt").save(tmp_path / "graph.arcbeam")
    (tmp_path / "texts.tsv").write_text("u\t5\n")
    np.save(tmp_path / "u.npy", np.zeros((9, 29), np.float32) - 1)
    align = ("align", tmp_path / "graph.arcbeam", tmp_path / "u.npy", tmp_path / "texts.tsv", "--frame-shift", "0.02")
    said = "".join(text for _, text in shown(*align, "-o", "words.ctm", cwd=tmp_path)[0])
    assert "--pronunciations spells words" in " ".join(said.split()) and "pronunciations=" not in said
    shown(*align, "-o", "words.ctm", "--skip-errors", cwd=tmp_path)
    assert "--pronunciations spells words" in (tmp_path / "words.ctm.errors.tsv").read_text()
