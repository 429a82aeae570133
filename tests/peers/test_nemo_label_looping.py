"""NeMo 3.0.0's label-looping on the same weights: the same tokens, frames, durations and confidence, in chunks, too."""

import numpy as np
import pytest

from arcbeam import TransducerDecoder
from arcbeam.transducer import ConfidenceMethod
from tests.peers import nemo_label_looping
from tests.transducer.networks import random_arrays, random_frames

BLANK = 29
DURATIONS = [0, 1, 2, 3, 4]
METHODS = [{"name": "max_prob", "alpha": 1.0}] + [
    {"name": "entropy", "entropy_type": kind, "entropy_norm": norm, "alpha": alpha}
    for kind in ("gibbs", "tsallis", "renyi")
    for norm in ("lin", "exp")
    for alpha in (1.0, 0.33)
]


@pytest.fixture(scope="module")
def looping():
    return nemo_label_looping.load()


def networks(seed, durations):
    shape = {"tokens": BLANK + 1, "size": 24, "units": 32, "joint": 40, "features": 20}
    return random_arrays(
        seed, **shape, durations=len(durations or ()), layers=1 + seed % 2, blank=BLANK, blank_bias=seed % 5 - 1.0
    )


def computer(looping, arrays, durations, max_symbols, method=None, decoder=None, **more):
    decoder = decoder or nemo_label_looping.Decoder(arrays)
    options = {"decoder": decoder, "joint": nemo_label_looping.Joint(arrays)}
    options |= {"blank_index": BLANK, "max_symbols_per_step": max_symbols, "allow_cuda_graphs": False, **more}
    if method is not None:
        options |= {"preserve_step_confidence": True, "exclude_blank_from_confidence": True}
        options |= {"confidence_method_cfg": method}
    if durations is None:
        return looping.GreedyBatchedRNNTLabelLoopingComputer(**options)
    return looping.GreedyBatchedTDTLabelLoopingComputer(**options, durations=durations, include_duration=True)


def run(found, frames, state=None):
    """(tokens, frames, durations, confidence) of each utterance, and NeMo's state."""
    import torch

    lengths = torch.tensor([len(x) for x in frames])
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(x) for x in frames], batch_first=True)
    with torch.inference_mode():
        hyps, state = found(padded, lengths, state)
    written = []
    for i, n in enumerate(hyps.current_lengths.tolist()):
        parts = (hyps.transcript, hyps.timestamps, hyps.token_durations, hyps.step_confidence)
        written.append([None if part is None else part[i, :n].numpy() for part in parts])
    return written, state


def check(hypothesis, written, alone=False):
    """In a batch NeMo 3.0.0 overwrites the durations of lanes that found their label before others did."""
    tokens, frames, durations, confidence = written
    assert hypothesis.tokens.tolist() == tokens.tolist()
    assert hypothesis.frames.tolist() == frames.tolist()
    if durations is not None and alone:
        assert hypothesis.durations.tolist() == durations.tolist()
    if confidence is not None:
        np.testing.assert_allclose(hypothesis.confidence, confidence, atol=1e-4)


@pytest.mark.parametrize("durations", [None, DURATIONS], ids=["rnnt", "tdt"])
@pytest.mark.parametrize("max_symbols", [1, 3, 10])
def test_the_same_tokens(looping, durations, max_symbols):
    written = 0
    for seed in range(8):
        arrays = networks(seed, durations)
        frames = [random_frames(100 * seed + n, n, 20) for n in (1, 40, 17, 33)]
        decoder = TransducerDecoder.from_arrays(arrays, BLANK, durations=durations, max_symbols=max_symbols)
        expected, _ = run(computer(looping, arrays, durations, max_symbols), frames)
        for hypothesis, theirs in zip(decoder.decode(frames), expected, strict=True):
            check(hypothesis, theirs)
            written += len(hypothesis.tokens)
        for x in frames:
            expected, _ = run(computer(looping, arrays, durations, max_symbols), [x])
            check(decoder.decode([x])[0], expected[0], alone=True)
    assert written > 200


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(map(str, m.values())))
def test_the_same_confidence(looping, method):
    arrays = networks(4, None)
    frames = [random_frames(n, n, 20) for n in (40, 60)]
    decoder = TransducerDecoder.from_arrays(arrays, BLANK, confidence=ConfidenceMethod(**method), max_symbols=3)
    expected, _ = run(computer(looping, arrays, None, 3, method), frames)
    for hypothesis, theirs in zip(decoder.decode(frames), expected, strict=True):
        assert len(hypothesis.tokens) > 10
        check(hypothesis, theirs)


