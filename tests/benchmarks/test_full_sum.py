"""The loss over all paths, compared with the forward algorithm of the beam search's oracle, and its gradient."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch")

from data import speech_transducer  # noqa: E402
from data.full_sum import NEVER, full_sum  # noqa: E402
from data.spoken_text import Batch  # noqa: E402
from tests.transducer import beam_oracle  # noqa: E402
from tests.transducer.beam_oracle import Model  # noqa: E402

DURATIONS = [None, (0, 1, 2, 3, 4), (1, 2, 4), (0, 2, 5), (0, 0, 1)]
FRAMES, LABELS = [7, 3, 5, 1, 6, 2], [4, 2, 0, 1, 3, 4]
UNLIMITED = 100  # labels on a frame


class Tables:
    """Log-probs by frame and labels written, of a blank 0 and the next label 1."""

    def __init__(self, tokens, durations):
        self.tokens, self.durations = tokens, durations

    def log_probs(self, history, frame):
        ahead = [0.0] if self.durations is None else self.durations[frame, len(history)]
        return self.tokens[frame, len(history)], ahead


def tables(durations, dtype):
    """Log-probs of a batch, of three tokens."""
    rng = np.random.default_rng(3)
    shape = len(FRAMES), max(FRAMES), max(LABELS) + 1
    tokens = torch.from_numpy(rng.normal(size=(*shape, 3))).to(dtype).log_softmax(-1)
    ahead = None
    if durations is not None:
        ahead = torch.from_numpy(rng.normal(size=(*shape, len(durations)))).to(dtype).log_softmax(-1)
    return tokens, ahead


def summed(tokens, ahead, durations):
    return full_sum(
        tokens[..., 0], tokens[..., 1], ahead, durations or (0,), torch.tensor(FRAMES), torch.tensor(LABELS)
    )


def by_the_oracle(tokens, ahead, durations):
    found = []
    for i, (frames, labels) in enumerate(zip(FRAMES, LABELS, strict=True)):
        networks = Tables(tokens[i], None if ahead is None else ahead[i])
        found.append(beam_oracle.full_sum(Model(networks, frames, 0, durations, UNLIMITED), (1,) * labels))
    return found


@pytest.mark.parametrize("durations", DURATIONS)
def test_the_sum_over_all_paths(durations):
    tokens, ahead = tables(durations, torch.float64)
    wanted = by_the_oracle(tokens, ahead, durations)
    wanted = np.maximum(wanted, NEVER)  # of no path
    np.testing.assert_allclose(summed(tokens, ahead, durations), wanted, rtol=1e-12)
    single = summed(tokens.float(), None if ahead is None else ahead.float(), durations)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, wanted, rtol=1e-5)


def test_labels_that_do_not_fit_have_no_path():
    """Each label takes at least two frames: a third one does not fit into three frames."""
    values = torch.zeros(1, 3, 4)
    found = full_sum(values, values, values[..., None], (2,), torch.tensor([3]), torch.tensor([3]))
    assert found.item() < -1e29


@pytest.mark.parametrize("durations", DURATIONS)
def test_its_gradient(durations):
    tokens, ahead = tables(durations, torch.float64)
    given = [one.requires_grad_() for one in (tokens, ahead) if one is not None]
    assert torch.autograd.gradcheck(lambda tokens, ahead=None: summed(tokens, ahead, durations), given)


@pytest.mark.parametrize("durations", [None, speech_transducer.DURATIONS])
def test_the_loss_of_a_network(durations):
    """Minus the log-prob of a batch by piece, as the decoder's arithmetic has it; padding has no effect."""
    torch.manual_seed(0)
    sizes = speech_transducer.Sizes(5, tokens=4, channels=8, blocks=1, inner=8, embedding=4, units=4, joint=8)
    model = speech_transducer.Transducer(sizes, durations).eval()
    pieces, counts = torch.tensor([[2, 1, 0], [1, -1, -1]]), torch.tensor([3, 1])
    rng = np.random.default_rng(1)
    rows = [np.log(rng.dirichlet(np.ones(5), n)).astype(np.float32) for n in (20, 12)]
    log_probs, lengths = speech_transducer.pad(rows)
    loss = model.full_sum_loss(Batch(log_probs, lengths, pieces, torch.zeros_like(pieces), counts))
    arrays, wanted = model.arrays(), 0.0
    for row, text, count in zip(rows, pieces.tolist(), counts.tolist(), strict=True):
        [encoded] = speech_transducer.encode(model.light, [row])
        ours = speech_transducer.decoder_arrays(arrays)
        networks = beam_oracle.Networks(ours, encoded, 3, durations, activation="relu")
        oracle = Model(networks, len(encoded), 3, durations, UNLIMITED)
        wanted -= beam_oracle.full_sum(oracle, tuple(text[:count])) / 4
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    loss.backward()
    assert all(torch.isfinite(one.grad).all() and one.grad.any() for one in model.parameters())
