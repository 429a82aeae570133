"""Beam searches of small transducers by the twin, and what they find in the form of the oracle's."""

import math

import numpy as np

from arcbeam import TransducerDecoder
from tests.transducer.beam_oracle import Model, Networks
from tests.transducer.fusion_oracle import BeamModels

INF = math.inf
DURATIONS = [None, [0, 1, 2, 3, 4], [1, 2, 4], [0, 2, 5], [0, 0, 1]]
PREDICTIONS = [{"layers": 1}, {"layers": 2}, {"layers": 0, "context": 2, "groups": 3}, {"layers": 0}]


def model_of(arrays, frames, blank, durations, max_symbols, models=None, **network):
    networks = Networks(arrays, frames, blank, durations, **network)
    fused = None if models is None else BeamModels(networks, blank, **models)
    return Model(networks, len(frames), blank, durations, max_symbols, fused)


def entries_of(hypothesis):
    """The n-best list of an utterance, all that there is of it."""
    return [
        (
            one.tokens.tolist(),
            one.frames.tolist(),
            None if one.durations is None else one.durations.tolist(),
            one.log_probs.tobytes(),
            one.score,
        )
        for one in hypothesis.nbest
    ]


def wanted(found, durations):
    """The same of the oracle."""
    columns = [[list(column) for column in zip(*labels, strict=True)] or [[]] * 4 for labels, _ in found]
    return [
        (
            tokens,
            frames,
            None if durations is None else steps,
            np.array(log_probs, np.float32).tobytes(),
            score,
        )
        for (tokens, frames, steps, log_probs), (_, score) in zip(columns, found, strict=True)
    ]


def decode(arrays, frames, blank=0, *, nbest=None, boost=None, **options):
    decoder = TransducerDecoder.from_arrays(arrays, blank, **{"device": "cpu", "threads": 1, **options})
    return decoder.decode([frames], nbest=nbest or decoder.options.max_hypotheses, boost=boost)[0]
