"""A warning about batches [frames, batch, columns], of speech, and none about batches that are as they should be."""

import warnings

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, TransducerDecoder, read_log_probs
from arcbeam.arrays.input_warnings import TimeFirstCheck
from arcbeam.files.log_probs import find_inputs, read_all

MESSAGE = r"log_probs: expected \[batch, frames, columns\], got \[355, 13, 29\], in which .* is it \[frames, batch"


@pytest.fixture(scope="module")
def speech(demo_data):
    """float32 [13 utterances, 355 frames, 29 columns], padded with the blank."""
    found = [one.log_probs for one in read_all(find_inputs([str(demo_data / "log_probs.npz")]))]
    batch = np.full((len(found), max(map(len, found)), 29), -20.0, np.float32)
    batch[:, :, 28] = 0.0
    for one, rows in zip(batch, found, strict=True):
        one[: len(rows)] = rows
    return batch


@pytest.fixture
def decoder(demo_data):
    return CtcDecoder(Graph.greedy(demo_data / "tokens.txt"), beam=0.0, device="cpu")


def test_time_first_is_warned_of_once(decoder, speech):
    with pytest.warns(UserWarning, match=MESSAGE):
        decoder.decode(speech.transpose(1, 0, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "log_probs: expected the blank")
        decoder.decode(speech.transpose(1, 0, 2))


def test_one_utterance_time_first(decoder, speech):
    with pytest.warns(
        UserWarning, match=r"got \[355, 1, 29\], which are utterances of one frame: is it \[frames, batch"
    ):
        decoder.decode(speech[:1].transpose(1, 0, 2))


def test_a_file_time_first(speech, tmp_path):
    path = tmp_path / "batch.npy"
    np.save(path, speech.transpose(1, 0, 2))
    with pytest.warns(
        UserWarning, match=r"batch.npy: expected \[batch, frames, columns\], got \[355, 13, 29\], in which"
    ):
        assert len(list(read_log_probs(path))) == 355
    np.save(path, speech)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(read_log_probs(path))) == 13


def test_lengths_say_so_at_once(decoder, speech):
    with pytest.raises(ValueError, match=r"got shape \(13,\); is the batch \[frames, batch, \.\.\.\]\? Transpose it"):
        decoder.decode(speech.transpose(1, 0, 2), [100] * 13)
    with pytest.raises(ValueError, match=r"got shape \(12,\)$"):
        decoder.decode(speech.transpose(1, 0, 2), [100] * 12)


def test_short_utterances_are_none(decoder, speech):
    pieces = speech[:, :340].reshape(-1, 10, 29)  # 442 of 10 frames, one after the other
    rng = np.random.default_rng(1)
    batches = {
        "speech": speech, "pieces in order": pieces, "pieces": rng.permutation(pieces),
        "one again and again": np.repeat(pieces[:1], 40, axis=0), "few": speech[:, :15].transpose(1, 0, 2),
        "noise": np.log(rng.dirichlet(np.ones(29), (400, 20))).astype(np.float32),
        "none": np.empty((40, 0, 29), np.float32), "-inf": np.full((40, 3, 29), -np.inf, np.float32),
    }  # fmt: skip
    for batch in batches.values():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TimeFirstCheck("log_probs", "columns")(batch, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decoder.decode(speech)


def test_transducers(demo_data):
    found = [one.log_probs for one in read_all(find_inputs([str(demo_data / "encoder_output.npz")]))]
    batch = np.zeros((max(map(len, found)), len(found), found[0].shape[1]), np.float32)
    for at, rows in enumerate(found):
        batch[: len(rows), at] = rows
    decoder = TransducerDecoder.from_arrays(demo_data / "transducer.npz", device="cpu")
    with pytest.warns(UserWarning, match=r"encoder_output: expected \[batch, frames, features\], got \[89, 13, 256\]"):
        decoder.decode(batch)
