"""Configurations, weights and archives of small models of NeMo, which need neither NeMo nor torch."""

import copy
import json

from tests.adapters.nemo_stand_ins import HybridModel
from tests.front.models import CHARACTERS, nemo_archive, said
from tests.transducer.archives import nemo_names
from tests.transducer.networks import random_arrays

LABELS = [" ", *CHARACTERS]
CTC_CONFIG = {
    "target": "nemo.collections.asr.models.ctc_models.EncDecCTCModel",
    "preprocessor": {"window_stride": 0.01},
    "encoder": {"subsampling_factor": 8},
    "decoder": {"num_classes": len(LABELS), "vocabulary": LABELS},
    "decoding": {"strategy": "greedy_batch", "beam": {"beam_size": 4, "return_best_hypothesis": True}},
}
PIECES = ["\u2581a", "b", "c", "d", "e", "\u2581f", "g", "h", "i", "j", "k", "l"]
RNNT_CONFIG = {
    "preprocessor": {"window_stride": 0.01},
    "encoder": {"subsampling_factor": 8},
    "decoder": {"_target_": "nemo.collections.asr.modules.RNNTDecoder"},
    "joint": {
        "_target_": "nemo.collections.asr.modules.RNNTJoint",
        "jointnet": {"activation": "relu"},
        "vocabulary": PIECES,
    },
    "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 3}},
}
KINDS = {"rnnt": {"layers": 2}, "tdt": {"layers": 1, "durations": 3}}


def ctc_archive(tmp_path, **changed):
    return nemo_archive(tmp_path / "ctc.nemo", json.dumps(CTC_CONFIG | changed))


def spoken(*words):
    """float32[frames, labels + 1] of words in characters."""
    return said(" ".join(words), [*LABELS, "<blank>"], len(LABELS))


def rnnt_config(kind, **changed):
    more = {"model_defaults": {"tdt_durations": [0, 1, 2]}} if kind == "tdt" else {}
    return copy.deepcopy(RNNT_CONFIG) | more | changed


def rnnt_weights(kind):
    return nemo_names(random_arrays(6, blank=12, blank_bias=2.0, **KINDS[kind]))


def hybrid_config(kind="tdt"):
    ctc = {"decoder": {"vocabulary": PIECES}, "decoding": {"strategy": "greedy"}}
    return rnnt_config(kind, aux_ctc=ctc)


def hybrid(kind="tdt"):
    return HybridModel(hybrid_config(kind), PIECES, rnnt_weights(kind))


def same(found, expected):
    assert [one.to_dict() for one in found] == [one.to_dict() for one in expected]
