"""Jobs of real utterances, the demo's recordings again and again under other ids, and commands that decode them."""

import os
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import arcbeam
import arcbeam.cli.graphs
import arcbeam.cli.models
import arcbeam.cli.run
import arcbeam.ctc.decoder
import arcbeam.lattices.archives  # what each process of a job would import anew
from arcbeam.cli.app import app
from arcbeam.jobs import job


@pytest.fixture(scope="session")
def recordings(demo_data):
    """{id: log-probs} of the demo."""
    with np.load(demo_data / "log_probs.npz") as file:
        return dict(
            zip(file["ids"].tolist(), np.split(file["log_probs"], np.cumsum(file["lengths"])[:-1]), strict=True)
        )


@pytest.fixture(scope="session")
def speech(tmp_path_factory, demo_data, recordings):
    """A folder with a graph, references and texts, and 104 utterances as log_probs.npz."""
    folder = tmp_path_factory.mktemp("speech")
    arcbeam.Graph.greedy(demo_data / "tokens.txt").save(folder / "graph.arcbeam")
    assert CliRunner().invoke(app, ["info", str(folder / "graph.arcbeam")]).exit_code == 0  # which imports more
    said = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    names = [(f"{name}-{again}", name) for again in range(8) for name in recordings]
    whole = [recordings[name] for _, name in names]
    np.savez(
        folder / "log_probs.npz", log_probs=np.concatenate(whole), lengths=[len(one) for one in whole],
        ids=[new for new, _ in names],
    )  # fmt: skip
    (folder / "reference.tsv").write_text("".join(f"{new}\t{said[name]}\n" for new, name in names))
    return folder


def command(folder, *arguments, before=lambda: None):
    """The exit code of ``arcbeam`` in a process of its own, in `folder`, after `before`; its messages are in `said`."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            for name, number in (("out", 1), ("said", 2)):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            sys.argv = ["arcbeam", *map(str, arguments)]
            before()
            from arcbeam.cli import main

            main()
            code = 0
        except SystemExit as error:
            code = error.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def run(folder, *arguments, before=lambda: None):
    """The exit code and the messages of ``arcbeam`` in `folder`."""
    _, status = os.waitpid(command(folder, *arguments, before=before), 0)
    return os.waitstatus_to_exitcode(status), Path(folder, "said").read_text()


def outputs(folder):
    """The content of the files of a job."""
    left = {"out", "said"}
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file() and path.name not in left}


def often():
    """The journal is written after each batch."""
    job.BETWEEN_SAVES = -1.0


def killed_at_rename(number, after=True):
    """The process is killed before or after the change of the name of a file, the first of which is number 1."""
    often()
    rename, left = os.replace, [number]

    def replace(*names):
        left[0] -= 1
        if left[0] == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*names)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
