"""The short ways in on a real GPU: logits, one utterance, float64 and bfloat16, masks, and graphs of labels alone."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, InputError
from arcbeam.files.log_probs import find_inputs, read_all
from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters.gpu import send
from tests.decode.equality import same
from tests.decode.random_graphs import random_graph, random_log_probs

GRAPH = random_graph(1)
BATCH = [3.0 * random_log_probs(seed, 20 + 31 * seed % 90) for seed in range(12)]
PADDED = np.zeros((len(BATCH), max(map(len, BATCH)), BATCH[0].shape[1]), np.float32)
for rows, utterance in zip(PADDED, BATCH, strict=True):
    rows[: len(utterance)] = utterance
LENGTHS = np.array([len(utterance) for utterance in BATCH])
MASK = np.arange(PADDED.shape[1]) < LENGTHS[:, None]

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. :UserWarning")


def decoders(graph=GRAPH, **options):
    return CtcDecoder(graph, device="cuda", **options), CtcDecoder(graph, device="cpu", **options)


@pytest.mark.parametrize("options", [{"beam": 17.0}, {"beam": 8.0, "max_active": 100, "acoustic_scale": 1.5}])
def test_logits_are_the_same_log_probs(options):
    ours, twin = decoders(**options)
    same(ours.decode(BATCH, logits=True), twin.decode(BATCH, logits=True))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("logits", [False, True])
def test_tensors_of_torch(kept_there, kind, logits):
    torch = pytest.importorskip("torch")
    ours, twin = decoders(beam=12.0)
    tensor = torch.from_numpy(PADDED).to(getattr(torch, kind))
    wanted = twin.decode(tensor, MASK, logits=logits)
    same(ours.decode(tensor.cuda(), MASK, logits=logits), wanted)
    same(ours.decode(tensor.cuda().requires_grad_(), LENGTHS, logits=logits), wanted)


def on_gpu(values, columns):
    """The first columns of an array, on the GPU."""
    [whole] = send([values], values.dtype)
    view = SimpleNamespace(whole=whole, shape=(len(values), columns))
    view.__cuda_array_interface__ = whole.__cuda_array_interface__ | {"shape": view.shape, "strides": values.strides}
    return view


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("columns", [1, 33, 1025, 2049])
def test_logits_of_any_width_stay_on_the_gpu(kept_there, kind, columns):
    """Rows that lie apart, values of any size, frames in which little can come; with much memory and with little."""
    rng = np.random.default_rng(columns)
    values = rng.normal(0, 6, (5, 40, columns + 3)).astype(kind)
    values[0, 3, ::2], values[1, 5], values[2, 7, 0], values[3, 9] = -np.inf, -np.inf, 6e4, -6e4
    batch, there = list(values[:, :, :columns]), [on_gpu(one, columns) for one in values]
    graph, lengths = random_graph(2, columns=columns), [40, 0, 17, 40, 1]
    for limit in (None, "64MiB"):
        ours, twin = CtcDecoder(graph, device="cuda", memory_limit=limit), CtcDecoder(graph, device="cpu")
        found, wanted = (one.decode(x, lengths, logits=True, nbest=3) for one, x in ((ours, there), (twin, batch)))
        same(found, wanted)
        assert [one.to_dict() for one in found] == [one.to_dict() for one in wanted]
        same(ours.decode(there, logits=True), twin.decode(batch, logits=True))
    values[4, 0, columns // 2] = np.nan
    with pytest.raises(InputError, match=f"got nan in utterance 4, frame 0, column {columns // 2}"):
        ours.decode([on_gpu(one, columns) for one in values], lengths, logits=True)


def test_a_large_batch_of_logits_is_normalised_part_by_part(kept_there, monkeypatch):
    room = replace(search_plan.first_room(0), window_bytes=1 << 16)
    monkeypatch.setattr(search_plan, "first_room", lambda max_active: room)
    ours, twin = decoders(beam=9.0)
    batch = [one.astype(np.float16) for one in 20 * BATCH]
    same(ours.decode(send(batch, np.float16), logits=True), twin.decode(batch, logits=True))
    assert 0 < ours.memory().log_probs < 4 << 20


def test_streams_of_logits(kept_there):
    """Next to streams of log-probs, whose chunks lie on the GPU, too."""
    ours, twin = decoders(beam=12.0)
    pairs = [[one.stream(logits=i % 3 != 1, nbest=2) for i in range(6)] for one in (ours, twin)]
    for at in range(0, PADDED.shape[1], 25):
        chunks, last = list(PADDED[:6, at : at + 25]), at + 25 >= PADDED.shape[1]
        found = ours.decode_chunks(pairs[0], send(chunks), last=last)
        wanted = twin.decode_chunks(pairs[1], chunks, last=last)
        assert [one.to_dict() for one in found] == [one.to_dict() for one in wanted]
        assert [one.score for one in found] == [one.score for one in wanted]
        assert [one.save() for one in pairs[0]] == [one.save() for one in pairs[1]]


def test_one_utterance():
    ours, twin = decoders(beam=12.0)
    one = ours.decode(BATCH[3], confidence=True, nbest=3)
    same([one], [twin.decode(BATCH[3], confidence=True, nbest=3)])
    assert str(one) == one.text and one.nbest[0].text == one.text


def test_graphs_of_labels_alone(demo_data):
    utterances = [utterance.log_probs for utterance in read_all(find_inputs([str(demo_data / "log_probs.npz")]))]
    ours, twin = decoders(Graph.greedy(demo_data / "tokens.txt"), beam=0.0)
    same(ours.decode(utterances), twin.decode(utterances))


def test_the_default_confidences(demo_data):
    utterances = [utterance.log_probs for utterance in read_all(find_inputs([str(demo_data / "log_probs.npz")]))]
    ours, twin = decoders(Graph.greedy(demo_data / "tokens.txt"), acoustic_scale=1.5)
    found, wanted = (one.decode(utterances, nbest=5, confidence=True) for one in (ours, twin))
    assert [one.to_dict() for one in found] == [one.to_dict() for one in wanted]
