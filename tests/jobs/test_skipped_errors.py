"""--skip-errors: what cannot be read or decoded is listed, and the rest is as it would be without it."""

import os
import resource
import shutil
import signal
from functools import partial

import kaldiio
import numpy as np
import pytest

from tests.jobs.conftest import killed_at_rename, outputs, run

OPTIONS = ["--frame-shift", "0.02", "--device", "cpu", "-f", "ctm", "-o", "words"]


@pytest.fixture
def spoiled(speech, recordings, tmp_path):
    """A folder of a manifest with errors of several kinds; and one of what is good of it, and the errors expected."""
    good = list(recordings.items())[:8]
    lines = []
    for name, values in good:
        np.save(tmp_path / f"{name}.npy", values)
        lines.append(f"{name}\t{name}.npy")
    nan = good[0][1].copy()
    nan[3, 5] = np.nan
    np.save(tmp_path / "nan.npy", nan)
    np.save(tmp_path / "narrow.npy", good[1][1][:, :7])
    (tmp_path / "cut.npy").write_bytes((tmp_path / "narrow.npy").read_bytes()[:-100])
    (tmp_path / "good.tsv").write_text("\n".join(lines) + "\n")
    lines[2:2] = ["nan\tnan.npy", "narrow\tnarrow.npy", f"{good[1][0]}\tnan.npy"]
    lines[7:7] = ["gone\tgone.npy", "cut\tcut.npy"]
    (tmp_path / "all.tsv").write_text("\n".join(lines) + "\n")
    return {
        "nan": "log_probs: expected finite values", "narrow": "has 7 columns, the graph expects 29",
        good[1][0]: "occurs twice", "gone": "gone.npy: No such file or directory, and ", "cut": "expected ",
    }  # fmt: skip


