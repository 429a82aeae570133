"""The trained TDT of the demo: what it writes for the recordings, to the byte."""

import hashlib

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from tests.transducer.equality import same

WRITTEN = {
    "0870": "and mister john dashwood had then leisure to consider how much there might be prudently in his power to "
    "do for them",
    "0880": "he was not an ill disposed young man",
    "0890": "unless to be rather cold hearted and rather as selfish is to be ill disposed",
    "0920": "had he married a more amiable woman he might have been made still more respectable than he was",
    "0930": "he might even have been made amiable himself",
    "cards-001": "ten of clubs",
    "cards-002": "four queen of cloves",
    "cards-003": "seven offlubs",
    "cards-004": "five five",
    "cards-005": "eight of spades four of cloves seven of heards",
    "goforward": "go forward ten meters",
    "numbers": "thirty three four six ninety towo",
    "something": "go somewhere and do something",
}
DIGEST = "12d0ee5bd3161ff71eba84c74e70fac8104671a67cc82ea8d68691e4fc40dd42"


@pytest.fixture(scope="module")
def model(demo_data):
    return demo_data / "transducer.npz"


@pytest.fixture(scope="module")
def encoded(demo_data):
    with np.load(demo_data / "encoder_output.npz") as file:
        return {name: file[name] for name in file}


def test_what_it_writes(model, encoded):
    decoder = TransducerDecoder.from_arrays(model, device="cpu", confidence="max_prob")
    found = dict(zip(encoded, decoder.decode(list(encoded.values())), strict=True))
    assert {name: one.text for name, one in found.items()} == WRITTEN
    assert decoder.options.durations == (0, 1, 2, 3, 4) and {1, 2, 3, 4} <= set(found["0870"].durations.tolist())
    digest = hashlib.sha256()
    for one in found.values():
        for values in (one.tokens, one.frames, one.durations, one.log_probs, one.confidence):
            digest.update(values.tobytes())
    assert digest.hexdigest() == DIGEST
    alone = TransducerDecoder.from_arrays(model, device="cpu", confidence="max_prob", threads=1)
    same([alone.decode([rows.astype(np.float32)])[0] for rows in encoded.values()], list(found.values()))


def test_files_are_small(model, demo_data):
    assert model.stat().st_size <= 1 << 20
    assert (demo_data / "encoder_output.npz").stat().st_size <= 1 << 19
    with np.load(model) as file:
        weights = [file[name] for name in file if name.endswith(("weight", "bias", "_l0")) or name == "embedding"]
        assert {values.dtype for values in weights} == {np.dtype(np.float16)}
        assert len(weights) == 11
