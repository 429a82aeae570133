"""Confidences of frames of streams on a GPU, and of streams that move to it and away: under the emulator."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import CudaError
from tests.decode import graphs
from tests.decode.emulated_gpu import TIGHT, DeviceArray
from tests.decode.small_search import ROOMY
from tests.decode.stream_confidences import METHODS, follow
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_frame_confidence import lent
from tests.decode.test_stream_confidences import BATCH
from tests.decode.test_stream_moves_emulated import on_both
from tests.decode.test_streams_emulated import seen
from tests.hypothesis_examples import examples

few = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("most", [5, 60])
def test_any_company_and_moves(gpu, most):
    gpu.begin_with(TIGHT)
    follow(on_both(SILENCE), BATCH, np.random.default_rng(most), METHODS, most, RULES)


@few
@given(
    st.integers(0, 2**32),
    graphs.graphs(blank=3),
    st.lists(graphs.log_probs(max_frames=12), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([TIGHT, ROOMY]),
)
def test_any_graph(emulated_gpu, seed, graph, batch, beam, room):
    emulated_gpu.begin_with(room)
    follow(on_both(graph, beam=beam), batch, np.random.default_rng(seed), METHODS, 4, RULES)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_chunks_on_the_gpu_are_copied_also_those_that_wait(gpu, dtype):
    """In any order of rows, beside streams without confidences; a chunk with NaN leaves no frame."""
    decoder, cpu = on_both(SILENCE)
    speech = SPEECH[:40].astype(dtype)
    requested = ("entropy", None, "max_prob")
    ours, theirs = ([one.stream(endpoint=RULES, frame_confidence=m) for m in requested] for one in (decoder, cpu))
    bad = np.full((3, speech.shape[1]), np.nan, dtype)
    for at in range(0, 40, 10):
        chunk = speech[at : at + 10]
        arrays = [lent(gpu, np.ascontiguousarray(chunk[::-1])[::-1]) for _ in requested]
        found = decoder.decode_chunks(ours, arrays)
        wanted = cpu.decode_chunks(theirs, [chunk] * len(requested))
        refused = decoder.decode_chunks(ours, [lent(gpu, bad) for _ in requested], errors="return")
        assert all(partial.error is not None for partial in refused)
        gpu.fake.library.fake_take_back()
        assert [one.to_dict() for one in found] == [one.to_dict() for one in wanted]
        assert [one.save() for one in ours] == [one.save() for one in theirs]
    assert ours[0].num_waiting > 0
    while theirs[0].partial.endpoint:
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.reset().to_dict() == other.reset().to_dict()


def test_a_copy_that_fails_leaves_streams_as_they_were(gpu):
    decoder, _ = on_both(SILENCE)
    streams = [decoder.stream(frame_confidence=method) for method in ("entropy", None)]
    decoder.decode_chunks(streams, [SPEECH[:5]] * 2)
    before = [(seen(stream.partial), stream.save()) for stream in streams]
    with pytest.raises(CudaError, match="copying from the device"):
        decoder.decode_chunks(streams, [DeviceArray(SPEECH[5:9])] * 2)
    assert [(seen(stream.partial), stream.save()) for stream in streams] == before
    found = decoder.decode_chunks(streams, [lent(gpu, SPEECH[5:9])] * 2)
    assert len(found[0].frame_confidence) == found[1].num_frames == 9
