"""arcbeam.compat.torchaudio's decoder for CUDA, and torchaudio's own on the GPU: the same calls to both."""

import numpy as np
import pytest

from arcbeam.compat.torchaudio import cuda_ctc_decoder

torch = pytest.importorskip("torch", reason="torch is not installed")
original = pytest.importorskip("torchaudio.models.decoder", reason="torchaudio is not installed").cuda_ctc_decoder

COLUMNS, BATCH, FRAMES, NBEST = 40, 64, 120, 5
NEAR = 1e-3  # of a sum of float32 over the frames


def peaked(seed):
    """float32 [batch, frames, columns] and int32 [batch]: the blank or a token is likely in most frames."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(BATCH, FRAMES, COLUMNS))
    best = rng.integers(1, COLUMNS, (BATCH, FRAMES)) * (rng.random((BATCH, FRAMES)) < 0.4)
    np.put_along_axis(logits, best[..., None], rng.normal(6, 2, (BATCH, FRAMES, 1)), axis=2)
    log_probs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    return log_probs.astype(np.float32), rng.integers(1, FRAMES + 1, BATCH).astype(np.int32)


@pytest.mark.parametrize("beam_size", [10, 40])
def test_answers_are_those_of_the_original(gpu, beam_size):
    """The best answers, and where these are the same, their scores; no frame is skipped, so scores have all frames."""
    tokens = ["<blank>", *(f"t{column}" for column in range(1, COLUMNS))]
    options = {"nbest": NBEST, "beam_size": beam_size, "blank_skip_threshold": 1.0}
    log_probs, lengths = peaked(beam_size)
    there = torch.from_numpy(log_probs).cuda(gpu), torch.from_numpy(lengths).cuda(gpu)
    theirs, ours = original(tokens, **options)(*there), cuda_ctc_decoder(tokens, **options)
    found = ours(*there)
    assert found == ours(log_probs, lengths)
    pairs = [(a[0], b[0]) for a, b in zip(found, theirs, strict=True)]
    same = [(a, b) for a, b in pairs if a.tokens == list(b.tokens)]
    assert len(same) >= 0.95 * len(pairs), f"{len(same)} of {len(pairs)} are the same"
    assert all(a.words == b.words for a, b in same)
    assert max(abs(a.score - b.score) for a, b in same) <= NEAR
    # Of answers that both have, none of ours has a lower sum: a narrower search sums fewer paths.
    for mine, peer in zip(found, theirs, strict=True):
        scores = {tuple(one.tokens): one.score for one in peer}
        assert all(one.score >= scores[tuple(one.tokens)] - NEAR for one in mine if tuple(one.tokens) in scores)
