"""Models with the attributes and calls of NeMo's, 3.0.0, without an encoder: their input is what an encoder returns."""

import copy
import sys
import types
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RESULTS = "nemo.collections.asr.parts.utils.rnnt_utils"
TIMES = "nemo.collections.asr.parts.utils.timestamp_utils"


@dataclass
class Hypothesis:
    """The fields of NeMo's class that its decoding reads or writes."""

    score: float
    y_sequence: Any
    text: Any = None
    dec_state: Any = None
    timestamp: Any = field(default_factory=list)
    alignments: Any = None
    frame_confidence: Any = None
    token_confidence: Any = None
    word_confidence: Any = None
    length: Any = 0
    token_duration: Any = None
    biasing_cfg: Any = None
    non_blank_step_confidence_precomputed: Any = None

    def has_biasing_request(self):
        return self.biasing_cfg is not None

    def merge_(self, other):
        import torch

        self.score += other.score
        self.y_sequence = torch.cat((self.y_sequence, other.y_sequence))
        self.timestamp = torch.cat((self.timestamp, other.timestamp))
        self.dec_state, self.text = other.dec_state, None
        self.length += other.length
        return self


@dataclass
class NBestHypotheses:
    n_best_hypotheses: list


def get_segment_offsets(word_offsets, segment_delimiter_tokens, supported_punctuation, segment_gap_threshold):
    """One segment of all words."""
    if not word_offsets:
        return []
    text = " ".join(word["word"] for word in word_offsets)
    first, last = word_offsets[0]["start_offset"], word_offsets[-1]["end_offset"]
    return [{"segment": text, "start_offset": first, "end_offset": last}]


def install(monkeypatch):
    """Puts modules with these classes in the places of NeMo's."""
    parts = RESULTS.split(".")
    for count in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:count]), types.ModuleType(".".join(parts[:count])))
    vars(sys.modules[RESULTS]).update(Hypothesis=Hypothesis, NBestHypotheses=NBestHypotheses)
    times = types.ModuleType(TIMES)
    times.get_segment_offsets = get_segment_offsets
    monkeypatch.setitem(sys.modules, TIMES, times)


class Own:
    """Stands for a decoder of NeMo's."""

    override_fold_consecutive_value = False

    def __call__(self, **tensors):
        raise AssertionError("NeMo's own decoder was called")


class Decoding:
    """Stands for ``CTCDecoding`` and ``RNNTDecoding``."""

    segment_seperators, segment_gap_threshold = (".", "?", "!"), None

    def __init__(self, cfg, labels):
        self.cfg, self.labels, self.blank_id = cfg, labels, len(labels)
        self.decoding = Own()
        self.supported_punctuation = set()
        self.compute_timestamps = cfg.get("compute_timestamps")
        self.preserve_alignments = cfg.get("preserve_alignments", False)
        confidence = cfg.get("confidence_cfg", {})
        self.preserve_frame_confidence = confidence.get("preserve_frame_confidence", False)
        self.exclude_blank_from_confidence = confidence.get("exclude_blank", True)
        self.tdt_include_duration_confidence = confidence.get("tdt_include_duration", False)
        self.confidence_method_cfg = {
            "name": "entropy", "entropy_type": "tsallis", "alpha": 0.33, "entropy_norm": "exp",
            **confidence.get("method_cfg", {}),
        }  # fmt: skip

    def decode_ids_to_str(self, ids):
        return "".join(self.labels[i] for i in ids).replace("\u2581", " ").strip()

    def ctc_decoder_predictions_tensor(self, decoder_outputs, decoder_lengths=None, return_hypotheses=False):
        assert self.decoding.override_fold_consecutive_value is False
        [found] = self.decoding(decoder_output=decoder_outputs, decoder_lengths=decoder_lengths)
        assert self.cfg["strategy"] == "wfst", "NeMo passes on the hypotheses of this strategy alone"
        if isinstance(found[0], NBestHypotheses):
            return [one.n_best_hypotheses for one in found]
        return found if return_hypotheses else [Hypothesis(one.score, one.y_sequence, one.text) for one in found]

    def rnnt_decoder_predictions_tensor(
        self, encoder_output, encoded_lengths, return_hypotheses=False, partial_hypotheses=None
    ):
        [found] = self.decoding(
            encoder_output=encoder_output, encoded_lengths=encoded_lengths, partial_hypotheses=partial_hypotheses
        )
        has_lists = isinstance(found[0], NBestHypotheses)
        for one in [entry for listed in found for entry in listed.n_best_hypotheses] if has_lists else found:
            one.text = self.decode_ids_to_str(one.y_sequence.tolist())
        if has_lists:
            return [listed.n_best_hypotheses for listed in found]
        return found if return_hypotheses else [Hypothesis(one.score, one.y_sequence, one.text) for one in found]


