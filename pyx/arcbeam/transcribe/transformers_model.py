"""A model of Hugging Face Transformers, with its features, in front of a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from arcbeam.adapters.hugging_face import PROJECTED, RATE, TransformersDecoder
from arcbeam.core.errors import InputError
from arcbeam.core.packages import require
from arcbeam.transducer.decoder import TransducerDecoder


class TransformersModel:
    """A CTC model or a transducer, which takes one recording at a time."""

    def __init__(self, model: Any, processor: Any, decoder: TransformersDecoder | TransducerDecoder) -> None:
        extractor = getattr(processor, "feature_extractor", None)
        if extractor is None:
            raise ValueError(
                "processor: expected the processor of the model, with its feature extractor, such as that of "
                f"AutoProcessor.from_pretrained, got {type(processor).__name__}"
            )
        self._model, self._extractor = model.eval(), extractor
        self._lengths = decoder.lengths if isinstance(decoder, TransformersDecoder) else None
        self.decoder: Any = decoder if self._lengths is None else decoder.decoder  # type: ignore[union-attr]

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model takes."""
        return int(getattr(self._extractor, "sampling_rate", None) or RATE)

    def encode(self, audio: Any, *, sample_rate: int = 16_000, batch_size: int = 1) -> list[Any]:
        """Log-probs or the encoder's output for each recording, float32 in the host's memory."""
        return [self._encoded(samples, sample_rate) for samples in audio]

    def _encoded(self, samples: Any, sample_rate: int) -> Any:
        torch = require("torch", "a model of Transformers")
        inputs = self._extractor(samples, sampling_rate=sample_rate, return_tensors="pt")
        weight = next(self._model.parameters())
        inputs = {name: one.to(weight.device) for name, one in inputs.items()}
        inputs = {name: one.to(weight.dtype) if one.is_floating_point() else one for name, one in inputs.items()}
        mask = inputs.get("attention_mask")
        try:
            with torch.inference_mode():
                rows, frames = self._output(inputs, mask)
        except RuntimeError as error:  # torch's for an input that is shorter than a kernel
            if len(samples) >= sample_rate:
                raise
            raise InputError(
                "audio", f"expected a longer recording, got {len(samples):,} samples, which the model cannot take"
            ) from error
        return np.ascontiguousarray(rows[:frames].float().cpu().numpy())

    def _output(self, inputs: dict[str, Any], mask: Any) -> tuple[Any, int]:
        """The rows of the output, and how many of them are not of padding."""
        if self._lengths is not None:
            logits = self._model(**inputs).logits[0]
            frames = len(logits) if mask is None else int(self._lengths(mask, len(logits))[0])
            return logits.float().log_softmax(-1), frames
        found = self._model.get_audio_features(**inputs)
        rows = found.pooler_output if self._model.config.model_type in PROJECTED else found.last_hidden_state
        valid = getattr(found, "attention_mask", None)
        return rows[0], rows.shape[1] if valid is None else int(valid[0].sum())


def load_transformers(name: str, processor: Any) -> tuple[Any, Any]:
    """The model and the processor of a folder or a name, with the weights."""
    transformers = require("transformers", f"the model {name}")
    require("torch", f"the model {name}")
    config = transformers.AutoConfig.from_pretrained(name)
    kinds = {
        "parakeet_tdt": "AutoModelForTDT",
        **dict.fromkeys(("parakeet_rnnt", "nemotron_asr_streaming", "nemotron3_5_asr"), "AutoModelForRNNT"),
    }
    kind = getattr(transformers, kinds.get(config.model_type, "AutoModelForCTC"))
    if processor is None:
        processor = transformers.AutoProcessor.from_pretrained(name)
    return kind.from_pretrained(name), processor
