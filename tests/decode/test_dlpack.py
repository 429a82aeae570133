"""Arrays of other libraries, taken by DLPack without a copy."""

import ctypes

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.arrays.batches import InputSpec, as_inputs, one_or_many
from tests.cuda_host.exporters import Exporter
from tests.decode import graphs
from tests.decode.equality import same


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
    utterances = as_inputs(Foreign(array), Foreign(np.array([3, 2])), InputSpec(4, True))
    assert utterances.table[:, 0].tolist() == [array[0].ctypes.data, array[1].ctypes.data]
    assert utterances.table[:, 2].tolist() == [3, 2]


def test_one_array_is_one_utterance():
    logp = graphs.random_log_probs(0, 20)
    logp.flags.writeable = False
    decoder = CtcDecoder(graphs.random_graph(1, states=200), device="cpu")
    same([decoder.decode(Foreign(logp)), decoder.decode(Foreign(logp), 7)], decoder.decode([logp, logp[:7]]))
    there = Exporter((20, 4), device=(2, 0))
    assert one_or_many(Foreign(there), None)[2]
    assert (there.streams, there.released) == ([-1], 1), "no stream has to wait for a shape"


def odd(kind):
    """[5, 4] in shapes and orders that plain arrays do not have."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5, 4)).astype(np.float32)
    if kind == "apart":
        return rng.standard_normal((5, 9)).astype(np.float32)[:, :4]
    if kind == "reversed":
        return values[::-1]
    if kind == "unaligned":
        raw = np.empty(81, np.uint8)[1:].view(np.float32).reshape(5, 4)
        raw[...] = values
        return raw
    if kind == "read-only":
        values.flags.writeable = False
    made = {"columns": np.asfortranarray, "swapped": lambda a: a.astype(">f4"), "foreign": Foreign}
    return made.get(kind, np.asarray)(values)


@pytest.mark.parametrize("kind", ["apart", "reversed", "unaligned", "read-only", "columns", "swapped", "foreign"])
def test_lists_of_odd_arrays(kind):
    """Plain arrays are described in a loop of their own; what is not plain beside them changes no value."""
    items = [np.ones((2, 4), np.float32), odd(kind), np.ones((3, 4), np.float16), np.ones((0, 4), np.float32)]
    got = as_inputs(items, None, InputSpec(4, True))
    assert got.table[:, 2:].tolist() == [[2, 0], [5, 0], [3, 1], [0, 0]]
    assert got.table[0].tolist() == [items[0].ctypes.data, 4, 2, 0]
    values = np.asarray(getattr(items[1], "array", items[1]), np.float32)
    assert np.asarray(got.arrays[1]).tolist() == values.tolist()
    address, stride = got.table[1, :2].tolist()
    rows = [(ctypes.c_float * 4).from_address(address + 4 * stride * i)[:] for i in range(5)]
    assert rows == values.tolist()


@pytest.mark.parametrize(
    ("items", "error", "said"),
    [
        ([np.zeros((2, 4), np.float32), np.zeros((2, 4), int)], TypeError, r"log_probs\[1\]: .*float32 .*int64"),
        ([np.zeros((2, 4), np.float32), np.zeros((2, 4), "M8[s]")], TypeError, r"log_probs\[1\]: .*got datetime64"),
        ([np.zeros((2, 4), np.float32), np.zeros(4, np.float32)], ValueError, r"log_probs\[1\]: .*got 1 dimension "),
        (
            [np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float32)],
            ValueError,
            r"log_probs\[1\]: .*4 columns, got 3",
        ),
        ([np.zeros((2, 4), np.float32), np.ma.zeros((2, 4), np.float32)], TypeError, "without a mask"),
        ([np.zeros((2, 5), np.float32), np.zeros((2, 6), np.float32)], ValueError, "the same number of columns"),
    ],
)
def test_bad_arrays_in_lists(items, error, said):
    with pytest.raises(error, match=said):
        as_inputs(items, None, InputSpec(4, False))


def test_other_types_are_refused():
    with pytest.raises(TypeError, match=r"log_probs\[0\]: expected float32 or float16 log-probs, got int64"):
        as_inputs([Foreign(np.zeros((3, 4), int))], None, InputSpec(4, True))


def test_float64_is_rounded():
    values = np.random.default_rng(0).normal(size=(3, 4))
    values[1, 2], values[2, 0] = -1e300, -np.inf
    for array in (values, Foreign(values), values.astype(">f8"), values[:, ::-1].copy()[:, ::-1]):
        taken = as_inputs([array], None, InputSpec(4, True))
        with np.errstate(over="ignore"):
            assert taken.rows(0, 0, 4).tobytes() == values.astype(np.float32).tobytes()


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
    negated = torch.complex(torch.zeros_like(tensor), -tensor.detach()).conj().imag
    assert negated.is_neg()
    for batch in ([negated], negated[None], [negated.contiguous(), negated]):
        same(decoder.decode(batch)[-1:], [wanted])
    stream = decoder.stream()
    stream.decode_chunk(negated)
    assert stream.finish().score == pytest.approx(wanted.score)
    nested = torch.nested.nested_tensor([tensor.detach(), tensor.detach()[:5]], layout=torch.strided)
    for other in (tensor.to("meta"), [tensor.to("meta")], nested, tensor.detach().to_sparse()):
        with pytest.raises(TypeError, match=r"^log_probs.*: expected (an array in CPU memory|float32 or float16)"):
            decoder.decode(other)
    for other in (tensor.bfloat16(), tensor.double()):
        assert decoder.decode(other).score == decoder.decode([other.detach().float().numpy()])[0].score
