"""Lists of arrays in the host's memory by DLPack's C exchange: of a type made for tests, and of torch if it is here."""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.arrays.batches import InputSpec, as_inputs
from tests.cuda_host.exporters import exchanged
from tests.decode import graphs
from tests.decode.equality import same

GRAPH = graphs.random_graph(1, states=200)
COLUMNS = graphs.random_log_probs(0, 1).shape[1]
LOG_PROBS = [graphs.random_log_probs(seed, frames) for seed, frames in enumerate((20, 1, 0, 13))]
DECODER = CtcDecoder(GRAPH, device="cpu", threads=1)


def refuse(tensor, **options):
    raise AssertionError("requested in Python")


def of_the_tests(array, kind, device=(1, 0)):
    kind.__dlpack__ = refuse
    strides = tuple([step // array.itemsize for step in array.strides])
    made = kind(array.shape, strides, dtype=str(array.dtype), address=array.ctypes.data, device=device)
    made.array = array
    return made


@pytest.mark.parametrize("device", [(1, 0), (3, 0)])
def test_arrays_of_any_library(device):
    kind = exchanged()
    arrays = [*LOG_PROBS, LOG_PROBS[0][::-1], LOG_PROBS[3].astype(np.float16)]
    items = [of_the_tests(array, kind, device) for array in arrays]
    same(DECODER.decode(items), DECODER.decode(arrays))
    assert kind.requested == ["describe"] * len(items), "no request for a stream in the host's memory"
    items[1] = arrays[1]  # of numpy, among the others
    same(DECODER.decode(items), DECODER.decode(arrays))


def test_values_that_cannot_be_decoded_are_named():
    spoiled = [logp.copy() for logp in LOG_PROBS] + [LOG_PROBS[0].astype(np.float16)[::-1]]
    spoiled[3][7, 2], spoiled[4][5, 1] = np.nan, np.inf
    items = [of_the_tests(array, exchanged()) for array in spoiled]
    with pytest.raises(ValueError, match="got nan in utterance 3, frame 7, column 2"):
        DECODER.decode(items)
    found = DECODER.decode(items, errors="return")
    assert [str(one.error) for one in found] == [str(one.error) for one in DECODER.decode(spoiled, errors="return")]
    assert "got inf in utterance 4, frame 5, column 1" in str(found[4].error)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def exchanging(torch, monkeypatch):
    """A torch whose tensors have the exchange, and do not export themselves in any other way."""
    if "__dlpack_c_exchange_api__" not in vars(torch.Tensor):
        pytest.skip("torch has no exchange before 2.10")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", refuse)
    return torch


def test_torch(exchanging):
    tensors = [exchanging.from_numpy(logp) for logp in LOG_PROBS]
    same(DECODER.decode(tensors), DECODER.decode(LOG_PROBS))
    halves = [tensor.half() for tensor in tensors]
    same(DECODER.decode(halves), DECODER.decode([logp.astype(np.float16) for logp in LOG_PROBS]))
    wide = [exchanging.cat([tensor, tensor], 1)[:, :COLUMNS] for tensor in tensors]
    same(DECODER.decode(wide), DECODER.decode(LOG_PROBS))
    same(DECODER.decode([tensor.requires_grad_() for tensor in tensors]), DECODER.decode(LOG_PROBS))
    one = exchanging.from_numpy(LOG_PROBS[0])
    pieces = list(one.split(5))
    same(DECODER.decode(pieces), DECODER.decode([LOG_PROBS[0][at : at + 5] for at in range(0, 20, 5)]))
    same(DECODER.decode([tensors[0], *LOG_PROBS[1:]]), DECODER.decode(LOG_PROBS))


def test_tensors_of_torch_live_as_long_as_the_batch(exchanging):
    tensors = [exchanging.from_numpy(logp.copy()) for logp in LOG_PROBS]
    got = as_inputs(tensors, None, InputSpec(COLUMNS, True))
    tensors.clear()
    assert [got.value(0, 3, column) for column in range(COLUMNS)] == LOG_PROBS[0][3].tolist()


def test_tensors_of_torch_that_are_copied_or_export_themselves(torch):
    tensors = [torch.from_numpy(logp) for logp in LOG_PROBS]
    columns_first = [tensor.t().contiguous().t() for tensor in tensors]
    same(DECODER.decode(columns_first), DECODER.decode(LOG_PROBS))
    raw = torch.zeros(4 * tensors[0].numel() + 1, dtype=torch.uint8)
    unaligned = np.frombuffer(raw.numpy(), np.uint8)[1:].view(np.float32).reshape(LOG_PROBS[0].shape)
    unaligned[...] = LOG_PROBS[0]
    same(DECODER.decode([torch.from_numpy(unaligned), *tensors[1:]]), DECODER.decode(LOG_PROBS))
    parameters = [torch.nn.Parameter(tensor, requires_grad=False) for tensor in tensors]
    same(DECODER.decode(parameters), DECODER.decode(LOG_PROBS))


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda tensor: tensor.int(), TypeError, r"log_probs\[1\]: expected float32 or float16 .*, got int32"),
        (lambda tensor: tensor.to_sparse(), TypeError, r"log_probs\[1\]: .*layout other than torch.strided"),
        (
            lambda tensor: tensor.to("meta"),
            TypeError,
            r"log_probs\[1\]: expected an array in CPU memory, got Tensor .*meta",
        ),
        (lambda tensor: tensor[None], ValueError, r"log_probs\[1\]: .*got 3 dimensions"),
        (lambda tensor: tensor[:, 1:], ValueError, r"log_probs\[1\]: expected (at least )?\d+ columns"),
    ],
)
def test_tensors_of_torch_that_cannot_be_decoded(torch, spoil, error, said):
    tensors = [torch.from_numpy(logp) for logp in LOG_PROBS]
    tensors[1] = spoil(tensors[1])
    with pytest.raises(error, match=said):
        DECODER.decode(tensors)
