"""torchaudio's ``cuda_ctc_decoder``: prefix beam search on the GPU, without a lexicon or a language model.

Written against the documentation of torchaudio 2.8, where it is deprecated; later versions may lack it. It wants the
blank in column 0, so ``prepare`` moves it there. On Hopper and newer it writes behind its shared memory, and whatever
the driver does next fails: seen with 2.11 on an H200, and told in pytorch/audio issue 3754. Its WER is that of a search
without an LM, which the tables say.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torchaudio.models.decoder import cuda_ctc_decoder

from benchmarks.adapters import Answer, SearchOptions, Unavailable
from benchmarks.data.graphs import GraphFiles

BLANK_SKIP_THRESHOLD = 0.95


class TorchaudioCuda:
    name = "torchaudio cuda_ctc_decoder"
    device = "cuda"

    def __init__(self, files: GraphFiles, options: SearchOptions, beam_size: int = 10) -> None:
        if not torch.cuda.is_available():
            raise Unavailable("torch sees no CUDA device")
        if torch.cuda.get_device_capability() >= (9, 0):
            raise ValueError("from compute capability 9.0 on it ends the process (pytorch/audio issue 3754)")
        tokens = files.tokens
        if tokens.blank is None:
            raise ValueError(f"{files.name}: the decoder needs a blank, and the tokens have none")
        self.order = [tokens.blank, *(c for c in range(len(tokens)) if c != tokens.blank)]
        self.names = [tokens.tokens[c] for c in self.order]
        self.separator = files.separator
        self.scale = options.acoustic_scale
        self.batch = options.batch
        self.settings = (
            f"no LM, beam_size {beam_size}, blank_skip_threshold {BLANK_SKIP_THRESHOLD:g}, batch {self.batch}"
        )
        self.decoder = cuda_ctc_decoder(
            self.names, nbest=1, beam_size=beam_size, blank_skip_threshold=BLANK_SKIP_THRESHOLD
        )

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        """Batches [batch, frames, columns] of log-probs on the GPU, and their lengths."""
        batches = []
        for first in range(0, len(utterances), self.batch):
            part = [
                torch.from_numpy(np.asarray(u, np.float32)[:, self.order])
                for u in utterances[first : first + self.batch]
            ]
            padded = torch.nn.utils.rnn.pad_sequence(part, batch_first=True).cuda()
            lengths = torch.tensor([len(u) for u in part], dtype=torch.int32, device="cuda")
            batches.append((padded, lengths))
        return batches

    def decode(self, prepared: Any) -> Any:
        return [hypotheses[0] for log_probs, lengths in prepared for hypotheses in self.decoder(log_probs, lengths)]

    def answers(self, decoded: Any) -> list[Answer]:
        return [Answer(self.text(h.tokens), -float(h.score), True) for h in decoded]

    def text(self, tokens: Sequence[int]) -> str:
        """Words of a sequence of its own token ids."""
        said = "".join(self.names[t] for t in tokens)
        return " ".join(said.replace(self.separator, " ").split()) if self.separator else said


ADAPTER = TorchaudioCuda
