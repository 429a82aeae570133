"""The same jobs of ``arcbeam transduce``."""

import numpy as np
import pytest

from tests.cli.transducer_models import write_models
from tests.jobs.conftest import outputs, run
from tests.jobs.test_several_decoders import on_three_devices
from tests.transducer.networks import random_frames


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    write_models(folder)
    return folder / "m.nemo"


def arguments(model, *options):
    return ["transduce", model, "in.npz", "-f", "json", "-o", "words", "--batch-size", "3", *options]


def test_shards_errors_and_what_goes_on(model, tmp_path):
    frames = {f"u{number}": random_frames(number, 5 + 3 * number) for number in range(11)}
    np.savez(tmp_path / "in.npz", **frames)
    assert run(tmp_path, *arguments(model))[0] == 0
    whole = (tmp_path / "words").read_bytes()
    assert whole.count(b"\n") == 11
    parts = b""
    for number in (1, 2, 3):
        assert run(tmp_path, *arguments(model, "--shard", f"{number}/3"))[0] == 0
        parts += (tmp_path / "words").read_bytes()
    assert parts == whole
    assert run(tmp_path, *arguments(model, "--device", "cuda:all"), before=on_three_devices)[0] == 0
    assert (tmp_path / "words").read_bytes() == whole

    frames["u7"][2, 1] = np.inf
    np.savez(tmp_path / "in.npz", **frames)
    lines = whole.splitlines(keepends=True)
    code, said = run(tmp_path, *arguments(model))
    assert code == 1 and "utterance 'u7': encoder_output: expected finite values" in said
    assert (tmp_path / "words.partial").read_bytes() == b"".join(lines[:7])
    code, said = run(tmp_path, *arguments(model, "--resume", "--skip-errors"))
    assert code == 3 and "note: going on after 6 utterances" in said
    assert outputs(tmp_path)["words"] == b"".join(lines[:7] + lines[8:])
    assert (tmp_path / "words.errors.tsv").read_text().startswith("u7\tin.npz\tencoder_output: expected finite values")


@pytest.mark.parametrize("option", [["--resume"], ["--shard", "1/2"], ["--skip-errors"]])
def test_chunks_take_no_such_option(model, tmp_path, option):
    code, said = run(tmp_path, *arguments(model)[:-2], "--chunk-frames", "5", *option)
    assert code == 2 and "leave it out: --chunk-frames decodes one utterance after another" in " ".join(
        said.replace("│", " ").split()
    )
