"""Sentences of transducers' streams on a real GPU: the CPU's bytes, of frames in either memory, also after a move."""

import numpy as np
import pytest

from tests.transducer.test_transducer_sentences import KINDS, RULES, SPEECH, WANTED, decoder, followed, same_sentences
from tests.transducer.test_transducer_stream_states import moving


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_that_move_between_devices(kind):
    cpu, one = decoder(kind), decoder(kind, device="cuda")
    for seed, most in ((0, 5), (1, 60)):
        rng = np.random.default_rng(seed)
        found = followed(one.stream(endpoint=RULES), SPEECH, rng, most, moving([one, cpu], rng))
        same_sentences(found, WANTED[kind], cpu, SPEECH)


@pytest.mark.parametrize("type_name", ["float32", "float16"])
def test_chunks_on_the_gpu(type_name):
    """Frames of theirs that wait are copied to the host's memory."""
    torch = pytest.importorskip("torch")
    rounded = SPEECH.astype(type_name)
    cpu, one = decoder("tdt"), decoder("tdt", device="cuda")
    there, here = one.stream(endpoint=RULES), cpu.stream(endpoint=RULES)
    for at in range(0, len(SPEECH), 37):
        there.decode_chunk(torch.from_numpy(rounded[at : at + 37]).cuda())
        here.decode_chunk(rounded[at : at + 37])
        assert there.save() == here.save()
        while there.partial.endpoint and at % 2:
            there.reset()
            here.reset()
            assert there.save() == here.save()
    bad = torch.full((3, SPEECH.shape[1]), float("nan")).cuda()
    while there.partial.endpoint is None:
        there.decode_chunk(torch.zeros((10, SPEECH.shape[1])).cuda())
    with pytest.raises(ValueError, match="got nan in utterance 0, frame 0, feature 0"):
        there.decode_chunk(bad)
