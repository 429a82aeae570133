"""torchaudio's ``cuda_ctc_decoder``, or a class with its calls: the best sequence of tokens by the sum of its paths."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Answer, SearchOptions
from benchmarks.data.graphs import GraphFiles


class TorchaudioCuda:
    """Padded batches, with torchaudio's defaults; the blank is moved to column 0, the only one that it takes.

    build : makes the decoder of the names of the columns; None for torchaudio's own, whose batches are on the GPU
    """

    name, device = "torchaudio", "cuda"
    settings = "beam_size 10, blank_skip_threshold 0.95"

    def __init__(
        self, files: GraphFiles, options: SearchOptions, build: Callable[[list[str]], Any] | None = None
    ) -> None:
        tokens, blank = files.tokens.tokens, int(files.tokens.blank or 0)
        self.order = [blank, *(column for column in range(len(tokens)) if column != blank)]
        self.names = [tokens[column] for column in self.order]
        self.on_host = build is not None
        if build is None:
            from torchaudio.models.decoder import cuda_ctc_decoder as build
        self.decoder = build(self.names)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> tuple[Any, Any]:
        """float32 [batch, frames, columns] and int32 [batch]; what lies after an utterance's end is not read."""
        lengths = np.array([len(one) for one in utterances], np.int32)
        batch = np.zeros((len(lengths), lengths.max(), len(self.order)), np.float32)
        for row, one in zip(batch, utterances, strict=True):
            row[: len(one)] = one[:, self.order]
        if self.on_host:
            return batch, lengths
        import torch

        return torch.from_numpy(batch).cuda(), torch.from_numpy(lengths).cuda()

    def decode(self, prepared: tuple[Any, Any]) -> Any:
        return self.decoder(*prepared)

    def answers(self, decoded: Any) -> list[Answer]:
        texts = ("".join(best.words).replace("\u2581", " ").replace("<space>", " ").strip() for best, *_ in decoded)
        return [Answer(text, -best.score, True, best.tokens) for text, (best, *_) in zip(texts, decoded, strict=True)]


ADAPTER = TorchaudioCuda
