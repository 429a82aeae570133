"""The transcript of a recording: its sentences with their times and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from arcbeam.core.calls import lists_fields, lists_options
from arcbeam.core.show import Formatted
from arcbeam.transcribe.formats import rendered
from arcbeam.transcribe.segment import Segment
from arcbeam.transcribe.subtitles import SubtitleRules
from arcbeam.words import Word


@lists_fields
@dataclass(frozen=True)
class Transcript(Formatted):
    """The sentences of a recording.

    Attributes
    ----------
    id : str
        The name of the recording: that of its file without the extension.
    duration : float
        Seconds of the recording.
    segments : tuple of Segment
        The sentences, in their order; none if nothing was said.
    path : str or None
        The file; None for samples from elsewhere.
    sample_rate : int
        Samples a second of the recording, before it was resampled for the model.
    channels : int
        Its channels.
    channel : int, "mean" or None
        Which of them was transcribed, ``"mean"`` for their mean; None where there is one.
    """

    id: str
    duration: float
    segments: tuple[Segment, ...]
    path: str | None = None
    sample_rate: int = 16_000
    channels: int = 1
    channel: int | str | None = None

    @property
    def text(self) -> str:
        """All sentences, with a space between them."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def words(self) -> list[Word]:
        """The words of all sentences."""
        return [word for segment in self.segments for word in segment.words]

    def to_dict(self) -> dict[str, Any]:
        """All attributes as plain Python values for JSON."""
        return {
            "id": self.id,
            "path": self.path,
            "duration": self.duration,
            "sample_rate": self.sample_rate,
            "channels": self.channels,
            "channel": self.channel,
            "text": self.text,
            "segments": [segment.to_dict() for segment in self.segments],
        }

    @lists_options()
    def render(self, format: str, subtitles: SubtitleRules | None = None) -> str:
        """The transcript as the text of a file.

        Parameters
        ----------
        format : "text", "json", "ctm", "srt", "vtt" or "textgrid"
            Sentences, one a line; an object on a line; NIST's CTM, a word a line; subtitles of SubRip and of WebVTT; or
            a TextGrid of Praat with a tier of sentences and one of words.
        subtitles : SubtitleRules, optional
            How long the lines of subtitles are and how long they are shown.

        Raises
        ------
        ValueError
            Another format, or CTM of a transcript whose id is empty or contains a space.
        """
        return rendered(self, format, subtitles)

    def __str__(self) -> str:
        return self.text
