"""torchaudio's cuda_ctc_decoder on the prefix search: all paths of small inputs, any blank, and what it refuses."""

import itertools
import math
import warnings

import numpy as np
import pytest

from arcbeam.compat.torchaudio import CUCTCDecoder, cuda_ctc_decoder
from arcbeam.core.errors import FormatError

TOKENS = ["<blank>", "a", "b", "ab"]


def probabilities(seed, frames=5, columns=4):
    """Multiples of 1/64, of which each frame has its sum."""
    counts = np.random.default_rng(seed).multinomial(60, [1 / columns] * columns, size=frames) + 1
    return counts / 64


def ranked(probs, blank):
    """Token sequences by the sum of the probabilities of all their paths, an exact multiple of a power of 1/64."""
    sums = {}
    for path in itertools.product(range(probs.shape[1]), repeat=len(probs)):
        said = tuple(column for column, _ in itertools.groupby(path) if column != blank)
        counts = [round(64 * probs[frame, column]) for frame, column in enumerate(path)]
        sums[said] = sums.get(said, 0) + math.prod(counts)
    return sorted(sums, key=lambda said: -sums[said]), sums


@pytest.mark.parametrize("blank", range(4))
@pytest.mark.parametrize("seed", range(3))
def test_all_paths_are_summed(blank, seed):
    probs = probabilities(seed)
    order, sums = ranked(probs, blank)
    decoder = cuda_ctc_decoder(TOKENS, nbest=2000, beam_size=2000, blank_skip_threshold=1, blank_id=blank)
    [found] = decoder(np.log(probs)[None], np.array([len(probs)]))
    said = [tuple(one.tokens) for one in found]
    assert sorted(said) == sorted(order) and len(set(said)) == len(said)
    # Sequences of equal sums may change places; the sums are far enough apart otherwise.
    assert [sums[one] for one in said] == [sums[one] for one in order]
    assert found[0].words == [TOKENS[column] for column in found[0].tokens]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_frame_of_blank_has_no_other_token_and_parts_equal_ones():
    probs = np.full((3, 4), 0.01)
    probs[0, 1] = probs[2, 1] = probs[1, 0] = 0.97
    for threshold in (0.95, 1):
        decoder = cuda_ctc_decoder(TOKENS, nbest=100, beam_size=100, blank_skip_threshold=threshold)
        [found] = decoder(np.log(probs)[None], [3])
        assert found[0].tokens == [1, 1] and found[0].score == 3 * math.log(0.97)
        assert ([1, 2, 1] in [one.tokens for one in found]) == (threshold == 1)


def test_narrow_beams_look_at_few_tokens(monkeypatch):
    """Ten hypotheses of 200 columns: as if every token were looked at."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(2, 30, 200)) * 3
    log_probs = (logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))).astype(np.float32)
    few, all_tokens = (
        CUCTCDecoder(list(map(str, range(200))), beam_size=beam, nbest=10, blank_skip_threshold=1) for beam in (10, 200)
    )
    found = few(log_probs, np.array([30, 12], np.int32))
    offsets, columns, values = few._tokens_of(0, log_probs[0])
    assert set(np.diff(offsets).tolist()) <= {12, 13} and len(columns) == len(values) == offsets[-1]
    monkeypatch.setattr(few, "_tokens_of", all_tokens._tokens_of)
    assert len(few._tokens_of(0, log_probs[0])[1]) == 30 * 200
    assert few(log_probs, np.array([30, 12], np.int32)) == found


def test_batches_and_threads_change_nothing():
    batch = np.log(np.stack([probabilities(seed, 20) for seed in range(6)])).astype(np.float32)
    lengths = np.array([20, 1, 0, 7, 20, 13])
    found = [cuda_ctc_decoder(TOKENS, nbest=3, threads=threads)(batch, lengths) for threads in (1, 3)]
    assert found[0] == found[1] and [one.tokens for one in found[0][2]] == [[]]
    assert found[0][3] == cuda_ctc_decoder(TOKENS, nbest=3)(batch[3:4, :7], [7])[0]


def test_tensors_are_taken(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "tokens.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    decoder = cuda_ctc_decoder(tmp_path / "tokens.txt", nbest=2)
    log_probs = np.log(probabilities(4))[None].astype(np.float32)
    tensor = torch.from_numpy(log_probs).requires_grad_()
    assert decoder(tensor, torch.tensor([5], dtype=torch.int32)) == decoder(log_probs, [5])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam_size": 0}, "beam_size: expected a whole number of at least 1, got 0"),
        ({"nbest": 0}, "nbest: expected a whole number of at least 1, got 0"),
        ({"blank_id": 4}, "blank_id: expected a column from 0 to 3, got 4"),
        ({"blank_skip_threshold": 1.5}, "blank_skip_threshold: expected a number from 0 to 1, got 1.5"),
        ({"threads": 0}, "threads: expected a whole number of at least 1"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        cuda_ctc_decoder(TOKENS, **options)


@pytest.mark.parametrize(
    ("change", "lengths", "said"),
    [
        (lambda p: p[0], [5], r"log_prob: expected \[batch, frames, 4\], got \[5, 4\]"),
        (lambda p: p[..., :3], [5], r"log_prob: expected \[batch, frames, 4\], got \[1, 5, 3\]"),
        (lambda p: p.astype(int), [5], "log_prob: expected floating-point numbers, got int64"),
        (lambda p: p, [6], "encoder_out_lens: expected at most 5 frames, got 6"),
        (lambda p: p, [5, 5], r"encoder_out_lens: expected 1 integers, one for each utterance, got int64 \[2\]"),
        (lambda p: p, [0.5], "encoder_out_lens: expected 1 integers"),
        (lambda p: p * np.nan, [5], "log_prob: expected finite values, .* got nan in utterance 0, frame 0, column 0"),
        (lambda p: np.full_like(p, -np.inf), [5], "got -inf in utterance 0, frame 0"),
    ],
)
def test_wrong_input_is_refused(change, lengths, said):
    with pytest.raises((TypeError, ValueError), match=said):
        cuda_ctc_decoder(TOKENS)(change(np.log(probabilities(0))[None]), lengths)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_no_log_prob_is_warned_of(dtype, recwarn):
    decoder = cuda_ctc_decoder(TOKENS)
    decoder(np.log(probabilities(0))[None].astype(dtype), [5])
    assert not recwarn.list
    for _ in range(2):
        decoder(probabilities(0)[None].astype(dtype), [5])
    (warning,) = recwarn.list
    assert "log_probs: expected natural logs of probabilities, got 0." in str(warning.message)


def test_a_file_of_two_columns_is_refused(tmp_path):
    (tmp_path / "tokens.txt").write_text("<blank> 0\na 1\n")
    with pytest.raises(FormatError, match=r"tokens.txt, line 1: expected one token, got '<blank> 0'"):
        cuda_ctc_decoder(tmp_path / "tokens.txt")


def test_a_blank_by_name_in_another_column():
    with pytest.warns(UserWarning, match="blank_id: expected '<blank>', which is column 2, got 'a', which is column 0"):
        cuda_ctc_decoder(["a", "b", "<blank>"])
    with pytest.warns(UserWarning, match="blank_id: expected '-', which is column 2, got 'a', which is column 0"):
        cuda_ctc_decoder(["a", "b", "-"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda_ctc_decoder(["<eps>", "a", "-"])