class Model:
    """What all models have."""

    device = types.SimpleNamespace(type="cpu", index=None)

    def __init__(self, cfg, labels, weights=None):
        self.cfg, self.weights = copy.deepcopy(cfg), weights or {}
        self.labels = list(labels)
        self.encoder = types.SimpleNamespace(subsampling_factor=8)
        self.decoding = Decoding(self.cfg["decoding"], self.labels)

    def state_dict(self):
        import torch

        return {name: torch.from_numpy(np.asarray(value)) for name, value in self.weights.items()}

    def change_vocabulary(self, new_vocabulary):
        self.labels = list(new_vocabulary)
        self.decoding = Decoding(self.cfg["decoding"], self.labels)


class CtcModel(Model):
    """Stands for ``EncDecCTCModel`` and ``EncDecCTCModelBPE``."""

    def __init__(self, cfg, labels):
        super().__init__(cfg, labels)
        self.decoder = types.SimpleNamespace(vocabulary=self.labels, num_classes_with_blank=len(self.labels) + 1)

    def change_decoding_strategy(self, decoding_cfg=None, verbose=True):
        self.cfg["decoding"] = copy.deepcopy(decoding_cfg or self.cfg["decoding"])
        self.decoding = Decoding(self.cfg["decoding"], self.labels)

    def transcribe(self, batch, return_hypotheses=False, timestamps=None):
        if timestamps is not None:  # NeMo makes another decoder in any case
            if timestamps:
                self.cfg["decoding"]["compute_timestamps"] = return_hypotheses = True
            self.change_decoding_strategy(self.cfg["decoding"], verbose=False)
        log_probs, lengths = batch
        found = self.decoding.ctc_decoder_predictions_tensor(log_probs, lengths, return_hypotheses=return_hypotheses)
        for one, rows, length in zip(found, log_probs, lengths, strict=True) if return_hypotheses else ():
            one.y_sequence = rows[:length]
        return found


class HybridModel(Model):
    """Stands for ``EncDecHybridRNNTCTCModel``; without a CTC decoder for ``EncDecRNNTModel``."""

    def __init__(self, cfg, labels, weights, *, has_ctc=True):
        super().__init__(cfg, labels, weights)
        self.joint, self.decoder = types.SimpleNamespace(vocabulary=self.labels), object()
        if has_ctc:
            self.ctc_decoder = types.SimpleNamespace(
                vocabulary=self.labels, num_classes_with_blank=len(self.labels) + 1
            )
            self.ctc_decoding = Decoding(self.cfg["aux_ctc"]["decoding"], self.labels)
            self.cur_decoder = "rnnt"

    def change_decoding_strategy(self, decoding_cfg=None, decoder_type=None, verbose=True):
        if decoder_type == "ctc":
            self.cfg["aux_ctc"]["decoding"] = copy.deepcopy(decoding_cfg or self.cfg["aux_ctc"]["decoding"])
            self.ctc_decoding = Decoding(self.cfg["aux_ctc"]["decoding"], self.labels)
        else:
            self.cfg["decoding"] = copy.deepcopy(decoding_cfg or self.cfg["decoding"])
            self.decoding = Decoding(self.cfg["decoding"], self.labels)
        if hasattr(self, "ctc_decoder"):
            self.cur_decoder = decoder_type or "rnnt"

    def transcribe(self, batch, return_hypotheses=False, timestamps=None, partial_hypothesis=None):
        uses = getattr(self, "cur_decoder", "rnnt")
        if timestamps is not None:
            cfg = self.cfg["aux_ctc"]["decoding"] if uses == "ctc" else self.cfg["decoding"]
            if cfg.get("compute_timestamps") is not timestamps:
                cfg["compute_timestamps"] = timestamps
                self.change_decoding_strategy(cfg, **({"decoder_type": uses} if hasattr(self, "ctc_decoder") else {}))
        values, lengths = batch
        if uses == "ctc":
            return self.ctc_decoding.ctc_decoder_predictions_tensor(values, lengths, return_hypotheses)
        return self.decoding.rnnt_decoder_predictions_tensor(values, lengths, return_hypotheses, partial_hypothesis)