@pytest.mark.parametrize("batch_size", [1, 3, 256])
def test_errors_of_many_kinds(speech, spoiled, tmp_path, batch_size):
    graph = speech / "graph.arcbeam"
    assert run(tmp_path, "decode", graph, "good.tsv", *OPTIONS)[0] == 0
    wanted = outputs(tmp_path)["words"]
    assert run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--batch-size", batch_size)[0] == 1
    code, said = run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--skip-errors", "--batch-size", batch_size)
    assert code == 3, said
    assert (tmp_path / "words").read_bytes() == wanted
    rows = [line.split("\t") for line in (tmp_path / "words.errors.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [[name, "all.tsv"] for name in spoiled]
    for (name, _, why), expected in zip(rows, spoiled.values(), strict=True):
        assert expected in why
        assert f"note: all.tsv: utterance {name!r} is left out: {why}" in said
    assert "note: left out 5 utterances: 'nan', 'narrow', " in said and "; words.errors.tsv says why" in said
    # the list goes when there is nothing to list
    assert run(tmp_path, "decode", graph, "good.tsv", *OPTIONS, "--skip-errors")[0] == 0
    assert not (tmp_path / "words.errors.tsv").exists() and (tmp_path / "words").read_bytes() == wanted


@pytest.mark.parametrize("specifier", ["", "ark:"])
def test_files_on_the_command_line_that_are_missing(speech, spoiled, tmp_path, specifier):
    """They are listed without an id, and a run that breaks off counts them, too."""
    graph = speech / "graph.arcbeam"
    inputs = [f"{specifier}gone.ark", "good.tsv", "later.npz"]
    code, said = run(tmp_path, "decode", graph, *inputs, *OPTIONS)
    assert code == 1 and "gone.ark: No such file or directory" in said
    assert run(tmp_path, "decode", graph, "good.tsv", *OPTIONS)[0] == 0
    wanted = outputs(tmp_path)["words"]
    for options in ([], ["--resume"], ["--resume"]):
        code, said = run(tmp_path, "decode", graph, *inputs, *OPTIONS, "--skip-errors", *options)
        assert (code == 3 and "left out 2 utterances: 'gone.ark', 'later.npz'" in said) or "is complete, with 8" in said
        assert (tmp_path / "words").read_bytes() == wanted
        listed = [line.split("\t") for line in (tmp_path / "words.errors.tsv").read_text().splitlines()]
        names = ["gone.ark", "later.npz"]
        assert listed == [["", name, f"{name}: No such file or directory"] for name in names]


def test_without_a_file_the_notes_are_the_list(speech, spoiled, tmp_path):
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", "all.tsv", "--device", "cpu", "--skip-errors")
    assert code == 3 and said.count("is left out") == 5 and said.splitlines()[-1].startswith("note: left out 5 utt")
    assert (tmp_path / "out").read_text().count("\n") == 8


def test_a_run_that_broke_off_goes_on_without_what_broke_it(speech, spoiled, tmp_path):
    graph = speech / "graph.arcbeam"
    assert run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--skip-errors")[0] == 3
    wanted = outputs(tmp_path)
    for name in wanted:
        if name.startswith("words"):
            os.unlink(tmp_path / name)
    code, said = run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--batch-size", 2)
    assert code == 1 and "the same command with --resume goes on" in said
    code, said = run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--resume", "--skip-errors")
    assert code == 3 and "note: going on after 2 utterances" in said
    found = outputs(tmp_path)
    del found["words.journal"]
    assert found == wanted
    # and it has ended
    code, said = run(tmp_path, "decode", graph, "all.tsv", *OPTIONS, "--resume", "--skip-errors")
    assert code == 3 and "words is complete, with 8 utterances" in said and "left out 5" in said


@pytest.mark.parametrize("number", range(2, 9))
def test_a_run_with_errors_that_is_killed(speech, spoiled, tmp_path, number):
    """The list of errors goes on, too, and so does their number."""
    arguments = ["decode", speech / "graph.arcbeam", "all.tsv", *OPTIONS, "--skip-errors", "--batch-size", 3]
    assert run(tmp_path, *arguments)[0] == 3
    wanted = outputs(tmp_path)
    for name in ("words", "words.errors.tsv"):
        (tmp_path / name).unlink()
    assert run(tmp_path, *arguments, before=partial(killed_at_rename, number))[0] == -signal.SIGKILL
    code, said = run(tmp_path, *arguments, "--resume")
    assert code == 3 and "note: left out 5 utterances" in said
    assert "wrote words: 8 utterances" in said or "words is complete, with 8 utterances" in said
    found = outputs(tmp_path)
    del found["words.journal"]
    assert found == wanted


@pytest.mark.parametrize("kind", ["ark", "npz"])
def test_a_broken_file_among_others(speech, recordings, tmp_path, kind):
    """What comes before the break is decoded, and what comes in other files."""
    named = dict(list(recordings.items())[:6])
    file = tmp_path / f"a.{kind}"
    if kind == "ark":
        kaldiio.save_ark(str(file), {name: values.astype(np.float32) for name, values in named.items()})
        file.write_bytes(file.read_bytes()[:-50])
    else:
        np.savez_compressed(file, **named)
        content = bytearray(file.read_bytes())
        content[len(content) // 2 : len(content) // 2 + 20] = bytes(20)
        file.write_bytes(content)
    shutil.copy(speech / "log_probs.npz", tmp_path / "b.npz")
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", file, "b.npz", *OPTIONS)
    assert code == 1 and said.count("error: ") == 1 and f"a.{kind}" in said
    code, said = run(tmp_path, "decode", speech / "graph.arcbeam", file, "b.npz", *OPTIONS, "--skip-errors")
    assert code == 3
    # an archive's break is also told for the rest of the file, which cannot be found
    wanted = {"ark": [[*named][-1], ""], "npz": None}[kind]
    failed = [line.split("\t")[0] for line in (tmp_path / "words.errors.tsv").read_text().splitlines()]
    assert failed == wanted or (wanted is None and len(failed) == 1 and failed[0] in named)
    ids = {line.split()[0] for line in (tmp_path / "words").read_text().splitlines()}
    assert ids == {*np.load(speech / "log_probs.npz")["ids"], *named} - {*failed}


def test_alignment(speech, recordings, demo_data, tmp_path):
    np.savez(tmp_path / "in.npz", **recordings)
    said = [line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines()]
    said[4][1] += " 5"  # which no token of the model spells
    del said[7]
    (tmp_path / "texts.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in said))
    code, _ = run(
        tmp_path, "align", speech / "graph.arcbeam", "in.npz", "texts.tsv", *OPTIONS, "--skip-errors", "--batch-size", 4
    )
    failed = [line.split("\t") for line in (tmp_path / "words.errors.tsv").read_text().splitlines()]
    assert code == 3 and [name for name, _, _ in failed] == [list(recordings)[4], list(recordings)[7]]
    assert "spell, got '5'" in failed[0][2] and "texts.tsv lacks 1 utterance" in failed[1][2]


@pytest.mark.parametrize("left", [5_000, 20_001])
def test_a_full_disk(speech, tmp_path, left):
    """The limit of a file's size stands for it; with room again, the run goes on."""
    arguments = ["decode", speech / "graph.arcbeam", speech / "log_probs.npz", *OPTIONS, "--batch-size", 8]
    (tmp_path / "whole").mkdir()
    assert run(tmp_path / "whole", *arguments)[0] == 0
    wanted = outputs(tmp_path / "whole")["words"]
    code, said = run(tmp_path, *arguments, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (left, left)))
    assert code == 1 and said.count("error: ") == 1 and "error: words: File too large" in said
    kept = (tmp_path / "words.partial").read_bytes()
    assert wanted.startswith(kept) and kept.endswith(b"\n") and 0 <= left - len(kept) < 2_000
    code, said = run(tmp_path, *arguments, "--resume")
    assert code == 0 and "note: going on after " in said
    assert (tmp_path / "words").read_bytes() == wanted


@pytest.mark.parametrize("command", ["decode", "align"])
def test_references_of_what_is_left_out(speech, spoiled, demo_data, tmp_path, command):
    """They count neither as missing nor as errors, also after a run that broke off."""
    names = {line.split("\t")[0] for line in (tmp_path / "good.tsv").read_text().splitlines()}
    lines = [line for line in (demo_data / "reference.tsv").read_text().splitlines() if line.split("\t")[0] in names]
    others = ["nan\ta", "narrow\ta", "gone\ta", "cut\ta"]
    (tmp_path / "said.tsv").write_text("".join(f"{line}\n" for line in [*lines, *others]))
    graph, texts = speech / "graph.arcbeam", ["-r", "said.tsv"] if command == "decode" else ["said.tsv"]
    code, said = run(tmp_path, command, graph, "all.tsv", *texts, *OPTIONS, "--skip-errors")
    assert code == 3 and "left out 5 utterances" in said, said
    if command == "decode":
        assert f" of {len(lines)} utterances with errors" in (tmp_path / "out").read_text()
