"""Transducers of Hugging Face Transformers with the weights of a transducer that is named arrays.

``generate()`` is the library's own, and calls its own prediction and joint network. Only the encoder is not there: its
output is what `TransformersTransducer.generate` is given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderModelOutput

from arcbeam.adapters.hugging_face import LSTM, WEIGHTS

Arrays = Mapping[str, npt.NDArray[np.float32]]
# The smallest encoder that the library makes, but for the features of its output.
ENCODER = {
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "subsampling_conv_channels": 8,
}  # fmt: skip


class TransformersTransducer:
    """ParakeetForTDT or ParakeetForRNNT.

    arrays : weights by the names of `TransducerDecoder.from_arrays`, of a joint network with ReLU
    durations : those of a TDT; None for an RNN-T
    """

    def __init__(self, arrays: Arrays, blank: int, durations: Sequence[int] | None, device: str) -> None:
        kind = "RNNT" if durations is None else "TDT"
        units, features = arrays["encoder_weight"].shape
        config = getattr(transformers, f"Parakeet{kind}Config")(
            vocab_size=len(arrays["embedding"]), blank_token_id=blank, pad_token_id=blank, hidden_act="relu",
            decoder_hidden_size=units, num_decoder_layers=sum(name.startswith("weight_hh") for name in arrays),
            encoder_config={"hidden_size": features, **ENCODER},
            **({} if durations is None else {"durations": durations}),
        )  # fmt: skip
        self.model = getattr(transformers, f"ParakeetFor{kind}")(config).eval()
        renamed = {theirs: torch.from_numpy(arrays[ours]) for theirs, ours in WEIGHTS.items()}
        renamed |= {f"{LSTM}{name}": torch.from_numpy(arrays[name]) for name in self.model.decoder.lstm.state_dict()}
        unexpected = self.model.load_state_dict(renamed, strict=False).unexpected_keys
        if unexpected:
            raise AssertionError(f"the model has no {unexpected}")
        self.model.to(device)
        tokens, outputs = len(arrays["embedding"]), len(arrays["output_weight"])
        settings = self.model.generation_config
        settings.decoder_start_token_id = blank
        settings.suppress_tokens = list(range(tokens, outputs)) or None  # a duration is no token
        self.blank = blank

    def generate(self, encoded: torch.Tensor) -> torch.Tensor:
        """What ``generate()`` returns for encoder output [batch, frames, features]: token sequences, with blanks."""
        batch, frames, _ = encoded.shape
        self.model.generation_config.max_new_tokens = 2 * frames
        mask = torch.ones(batch, frames, dtype=torch.bool, device=encoded.device)

        def given(*_: Any, **__: Any) -> Any:
            return ParakeetEncoderModelOutput(
                last_hidden_state=encoded, pooler_output=self.model.encoder_projector(encoded), attention_mask=mask
            )

        self.model.get_audio_features = given
        with torch.inference_mode():
            return self.model.generate(input_features=encoded, return_dict_in_generate=True).sequences

    def tokens(self, sequences: torch.Tensor) -> list[list[int]]:
        """Those of each utterance."""
        return [[token for token in row if token != self.blank] for row in sequences.tolist()]
