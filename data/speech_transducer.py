"""A small transducer whose encoder is a light network over stacked CTC log-probs, in torch: network, loss, files.

Encoder: a convolution over 20 ms frames with a stride of 4 (80 ms), then blocks of a convolution along time and two
dense layers. Prediction network: an embedding and an LSTM. Joint network: two projections, ReLU, an output layer. The
latter two go by the names of `arcbeam.TransducerDecoder.from_arrays`, the encoder's names begin with ``light.``.

The loss is cross-entropy on nodes of the lattice of frames and pieces, which is far cheaper than a sum over all paths
and can be had because log-probs tell when a piece is complete. At frame t with u pieces written, the answer is piece u
if it is due by then, else the blank; the nodes are those on the path that writes each piece when it is due, and those
of a piece more and of one or two fewer, so that the network finds back from being early or late. Such a network is too
sure of the frame on which a piece is written. `Transducer.full_sum_loss` goes on from it with the sum over all paths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from data.full_sum import full_sum
from data.spoken_text import FRAMES_TOGETHER, Batch

DURATIONS = (0, 1, 2, 3, 4)
FLOOR = -12.0  # of log-probs that the encoder sees
FRAME_SHIFT = 0.08  # seconds
NODES = (-2, -1, 0, 1)  # pieces, from those that are due
OTHER_HISTORY = 0.03  # share of the pieces that the prediction network sees replaced by any other
BESIDE = 0.3  # weight of a node beside the path


@dataclass(frozen=True)
class Sizes:
    """columns : of the log-probs; tokens : with the blank, which is the last one."""

    columns: int = 29
    tokens: int = 257
    channels: int = 320
    blocks: int = 6
    kernel: int = 9
    inner: int = 960
    embedding: int = 256
    units: int = 512
    joint: int = 512


class Block(torch.nn.Module):
    def __init__(self, sizes: Sizes, dropout: float) -> None:
        super().__init__()
        channels = sizes.channels
        self.along = torch.nn.Conv1d(channels, channels, sizes.kernel, padding=sizes.kernel // 2, groups=channels)
        self.norm = torch.nn.LayerNorm(channels)
        self.wide = torch.nn.Linear(channels, sizes.inner)
        self.back = torch.nn.Linear(sizes.inner, channels)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        """x, inside : [batch, frames, channels], [batch, frames, 1]."""
        y = self.along((x * inside).transpose(1, 2)).transpose(1, 2)
        return x + self.dropout(self.back(functional.gelu(self.wide(self.norm(y)))))


class Light(torch.nn.Module):
    """The encoder."""

    def __init__(self, sizes: Sizes, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = torch.nn.Conv1d(2 * sizes.columns, sizes.channels, 3 * FRAMES_TOGETHER, FRAMES_TOGETHER)
        self.blocks = torch.nn.ModuleList(Block(sizes, dropout) for _ in range(sizes.blocks))
        self.norm = torch.nn.LayerNorm(sizes.channels)

    def forward(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """[batch, frames, columns], the blank in frames beyond an utterance, a multiple of 4 of them; lengths in
        groups of 4. Gives [batch, groups, channels]."""
        floored = log_probs.clamp(min=FLOOR)
        x = torch.cat([1 - floored / FLOOR, floored.exp()], 2).transpose(1, 2)
        quiet = torch.zeros_like(x[:, :, :1])
        quiet[:, x.shape[1] // 2 - 1] = quiet[:, -1] = 1.0
        beside = quiet.expand(-1, -1, FRAMES_TOGETHER)
        x = functional.gelu(self.first(torch.cat([beside, x, beside], 2))).transpose(1, 2)
        inside = (torch.arange(x.shape[1], device=x.device)[None] < lengths[:, None])[..., None].to(x.dtype)
        for block in self.blocks:
            x = block(x, inside)
        return self.norm(x)


class Transducer(torch.nn.Module):
    """Encoder, prediction network and joint network; a TDT with `durations`."""

    def __init__(self, sizes: Sizes, durations: Sequence[int] | None, dropout: float = 0.1) -> None:
        super().__init__()
        self.sizes, self.durations = sizes, durations
        self.light = Light(sizes, dropout)
        self.embedding = torch.nn.Embedding(sizes.tokens, sizes.embedding)
        self.lstm = torch.nn.LSTM(sizes.embedding, sizes.units, batch_first=True)
        self.dropout = torch.nn.Dropout(dropout)
        self.encoder = torch.nn.Linear(sizes.channels, sizes.joint)
        self.prediction = torch.nn.Linear(sizes.units, sizes.joint)
        self.output = torch.nn.Linear(sizes.joint, sizes.tokens + len(durations or ()))

    def loss(self, batch: Batch) -> torch.Tensor:
        blank = self.sizes.tokens - 1
        most = batch.pieces.shape[1]
        is_piece = torch.arange(most, device=batch.pieces.device)[None] < batch.counts[:, None]
        history = torch.where(is_piece, batch.pieces, 0)
        replaced = torch.rand(history.shape, device=history.device) < OTHER_HISTORY
        history = torch.where(replaced, torch.randint_like(history, blank), history)
        encoded, predicted = self._joined(batch, history)

        # For each frame, how many pieces are due by then, and before.
        frames = encoded.shape[1]
        never = torch.where(is_piece, batch.due, frames)
        frame = torch.arange(frames, device=encoded.device).expand(len(never), -1).contiguous()
        by_now = torch.searchsorted(never.contiguous(), frame, right=True)
        before = functional.pad(by_now[:, :-1], (1, 0))
        node = by_now[..., None] + torch.tensor(NODES, device=encoded.device)
        legal = (node >= 0) & (node <= batch.counts[:, None, None]) & (frame < batch.lengths[:, None])[..., None]
        on_path = (node >= before[..., None]) & (node <= by_now[..., None])
        weight = legal * torch.where(on_path, 1.0, BESIDE)
        node = node.clamp(min=0).minimum(batch.counts[:, None, None])
        row = torch.arange(len(node), device=node.device)[:, None, None]
        hidden = torch.relu(encoded[:, :, None] + predicted[row, node])
        logits = self.output(hidden).float()
        is_due = node < by_now[..., None]
        answer = torch.where(is_due, functional.pad(batch.pieces, (0, 1))[row, node], blank)
        loss = functional.cross_entropy(logits[..., : blank + 1].flatten(0, 2), answer.flatten(), reduction="none")
        if self.durations is not None:
            ends = torch.where(is_piece, batch.due, batch.lengths[:, None])
            ends = torch.cat([ends, batch.lengths[:, None].expand(-1, 2)], 1)  # after the last piece
            following = ends[row, node + is_due.long()] - frame[..., None]
            following = following.clamp(max=DURATIONS[-1]).maximum((~is_due).long())
            loss = loss + functional.cross_entropy(
                logits[..., blank + 1 :].flatten(0, 2), following.clamp(min=0).flatten(), reduction="none"
            )
        return (loss * weight.flatten()).sum() / weight.sum()

    def full_sum_loss(self, batch: Batch) -> torch.Tensor:
        """Minus the log-prob of the pieces, summed over all paths, by piece."""
        blank = self.sizes.tokens - 1
        is_piece = torch.arange(batch.pieces.shape[1], device=batch.pieces.device)[None] < batch.counts[:, None]
        pieces = torch.where(is_piece, batch.pieces, 0)
        encoded, predicted = self._joined(batch, pieces)
        logits = self.output(torch.relu(encoded[:, :, None] + predicted[:, None])).float()
        tokens, durations = logits[..., : blank + 1], logits[..., blank + 1 :]
        normalizer = tokens.logsumexp(3)
        following = functional.pad(pieces, (0, 1))[:, None, :, None].expand(-1, tokens.shape[1], -1, -1)
        found = full_sum(
            tokens[..., blank] - normalizer, tokens.gather(3, following)[..., 0] - normalizer,
            None if self.durations is None else durations.log_softmax(3), self.durations or (0,),
            batch.lengths, batch.counts,
        )  # fmt: skip
        return -found.sum() / batch.counts.sum()

    def _joined(self, batch: Batch, history: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the joint network adds up: [batch, frames, joint], and of the history [batch, pieces + 1, joint]."""
        encoded = self.encoder(self.dropout(self.light(batch.log_probs, batch.lengths)))
        seen = functional.pad(history, (1, 0), value=self.sizes.tokens - 1)
        return encoded, self.prediction(self.dropout(self.lstm(self.embedding(seen))[0]))

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """All weights by their names."""
        found = {name: value.float().cpu().numpy() for name, value in self.state_dict().items()}
        renamed = {}
        for name, value in found.items():
            module, _, kind = name.partition(".")
            ours = {"embedding": "embedding", "lstm": kind}.get(module, f"{module}_{kind}")
            renamed[name if module == "light" else ours] = value
        return renamed

    def take(self, arrays: Mapping[str, npt.NDArray[np.floating]]) -> None:
        """The weights of `arrays`; raises KeyError where one is missing, RuntimeError where a shape differs."""
        names = dict(zip(self.arrays(), self.state_dict(), strict=True))
        self.load_state_dict({name: torch.from_numpy(np.float32(arrays[ours])) for ours, name in names.items()})


