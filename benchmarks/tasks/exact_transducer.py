"""Exact probabilities of a transducer's texts, in float64: the sum over all paths, and what greedy search tests."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from data.full_sum import full_sum


class ExactTransducer:
    """The prediction and joint network of `data.speech_transducer`.

    arrays : as `arcbeam.TransducerDecoder.from_arrays` takes them
    durations : of a TDT; None for an RNN-T
    """

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[np.floating]], blank: int, durations: Sequence[int] | None
    ) -> None:
        self.blank, self.durations = blank, durations
        self.weights = {name: torch.from_numpy(np.asarray(value, np.float64)) for name, value in arrays.items()}
        inputs, units = self.weights["embedding"].shape[1], self.weights["weight_hh_l0"].shape[1]
        self.lstm = torch.nn.LSTM(inputs, units, batch_first=True, dtype=torch.float64)
        self.lstm.load_state_dict({name: self.weights[name] for name in self.lstm.state_dict()})

    @torch.inference_mode()
    def log_prob(self, encoded: npt.NDArray[np.floating], tokens: Sequence[int]) -> float:
        """Of the tokens, summed over all paths; no limit of labels on a frame."""
        logits, durations = self._logits(encoded, tokens)
        normalizer = logits.logsumexp(2)
        following = torch.tensor([*tokens, self.blank]).expand(len(logits), -1)[..., None]
        blanks, labels = logits[..., self.blank] - normalizer, logits.gather(2, following)[..., 0] - normalizer
        after = None if self.durations is None else durations.log_softmax(2)[None]
        ends = torch.tensor([len(logits)]), torch.tensor([len(tokens)])
        return float(full_sum(blanks[None], labels[None], after, self.durations or (0,), *ends))

    @torch.inference_mode()
    def greedy_rows(self, encoded: npt.NDArray[np.floating], tokens: Sequence[int], max_symbols: int = 10) -> int:
        """How often greedy search that writes these tokens tests a frame: once for each blank and label.

        Raises ValueError where it writes others.
        """
        logits, durations = self._logits(encoded, tokens)
        best = logits.argmax(2).tolist()
        ahead = None if self.durations is None else durations.argmax(2).tolist()
        frame, written, depth, rows = 0, 0, 0, 0
        while frame < len(best):
            rows += 1
            token = best[frame][written]
            step = 0 if self.durations is None or ahead is None else self.durations[ahead[frame][written]]
            if token == self.blank:
                step = max(step, 1)
            elif written == len(tokens) or token != tokens[written]:
                raise ValueError(f"token {written}: greedy search writes {token} on frame {frame}")
            else:
                written, depth = written + 1, depth + 1
                step = max(step, 1) if depth == max_symbols else step
            depth = depth if step == 0 else 0
            frame += step
        return rows

    def _logits(self, encoded: npt.NDArray[np.floating], tokens: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Of tokens and of durations, after each beginning of these tokens: [frames, tokens + 1, outputs]."""
        frames = self._linear("encoder", torch.from_numpy(np.asarray(encoded, np.float64)))
        seen = self.weights["embedding"][torch.tensor([self.blank, *tokens])]
        predicted = self._linear("prediction", self.lstm(seen[None])[0][0])
        logits = self._linear("output", torch.relu(frames[:, None] + predicted))
        return logits[..., : self.blank + 1], logits[..., self.blank + 1 :]

    def _linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weights[f"{name}_weight"], self.weights[f"{name}_bias"])
