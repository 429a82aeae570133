"""Log-mel features of a batch of recordings in torch, on a CPU or a GPU; each equal to what it would be alone.

The steps are those of the models that NVIDIA's NeMo trains (QuartzNet, Citrinet, Conformer): pre-emphasis, a symmetric
Hann window in the middle of a longer FFT, frames centred on multiples of the hop with reflection at both ends, power
spectrum, triangular mel filters of equal area on Slaney's scale, logarithm, then mean and standard deviation of each
bin over the utterance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

SAMPLE_RATE = 16_000
LOG_FLOOR = 2.0**-24  # added before the logarithm
STD_FLOOR = 1e-5  # added to the standard deviation


@dataclass(frozen=True)
class FrontEndOptions:
    """What the models differ in. QuartzNet has 64 bins and windows of 20 ms, Conformers 80 bins and 25 ms."""

    mel_bins: int = 64
    window: int = 320  # samples of 16 kHz
    hop: int = 160
    fft: int = 512
    pre_emphasis: float = 0.97

    def __post_init__(self) -> None:
        if not 0 < self.window <= self.fft:
            raise ValueError(f"expected a window of 1 to {self.fft} samples, got {self.window}")
        if self.hop < 1 or self.mel_bins < 1:
            raise ValueError(f"expected a hop and mel bins of at least 1, got {self.hop} and {self.mel_bins}")


def _to_mel(hertz: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Slaney's scale: linear below 1 kHz, logarithmic above."""
    hertz = np.asarray(hertz, np.float64)
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + 27 * np.log(np.maximum(hertz, 1000) / 1000) / np.log(6.4))


def _to_hertz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(np.log(6.4) * (np.maximum(mel, 15) - 15) / 27))


def mel_filters(bins: int, fft: int) -> npt.NDArray[np.float64]:
    """Triangles [bins, fft / 2 + 1] from 0 Hz to half the rate, each of area 1 over Hz."""
    edges = _to_hertz(np.linspace(_to_mel(0.0), _to_mel(SAMPLE_RATE / 2), bins + 2))
    lower, centre, upper = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    at = np.arange(fft // 2 + 1) * SAMPLE_RATE / fft
    rising, falling = (at - lower) / (centre - lower), (upper - at) / (upper - centre)
    return np.maximum(0, np.minimum(rising, falling)) * 2 / (upper - lower)


def pad(waves: Sequence[npt.NDArray[np.float32]], device: str = "cpu") -> tuple[Any, list[int]]:
    """Zero-padded samples [batch, longest] on the device, and the number of samples of each."""
    lengths = [len(w) for w in waves]
    padded = np.zeros((len(waves), max(lengths)), np.float32)
    for row, wave in zip(padded, waves, strict=True):
        row[: len(wave)] = wave
    return torch.from_numpy(padded).to(device), lengths


class FrontEnd:
    """``front_end(*pad(waves))`` gives features [batch, mel_bins, frames], float32, and the frames of each."""

    def __init__(self, options: FrontEndOptions | None = None, device: str = "cpu") -> None:
        self.options = options or FrontEndOptions()
        self.device = torch.device(device)
        o = self.options
        self.filters = torch.tensor(mel_filters(o.mel_bins, o.fft), dtype=torch.float32, device=self.device)
        window = torch.hann_window(o.window, periodic=False, dtype=torch.float32)
        before = (o.fft - o.window) // 2
        self.window = torch.nn.functional.pad(window, (before, o.fft - o.window - before)).to(self.device)

    def frames(self, samples: int) -> int:
        """Feature frames of a recording: as many as there are hops in it, a part of one counted."""
        return -(-samples // self.options.hop)

    @torch.inference_mode()
    def __call__(self, samples: Any, lengths: Sequence[int]) -> tuple[Any, list[int]]:
        """Features of what `pad` returned; frames beyond an utterance's own are zero."""
        o = self.options
        if min(lengths) <= o.fft // 2:
            raise ValueError(f"expected recordings of more than {o.fft // 2} samples, got one of {min(lengths)}")
        emphasised = torch.cat([samples[:, :1], samples[:, 1:] - o.pre_emphasis * samples[:, :-1]], dim=1)
        count = torch.tensor(lengths, device=self.device)[:, None]
        half = o.fft // 2
        at = torch.arange(-half, samples.shape[1] + half, device=self.device)[None, :].expand(len(lengths), -1).abs()
        at = torch.where(at >= count, 2 * (count - 1) - at, at)  # reflected at each utterance's own end
        beyond = at < 0  # only past the frames that count
        reflected = emphasised.gather(1, at.clamp(min=0)).masked_fill(beyond, 0.0)

        frames = reflected.unfold(1, o.fft, o.hop) * self.window
        power = torch.view_as_real(torch.fft.rfft(frames)).square().sum(-1)
        log_mel = torch.log(power @ self.filters.T + LOG_FLOOR).transpose(1, 2)

        used = [self.frames(n) for n in lengths]
        log_mel = log_mel[:, :, : max(used)]
        counts = torch.tensor(used, device=self.device)[:, None, None]
        inside = torch.arange(log_mel.shape[2], device=self.device)[None, None, :] < counts
        mean = (log_mel * inside).sum(2, keepdim=True) / counts
        centred = (log_mel - mean) * inside
        deviation = (centred.square().sum(2, keepdim=True) / (counts - 1)).sqrt()
        return centred / (deviation + STD_FLOOR), used
