"""What ``arcbeam stream`` and ``arcbeam transduce --chunk-frames`` have in common: all that comes in chunks."""

import time
import warnings
from typing import NamedTuple

import numpy as np
import pytest

from tests.cli.conftest import SAID, log_probs_of
from tests.cli.transducer_models import FRAMES, write_models


class Kind(NamedTuple):
    """Two commands on ``in.npz``: one that decodes all frames at once, and one that decodes chunks."""

    whole: list
    chunks: list
    bad: tuple  # the length of chunks, and a frame with a column or feature that is no number
    expected: str  # of a number


KINDS = {
    "stream": Kind(
        ["decode", "graph.arc"], ["stream", "graph.arc"], (4, 5, 2),
        "log_probs: expected finite values or -inf, got nan in frame 1, column 2",
    ),
    "transduce": Kind(
        ["transduce", "m.nemo"], ["transduce", "m.nemo"], (10, 23, 5),
        "encoder_output: expected finite values, got nan in frame 3, feature 5",
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request, run, tmp_path, monkeypatch):
    """In a folder of its own, which has the input where that is encoder output."""
    if request.param == "transduce":
        write_models(tmp_path)
        monkeypatch.chdir(tmp_path)
    return KINDS[request.param]


@pytest.fixture
def whole(run, kind):
    """The lines of all frames of a file at once."""

    def lines(name):
        result = run(*kind.whole, name)
        assert result.exit_code == 0, result.output + result.stderr
        return result.stdout.splitlines()

    return lines


def first_utterance():
    return next(iter(np.load("in.npz").items()))


@pytest.mark.parametrize("frames", [1, 3, 7, 1000])
def test_text_is_that_of_all_frames_at_once(run, kind, whole, frames):
    result = run(*kind.chunks, "in.npz", "--chunk-frames", frames)
    assert result.stdout.splitlines() == whole("in.npz")
    assert [line.split()[0] for line in result.stdout.splitlines()] in (list(SAID), list(FRAMES))
    assert f"chunks of {frames:,} frames" in result.stderr


def test_real_time(run, kind, whole):
    start = time.monotonic()
    result = run(*kind.chunks, "in.npz", "--chunk-frames", 5, "--real-time", "--frame-shift", "0.01")
    assert time.monotonic() - start >= 0.01 * sum(map(len, np.load("in.npz").values()))
    assert result.stdout.splitlines() == whole("in.npz")


def test_standard_input(run, kind, whole):
    name, rows = first_utterance()
    said, data = whole("in.npz")[0].removeprefix(f"{name} "), rows.astype(np.float32).tobytes()
    given = (*kind.chunks, "-", "--chunk-frames", 4)
    assert run(*given, input=data).stdout == f"- {said}\n"
    cut = run(*given, input=data + b"abc")
    assert (cut.exit_code, cut.stdout) == (1, f"- {said}\n")
    width = rows.shape[1]
    message = f"expected frames of {width} float32 values, {4 * width} bytes each, got 3 bytes more after the last"
    assert message in cut.stderr and "is it float16" in cut.stderr
    np.save("one.npy", rows)
    with open("one.npy", "rb") as file:
        saved = run(*given, input=file.read())
    assert (saved.exit_code, saved.stdout) == (1, "")
    assert "got an array of NumPy (.npy); give the file's name instead of -" in saved.stderr
    with open("in.npz", "rb") as file:
        packed = run(*given, input=file.read())
    assert (packed.exit_code, packed.stdout) == (1, "")
    assert "got an .npz of NumPy; give the file's name instead of -" in packed.stderr
    for head, what in ((b"RIFF\x24\0\0\0WAVEfmt ", "WAV"), (b"fLaC\0\0\0\x22", "FLAC")):
        audio = run(*given, input=head + bytes(range(256)) * 8)
        assert (audio.exit_code, audio.stdout) == (1, "")
        assert f"got audio ({what}); these values are the output of a model; arcbeam trans" in audio.stderr
    nothing = run(*given, input=b"")
    assert nothing.exit_code == 1 and "the input contains no frames" in nothing.stderr


def test_ctrl_c_shows_what_was_said(run, kind, whole, monkeypatch):
    name, rows = first_utterance()
    np.savez("begin.npz", **{name: rows[:6]})
    wanted, sleeps = whole("begin.npz"), iter([0, 0, 0])

    def sleep(seconds):
        if next(sleeps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    result = run(*kind.chunks, "in.npz", "--real-time", "--frame-shift", "0.02", "--chunk-frames", 2)
    assert (result.exit_code, result.stdout.splitlines()) == (130, wanted)


def test_a_bad_frame_is_named_and_what_came_before_is_shown(run, kind, whole):
    _, rows = first_utterance()
    frames, frame, column = kind.bad
    begin = frame // frames * frames
    np.savez("begin.npz", bad=rows[:begin])
    bad = rows.copy()
    bad[frame, column] = np.nan
    np.savez("bad.npz", bad=bad)
    result = run(*kind.chunks, "bad.npz", "--chunk-frames", frames)
    assert (result.exit_code, result.stdout.splitlines()) == (1, whole("begin.npz"))
    assert f"utterance 'bad', chunk from frame {begin} on: {kind.expected}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["in.npz", "--chunk-frames", "0"], 2, "--chunk-frames"),
        (["-", "--chunk-frames", "99999999999999999999"], 2, "of at most 100,000"),
        (["-", "in.npz", "--chunk-frames", "5"], 2, "expected - alone"),
        (["absent.npz", "--chunk-frames", "5"], 1, "absent.npz"),
        (["spaced.npz", "--chunk-frames", "5"], 1, "use --format json"),
    ],
)
def test_bad_arguments(run, kind, arguments, code, said):
    np.savez("spaced.npz", **{"one two": first_utterance()[1]})
    result = run(*kind.chunks, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("format", ["text", "trn", "ctm", "stm"])
def test_formats_and_files(run, kind, tmp_path, format):
    """Without endpoints they are those of all frames at once, on the standard output and in a file."""
    given = ("in.npz", "-f", format, "--frame-shift", "0.02")
    expected = run(*kind.whole, *given).stdout
    assert expected and run(*kind.chunks, *given, "--chunk-frames", 4).stdout == expected
    written = run(*kind.chunks, *given, "--chunk-frames", 4, "-o", tmp_path / "out")
    assert written.exit_code == 0 and written.stdout == "" and (tmp_path / "out").read_text() == expected
    assert list(tmp_path.glob("*.partial")) == []


def test_a_file_that_breaks_off_keeps_what_is_done(run, kind, tmp_path):
    values = dict(np.load("in.npz"))
    name = list(values)[-1]
    values[name] = values[name].copy()
    values[name][1, 2] = np.nan
    np.savez(tmp_path / "nan.npz", **values)
    for format in ("text", "json"):
        result = run(*kind.chunks, tmp_path / "nan.npz", "--chunk-frames", 3, "-f", format, "-o", tmp_path / "out")
        assert result.exit_code == 1 and not (tmp_path / "out").exists()
        lines = (tmp_path / "out.partial").read_text().splitlines()
        assert f"was done, {len(values) - 1} utterance" in " ".join(result.stderr.split())
        assert len(lines) == len(values) - 1 or (format == "json" and '"is_final": true' in lines[-1])


@pytest.mark.parametrize("rounded", [np.float16, np.float32, np.float64])
def test_float64_on_the_standard_input(run, kind, rounded):
    """Log-probs and features; their lower halves are 0 if they were float16 once."""
    _, rows = first_utterance()
    rows = rows.astype(np.float64) + np.random.default_rng(3).uniform(0.0, 0.01, rows.shape)
    rows = np.where(np.isfinite(rows), rows, -50.0).astype(rounded)
    given = (*kind.chunks, "-", "--chunk-frames", "20")
    result = run(*given, input=rows.astype("<f8").tobytes())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "expected float32 values, got what seem to be values of float64; write values.ast" in result.stderr
    assert run(*given, input=rows.astype("<f4").tobytes()).exit_code == 0


@pytest.mark.parametrize(
    ("kind", "name"), [("<f2", "float16"), ("<f8", "float64"), (">f4", "float32 of the other byte order")]
)
def test_values_of_another_type_on_the_standard_input(run, kind, name):
    data = log_probs_of([0, 1, 1, 0, 2, 2, 0, 3])
    data -= np.log(np.exp(data).sum(axis=1, keepdims=True))
    given = ("stream", "graph.arc", "-", "--chunk-frames", "4")
    result = run(*given, input=data.astype(kind).tobytes())
    assert result.exit_code == 1 and result.stdout == ""
    assert f"expected float32 values, got what seem to be values of {name}; write values.astype('<f4')" in result.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of NumPy, about NaN
        noise = run(*given[:-1], "1000", input=np.random.default_rng(1).bytes(4000 * len(data[0])))
    assert noise.exit_code == 1 and "expected finite values or -inf, got" in noise.stderr
    assert run(*given, input=data.tobytes()).stdout == "- ah bee sea\n"
    assert run(*given, input=(3 * data).tobytes()).stdout == "- ah bee sea\n"  # logits, of which a note is there
