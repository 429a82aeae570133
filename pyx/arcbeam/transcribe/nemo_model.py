"""A model of NeMo, with its features, in front of a decoder."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from arcbeam.adapters.nemo import PACKAGE
from arcbeam.core.packages import require
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.files.nemo_archive import get
from arcbeam.files.reading import check_is_file
from arcbeam.transducer.decoder import TransducerDecoder

RATE = 16_000  # samples a second, where the configuration does not say it


class NemoModel:
    """A CTC model, a transducer or a hybrid, which takes one recording at a time."""

    def __init__(self, model: Any, decoder: CtcDecoder | TransducerDecoder) -> None:
        self._model, self.decoder = model, decoder
        model.eval()
        featurizer = getattr(model.preprocessor, "featurizer", None)
        for name in ("dither", "pad_to"):  # noise, and frames of padding, which are for training
            if hasattr(featurizer, name):
                setattr(featurizer, name, 0)

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model takes."""
        config = self._model.cfg
        return int(get(config, "sample_rate") or get(config, "preprocessor.sample_rate") or RATE)

    def encode(self, audio: Any, *, sample_rate: int = 16_000, batch_size: int = 1) -> list[Any]:
        """Log-probs or the encoder's output for each recording, float32 in the host's memory."""
        return [self._encoded(samples) for samples in audio]

    def _encoded(self, samples: Any) -> Any:
        torch = require("torch", "a model of NeMo")
        device = next(self._model.parameters()).device
        signal = torch.from_numpy(np.ascontiguousarray(samples, np.float32))[None].to(device)
        sizes = torch.tensor([len(samples)], device=device)
        with torch.inference_mode():
            found, frames = self._model.forward(input_signal=signal, input_signal_length=sizes)[:2]
            if getattr(self._model, "joint", None) is None:
                rows = found[0]  # a CTC model returns log-probs
            elif isinstance(self.decoder, CtcDecoder):
                rows = self._model.ctc_decoder(encoder_output=found)[0]
            else:
                rows = found[0].transpose(0, 1)  # [features, frames]
        return np.ascontiguousarray(rows[: int(frames[0])].float().cpu().numpy())


def load_nemo(name: str) -> Any:
    """The model of an archive, or the one with this name, which NeMo loads."""
    models = require("nemo.collections.asr.models", f"the acoustic model {name}", PACKAGE)
    if name.endswith(".nemo"):
        check_is_file(name)
        return models.ASRModel.restore_from(os.fspath(name))
    return models.ASRModel.from_pretrained(name)


def uses_joint(model: Any) -> bool:
    """Whether a model is a transducer, or a hybrid that decodes as one."""
    return getattr(model, "joint", None) is not None and getattr(model, "cur_decoder", "rnnt") != "ctc"
