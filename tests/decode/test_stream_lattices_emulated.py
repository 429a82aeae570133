"""Lattices of streams on a GPU are the CPU's bytes: the kernels under the emulator, and the host around them."""

import math

import numpy as np
import pytest

from arcbeam import CtcDecoder
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_stream_lattices import REQUESTED
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import INTERIM, LATTICES, SOME, small_states
from tests.decode.wholes import check, conform

__all__ = ["INTERIM", "LATTICES", "SOME", "small_states"]  # for streams with models, and on a GPU
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def sentences():
    """Endpoints, chunks after them, and the sentences that follow with the frames that wait."""
    decoders = [CtcDecoder(SILENCE, device=on, **LATTICES) for on in ("cuda", "cpu")]
    [pair] = conform(decoders, [SPEECH[:90]], np.random.default_rng(3), [boost(1)], 9, RULES, [REQUESTED], share=0.0)
    assert len(pair.finals) > 3


def test_a_state_is_given_back_with_its_lattice(gpu):
    decoder = CtcDecoder(SILENCE, device="cuda", **LATTICES)
    last, ended = decoder.stream(**REQUESTED), decoder.stream(endpoint=RULES, **REQUESTED)
    decoder.decode_chunks([last], [SPEECH[:9]])
    assert decoder.memory().streams > 0
    decoder.decode_chunks([last, ended], [SPEECH[9:20], SPEECH[:60]], last=[True, False])
    assert ended.partial.endpoint is not None and decoder.memory().streams == 0
    final, wrong = ended.partial, SPEECH[:9].copy()
    wrong[4, 2] = np.nan
    with pytest.raises(ValueError, match="frame 4"):
        ended.decode_chunk(wrong)
    waiting = ended.num_waiting
    assert ended.decode_chunk(SPEECH[:9]) is final and ended.num_waiting == waiting + 9
    assert decoder.memory().streams == 0
    check([last.partial, final], decoder.decode([SPEECH[:20], SPEECH[: final.num_frames]], **REQUESTED))


def test_a_state_too_large_for_the_lanes(gpu):
    """A lane that begins with little room takes a long sentence's state from one that has had more."""
    gpu.begin_with(TIGHT)
    decoder = CtcDecoder(GRAPH, device="cuda", **LATTICES | {"lattice_beam": math.inf})
    stream = decoder.stream(**REQUESTED)
    for at in range(0, 64, 32):
        decoder.decode_chunks([stream], [BATCH[5][at : at + 32]])
        decoder.release()
    check([stream.finish()], decoder.decode([BATCH[5]], **REQUESTED))


def test_streams_that_keep_links_need_a_lattice_beam(gpu):
    engine = CtcDecoder(GRAPH, device="cuda", **LATTICES)._search.engine
    stream, nothing = engine.new_stream(lattice_beam=4.0), np.zeros((1, 4), np.int64)
    with pytest.raises(ValueError, match="lattice_beam: expected a cost, because there are streams that keep links"):
        engine.decode(nothing, 12, False, streams=[stream], last=[False])


def test_streams_that_have_ended_give_no_lattice():
    """They end one after another, so the memory of lattices has room for those of a few, and would have to grow."""
    with scheduled(shape=Shape(lanes=4)) as gpu:
        decoder = CtcDecoder(SILENCE, device="cuda", **LATTICES)
        streams = [decoder.stream(endpoint=RULES, lattice=True) for _ in range(8)]
        rounds = []
        for at in range(0, 90, 6):
            live, before = streams[: at // 6 + 1], len(gpu.launches)
            chunks = [SPEECH[at - 6 * i : at - 6 * i + 6] for i in range(len(live))]
            ended = [part.endpoint is not None for part in decoder.decode_chunks(live, chunks)]
            rounds.append((len(gpu.launches) - before, sum(ended)))
        del decoder, streams, live
    assert rounds[-4:] == [(1, 8)] * 4
