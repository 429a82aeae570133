"""An assignment to an option of a decoder that has been made would have no effect, so it is an error."""

import pickle

import pytest

import arcbeam
from arcbeam import Batcher, CtcDecoder, TransducerDecoder
from tests.decode import graphs

GRAPH = graphs.random_graph(3, states=20, columns=6)


@pytest.mark.parametrize("option", ["beam", "acoustic_scale", "frame_shift", "language_model", "threads"])
def test_an_option_of_a_decoder(option):
    decoder = CtcDecoder(GRAPH, device="cpu")
    with pytest.raises(AttributeError, match=rf"{option}: an option cannot be changed.*CtcDecoder\(\.\.\., {option}="):
        setattr(decoder, option, 1)
    with pytest.raises(AttributeError, match="CtcDecoder has neither an attribute nor an option 'baem'"):
        decoder.baem = 1.0
    assert pickle.loads(pickle.dumps(decoder)).options == decoder.options


def test_options_of_others(demo_data):
    decoder = TransducerDecoder.from_arrays(demo_data / "transducer.npz", device="cpu")
    with pytest.raises(AttributeError, match="confidence: an option cannot be changed"):
        decoder.confidence = "entropy"
    with Batcher(decoder) as batcher, pytest.raises(AttributeError, match="max_wait_ms: an option cannot be changed"):
        batcher.max_wait_ms = 5


def test_a_class_of_ones_own_has_attributes_of_its_own():
    class Named(CtcDecoder):
        name = "letters"

    decoder = Named(GRAPH, device="cpu")
    decoder.name, decoder.calls = "pieces", 1
    assert isinstance(decoder, arcbeam.CtcDecoder) and (decoder.name, decoder.calls) == ("pieces", 1)


def test_options_of_the_baseline():
    decoder = arcbeam.baseline.LexiconFreeDecoder(["a", "-"], blank="-")
    with pytest.raises(AttributeError, match="beam_size: an option cannot be changed"):
        decoder.beam_size = 3
