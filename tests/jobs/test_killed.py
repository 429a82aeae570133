"""Jobs that are killed: the next run with --resume leaves the bytes of one that was not disturbed."""

import os
import random
import signal
import time
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from arcbeam.core.errors import FormatError
from arcbeam.jobs.journal import Journal, Position, started_with
from tests.jobs.conftest import command, killed_at_rename, often, outputs, run

FORMATS = (
    ["-f", "text"], ["-f", "trn"], ["-f", "json", "--lattice-beam", "0.5", "--lattice", "ark,scp:l.ark,l.scp"],
    ["-f", "ctm"], ["-f", "stm"], ["-f", "json", "--lattice-beam", "0.5", "--nbest", "2", "--confidence"],
)  # fmt: skip


def arguments(speech, *options, batch_size=8):
    return [
        "decode", speech / "graph.arcbeam", speech / "log_probs.npz", "--frame-shift", "0.02", "--device", "cpu",
        "--batch-size", batch_size, "-o", "words", *options,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(speech, tmp_path_factory):
    """{options: (files, seconds)} of runs that nothing disturbs."""
    found = {}
    for options in FORMATS:
        folder = tmp_path_factory.mktemp("undisturbed")
        began = time.monotonic()
        assert run(folder, *arguments(speech, *options), before=often)[0] == 0
        found[tuple(options)] = outputs(folder), time.monotonic() - began
    return found


def without_journal(files):
    """What is left of a job that was resumed, whose journal says that it is complete."""
    assert b'"is_complete": true' in files["words.journal"]
    return {name: content for name, content in files.items() if name != "words.journal"}


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_a_random_time(speech, undisturbed, tmp_path, seed):
    draw = random.Random(seed)
    options = FORMATS[seed % len(FORMATS)]
    wanted, seconds = undisturbed[tuple(options)]
    for _ in range(2 if seed % 4 == 0 else 1):
        child = command(tmp_path, *arguments(speech, *options, "--resume"), before=often)
        time.sleep(draw.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    code, said = run(tmp_path, *arguments(speech, *options, "--resume"))
    assert code == 0, said
    assert without_journal(outputs(tmp_path)) == wanted


@pytest.mark.parametrize("seed", range(5))
def test_an_hour_of_speech_is_killed(speech, arcbeam_data, tmp_path, seed):
    """760 utterances, with the time of the journal's entries as it is."""
    draw = random.Random(seed)
    inputs = arcbeam_data / "throughput" / "log_probs.npz"
    job = ["decode", speech / "graph.arcbeam", inputs, "-o", "words", "-f", "json", "--batch-size", 32, "--resume"]
    (tmp_path / "whole").mkdir()
    began = time.monotonic()
    assert run(tmp_path / "whole", *job)[0] == 0
    seconds = time.monotonic() - began
    for _ in range(4):
        child = command(tmp_path, *job)
        time.sleep(draw.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert run(tmp_path, *job)[0] == 0
    assert without_journal(outputs(tmp_path)) == without_journal(outputs(tmp_path / "whole"))


def test_killed_before_each_change_of_a_name(speech, undisturbed, tmp_path):
    """The journal is replaced after each batch, and at the end the files get their names."""
    options = FORMATS[2]
    wanted, _ = undisturbed[tuple(options)]
    for number in range(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        kill = partial(killed_at_rename, number, after=False)
        code, said = run(folder, *arguments(speech, *options, batch_size=40), before=kill)
        if code == 0:
            break
        assert code == -signal.SIGKILL, said
        code, said = run(folder, *arguments(speech, *options, "--resume"))
        assert code == 0, said
        assert without_journal(outputs(folder)) == wanted, number
    assert number == 9  # the journal's beginning, its three batches and its end, and three files


def test_a_job_that_has_ended_is_not_done_again(speech, undisturbed, tmp_path):
    options = FORMATS[2]
    assert run(tmp_path, *arguments(speech, *options, "--resume"))[0] == 0
    before = (tmp_path / "words").stat()
    code, said = run(tmp_path, *arguments(speech, *options, "--resume"))
    assert (code, said) == (0, "note: words is complete, with 104 utterances: nothing is left to do\n")
    assert (tmp_path / "words").stat().st_mtime_ns == before.st_mtime_ns
    assert without_journal(outputs(tmp_path)) == undisturbed[tuple(options)][0]
    whole = (tmp_path / "words").read_bytes()
    (tmp_path / "words").write_bytes(b"x" * len(whole))  # which is not noticed
    assert "nothing is left to do" in run(tmp_path, *arguments(speech, *options, "--resume"))[1]
    (tmp_path / "words").write_bytes(whole + b"x\n")  # then it is
    assert run(tmp_path, *arguments(speech, *options, "--resume"))[0] == 0
    assert without_journal(outputs(tmp_path)) == undisturbed[tuple(options)][0]
    (tmp_path / "words").unlink()  # and then, too
    assert run(tmp_path, *arguments(speech, *options, "--resume"))[0] == 0
    assert without_journal(outputs(tmp_path)) == undisturbed[tuple(options)][0]


def stopped(speech, tmp_path, *options):
    """A job that was killed in its middle."""
    before = partial(killed_at_rename, 8)
    assert run(tmp_path, *arguments(speech, *options), before=before)[0] == -signal.SIGKILL


def test_the_word_error_rate_of_a_resumed_job_is_that_of_the_whole(speech, tmp_path):
    scored = ["--reference", speech / "reference.tsv"]
    (tmp_path / "whole").mkdir()
    assert run(tmp_path / "whole", *arguments(speech, *scored))[0] == 0
    wanted = (tmp_path / "whole" / "out").read_text()
    assert "WER " in wanted and "greedy decoding: WER" in wanted
    stopped(speech, tmp_path, *scored)
    code, said = run(tmp_path, *arguments(speech, *scored, "--resume"))
    assert code == 0 and "note: going on after 56 utterances" in said
    assert (tmp_path / "out").read_text() == wanted


def test_alignments_of_some(speech, tmp_path):
    """Utterances without a text are passed over, and counted as taken alone."""
    lines = (speech / "reference.tsv").read_text().splitlines(keepends=True)
    (tmp_path / "some.tsv").write_text("".join(lines[::2]))
    align = ["align", speech / "graph.arcbeam", speech / "log_probs.npz", "some.tsv", "--frame-shift", "0.02"]
    align += ["-o", "words", "--batch-size", 8, "--allow-missing"]
    code, said = run(tmp_path, *align)
    assert code == 0 and "wrote words: 52 utterances" in said and "aligned 52 utterances" in said
    wanted = outputs(tmp_path)
    (tmp_path / "words").unlink()
    assert run(tmp_path, *align, before=partial(killed_at_rename, 8))[0] == -signal.SIGKILL
    code, said = run(tmp_path, *align, "--resume")
    assert code == 0 and "wrote words: 52 utterances" in said and "aligned 24 utterances" in said
    assert without_journal(outputs(tmp_path)) == wanted


def test_a_refusal_has_times_that_can_be_read(tmp_path):
    text = str(tmp_path / "text.txt")
    Path(text).touch()

    def journal(nanoseconds, **options):
        os.utime(text, ns=(0, nanoseconds))
        return Journal(str(tmp_path / "out"), started_with({"text": [text], **options}, ["text"], []))

    journal(1_800_000_000_000_000_000, shard=None, boost=[]).write(Position())
    with pytest.raises(FormatError) as caught:
        journal(1_800_000_000_000_000_007, shard="1/2", boost=["a"]).read()
    day = datetime.fromtimestamp(1_800_000_000)
    assert f"text.txt of 0 bytes, changed at {day}.000000007, and was " in str(caught.value)
    assert f"text.txt of 0 bytes, changed at {day}.000000000; " in str(caught.value)
    assert "--shard is 1/2, and was not given; --boost is a, and was not given. " in str(caught.value)


def test_other_options_or_inputs_are_refused(speech, tmp_path):
    stopped(speech, tmp_path)
    before = outputs(tmp_path)
    for options, reason in (
        (["--beam", "3"], "others: --beam is 3.0, and was 17.0."),
        (["-f", "json"], "others: --format is json, and was text."),
        ([str(speech / "log_probs.npz")], "others: the number of inputs is 2, and was 1; input 2 is "),
        (["--shard", "1/2"], "others: --shard is 1/2, and was not given."),
    ):
        code, said = run(tmp_path, *arguments(speech, *options, "--resume"))
        assert code == 1 and said.startswith("error: words.journal: expected the options and inputs"), said
        assert reason in said and "leave out --resume to begin anew" in said
        assert outputs(tmp_path) == before
    assert run(tmp_path, *arguments(speech, "--resume", "--threads", "1", "--batch-size", "3"))[0] == 0
    stopped(speech, tmp_path)
    os.utime(speech / "log_probs.npz")
    code, said = run(tmp_path, *arguments(speech, "--resume"))
    assert code == 1 and f"others: input 1 is {speech / 'log_probs.npz'} of " in said


def test_an_output_that_was_cut_since(speech, tmp_path):
    stopped(speech, tmp_path)
    os.truncate(tmp_path / "words.partial", 10)
    code, said = run(tmp_path, *arguments(speech, "--resume"))
    assert code == 1 and "words.partial: expected at least" in said and "got 10; leave out --resume" in said
    (tmp_path / "words.journal").write_text("{}")
    code, said = run(tmp_path, *arguments(speech, "--resume"))
    assert code == 1 and "words.journal: expected the journal of a job" in said
    assert run(tmp_path, *arguments(speech))[0] == 0
    assert set(outputs(tmp_path)) == {"words"}


@pytest.mark.parametrize("output", ["-", "/dev/null"])
def test_what_cannot_be_resumed(speech, tmp_path, output):
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", speech / "log_probs.npz", "-o", output, "--resume")
    assert code == 2 and "expected --output with a file" in " ".join(said.replace("│", " ").split())
    for option in (["--resume"], ["--shard", "1/2"]):
        code, said = run(tmp_path, "decode", speech / "graph.arcbeam", "ark:-", "-o", "words", *option)
        assert code == 2 and "the standard input, which can be read only once" in " ".join(
            said.replace("│", " ").split()
        )


def test_lattices_to_what_cannot_be_resumed(speech, tmp_path):
    """They go to a pipe as they do without a journal, but not with --resume."""
    os.mkfifo(tmp_path / "pipe")
    lattices = ["--lattice-beam", "0.5", "--lattice"]
    assert run(tmp_path, *arguments(speech, *lattices, "l.ark"))[0] == 0
    child = command(tmp_path, *arguments(speech, *lattices, "pipe"))
    assert (tmp_path / "pipe").read_bytes() == (tmp_path / "l.ark").read_bytes()
    assert os.waitpid(child, 0)[1] == 0
    code, said = run(tmp_path, *arguments(speech, *lattices, "ark:-", "--resume"))
    assert code == 2 and "expected a file for --lattice" in said
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    code, said = run(tmp_path, *arguments(speech, *lattices, "pipe", "--resume"))
    os.close(reader)
    assert code == 1 and "--resume: expected files, which a run can go on with, got pipe" in said