@pytest.mark.parametrize("durations", [None, DURATIONS], ids=["rnnt", "tdt"])
def test_the_same_in_chunks(looping, durations):
    for seed in range(4):
        arrays = networks(seed, durations)
        frames = [random_frames(100 * seed + n, n, 20) for n in (40, 31)]
        decoder = TransducerDecoder.from_arrays(arrays, BLANK, durations=durations)
        theirs, state, ours = computer(looping, arrays, durations, 10), None, [None, None]
        for begin in range(0, 40, 8):
            chunks = [x[begin : begin + 8] for x in frames]
            expected, state = run(theirs, chunks, state)
            found = decoder.decode(chunks, state=ours)
            ours = [hypothesis.state for hypothesis in found]
            for hypothesis, written in zip(found, expected, strict=True):
                check(hypothesis, written)


@pytest.mark.parametrize("context", [1, 2, 3])
def test_the_same_with_a_stateless_network(looping, context):
    written = 0
    for seed in range(4):
        arrays = networks(seed, None)
        arrays = {name: value for name, value in arrays.items() if not name.startswith(("weight_", "bias_"))}
        sizes = [32 - 32 // 2 // context * (context - 1), *[32 // 2 // context] * (context - 1)]
        rng = np.random.default_rng(seed)
        tables = [rng.standard_normal((BLANK + 1, size)).astype(np.float32) for size in sizes]
        for table in tables:
            table[BLANK] = 0  # as the padding that it is for torch
        names = {"encoder": "enc", "prediction": "pred", "output": "joint_net.2"}
        weights = {f"decoder.prediction.embeds.{i}.weight": table for i, table in enumerate(tables)}
        weights |= {
            f"joint.{theirs}.{kind}": arrays[f"{ours}_{kind}"]
            for ours, theirs in names.items()
            for kind in ("weight", "bias")
        }
        frames = [random_frames(100 * seed + n, n, 20) for n in (1, 40, 17, 33)]
        theirs = computer(looping, arrays, None, 3, decoder=nemo_label_looping.StatelessDecoder(tables))
        expected, _ = run(theirs, frames)
        decoder = TransducerDecoder.from_nemo(weights, max_symbols=3, activation="tanh")
        for hypothesis, answer in zip(decoder.decode(frames), expected, strict=True):
            check(hypothesis, answer)
            written += len(hypothesis.tokens)
    assert written > 50


@pytest.mark.parametrize("durations", [None, DURATIONS])
@pytest.mark.parametrize("mode", [{}, {"precomputed": False}, {"graphs": "none"}, "frame-looping"])
def test_what_the_benchmarks_run(looping, durations, mode):
    """Each mode that is timed gives arcbeam's tokens; graphs are for GPUs."""
    from benchmarks.adapters import nemo_transducer

    arrays = networks(2, durations)
    frames = np.stack([random_frames(seed, 12, 20) for seed in range(4)])
    options = {"durations": durations, "activation": "relu", "max_symbols": 10, "device": "cpu"}
    wanted = [h.tokens.tolist() for h in TransducerDecoder.from_arrays(arrays, BLANK, **options).decode(frames)]
    assert sum(map(len, wanted)) > 10
    if mode == "frame-looping":
        found = nemo_transducer.FrameLooping(arrays, BLANK, durations)
    else:
        found = nemo_transducer.NemoTransducer(arrays, BLANK, durations, **mode)
    for _ in range(2):
        assert found.tokens(found.decode(found.prepare(frames))) == wanted