def load_light(arrays: Mapping[str, Any]) -> Light:
    """The encoder of saved weights, float32 or float16; its sizes are those of the arrays."""
    weights = {name.removeprefix("light."): arrays[name] for name in arrays if name.startswith("light.")}
    channels, columns, _ = weights["first.weight"].shape
    blocks = sum(name.endswith("along.weight") for name in weights)
    kernel, inner = weights["blocks.0.along.weight"].shape[2], len(weights["blocks.0.wide.weight"])
    sizes = Sizes(columns // 2, channels=channels, blocks=blocks, kernel=kernel, inner=inner)
    light = Light(sizes)
    light.load_state_dict({name: torch.from_numpy(np.asarray(v, np.float32)) for name, v in weights.items()})
    return light.eval()


def decoder_arrays(arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """What `arcbeam.TransducerDecoder.from_arrays` takes of saved weights."""
    return {name: np.asarray(arrays[name], np.float32) for name in arrays if not name.startswith("light.")}


def pad(log_probs: Sequence[npt.NDArray[np.floating]], device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Utterances in a batch as `Light` takes it."""
    lengths = [-(-len(values) // FRAMES_TOGETHER) for values in log_probs]
    columns = log_probs[0].shape[1]
    padded = np.full((len(log_probs), FRAMES_TOGETHER * max(lengths), columns), FLOOR, np.float32)
    padded[:, :, -1] = 0.0
    for row, values in zip(padded, log_probs, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(padded).to(device), torch.tensor(lengths, device=device)


def group(log_probs: torch.Tensor, frames: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of a batch [batch, most frames, columns] of which row i has frames[i], on its device."""
    count = torch.tensor(frames, device=log_probs.device)[:, None]
    most = -(-log_probs.shape[1] // FRAMES_TOGETHER) * FRAMES_TOGETHER
    padded = functional.pad(log_probs.float(), (0, 0, 0, most - log_probs.shape[1]))
    beyond = torch.arange(most, device=log_probs.device)[None] >= count
    silence = torch.full_like(padded[0, 0], FLOOR)
    silence[-1] = 0.0
    return torch.where(beyond[..., None], silence, padded), -(-count[:, 0] // FRAMES_TOGETHER)


@torch.inference_mode()
def encode(light: Light, log_probs: Sequence[npt.NDArray[np.floating]], device: str = "cpu") -> list[np.ndarray]:
    """Encoder output [groups, channels] of each utterance."""
    found: list[np.ndarray] = [np.empty(0)] * len(log_probs)
    order = sorted(range(len(log_probs)), key=lambda i: len(log_probs[i]))
    for first in range(0, len(order), 32):
        batch = order[first : first + 32]
        values, lengths = pad([log_probs[i] for i in batch], device)
        encoded = light(values, lengths).float().cpu().numpy()
        for i, row, count in zip(batch, encoded, lengths.tolist(), strict=True):
            found[i] = np.ascontiguousarray(row[:count])
    return found


def save(path: Path, arrays: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """As float16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: value.astype(np.float16) for name, value in arrays.items()})
