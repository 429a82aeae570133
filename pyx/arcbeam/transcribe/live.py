"""Live audio: samples in as they are spoken, and what is known of the words after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from arcbeam.adapters.onnx_audio import SHORTEST, as_samples, one_channel
from arcbeam.core.calls import lists_fields, lists_options
from arcbeam.core.show import Formatted
from arcbeam.transcribe.audio import Resampler, choose_channel
from arcbeam.transcribe.models import AcousticModel, encoded
from arcbeam.transcribe.segment import Segment
from arcbeam.transcribe.sentences import Sentences, as_segment
from arcbeam.transcribe.windows import Plan, Window, Windower, kept_rows
from arcbeam.words import Word


@lists_fields
@dataclass(frozen=True)
class LiveEvent(Formatted):
    """What is known of a sentence of live audio.

    Attributes
    ----------
    segment : Segment
        The sentence so far, or the whole of it.
    is_final : bool
        Whether it has ended; the next event is of another sentence.
    num_stable : int
        How many of the words, from the first, no later event changes.
    """

    segment: Segment
    is_final: bool
    num_stable: int

    @property
    def text(self) -> str:
        """The sentence so far."""
        return self.segment.text

    @property
    def stable_words(self) -> tuple[Word, ...]:
        """The words that no later event changes."""
        return self.segment.words[: self.num_stable]

    @property
    def stable_text(self) -> str:
        """The text of these words."""
        return " ".join(word.word for word in self.stable_words)

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON."""
        return {"is_final": self.is_final, "num_stable": self.num_stable, **self.segment.to_dict()}

    def __str__(self) -> str:
        return self.text


class LiveRecording:
    """A recording that is not over; `Transcriber.live` begins one.

    Each window of the model ends `ahead_seconds` after the frames that are kept of it. So words are known within
    ``step_seconds + ahead_seconds`` after they were said, and the model takes each second of audio
    ``window_seconds / step_seconds`` times. The memory does not grow with the recording, only with its unfinished
    sentence.

    Several recordings of a transcriber may be used at the same time, each by one thread at a time.
    """

    def __init__(
        self,
        model: AcousticModel,
        sentences: Sentences,
        plan: Plan,
        frame_samples: int,
        sample_rate: int,
        name: str = "samples",
    ) -> None:
        self._model, self._frame_samples, self._name = model, frame_samples, name
        self._resampler = Resampler(name, sample_rate, model.sample_rate)
        self._windower, self._sentences = Windower(plan, frame_samples), sentences
        self._samples, self._rate, self._is_finished = 0, sample_rate, False
        self._shown: tuple[str, int] = ("", 0)

    @property
    def seconds(self) -> float:
        """Seconds of audio so far."""
        return self._samples / self._rate

    @property
    def is_finished(self) -> bool:
        """Whether `finish` was called."""
        return self._is_finished

    @lists_options()
    def add(self, samples: Any) -> list[LiveEvent]:
        """Takes the next samples, and returns what has become known: sentences that have ended, then the unfinished.

        Parameters
        ----------
        samples : array [samples] or [samples, 1] or [samples, 2]
            Floats from -1 to 1, of any length; two channels are mixed.

        Returns
        -------
        list of LiveEvent
            Empty if no window of the model was complete, or nothing has changed.

        Raises
        ------
        TypeError, ValueError
            Something else than finite samples, which is left out; or the recording is finished.
        """
        self._check_unfinished()
        given = as_samples(samples, self._name)
        channels = 1 if given.ndim == 1 else given.shape[1]
        mono = one_channel(given, self._name, choose_channel(self._name, channels, None))
        self._samples += len(mono)
        return self._events(self._windower.add(self._resampler.add(mono)))

    @lists_options()
    def finish(self) -> list[LiveEvent]:
        """Ends the recording, and returns its last sentences; none of a recording that is shorter than 25 ms."""
        self._check_unfinished()
        if self._samples < SHORTEST * self._rate:
            self._is_finished = True
            return []
        events = self._events(self._windower.add(self._resampler.add(np.empty(0, np.float32), last=True)))
        events += self._events(self._windower.finish())
        self._is_finished = True
        return events

    def _check_unfinished(self) -> None:
        if self._is_finished:
            raise ValueError("samples: expected none after finish(); Transcriber.live() begins another recording")

    def _events(self, windows: Iterator[Window]) -> list[LiveEvent]:
        """What becomes known with some windows."""
        events: list[LiveEvent] = []
        is_last = False
        for window in windows:
            [rows] = encoded(self._model, [window.samples], 1)
            is_last = window.end is None
            for segment in self._sentences.add(kept_rows(rows, window, self._frame_samples), last=is_last):
                events.append(LiveEvent(segment, True, len(segment.words)))
                self._shown = ("", 0)
        if not is_last and (event := self._unfinished()) is not None:
            events.append(event)
        return events

    def _unfinished(self) -> LiveEvent | None:
        """The sentence that has not ended; None if it has no words, or the same as when it was returned last."""
        partial = self._sentences.unfinished
        if partial.is_final or (partial.text, partial.num_stable) == self._shown:
            return None
        self._shown = partial.text, partial.num_stable
        segment = as_segment(partial)
        return None if segment is None else LiveEvent(segment, False, partial.num_stable)
