"""The short ways in on a real GPU: logits, one utterance, float64 and bfloat16, masks, and graphs of labels alone."""

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph
from arcbeam.files.log_probs import find_inputs, read_all
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


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("logits", [False, True])
def test_tensors_of_torch(kind, logits):
    torch = pytest.importorskip("torch")
    ours, twin = decoders(beam=12.0)
    tensor = torch.from_numpy(PADDED).to(getattr(torch, kind))
    wanted = twin.decode(tensor, MASK, logits=logits)
    same(ours.decode(tensor.cuda(), MASK, logits=logits), wanted)
    same(ours.decode(tensor.cuda().requires_grad_(), LENGTHS, logits=logits), wanted)


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
