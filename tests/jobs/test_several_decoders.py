"""A job that several decoders share, as with --device cuda:all: the output is that of one."""

import numpy as np
import pytest

import arcbeam
from arcbeam.gpu import devices
from tests.jobs.conftest import outputs, run


def on_three_devices():
    """Three decoders on the CPU stand for those of three GPUs."""
    devices.all_devices = lambda device: ["cpu"] * 3 if device == "cuda:all" else [device]


@pytest.mark.parametrize("batch_size", [1, 4, 256])
def test_the_bytes_are_those_of_one(speech, tmp_path, batch_size):
    graph, inputs = speech / "graph.arcbeam", speech / "log_probs.npz"
    options = ["-f", "json", "-o", "words", "--confidence", "--lattice-beam", "0.5", "--lattice", "l.ark"]
    assert run(tmp_path, "decode", graph, inputs, *options, "--device", "cpu")[0] == 0
    wanted = outputs(tmp_path)
    code, said = run(
        tmp_path, "decode", graph, inputs, *options, "--device", "cuda:all", "--batch-size", batch_size,
        before=on_three_devices,
    )  # fmt: skip
    assert code == 0 and said.count("cpu, ") == 3
    assert outputs(tmp_path) == wanted


def test_alignments_and_warnings(speech, recordings, tmp_path):
    """A warning names its utterance, whichever decoder it comes from."""
    named = dict(recordings)
    odd = list(named)[9]
    named[odd] = named[odd].astype(np.float32) + 1.0
    np.savez(tmp_path / "in.npz", **named)
    texts = tmp_path / "texts.tsv"
    texts.write_text("".join(
        line + "\n" for line in (speech / "reference.tsv").read_text().replace("-0\t", "\t").splitlines()
        if line.split("\t")[0] in named
    ))  # fmt: skip
    arguments = ["align", speech / "graph.arcbeam", "in.npz", "texts.tsv", "--frame-shift", "0.02", "-o", "words"]
    assert run(tmp_path, *arguments, "--device", "cpu")[0] == 0
    wanted, notes = outputs(tmp_path), [line for line in (tmp_path / "said").read_text().splitlines() if "note" in line]
    assert len(notes) == 1 and f"utterance {odd!r}" in notes[0]
    assert run(tmp_path, *arguments, "--device", "cuda:all", before=on_three_devices)[0] == 0
    assert outputs(tmp_path) == wanted
    assert [line for line in (tmp_path / "said").read_text().splitlines() if "note" in line] == notes


def test_python_takes_one_device():
    with pytest.raises(ValueError, match=r'device: expected one GPU, got "cuda:all".*make a decoder for each'):
        arcbeam.DecoderOptions(device="cuda:all")


def test_a_machine_without_a_gpu(speech, tmp_path):
    if devices.why_no_cuda() is None:
        pytest.skip("there is a GPU")
    arguments = ["decode", speech / "graph.arcbeam", speech / "log_probs.npz", "--device", "cuda:all", "-o", "words"]
    code, said = run(tmp_path, *arguments)
    assert code == 1 and said == f"error: {devices.why_no_cuda()}\n"
    assert outputs(tmp_path) == {}
