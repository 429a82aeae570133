"""How far a run over recordings has come: seconds of audio, the rate, and the time that is left."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arcbeam.transcribe.recordings import Recording


class Progress:
    """Counts recordings and their seconds, for the thread that shows them, too."""

    def __init__(self, recordings: "Sequence[Recording]") -> None:
        self._recordings = recordings
        self.done, self._before, self._now = 0, 0.0, 0.0
        self._left_out: set[str] = set()  # of other shards, and of earlier runs
        self._began = time.monotonic()

    def pass_over(self, name: str) -> None:
        """A recording is none of this run's."""
        self._left_out.add(name)

    @property
    def seconds(self) -> float:
        """Seconds of audio that have been transcribed."""
        return self._before + self._now

    def at(self, seconds: float) -> None:
        """So many seconds of the recording are transcribed."""
        self._now = seconds

    def add(self, seconds: float) -> None:
        """A recording of so many seconds is transcribed."""
        self.done += 1
        self._before, self._now = self._before + seconds, 0.0

    def total(self) -> int | None:
        """Seconds of all recordings; None if that is not known. It reads the heads of all files."""
        if any(recording.is_pipe for recording in self._recordings):
            return None  # libsndfile would take "-" for the standard input, read it and close it
        from soundfile import SoundFileError, info

        found = 0.0
        for recording in self._recordings:
            if recording.id in self._left_out:
                continue
            with suppress(OSError, SoundFileError):  # which transcribing the file raises, too, in its turn
                there = info(str(recording.path)).duration - recording.offset
                found += there if recording.duration is None else min(there, recording.duration)
        return round(found)

    def say(self, total: int | None) -> str:
        """The line of progress."""
        took = max(time.monotonic() - self._began, 1e-9)
        rate = self.seconds / took
        count, all_of_them = len(self._recordings) - len(self._left_out), "" if total is None else f" of {clock(total)}"
        text = f"{self.done:,} of {count:,} recordings, {clock(self.seconds)}{all_of_them}, {rate:,.1f} times real time"
        if total is not None and self.seconds:
            text += f", {clock(max(0.0, total - self.seconds) / rate)} left"
        return text

    def describe(self, device: str) -> str:
        """The summary at the end."""
        took = max(time.monotonic() - self._began, 1e-9)
        return (
            f"transcribed {self.done:,} recording{'s'[: self.done != 1]}, {self.seconds:,.1f} s of audio, in "
            f"{took:,.1f} s (RTFx {self.seconds / took:,.1f}), decoding on {device}"
        )


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
