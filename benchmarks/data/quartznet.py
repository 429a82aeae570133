"""QuartzNet 15x5 as a torch module, with the weights of its ONNX file: the acoustic model of the experiments.

Kriman et al. 2020 (arXiv 1910.10261): a strided separable convolution, fifteen blocks of five separable convolutions
with a residual, a dilated separable convolution, two pointwise ones. Batch normalisation is folded into the weights.
The input of every convolution is zero beyond an utterance's end, so a batch gives what each utterance gives alone.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.data.onnx_weights import Conv, read_convs

BLOCKS, CONVS_A_BLOCK = 15, 5
CONVOLUTIONS = 2 + BLOCKS * (2 * CONVS_A_BLOCK + 1) + 2 + 2


def _conv1d(conv: Conv) -> nn.Conv1d:
    """A convolution over time; the file has it in two dimensions, of which the second is 1."""
    if conv.weight.shape[3:] != (1,) or conv.pads[1] or conv.pads[0] != conv.pads[2]:
        raise ValueError(f"expected convolutions over time alone, got a kernel {conv.weight.shape[2:]}")
    channels_out, channels_in, kernel = conv.weight.shape[:3]
    module = nn.Conv1d(
        channels_in * conv.group, channels_out, kernel, stride=conv.strides[0], padding=conv.pads[0],
        dilation=conv.dilations[0], groups=conv.group, bias=conv.bias is not None,
    )  # fmt: skip
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(conv.weight[..., 0].copy()))
        if conv.bias is not None and module.bias is not None:
            module.bias.copy_(torch.from_numpy(conv.bias))
    return module


class Separable(nn.Module):
    """A convolution of each channel, then one over channels. The mask [batch, 1, frames] is that of its input."""

    def __init__(self, convs: Iterator[Conv]) -> None:
        super().__init__()
        self.depthwise, self.pointwise = _conv1d(next(convs)), _conv1d(next(convs))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.pointwise(self.depthwise(x * mask))
        return result


class Block(nn.Module):
    def __init__(self, convs: Iterator[Conv]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Separable(convs) for _ in range(CONVS_A_BLOCK))
        self.residual = _conv1d(next(convs))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x
        for step in self.steps[:-1]:  # type: ignore[index]
            y = torch.relu(step(y, mask))
        return torch.relu(self.steps[-1](y, mask) + self.residual(x))


class QuartzNet(nn.Module):
    """Features [batch, 64, frames] in, natural log-probs [batch, ceil(frames / 2), columns] out."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        every = read_convs(path)
        if len(every) != CONVOLUTIONS:
            raise ValueError(f"{path}: expected the {CONVOLUTIONS} convolutions of QuartzNet 15x5, got {len(every)}")
        convs = iter(every)
        self.first = Separable(convs)
        self.blocks = nn.ModuleList(Block(convs) for _ in range(BLOCKS))
        self.last = Separable(convs)
        self.wide, self.output = _conv1d(next(convs)), _conv1d(next(convs))
        self.eval()

    @torch.inference_mode()
    def forward(self, features: torch.Tensor, lengths: Sequence[int]) -> tuple[torch.Tensor, list[int]]:
        """Log-probs, and how many of their frames belong to each utterance of `lengths` feature frames."""
        halves = [(n + 1) // 2 for n in lengths]
        x = torch.relu(self.first(features, self._mask(lengths, features)))
        mask = self._mask(halves, x)
        for block in self.blocks:
            x = block(x, mask)
        x = torch.relu(self.last(x, mask))
        x = self.output(torch.relu(self.wide(x)))
        return torch.log_softmax(x.transpose(1, 2).float(), dim=-1), halves

    @staticmethod
    def _mask(lengths: Sequence[int], like: torch.Tensor) -> Any:
        inside = (
            torch.arange(like.shape[2], device=like.device)[None, :]
            < torch.tensor(lengths, device=like.device)[:, None]
        )
        return inside[:, None, :].to(like.dtype)
