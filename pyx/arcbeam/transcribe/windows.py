"""Long audio in windows: the samples that the acoustic model takes at a time, and which of its frames are kept.

Windows overlap, because a model knows little of what comes before the first and after the last frame that it takes::

    window 0   |=============----|             = kept    - dropped, because the next window has it with more context
    window 1            |----========----|
    last                      |----===========|         moved back to be as wide as the others

A window begins on the frame grid of the recording, so its frames are those of the recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import InputError

Samples = npt.NDArray[np.float32]

ROUNDING = 1e-6  # of a frame, by which a number of seconds may miss it
ODD_FRAMES = 4  # by which a model's frames may differ from what its seconds a frame say: padding at both ends
ODD_SHARE = 0.1  # of the frames, likewise


@dataclass(frozen=True)
class Plan:
    """The widths of windows, in frames.

    Attributes
    ----------
    width : int
        Frames of a window.
    step : int
        Frames that are kept of each window but the first and the last.
    ahead : int
        Frames after those that are kept.
    first : int
        Frames that are kept of the first window.
    """

    width: int
    step: int
    ahead: int
    first: int

    @classmethod
    def of_files(cls, window: int, overlap: int) -> Plan:
        """Whole windows, which are stitched in the middle of their overlaps."""
        ahead = overlap // 2
        return cls(window, window - overlap, ahead, window - ahead)

    @classmethod
    def of_live_audio(cls, window: int, step: int, ahead: int) -> Plan:
        """A window as soon as `step` new frames have `ahead` frames after them; the first ones are shorter."""
        return cls(window, step, ahead, step)


class Window(NamedTuple):
    """Samples for the acoustic model, and the frames of the recording that are kept of its output.

    Attributes
    ----------
    samples : float32[n]
    begin : int
        The frame of the recording that the samples begin with.
    kept : int
        The first frame that is kept.
    end : int or None
        The frame after the last one that is kept; None for all frames, of the last window.
    """

    samples: Samples
    begin: int
    kept: int
    end: int | None


class Windower:
    """Makes windows of samples that arrive in pieces of any length, and holds no more than two windows and a piece.

    The windows depend on the samples alone, not on the pieces.
    """

    def __init__(self, plan: Plan, frame_samples: int) -> None:
        self._plan, self._frame_samples = plan, frame_samples
        self._pieces: list[Samples] = []
        self._held = 0  # samples in the pieces
        self._begin = 0  # the frame that they begin with
        self._kept = 0  # the first frame that no window has kept

    def add(self, samples: Samples) -> Iterator[Window]:
        """The windows that are complete with these samples, and after which there is more."""
        self._pieces.append(samples)
        self._held += len(samples)
        plan = self._plan
        while True:
            end = self._kept + (plan.step if self._kept else plan.first)
            stop = end + plan.ahead
            if self._begin * self._frame_samples + self._held <= stop * self._frame_samples:
                return
            begin = max(0, stop - plan.width)
            yield Window(self._cut(begin, stop), begin, self._kept, end)
            self._kept = end

    def finish(self) -> Iterator[Window]:
        """The last window, which ends with the recording; none of a recording without samples."""
        if not self._begin and not self._held:
            return
        stop = self._begin + -(-self._held // self._frame_samples)
        begin = max(0, stop - self._plan.width)
        yield Window(self._cut(begin, stop), begin, self._kept, None)
        self._pieces, self._held, self._begin = [], 0, 0

    def _cut(self, begin: int, stop: int) -> Samples:
        """The samples of these frames; those before are dropped."""
        held = self._pieces[0] if len(self._pieces) == 1 else np.concatenate(self._pieces)
        held = held[(begin - self._begin) * self._frame_samples :]
        self._pieces, self._held, self._begin = [held], len(held), begin
        return held[: (stop - begin) * self._frame_samples]


def kept_rows(rows: Any, window: Window, frame_samples: int) -> Any:
    """The frames that are kept of a model's output for a window.

    Raises
    ------
    InputError
        The output has fewer frames than are kept, or has not the number that the seconds a frame say.
    """
    expected = -(-len(window.samples) // frame_samples)
    if not _are_alike(len(rows), expected):
        hint = "give frame_shift=, the seconds of a frame of this model, to its decoder"
        if _are_alike(rows.shape[1], expected):
            hint = "is it [columns, frames]? return its transpose, [frames, columns], from encode"
        raise InputError(
            "audio",
            f"expected about {expected:,} frames of {len(window.samples):,} samples, because a frame has "
            f"{frame_samples:,}, got {len(rows):,} from the model",
            hint,
        )
    end = None if window.end is None else window.end - window.begin
    if end is not None and len(rows) < end:
        raise InputError(
            "audio",
            f"expected at least {end:,} frames of a window, got {len(rows):,} from the model, which gives none at the "
            "end",
            "use a longer overlap",
        )
    return rows[window.kept - window.begin : end]


def _are_alike(frames: int, expected: int) -> bool:
    """Whether a model may give so many frames."""
    return abs(frames - expected) <= max(ODD_FRAMES, ODD_SHARE * expected)


def frames_of(seconds: float, frame_shift: float) -> int:
    """The number of whole frames in some seconds, which may be 0."""
    return int(seconds / frame_shift + ROUNDING)


def samples_of_a_frame(frame_shift: float, sample_rate: int) -> int:
    """Samples from one frame to the next; ValueError unless that is a whole number."""
    found = round(frame_shift * sample_rate)
    if found < 1 or abs(found - frame_shift * sample_rate) > ROUNDING * found:
        raise ValueError(
            f"frame_shift: expected a whole number of samples from one frame to the next, got {frame_shift} s at "
            f"{sample_rate:,} samples a second"
        )
    return found
