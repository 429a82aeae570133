"""The command ``arcbeam transcribe``: its options, and the loop over recordings."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, guarded
from arcbeam.cli.outputs import STDOUT, is_done, tell_job
from arcbeam.cli.parameters import takes_groups
from arcbeam.cli.terminal import as_typed, note, progress, steps
from arcbeam.cli.transcribe.outputs import SUBTITLES, Format, check_place, format_of, is_folder, open_transcripts
from arcbeam.cli.transcribe.progress import Progress

if TYPE_CHECKING:
    from arcbeam.jobs.job import Job
    from arcbeam.transcribe.recordings import Recording
    from arcbeam.transcribe.subtitles import SubtitleRules
    from arcbeam.transcribe.transcriber import Transcriber
    from arcbeam.transcribe.transcript import Transcript

AUDIO, MODEL, OF_SUBTITLES = "Audio", "Model", "Subtitles"
OF_CTC = ("beam", "max_active", "acoustic_scale", "blank_penalty", "lexicon")
DEFAULT_PAUSE = 0.6


# fmt: off
@dataclass
class Subtitles:
    """How subtitles are made of words: the fields of `SubtitleRules`."""

    lines: Annotated[int, typer.Option("--lines", metavar="N", min=1, rich_help_panel=OF_SUBTITLES,
        help="The most lines of a subtitle.")] = 2
    line_chars: Annotated[int, typer.Option("--line-chars", metavar="CHARACTERS", min=1, rich_help_panel=OF_SUBTITLES,
        help="The most characters of a line.")] = 42
    min_seconds: Annotated[float, typer.Option("--min-seconds", metavar="SECONDS", min=0, rich_help_panel=OF_SUBTITLES,
        help="How long a subtitle is shown at least, unless the next one comes earlier.")] = 1.0
    max_seconds: Annotated[float, typer.Option("--max-seconds", metavar="SECONDS", min=0, rich_help_panel=OF_SUBTITLES,
        help="How long a subtitle is shown at most.")] = 7.0
    chars_per_second: Annotated[float, typer.Option("--chars-per-second", metavar="N", min=0,
        rich_help_panel=OF_SUBTITLES, help="The speed of reading, by which short subtitles are shown longer.")] = 20.0
    pause_seconds: Annotated[float, typer.Option("--pause-seconds", metavar="SECONDS", min=0,
        rich_help_panel=OF_SUBTITLES,
        help="A silence of this length is a good place for the end of a subtitle.")] = 0.5

    def rules(self, context: typer.Context, format: Format) -> "SubtitleRules | None":
        """The rules of subtitles; a usage error for values that do not fit, or for a format without subtitles."""
        from arcbeam.transcribe.subtitles import SubtitleRules

        given = [field.name for field in fields(self) if opt.is_given(context, field.name)]
        if format not in SUBTITLES:
            if given:
                raise typer.BadParameter(
                    f"is for --format {' and '.join(SUBTITLES)}, got --format {format}",
                    param_hint=f"'--{given[0].replace('_', '-')}'",
                )
            return None
        with opt.usage_errors():
            return SubtitleRules(**vars(self))


@guarded
@takes_groups
def transcribe(
    context: typer.Context,
    *,
    model: Annotated[str, typer.Argument(metavar="MODEL",
        help="The folder of an ONNX export; the folder or the name of a model of Transformers; or the .nemo archive or "
        "the name of a model of NeMo.")],
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT",
        help="Audio files; folders of them; NeMo's manifests (.json, .jsonl: lines with audio_filepath); or -, with "
        "--sample-rate, for raw samples from the standard input: one channel, 16 bits, little endian.")],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE|FOLDER",
        help="A file for all transcripts, or the folder for a file of each recording (it exists, or its name ends with "
        "/); - is the standard output.")] = STDOUT,
    format: Annotated[Format | None, typer.Option("--format", "-f", show_default="by --output, or text",
        help="text: sentences, one a line; json: an object a recording; ctm: a word and its seconds a line; srt, vtt: "
        "subtitles; textgrid: Praat's, with tiers of sentences and words.")] = None,
    channel: Annotated[str | None, typer.Option("--channel", metavar="N|mean", rich_help_panel=AUDIO,
        show_default="the only one, or the mean of two",
        help="The channel that is transcribed, counted from 0, or the mean of all.")] = None,
    sample_rate: Annotated[int | None, typer.Option("--sample-rate", metavar="HERTZ", min=1, rich_help_panel=AUDIO,
        show_default=False, help="Samples a second of the standard input.")] = None,
    window_seconds: Annotated[float, typer.Option("--window-seconds", metavar="SECONDS", min=0, rich_help_panel=AUDIO,
        help="Audio that the acoustic model takes at a time.")] = 30.0,
    overlap_seconds: Annotated[float, typer.Option("--overlap-seconds", metavar="SECONDS", min=0, rich_help_panel=AUDIO,
        help="What two windows have in common; they are stitched in its middle.")] = 4.0,
    sentence_pause: Annotated[float, typer.Option("--sentence-pause", metavar="SECONDS", min=0.1, max=60,
        rich_help_panel=AUDIO, help="The silence that ends a sentence; after 15 s half of it does.")] = DEFAULT_PAUSE,
    lm: Annotated[str | None, typer.Option("--lm", metavar="FILE", show_default=False, rich_help_panel=MODEL,
        help="ARPA language model over words, for a CTC model.")] = None,
    lexicon: Annotated[str | None, typer.Option("--lexicon", metavar="FILE", show_default=False, rich_help_panel=MODEL,
        help="How words are spelled, in lines of 'word token token ...'.")] = None,
    toolkit: Annotated[str | None, typer.Option("--toolkit", metavar="onnx|transformers|nemo", rich_help_panel=MODEL,
        show_default="by what MODEL is", help="The library that opens MODEL.")] = None,
    model_type: Annotated[str | None, typer.Option("--model-type", metavar="TYPE", rich_help_panel=MODEL,
        show_default="as its files say", help="onnx-asr's name of the type of an ONNX export.")] = None,
    quantization: Annotated[str | None, typer.Option("--quantization", metavar="NAME", rich_help_panel=MODEL,
        show_default="none", help="The quantisation of an ONNX export, such as int8.")] = None,
    preprocessor: Annotated[str | None, typer.Option("--preprocessor", metavar="NAME|FILE.py:FUNCTION",
        rich_help_panel=MODEL, show_default="by the type of the model",
        help="The features of an ONNX export: nemo80, nemo128, kaldi, gigaam_v2 or another of onnx-asr, or a Python "
        "function of float32 [batch, samples] and the samples of each.")] = None,
    blank: Annotated[str | None, typer.Option("--blank", metavar="TOKEN|COLUMN", rich_help_panel=MODEL,
        show_default="as the tokens say", help="The blank of a CTC model, as a token or a column.")] = None,
    frame_shift: opt.EncoderFrameShift = None,
    model_batch: Annotated[int, typer.Option("--model-batch", metavar="WINDOWS", min=1, rich_help_panel=MODEL,
        help="Windows of a recording that an ONNX export takes together.")] = 1,
    confidence: Annotated[bool, typer.Option("--confidence", rich_help_panel=opt.ANSWERS,
        help="Also give the confidence of each word, from 0 to 1; for --format json and ctm.")] = False,
    boosting: opt.Boosting,
    search: opt.Search,
    subtitles: Subtitles,
    jobs: opt.Jobs,
    threads: opt.Threads = None,
    device: opt.Device = opt.DEFAULT.device,
    debug: opt.Debug = False,
) -> None:
    """Transcribe audio files into text, words with times, or subtitles."""
    # fmt: on
    opt.check_needs(context)
    chosen = format_of(output, format)
    rules = subtitles.rules(context, chosen)
    if confidence and chosen not in (Format.json, Format.ctm):
        raise typer.BadParameter(f"is for --format json and ctm, got --format {chosen}", param_hint="'--confidence'")
    _check_pipe(inputs, sample_rate)
    settings = opt.decoder_options(search, device=device, threads=threads)
    options: dict[str, Any] = {name: getattr(settings, name) for name in OF_CTC if name != "lexicon"}
    options["lexicon"] = lexicon
    options["frame_shift"] = frame_shift
    options = {name: one for name, one in options.items() if opt.is_given(context, name)}
    from arcbeam import Transcriber
    from arcbeam.transcribe.recordings import Recording, find_recordings

    if inputs == [opt.STDIN]:
        recordings = [Recording("audio", Path(opt.STDIN))]
    else:
        recordings = find_recordings(inputs, may_be_missing=jobs.skip_errors)
    check_place(output, chosen, recordings)
    counter = Progress(recordings)
    every: Any = recordings
    job = jobs.job(context, every, output, counter.pass_over, is_folder=is_folder(output))
    if is_done(job):
        return
    with steps(f"loading {model}"):
        transcriber = Transcriber(
            model, lm, toolkit=toolkit, model_type=model_type, quantization=quantization, preprocessor=preprocessor,
            blank=opt.parse_blank(blank), device=device,
            threads=threads, window_seconds=window_seconds, overlap_seconds=overlap_seconds, batch_size=model_batch,
            endpoint=_pauses(sentence_pause), confidence=confidence, **options,
        )  # fmt: skip
    boosts = _boosts(context, transcriber, boosting)
    run = _Run(transcriber, _channel(channel), sample_rate, boosts, counter)
    # Of one file that is named there is no doubt whose the lines are.
    is_one = len(inputs) == 1 and Path(inputs[0]) == recordings[0].path
    with (
        job,
        open_transcripts(output, chosen, rules, job, has_ids=not is_one and not is_folder(output)) as write,
        progress(
            "transcribing", run.progress.total, lambda: int(run.progress.seconds), say=run.progress.say
        ),
    ):  # fmt: skip
        run.work(job, write)
    note(run.progress.describe(str(transcriber.decoder.device)))
    run.tell()
    if boosts is not None and jobs.shard is None:
        boosts.tell_absent()
    tell_job(job)


def _check_pipe(inputs: list[str], sample_rate: int | None) -> None:
    """A usage error for raw samples without their rate, or with other inputs, or for a rate without raw samples."""
    if opt.STDIN in inputs and len(inputs) > 1:
        raise typer.BadParameter("- is the standard input, which comes alone", param_hint="'INPUT'")
    if opt.STDIN in inputs and sample_rate is None:
        raise typer.BadParameter(
            "- has raw samples, whose rate is not known: needs --sample-rate, such as 16000", param_hint="'INPUT'"
        )
    if opt.STDIN not in inputs and sample_rate is not None:
        raise typer.BadParameter(
            "is for the standard input, -; files say their own", param_hint="'--sample-rate'"
        )


def _channel(text: str | None) -> int | str | None:
    """The number of a channel, "mean" or None; a usage error for anything else."""
    if text is None or text == "mean":
        return text
    if not (text.isascii() and text.isdecimal()):
        raise typer.BadParameter(f"expected a number from 0 on, or mean, got {text!r}", param_hint="'--channel'")
    return int(text)


def _pauses(seconds: float) -> Any:
    """The rules that end sentences, with another silence; None for the default."""
    if seconds == DEFAULT_PAUSE:
        return None
    from arcbeam import Endpoint
    from arcbeam.transcribe.sentences import PAUSES

    given = {"pause": seconds, "short pause": seconds / 2}
    rules = PAUSES.rules.items()
    return Endpoint({name: replace(rule, min_trailing_silence=given.get(name, rule.min_trailing_silence))
                     for name, rule in rules})  # fmt: skip


def _boosts(context: typer.Context, transcriber: "Transcriber", boosting: opt.Boosting) -> Any:
    """The lists of words and phrases, of words for CTC and of tokens for a transducer; None if there are none."""
    from arcbeam import BoostingTree, CtcDecoder
    from arcbeam.cli.boosts import BoostFiles, word_boosts

    if isinstance(transcriber.decoder, CtcDecoder):
        return word_boosts(**vars(boosting))
    for name in ("boost_score", "boost_lexicon"):
        if opt.is_given(context, name):
            raise typer.BadParameter("is for CTC models", param_hint=f"'--{name.replace('_', '-')}'")
    if boosting.boost is None and boosting.boost_map is None:
        return None
    pieces = transcriber.decoder.pieces
    return BoostFiles(lambda path: BoostingTree.read(path, pieces), boosting.boost, boosting.boost_map)


class _Run:
    """Transcribes recordings one after the other, and remembers what a reader should know of them."""

    def __init__(
        self, transcriber: "Transcriber", channel: int | str | None, sample_rate: int | None, boosts: Any,
        counter: Progress,
    ) -> None:  # fmt: skip
        self._transcriber, self._channel, self._rate, self._boosts = transcriber, channel, sample_rate, boosts
        self.progress = counter
        self._mixed: list[str] = []
        self._low: list[str] = []
        self._dead: list[str] = []

    def work(self, job: "Job", write: "Callable[[Transcript], None]") -> None:
        """Writes the transcripts of what is left of a job; an error names the file, and ends it or is listed."""
        from arcbeam.jobs.job import Failed, reason

        recordings: Any = job.utterances()
        for recording in recordings:
            failed = recording if isinstance(recording, Failed) else None
            if failed is None:
                try:
                    transcript = self.transcript(recording)
                except (ValueError, OSError) as error:
                    if job.skip_errors:
                        failed = Failed(recording.id, recording.path, as_typed(reason(error)))
                    elif isinstance(error, OSError) or recording.is_pipe or str(recording.path) in str(error):
                        raise
                    else:
                        raise Failure(f"{recording.path}: {error}") from error
            if failed is not None:
                job.leave_out(failed)
            else:
                self.progress.add(transcript.duration)
                self._remember(recording, transcript)
                write(transcript)
            job.mark(1, failed is None, {})
        job.end()

    def transcript(self, recording: "Recording") -> "Transcript":
        """The transcript of one recording."""
        from arcbeam.transcribe.audio import of_pipe, open_file
        from arcbeam.transcribe.transcriber import transcribe_sound

        boost = None if self._boosts is None else self._boosts(recording.id)
        if recording.is_pipe:
            assert self._rate is not None
            sound = of_pipe(sys.stdin.buffer, "standard input", self._rate)
            return transcribe_sound(self._transcriber, sound, recording.id, None, boost, self.progress.at)
        path = str(recording.path)
        with open_file(path, self._channel, recording.offset, recording.duration) as sound:
            return transcribe_sound(self._transcriber, sound, recording.id, path, boost, self.progress.at)

    def _remember(self, recording: "Recording", transcript: "Transcript") -> None:
        name = str(recording.path)
        if transcript.channel == "mean" and self._channel is None:
            self._mixed.append(name)
        if transcript.sample_rate < self._transcriber.sample_rate:
            self._low.append(name)
        if not all(segment.complete for segment in transcript.segments):
            self._dead.append(name)

    def tell(self) -> None:
        """Notes what may surprise."""
        from arcbeam.transcribe.audio import of_low_rate

        rate = self._transcriber.sample_rate
        if self._mixed:
            note(f"note: both channels were mixed of {_files(self._mixed)}; --channel 0 or 1 transcribes one")
        if self._low:
            note(f"note: {of_low_rate(rate, _files(self._low))}")
        if self._dead:
            note(
                "note: the search died within a sentence, whose last words are missing, of "
                f"{_files(self._dead)}; try a larger --beam"
            )


def _files(names: list[str]) -> str:
    """The first of some files, and how many others there are."""
    others = len(names) - 1
    return names[0] + (f" and {others:,} other{'s'[: others != 1]}" if others else "")
