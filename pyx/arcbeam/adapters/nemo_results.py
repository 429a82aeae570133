"""Decoders of arcbeam as NeMo calls its own: its tensors in, its hypotheses out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.adapters.nemo import PACKAGE
from arcbeam.core.errors import UnsupportedError
from arcbeam.core.packages import require
from arcbeam.transducer.hypothesis import TransducerState

if TYPE_CHECKING:
    from arcbeam.core.confidence import ConfidenceMethod
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.hypothesis import TransducerHypothesis

RESULTS = "nemo.collections.asr.parts.utils.rnnt_utils"
TIMES = "nemo.collections.asr.parts.utils.timestamp_utils"
PURPOSE = "attach"


@dataclass(frozen=True)
class Outputs:
    """What an attached decoder returns; `attach` documents it."""

    boost: Any
    nbest: int | None
    confidence: bool
    frame_confidence: ConfidenceMethod | None

    def for_ctc(self) -> list[str]:
        """The outputs that were requested and that only CTC has."""
        return [name for name in ("confidence", "frame_confidence") if getattr(self, name)]


def hypothesis_classes() -> Any:
    """The module of NeMo with its classes of results; MissingDependencyError without NeMo."""
    return require(RESULTS, PURPOSE, PACKAGE)


class CtcInfer:
    """Stands for an inference class of NeMo's CTC decoding, such as ``WfstCTCInfer``."""

    override_fold_consecutive_value = False  # NeMo's sign that nothing is left to be folded

    def __init__(self, decoder: CtcDecoder, decoding: Any, outputs: Outputs) -> None:
        self._decoder, self._decoding, self._outputs = decoder, decoding, outputs
        self._texts: dict[int, str] = {}  # of labels, by NeMo

    def __call__(self, decoder_output: Any, decoder_lengths: Any = None) -> tuple[list[Any]]:
        """The hypotheses of log-probs [batch, frames, columns]."""
        if decoder_output.ndim != 3:
            raise ValueError(
                f"decoder_output: expected log-probs [batch, frames, columns], got shape {[*decoder_output.shape]}"
            )
        asked, lengths = self._outputs, None if decoder_lengths is None else decoder_lengths.cpu()
        found = self._decoder.decode(
            _near(self._decoder, decoder_output), lengths, boost=asked.boost, nbest=asked.nbest,
            confidence=asked.confidence, frame_confidence=asked.frame_confidence,
        )  # fmt: skip
        sizes = [decoder_output.shape[1]] * len(found) if lengths is None else lengths.tolist()
        made = [self._made(one, rows[:size]) for one, rows, size in zip(found, decoder_output, sizes, strict=True)]
        return (made,)

    def _made(self, one: Hypothesis, rows: Any) -> Any:
        """NeMo's hypothesis, or the list of the best."""
        best = self._hypothesis(one, rows)
        words = [word.confidence for word in one.words] if self._outputs.confidence else None
        if one.frame_confidence is not None and one.token_confidence is not None:
            best.frame_confidence = one.frame_confidence.tolist()
            best.token_confidence = one.token_confidence.tolist()
            if words is None and one.word_confidence is not None:
                words = one.word_confidence.tolist()
        best.word_confidence = words
        if one.nbest is None:
            return best
        return hypothesis_classes().NBestHypotheses([best, *(self._hypothesis(entry, rows) for entry in one.nbest[1:])])

    def _hypothesis(self, path: Any, rows: Any) -> Any:
        """NeMo's hypothesis of a path, without confidences; `rows` are its log-probs [frames, columns]."""
        torch = require("torch", PURPOSE)
        columns = torch.from_numpy(path.tokens.astype(np.int64))
        begins = np.flatnonzero(np.diff(path.tokens, prepend=-1))
        ends = np.append(begins, len(path.tokens))[1:]
        is_label = path.tokens[begins] != self._decoding.blank_id
        spans = list(zip(begins[is_label].tolist(), ends[is_label].tolist(), strict=True))
        labels = columns[begins[is_label]]
        found = hypothesis_classes().Hypothesis(
            score=float(path.score), y_sequence=labels, text=path.text, length=len(rows), timestamp=[]
        )
        if self._decoding.preserve_alignments:
            found.alignments = (rows.cpu(), columns)
        if self._decoding.compute_timestamps:
            found.timestamp = self._timestamp(path, labels.tolist(), spans)
        return found

    def _timestamp(self, path: Any, labels: list[int], spans: list[tuple[int, int]]) -> dict[str, Any]:
        """NeMo's dictionary of times: those of words, labels and segments, in frames, and in seconds if known."""
        decoding, kind = self._decoding, self._decoding.cfg.get("ctc_timestamp_type", "all")
        words = [_offsets("word", word.word, word.start_frame, word.end_frame) for word in path.words]
        found: dict[str, Any] = {"timestep": [begin for begin, _ in spans]}
        if kind in ("char", "all"):
            for label in {*labels} - self._texts.keys():
                self._texts[label] = decoding.decode_ids_to_str([label])
            texts = (self._texts[label] for label in labels)
            found["char"] = [_offsets("char", text, *span) for text, span in zip(texts, spans, strict=True)]
        if kind in ("word", "all"):
            found["word"] = words
        if kind in ("segment", "all"):
            found["segment"] = require(TIMES, PURPOSE, PACKAGE).get_segment_offsets(
                words,
                segment_delimiter_tokens=decoding.segment_seperators,
                supported_punctuation=decoding.supported_punctuation,
                segment_gap_threshold=decoding.segment_gap_threshold,
            )
        shift = self._decoder.options.frame_shift
        for entry in (one for name, entries in found.items() if name != "timestep" for one in entries):
            if shift is not None:
                entry["start"], entry["end"] = entry["start_offset"] * shift, entry["end_offset"] * shift
        return found


