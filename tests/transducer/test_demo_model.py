"""The trained TDT of the demo: what it writes for the recordings, to the byte."""

import hashlib
import warnings

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder
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


def test_a_tokenizer_of_another_model(model, encoded):
    decoder = TransducerDecoder.from_arrays(model, device="cpu")
    other = decoder.pieces[1:] + decoder.pieces[:1]
    of_other = BoostingTree(["of clubs"], other)
    for _ in range(2):  # the second decoder is another one
        decoder = TransducerDecoder.from_arrays(model, device="cpu")
        with pytest.warns(UserWarning, match=r"boost\[0\]: the tokens of phrase 'of clubs' are '.*' in the pieces of"):
            decoder.decode(encoded["cards-002"], boost=of_other)
    with pytest.warns(
        UserWarning, match=r"tokenizer: 25\d of 25\d pieces differ from those of .*transducer.npz, such a"
    ):
        swapped = TransducerDecoder.from_arrays(model, device="cpu", tokenizer=other)
    with warnings.catch_warnings(action="error"):
        swapped.decode(encoded["cards-002"], boost=of_other)
        pieces = list(decoder.pieces)
        same_pieces = TransducerDecoder.from_arrays(model, device="cpu", tokenizer=["<unknown>", *pieces[1:]])
        same_pieces.decode(encoded["cards-002"], boost=BoostingTree(["of clubs", (3, 4)], pieces))
        TransducerDecoder.from_arrays(model, device="cpu", tokenizer=None)


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
