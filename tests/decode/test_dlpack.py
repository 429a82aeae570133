"""Arrays of other libraries, taken by DLPack without a copy."""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.log_probs import as_utterances
from tests.decode import graphs


class Foreign:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_memory_is_shared(dtype):
    array = np.zeros((2, 3, 4), dtype=dtype)
    utterances = as_utterances(Foreign(array), Foreign(np.array([3, 2])), columns=4, exact=True)
    assert utterances.table[:, 0].tolist() == [array[0].ctypes.data, array[1].ctypes.data]
    assert utterances.table[:, 2].tolist() == [3, 2]


def test_other_types_are_refused():
    with pytest.raises(TypeError, match=r"log_probs\[0\]: expected float32 or float16 log-probs, got float64"):
        as_utterances([Foreign(np.zeros((3, 4)))], columns=4, exact=True)


def test_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    graph = graphs.random_graph(1, states=200)
    logp = graphs.random_log_probs(0, 20)
    decoder = CtcDecoder(graph, device="cpu")
    (wanted,) = decoder.decode([logp])
    tensor = torch.from_numpy(logp).requires_grad_()
    for batch in ([tensor], tensor[None]):
        (got,) = decoder.decode(batch, torch.tensor([20]))
        assert got.arcs.tobytes() == wanted.arcs.tobytes()
    assert decoder.decode([tensor.half()])[0].score == decoder.decode([logp.astype(np.float16)])[0].score
    with pytest.raises(TypeError, match=r"expected float32 or float16 log-probs, got torch.bfloat16"):
        decoder.decode([tensor.bfloat16()])