class TransducerInfer:
    """Stands for an inference class of NeMo's RNN-T decoding, such as ``GreedyBatchedRNNTInfer``."""

    def __init__(self, decoder: TransducerDecoder, decoding: Any, outputs: Outputs) -> None:
        self._decoder, self._decoding, self._outputs = decoder, decoding, outputs

    def __call__(
        self, encoder_output: Any, encoded_lengths: Any, partial_hypotheses: list[Any] | None = None
    ) -> tuple[list[Any]]:
        """The hypotheses of encoder output [batch, features, frames], or what follows those of chunks before."""
        frames, lengths = encoder_output.transpose(1, 2).contiguous(), encoded_lengths.cpu()
        states = None if partial_hypotheses is None else [_state_of(partial) for partial in partial_hypotheses]
        if states is not None and self._decoder.options.beam is not None:
            raise UnsupportedError(
                "partial_hypotheses: expected a greedy decoder, got one with a beam, whose chunks are decoded with "
                "stream = decoder.stream(), stream.decode_chunk(chunk)"
            )
        found = self._decoder.decode(
            _near(self._decoder, frames), lengths, states, boost=self._outputs.boost, nbest=self._outputs.nbest
        )
        made = [self._listed(one, size) for one, size in zip(found, lengths.tolist(), strict=True)]
        if partial_hypotheses is not None:
            made = [_joined(before, new) for before, new in zip(partial_hypotheses, made, strict=True)]
        return (made,)

    def _listed(self, one: TransducerHypothesis, size: int) -> Any:
        """NeMo's hypothesis, or the list of the best, which has one without tokens where nothing was decoded."""
        if one.nbest is None:
            return self._made(one, size)
        return hypothesis_classes().NBestHypotheses([self._made(entry, size) for entry in one.nbest or [one]])

    def _made(self, one: TransducerHypothesis, size: int) -> Any:
        """NeMo's hypothesis, whose text and times NeMo then makes of the tokens."""
        torch = require("torch", PURPOSE)
        durations = torch.empty(0) if one.durations is None else torch.from_numpy(one.durations.astype(np.int64))
        found = hypothesis_classes().Hypothesis(
            score=one.score,
            y_sequence=torch.from_numpy(one.tokens.astype(np.int64)),
            timestamp=torch.from_numpy(one.frames.astype(np.int64)),
            token_duration=durations,
            length=size,
            dec_state=one.state if self._decoder.options.beam is None else None,
        )
        if one.confidence is not None:
            found.token_confidence = one.confidence.tolist()
            if getattr(self._decoding, "preserve_frame_confidence", False):
                found.non_blank_step_confidence_precomputed = one.confidence.tolist()
            elif self._decoder.pieces is not None:
                found.word_confidence = [word.confidence for word in one.words]
        return found


def _near(decoder: CtcDecoder | TransducerDecoder, values: Any) -> Any:
    """The tensor on the decoder's device."""
    return values.detach().to(decoder.device)


def _offsets(kind: str, text: str, begin: int, end: int) -> dict[str, Any]:
    """A word or label with its frames, as NeMo has it."""
    return {kind: text, "start_offset": begin, "end_offset": end}


def _state_of(partial: Any) -> TransducerState | None:
    """The state of the chunks before; None at the beginning."""
    if partial is None:
        return None
    if partial.has_biasing_request():
        raise UnsupportedError("biasing_cfg: expected a hypothesis without it; give the phrases as boost= of attach")
    state = partial.dec_state
    if state is not None and not isinstance(state, TransducerState):
        raise ValueError(
            f"partial_hypotheses: expected hypotheses of the attached decoder, got a state of {type(state).__name__}; "
            "begin the stream with the decoder that continues it"
        )
    return state


def _joined(before: Any, new: Any) -> Any:
    """The hypothesis of the chunks before, with what the new chunk adds."""
    if before is None:
        return new
    torch = require("torch", PURPOSE)
    durations = [one.token_duration for one in (before, new) if one.token_duration is not None]
    before.token_duration = torch.cat(durations)
    return before.merge_(new)
