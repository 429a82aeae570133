"""`arcbeam.Transcriber`: audio of any length to sentences with times, with a model of another library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from arcbeam.adapters.onnx_audio import check_length, warn_of_low_rate
from arcbeam.core.calls import explains, lists_options
from arcbeam.core.checks import check_bool, check_count, check_real
from arcbeam.core.errors import InputError
from arcbeam.core.fixed import Fixed
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.front.ctc_decoder import CtcDecoderKeywords, ctc_decoder
from arcbeam.streams.endpoints import Endpoint, check_endpoint
from arcbeam.transcribe.audio import Sound, counted, of_array, open_file, resampled
from arcbeam.transcribe.live import LiveEvent, LiveRecording
from arcbeam.transcribe.models import AcousticModel, check_decoder, encoded, open_model
from arcbeam.transcribe.segment import Segment
from arcbeam.transcribe.sentences import PAUSES, Sentences, check_batcher
from arcbeam.transcribe.transcript import Transcript
from arcbeam.transcribe.windows import Plan, Window, Windower, frames_of, kept_rows, samples_of_a_frame

if TYPE_CHECKING:
    from arcbeam.batching.batcher import Batcher
    from arcbeam.ctc.boost.boost import Boost
    from arcbeam.transducer.boosting_tree import BoostingTree

    AnyBoost = Boost | BoostingTree | None


@explains(ctc_decoder, frozenset(CtcDecoderKeywords.__annotations__))
class Transcriber(Fixed):
    """Audio to sentences with times.

    Features and acoustic model are those of another library; what decodes is a `CtcDecoder` or a `TransducerDecoder`.
    Long recordings go through the model in windows that overlap, and through one stream of the decoder, which ends
    sentences at pauses; so an hour of audio takes the memory of a minute.

    Parameters
    ----------
    model
        The folder of an ONNX export, as of `from_onnx`; the folder or the name of a model of Transformers, as of
        `from_transformers`; a ``.nemo`` archive or the name of a model of NeMo, which has to be installed. Or a loaded
        model: what `from_onnx` returns, a model object of Transformers or of NeMo, or any object with ``decoder``,
        ``sample_rate`` and ``encode(audio, sample_rate=, batch_size=)``, such as your own.
    lm : path, LanguageModel, KenLM, optional
        For a CTC model: an ARPA over words, as of `ctc_decoder`.
    processor : optional
        That of a model object of Transformers.
    toolkit : "onnx", "transformers", "nemo" or None
        Which library a path or a name is for; None: by what is there, or by the name.
    model_type, quantization : str, optional
        Of an ONNX export, as of `from_onnx`.
    preprocessor : str or function, optional
        The features of an ONNX export, as of `from_onnx`.
    transducer : mapping of str, optional
        For a transducer: options of its decoder by name. ``{"confidence": "entropy"}`` is there with `confidence`.
    blank : str or int, optional
        As of `ctc_decoder`, if the model's own is not the right one.
    window_seconds : float
        Audio that the acoustic model takes at a time. A recording that is not longer goes through it at once.
    overlap_seconds : float
        What two windows have in common. They are stitched in its middle.
    batch_size : int
        Windows of a recording that the acoustic model takes together, for a model on a GPU; models of Transformers and
        NeMo take one.
    endpoint : Endpoint, optional
        The rules that end sentences. By default 0.6 s of silence end one, 0.3 s once it has lasted for 15 s; 60 s
        end it in any case.
    confidence : bool
        Whether words have confidences.
    **options
        Those of `ctc_decoder`.

    Raises
    ------
    TypeError, ValueError
        Options that do not fit the model, or what `ctc_decoder` raises.
    UnsupportedError, FormatError, MissingDependencyError, OSError
        As of `from_onnx`, `from_transformers` and `from_nemo`.

    Examples
    --------
    >>> transcriber = arcbeam.Transcriber("parakeet-ctc-0.6b-onnx", lm="3gram.arpa.gz", acoustic_scale=1.5)
    >>> transcript = transcriber.transcribe("lecture.mp3")
    >>> for segment in transcript.segments:
    ...     print(segment.start, segment.end, segment.text)
    >>> Path("lecture.srt").write_text(transcript.render("srt"))
    """

    @lists_options(ctc_decoder)
    def __init__(
        self,
        model: Any,
        lm: Any = None,
        *,
        processor: Any = None,
        toolkit: str | None = None,
        model_type: str | None = None,
        quantization: str | None = None,
        preprocessor: str | Callable[..., Any] | None = None,
        transducer: Mapping[str, Any] | None = None,
        blank: str | int | None = None,
        window_seconds: float = 30.0,
        overlap_seconds: float = 4.0,
        batch_size: int = 1,
        endpoint: Endpoint | None = None,
        confidence: bool = False,
        **options: Unpack[CtcDecoderKeywords],
    ) -> None:
        check_bool("confidence", confidence)
        check_count("batch_size", batch_size, or_none="")
        check_endpoint(endpoint)
        of_decoder: dict[str, Any] = {"blank": blank, "transducer": transducer, **options}
        of_onnx = {"model_type": model_type, "quantization": quantization, "preprocessor": preprocessor}
        self._model: AcousticModel = open_model(model, lm, processor, toolkit, confidence, of_decoder, of_onnx)
        self._shift = check_decoder(self.model, confidence, is_opened=self.model is model)
        self._frame_samples = samples_of_a_frame(self._shift, self.sample_rate)
        self._plan = self._plan_of_files(window_seconds, overlap_seconds)
        self._batch_size, self._endpoint, self._confidence = batch_size, endpoint or PAUSES, confidence

    @property
    def model(self) -> AcousticModel:
        """The model that turns samples into the decoder's input."""
        return self._model

    @property
    def decoder(self) -> Any:
        """The `CtcDecoder` or `TransducerDecoder`, with all that it offers."""
        return self._model.decoder

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model takes; other rates are resampled with the package soxr."""
        return self.model.sample_rate

    def _plan_of_files(self, window_seconds: float, overlap_seconds: float) -> Plan:
        check_real("window_seconds", window_seconds, "of seconds above 0", above=0.0)
        check_real("overlap_seconds", overlap_seconds, "of seconds, at least 0", above=0.0, inclusive=True)
        window, overlap = frames_of(window_seconds, self._shift), frames_of(overlap_seconds, self._shift)
        if not 0 <= 2 * overlap <= window or window < 1:
            raise ValueError(
                f"overlap_seconds: expected at most half of window_seconds={window_seconds:g}, which has at least a "
                f"frame of {self._shift:g} s, got {overlap_seconds:g}"
            )
        return Plan.of_files(window, overlap)

    @overload
    def transcribe(
        self, audio: list[Any] | tuple[Any, ...], *, sample_rate: int | None = ..., channel: int | str | None = ...,
        boost: AnyBoost = ..., progress: Callable[[float], None] | None = ..., batcher: Batcher | None = ...,
    ) -> list[Transcript]: ...  # fmt: skip
    @overload
    def transcribe(
        self, audio: Any, *, sample_rate: int | None = ..., channel: int | str | None = ..., boost: AnyBoost = ...,
        progress: Callable[[float], None] | None = ..., batcher: Batcher | None = ...,
    ) -> Transcript: ...  # fmt: skip
    @lists_options()
    def transcribe(
        self,
        audio: Any,
        *,
        sample_rate: int | None = None,
        channel: int | str | None = None,
        boost: AnyBoost = None,
        progress: Callable[[float], None] | None = None,
        batcher: Batcher | None = None,
    ) -> Transcript | list[Transcript]:
        """Transcribes whole recordings, one after the other.

        Parameters
        ----------
        audio : path, array [samples] or [samples, channels], or list of these
            Samples are floats from -1 to 1. A path is that of an audio file, of any format that the package soundfile
            reads.
        sample_rate : int, optional
            Samples a second of arrays, by default those of the model; files say their own. Other rates than the model's
            need the package soxr.
        channel : int, "mean" or None
            The channel that is transcribed, counted from 0, or the mean of all. None: the only one, or the mean of two.
        boost : Boost or BoostingTree, optional
            Words and phrases that are made likelier.
        progress : function, optional
            Is called with the seconds of the recording that have been transcribed, after each window.
        batcher : Batcher, optional
            Decodes the recording in its rounds, with others; it is one of :attr:`decoder`.

        Returns
        -------
        Transcript or list of Transcript
            One for one recording, a list for a list.

        Raises
        ------
        TypeError, ValueError
            Audio that is no recording, or is shorter than 25 ms; more than two channels without `channel`.
        FormatError
            A file that is empty, no audio, or cut short.
        MissingDependencyError
            A package is missing: soundfile, or soxr.
        OSError
            A file cannot be read.
        """
        check_batcher(batcher, self.decoder)
        how = self._rate_of(sample_rate), channel, boost, progress, batcher
        if isinstance(audio, (list, tuple)):
            return [self._transcribed(one, f"audio[{i}]", *how) for i, one in enumerate(audio)]
        return self._transcribed(audio, "audio", *how)

    def _transcribed(
        self,
        audio: Any,
        name: str,
        sample_rate: int,
        channel: int | str | None,
        boost: Any,
        progress: Any,
        batcher: Batcher | None,
    ) -> Transcript:
        if isinstance(audio, (str, os.PathLike)):
            path = os.fsdecode(audio)
            with open_file(path, channel) as sound:
                warn_of_low_rate(sound.sample_rate, self.sample_rate, path)
                return transcribe_sound(self, sound, Path(path).stem, path, boost, progress, batcher)
        sound = of_array(audio, name, sample_rate, channel)
        warn_of_low_rate(sound.sample_rate, self.sample_rate, name)
        return transcribe_sound(self, sound, name, None, boost, progress, batcher)

    @lists_options()
    def live(
        self,
        *,
        sample_rate: int | None = None,
        boost: AnyBoost = None,
        window_seconds: float = 6.0,
        step_seconds: float = 1.0,
        ahead_seconds: float = 1.0,
        batcher: Batcher | None = None,
    ) -> LiveRecording:
        r"""Begins a recording whose samples arrive while they are spoken.

        Parameters
        ----------
        sample_rate : int, optional
            Samples a second, by default those of the model.
        boost : Boost or BoostingTree, optional
            Words and phrases that are made likelier.
        window_seconds : float
            Audio that the acoustic model takes at a time.
        step_seconds : float
            New audio of each window: the model runs once in so many seconds. A longer step costs less.
        ahead_seconds : float
            Audio after the step, as context for its end; if it is shorter than the context of the model, words at the
            ends of steps may be doubled or missing.
        batcher : Batcher, optional
            Decodes the recording in its rounds, with others; it is one of :attr:`decoder`. `LiveRecording.add` waits
            for its round.

        Returns
        -------
        LiveRecording
            Its ``add`` takes samples and returns what has become known.

        Raises
        ------
        ValueError
            A step and what is ahead of it that are longer than the window; or a Batcher of another decoder.
        MissingDependencyError
            Another rate than the model's, and the package soxr is missing.

        Examples
        --------
        >>> recording = transcriber.live(sample_rate=48_000)
        >>> for samples in microphone:
        ...     for event in recording.add(samples):
        ...         print(event.text, end="\n" if event.is_final else "\r")
        >>> events = recording.finish()
        """
        rate = self._rate_of(sample_rate)
        for name, seconds in (("window_seconds", window_seconds), ("step_seconds", step_seconds)):
            check_real(name, seconds, "of seconds above 0", above=0.0)
        check_real("ahead_seconds", ahead_seconds, "of seconds, at least 0", above=0.0, inclusive=True)
        window, step, ahead = (frames_of(one, self._shift) for one in (window_seconds, step_seconds, ahead_seconds))
        if step < 1 or step + ahead > window:
            raise ValueError(
                f"step_seconds: expected at least a frame of {self._shift:g} s, and with "
                f"ahead_seconds={ahead_seconds:g} at most window_seconds={window_seconds:g}, got {step_seconds:g}"
            )
        plan = Plan.of_live_audio(window, step, ahead)
        check_batcher(batcher, self.decoder)
        warn_of_low_rate(rate, self.sample_rate, "samples")
        sentences = Sentences(self._stream(boost), batcher)
        return LiveRecording(self.model, sentences, plan, self._frame_samples, rate)

    @lists_options()
    def stream(
        self,
        chunks: Iterable[Any],
        *,
        sample_rate: int | None = None,
        boost: AnyBoost = None,
        window_seconds: float = 6.0,
        step_seconds: float = 1.0,
        ahead_seconds: float = 1.0,
        batcher: Batcher | None = None,
    ) -> Iterator[LiveEvent]:
        """What becomes known of live audio, event by event: `live` for one recording.

        Parameters
        ----------
        chunks : iterable of arrays [samples]
            Samples in the order in which they are spoken, in pieces of any length.
        sample_rate, boost, window_seconds, step_seconds, ahead_seconds, batcher
            As of :meth:`live`.

        Yields
        ------
        LiveEvent
            Of the unfinished sentence, and of each sentence that has ended.

        Raises
        ------
        TypeError, ValueError, MissingDependencyError
            As of :meth:`live` and `LiveRecording.add`.
        """
        recording = self.live(
            sample_rate=sample_rate,
            boost=boost,
            window_seconds=window_seconds,
            step_seconds=step_seconds,
            ahead_seconds=ahead_seconds,
            batcher=batcher,
        )
        return _followed(recording, chunks)

    def _rate_of(self, sample_rate: int | None) -> int:
        """Samples a second of arrays, by default those of the model; TypeError or ValueError for what is no rate."""
        if sample_rate is None:
            return self.sample_rate
        check_count("sample_rate", sample_rate)
        return int(sample_rate)

    def _stream(self, boost: Any) -> Any:
        """A stream of the decoder for a recording."""
        if isinstance(self.decoder, CtcDecoder):
            return self.decoder.stream(boost=boost, endpoint=self._endpoint, confidence=self._confidence)
        return self.decoder.stream(boost=boost, endpoint=self._endpoint)

    def __repr__(self) -> str:
        return f"<Transcriber of {self.model!r}>"


def _followed(recording: LiveRecording, chunks: Iterable[Any]) -> Iterator[LiveEvent]:
    """The events of a recording with these samples."""
    for chunk in chunks:
        yield from recording.add(chunk)
    yield from recording.finish()


def transcribe_sound(
    transcriber: Transcriber,
    sound: Sound,
    name: str,
    path: str | None,
    boost: Any = None,
    progress: Callable[[float], None] | None = None,
    batcher: Batcher | None = None,
) -> Transcript:
    """The transcript of a recording that is read block by block."""
    rate = transcriber.sample_rate
    samples = [0]

    def add(count: int) -> None:
        samples[0] += count

    blocks = counted(resampled(sound, rate), add)
    windower = Windower(transcriber._plan, transcriber._frame_samples)

    def windows() -> Iterator[Window]:
        for block in blocks:
            yield from windower.add(block)
        check_length(samples[0], sound.name, rate)
        yield from windower.finish()

    segments: list[Segment] = []
    sentences = Sentences(transcriber._stream(boost), batcher)
    try:
        for batch in _batches(windows(), transcriber._batch_size):
            outputs = encoded(transcriber.model, [window.samples for window in batch], transcriber._batch_size)
            for window, rows in zip(batch, outputs, strict=True):
                kept = kept_rows(rows, window, transcriber._frame_samples)
                segments += sentences.add(kept, last=window.end is None)
                if progress is not None:
                    end = samples[0] if window.end is None else window.end * transcriber._frame_samples
                    progress(end / rate)
    except InputError as error:
        raise error.at(utterance=sound.name) from error
    return Transcript(name, samples[0] / rate, tuple(segments), path, sound.sample_rate, sound.channels, sound.channel)


def _batches(windows: Iterable[Window], size: int) -> Iterator[list[Window]]:
    """Windows of one length, so many at a time: padding could change a model's output."""
    batch: list[Window] = []
    for window in windows:
        if batch and (len(batch) == size or len(batch[0].samples) != len(window.samples)):
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch
