"""Options that commands share: names, units and help texts in one place. `DecoderOptions` validates the values."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli.outputs import Format
from arcbeam.core.confidence import NAMES as MEASURES
from arcbeam.core.sizes import as_bytes
from arcbeam.ctc.options import DEFAULT_BOOST as DEFAULT_BOOST
from arcbeam.ctc.options import OF_GPU_MEMORY, PLACEMENTS, UNKNOWN_WORD_RULES, DecoderOptions

if TYPE_CHECKING:
    from arcbeam.cli.score import Scorer
    from arcbeam.files.log_probs import Input
    from arcbeam.jobs.job import Job

SEARCH = "Search"
STREAMS = "Streams"
LARGE = "Large language model"
FOREIGN = "Graphs of other tools"
STDIN = "-"
MOST_CHUNK_FRAMES = 100_000  # a pipe is read in memory for a whole chunk
TRANSDUCERS = (".nemo", ".pt", ".safetensors")  # how the files of such models end
DEFAULT = DecoderOptions()

LISTS, MODEL = ("boost", "boost_map"), ("language_model",)
#: Options that do nothing without one of some others, by the names of their parameters.
NEEDS: dict[str, Sequence[str]] = {
    "boost_score": LISTS, "boost_lexicon": LISTS,
    "lattice_beam": ("nbest", "confidence", "mbr", "lattice"), "interim_answers": ("nbest", "confidence", "mbr"),
    "posterior_scale": ("nbest", "confidence", "mbr", "posteriors"), "confidence_aggregation": ("frame_confidence",),
    "allow_missing": ("reference",), "ignore_case": ("reference",), "raw_lattice": ("lattice",),
    "endpoint_rule": ("endpoint",), "force": ("words", "tokens"),
    "graph_language_model": MODEL, "lm_scale": MODEL, "graph_lm_scale": MODEL, "hypotheses_per_state": MODEL,
    "unknown_words": MODEL, "placement": MODEL, "gpu_budget": MODEL, "arc_cache": MODEL,
}  # fmt: skip

#: Parameters on which no byte of the output depends, so that a run may go on with others.
OF_NO_RESULT = {
    "inputs", "output", "threads", "batch_size", "device", "memory_limit", "placement", "gpu_budget", "arc_cache",
    "max_bytes", "resume", "skip_errors", "debug",
}  # fmt: skip
#: Parameters that name files which have to be as they were for a run to go on.
OF_FILES = {
    "graph", "model", "texts", "reference", "tokens", "words", "lexicon", "label_to_column", "language_model",
    "graph_language_model", "boost", "boost_map", "boost_lexicon", "pronunciations", "tokenizer", "ngram_lm",
    "ngram_lm_tokens", "lodr",
}  # fmt: skip
MAY_BE_PACKED = ("lexicon", "language_model", "graph_language_model")  # files that --max-bytes is for besides .npz


def decoder_options(*groups: Any, **options: Any) -> DecoderOptions:
    """Check the values given on the command line, in groups and single; a bad one is a usage error."""
    given = {name: value for group in groups for name, value in vars(group).items()}
    given = {field.name: given[field.name] for field in fields(DecoderOptions) if field.name in given}
    for name in {"max_active", "hypotheses_per_state"} & given.keys():
        given[name] = given[name] or None
    with usage_errors():
        return DecoderOptions(**given, **options)


@contextmanager
def usage_errors() -> Iterator[None]:
    """A context in which an error about an option of Python is a usage error about that of the command line."""
    try:
        yield
    except (TypeError, ValueError) as error:
        name, colon, reason = str(error).partition(": ")
        if not colon:
            raise typer.BadParameter(str(error)) from None
        raise typer.BadParameter(reason, param_hint=f"'--{name.replace('_', '-')}'") from None


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line has the option of this parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_needs(context: typer.Context, needs: Mapping[str, Sequence[str]] = NEEDS) -> None:
    """A usage error for an option of the command line that does nothing, as none of those is there that it needs."""
    for name, others in needs.items():
        if is_given(context, name) and not any(is_given(context, other) for other in others):
            wanted = " or ".join(f"--{other.replace('_', '-')}" for other in others if other in context.params)
            raise typer.BadParameter(f"needs {wanted}", param_hint=f"'--{name.replace('_', '-')}'")


def devices_of(device: str) -> list[str]:
    """The devices that decode, of which each has a decoder: more than one for cuda:all."""
    from arcbeam.gpu.devices import all_devices

    return all_devices(device)


def check_gpu_memory(context: typer.Context, device: str) -> None:
    """A usage error for an option of a GPU's memory where the CPU decodes."""
    for name in OF_GPU_MEMORY:
        if device == "cpu" and is_given(context, name):
            raise typer.BadParameter(
                "is about the memory of a GPU, and the CPU decodes; leave it out, or give --device cuda",
                param_hint=f"'--{name.replace('_', '-')}'",
            )


def check_max_bytes(context: typer.Context, inputs: "Sequence[Input]") -> None:
    """A usage error for a limit of what files unpack to where none may be packed; no inputs are the standard input."""
    if not is_given(context, "max_bytes") or any(is_given(context, name) for name in MAY_BE_PACKED):
        return
    if not any(source.may_be_packed for source in inputs):
        name = inputs[0].path if inputs else "the standard input"
        raise typer.BadParameter(
            f"limits what a compressed file may unpack to, and {name} is none; leave it out",
            param_hint="'--max-bytes'",
        )


def parse_blank(value: str | None) -> int | str | None:
    """Return the blank as a column, where it is written as a number, or as a token."""
    return int(value) if value is not None and value.isascii() and value.isdigit() else value


def check_size(value: str | None) -> str | None:
    """Return a size as it was given, such as 2GiB; anything else is a usage error."""
    if value is not None:
        try:
            as_bytes("size", value)
        except ValueError as error:
            raise typer.BadParameter(str(error).partition(": ")[2]) from None
    return value


def check_measure(value: str | None) -> str | None:
    """Return the name of a measure of confidence as it was given; anything else is a usage error."""
    if value is not None and value not in MEASURES:
        raise typer.BadParameter(f"expected {' or '.join(MEASURES)}, got {value!r}")
    return value


def check_shard(value: str | None) -> str | None:
    """Return a shard as it was given, such as 1/8; anything else is a usage error."""
    from arcbeam.jobs.shards import Shard

    if value is not None:
        try:
            Shard.parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return value


# fmt: off
BOOSTING = "Boosting"
JOBS = "Large jobs"
ANSWERS = "Answers"

# Options of single commands, and what two groups share.
GraphFile = Annotated[str, typer.Argument(metavar="GRAPH",
    help="Graph of arcbeam, or an OpenFst vector or const file.")]
LogProbs = Annotated[list[str], typer.Argument(
    metavar="INPUT", help="Log-probs (natural logs): .npz, .npy, Kaldi .ark or .scp, a folder of them, or a manifest: "
    ".tsv (id, tab, path), NeMo's .jsonl, or Lhotse's cuts.")]
Logits = Annotated[bool, typer.Option(
    "--logits", help="The inputs are logits: make log-probs of them, each frame by a log-softmax.")]
Output = Annotated[str, typer.Option(
    "--output", "-o", metavar="FILE", help="Where the transcripts go; - is the standard output.")]
FormatOfOutput = Annotated[Format, typer.Option(
    "--format", "-f",
    help="text: 'id words'; trn: 'words (id)'; ctm: a word and its seconds a line; stm: the seconds of the first word "
    "and the last, and the words; json: one object per line.")]
FrameConfidence = Annotated[str | None, typer.Option(
    metavar="METHOD", show_default="none", rich_help_panel=ANSWERS, callback=check_measure,
    help="max_prob or entropy: also give how certain the model is of each label and word, from its log-probs alone; "
    "needs --format json.")]
ConfidenceAggregation = Annotated[str, typer.Option(
    metavar="mean|min|max|prod", rich_help_panel=ANSWERS,
    help="How --frame-confidence makes the confidence of a label of its frames', and of a word of its labels'.")]
BoostMap = Annotated[Path | None, typer.Option(
    "--boost-map", metavar="FILE", show_default=False, rich_help_panel=BOOSTING,
    help="Lists of single utterances: lines of an utterance and the path of its list, from the folder of this file. "
    "Other utterances have that of --boost.")]
LatticeFile = Annotated[str | None, typer.Option(
    "--lattice", metavar="FILE", show_default=False, rich_help_panel=ANSWERS,
    help="Also write the lattices to this Kaldi archive (CompactLattice, binary, determinised), which gets its name "
    "when it is complete; or ark,t:FILE for text, ark,scp:ARCHIVE,INDEX, or ark:- for the standard output.")]
RawLattice = Annotated[bool, typer.Option("--raw-lattice", rich_help_panel=ANSWERS,
    help="Do not determinise lattices: write all paths, many of which have the same words.")]
FrameShift = Annotated[float | None, typer.Option("--frame-shift", metavar="SECONDS", show_default="unknown",
    help="Time from one frame of log-probs to the next, such as 0.02; needed for times in seconds, CTM, STM and RTFx.")]
EncoderFrameShift = Annotated[float | None, typer.Option(
    "--frame-shift", metavar="SECONDS", show_default="as MODEL says, or unknown",
    help="Time from one frame of the encoder output to the next, such as 0.08; needed for times in seconds, CTM, STM "
    "and RTFx.")]
RealTime = Annotated[bool, typer.Option("--real-time", rich_help_panel=STREAMS,
    help="Decode a chunk when it would have been said; needs the seconds of a frame.")]
Threads = Annotated[int | None, typer.Option(
    "--threads", metavar="N", min=1, show_default="all cores", rich_help_panel=SEARCH,
    help="CPU threads; each decodes one utterance at a time. The results do not depend on their number.")]
BatchSize = Annotated[int, typer.Option("--batch-size", metavar="UTTERANCES", min=1, rich_help_panel=SEARCH,
    help="The number of utterances that are read and decoded at a time; the results do not depend on it.")]
Devices = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda[:N|:all]", rich_help_panel=SEARCH,
    help="Where to decode; auto is the GPU if it can be used, else the CPU; cuda:all is all GPUs of this machine, each "
    "with a part of the utterances.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda[:N]", rich_help_panel=SEARCH,
    help="Where to decode; auto is the GPU if it can be used, else the CPU.")]
MemoryLimit = Annotated[str | None, typer.Option("--memory-limit", metavar="SIZE", show_default="no limit",
    help="GPU memory that the decoder may take, including its graph, such as 8GiB.")]
Blank = Annotated[str | None, typer.Option(
    "--blank", metavar="TOKEN|COLUMN", show_default="found by its name",
    help="The CTC blank, as a token or as a column counted from 0. For a wrong one there is a note once enough frames "
    "are decoded; a few short chunks may give none.")]
MaxBytes = Annotated[str | None, typer.Option(
    "--max-bytes", metavar="SIZE", show_default="20 times its size, but at least 32MiB", callback=check_size,
    help="The most that a compressed file may unpack to, such as 20GiB: a limit for files that you do not trust.")]
AllowMissing = Annotated[bool, typer.Option(
    "--allow-missing", help="If the reference or the input lacks utterances, score those that are in both.")]
IgnoreCase = Annotated[bool, typer.Option(
    "--ignore-case", help="Differences of upper and lower case do not count as word errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@dataclass
class Jobs:
    """Which part of the inputs a run decodes, and what it does after errors."""

    resume: Annotated[bool, typer.Option("--resume", rich_help_panel=JOBS,
        help="Go on where the same command broke off or was killed: --output FILE gets the bytes of an undisturbed "
        "run. After a run that has ended, nothing is done.")] = False
    shard: Annotated[str | None, typer.Option("--shard", metavar="I/N", show_default=False, rich_help_panel=JOBS,
        callback=check_shard,
        help="Decode part I of N, such as 1/8: the outputs of all parts, one after the other, are that of the whole.")
    ] = None
    skip_errors: Annotated[bool, typer.Option("--skip-errors", rich_help_panel=JOBS,
        help="Leave out utterances and files with an error instead of ending at the first: they are listed in "
        "FILE.errors.tsv, where FILE is the output, and the exit code is 3.")] = False

    def job(
        self, context: typer.Context, inputs: "list[Input]", output: str, passed: Any = None, *, is_folder: bool = False
    ) -> "Job":
        """The job of a command; a usage error where it could not go on, or read its inputs twice."""
        from arcbeam.cli.console import version
        from arcbeam.cli.outputs import STDOUT, is_pipe
        from arcbeam.cli.terminal import note
        from arcbeam.jobs.job import Job
        from arcbeam.jobs.journal import started_with
        from arcbeam.jobs.shards import Shard

        is_file = output != STDOUT and not is_pipe(output) and not output.startswith(("/dev/", "/proc/"))
        if is_folder:
            output, is_file = output.rstrip(os.sep), True
        if self.resume and not is_file:
            raise typer.BadParameter(
                f"expected --output with a file, which a run can go on with, got {output}", param_hint="'--resume'"
            )
        for option, is_given in (("resume", self.resume), ("shard", self.shard)):
            if is_given and any(source.is_pipe for source in inputs):
                raise typer.BadParameter(
                    "expected files, got the standard input, which can be read only once", param_hint=f"'--{option}'"
                )
        options = {name: value for name, value in context.params.items() if name not in OF_NO_RESULT}
        options["version"] = version()
        return Job(
            inputs, output if is_file else None, started_with=started_with(options, OF_FILES, inputs),
            resume=self.resume, shard=None if self.shard is None else Shard.parse(self.shard),
            skip_errors=self.skip_errors, tell=note, passed=passed or (lambda name: None), is_folder=is_folder,
        )  # fmt: skip


@dataclass
class Scoring:
    """What transcripts are compared with."""

    reference: Annotated[list[Path] | None, typer.Option(
        "--reference", "-r", metavar="FILE", show_default=False,
        help="Reference transcripts: .tsv (id, tab, words), .trn, Kaldi text, .jsonl (text, and id or "
        "audio_filepath), .trans.txt or a folder with .trans.txt. Prints "
        "the word error rate: to the standard output if --output is a file, else to the standard error.")] = None
    allow_missing: AllowMissing = False
    ignore_case: IgnoreCase = False

    def scorer(self, inputs: Sequence[str]) -> "Scorer | None":
        """Compares with the references, if there are any; a usage error for the standard input, which has no names."""
        from arcbeam.cli.score import Scorer
        from arcbeam.report.references import read_references

        if not self.reference:
            return None
        if STDIN in inputs:
            raise typer.BadParameter(
                "expected files, whose utterances have names to find their references by, got the standard input",
                param_hint="'--reference'",
            )
        return Scorer(read_references(self.reference), self.allow_missing, self.ignore_case)


@dataclass
class Search:
    """How far a search goes."""

    beam: Annotated[float, typer.Option(metavar="NATS", rich_help_panel=SEARCH,
        help="Paths worse than the best by more than this are dropped (difference of natural logs).")] = DEFAULT.beam
    max_active: Annotated[int, typer.Option(metavar="TOKENS", min=0, rich_help_panel=SEARCH,
        help="Keep at most this many paths in each frame, the best ones; 0 for no limit.")] = DEFAULT.max_active or 0
    acoustic_scale: Annotated[float, typer.Option(metavar="FACTOR", rich_help_panel=SEARCH,
        help="The log-probs are multiplied by this.")] = DEFAULT.acoustic_scale
    blank_penalty: Annotated[float, typer.Option(metavar="NATS", rich_help_panel=SEARCH,
        help="Added to the cost of the blank in every frame; above 0 means fewer deletions.")] = DEFAULT.blank_penalty


@dataclass
class Boosting:
    """Words and phrases that are made likelier."""

    boost: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, rich_help_panel=BOOSTING,
        help="Words and phrases to make likelier: one a line, and after a tab its score, a natural log.")] = None
    boost_map: BoostMap = None
    boost_score: Annotated[float, typer.Option(metavar="NATS", rich_help_panel=BOOSTING,
        help="The score of phrases without one; below 0 they become less likely.")] = DEFAULT_BOOST
    boost_lexicon: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, rich_help_panel=BOOSTING,
        help="Spellings of words in the lists that the graph lacks: lines of 'word token token ...'. Other words are "
        "spelled in characters or pieces. The graph needs an open slot (arcbeam build-graph --open-slot).")] = None


@dataclass
class Answers:
    """The outputs besides the best path."""

    nbest: Annotated[int, typer.Option(metavar="N", min=0, rich_help_panel=ANSWERS,
        help="Also give the N best distinct word sequences, with their posteriors; needs --format json. 0 for "
        "none.")] = 0
    confidence: Annotated[bool, typer.Option("--confidence", rich_help_panel=ANSWERS,
        help="Also give the confidence of each word and of the transcript, from 0 to 1; needs --format json, or ctm "
        "where there is one.")] = False
    mbr: Annotated[bool, typer.Option("--mbr", rich_help_panel=ANSWERS,
        help="Also give the words of the fewest expected errors (minimum Bayes risk) and the confusion network; needs "
        "--format json.")] = False
    frame_confidence: FrameConfidence = None
    confidence_aggregation: ConfidenceAggregation = DEFAULT.confidence_aggregation

    def of_json(self) -> dict[str, bool]:
        """Whether the outputs that JSON alone has were requested, by their options."""
        return {
            "nbest": self.nbest > 0, "mbr": self.mbr, "frame-confidence": self.frame_confidence is not None,
        }  # fmt: skip

    def requested(self) -> dict[str, Any]:
        """Options of `CtcDecoder.decode` and `stream`."""
        return {
            "nbest": self.nbest or None, "confidence": self.confidence, "mbr": self.mbr,
            "frame_confidence": self.frame_confidence,
        }


@dataclass
class Posteriors:
    """Which paths these outputs are made of, and how certain they are."""

    lattice_beam: Annotated[float, typer.Option(metavar="NATS", rich_help_panel=ANSWERS,
        help="Paths within this of the best are in lattices, n-best lists and confidences.")] = DEFAULT.lattice_beam
    posterior_scale: Annotated[float | None, typer.Option(metavar="FACTOR", rich_help_panel=ANSWERS,
        show_default="0.6 / --acoustic-scale", help="Factor on scores where probabilities are made of them; with a "
        "smaller one confidences are less certain.")] = None


@dataclass
class LargeModel:
    """A large language model."""

    language_model: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=LARGE, show_default=False,
        help="A model that takes the place of the graph's own: from build-lm, in KenLM's binary format, or as "
        "ARPA.")] = None
    graph_language_model: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=LARGE, show_default=False,
        help="The model that the graph was built with, from build-lm or as ARPA; its scores are subtracted.")] = None
    lm_scale: Annotated[float, typer.Option(metavar="FACTOR", rich_help_panel=LARGE,
        help="The large model's log-probabilities are multiplied by this.")] = DEFAULT.lm_scale
    graph_lm_scale: Annotated[float | None, typer.Option(
        metavar="FACTOR", rich_help_panel=LARGE, show_default="what the graph says, or 1",
        help="The LM scale that the graph was built with.")] = None
    hypotheses_per_state: Annotated[int, typer.Option(metavar="N", min=0, rich_help_panel=LARGE,
        help="The most hypotheses with distinct histories that each state of the graph keeps; 0 for no limit.")] = 0
    unknown_words: Annotated[str, typer.Option(metavar="|".join(UNKNOWN_WORD_RULES), rich_help_panel=LARGE,
        help="What to do with words of the graph that the large model lacks: error refuses the model, unk scores them "
        "as its unknown word, small uses the small model's score.")] = DEFAULT.unknown_words
    placement: Annotated[str, typer.Option(metavar="|".join(PLACEMENTS), rich_help_panel=LARGE,
        help="Where the large model is stored. resident, host and host-direct need a GPU; with cpu, cores look words "
        "up.")] = DEFAULT.placement
    gpu_budget: Annotated[str | None, typer.Option(metavar="SIZE", rich_help_panel=LARGE, show_default="what is free",
        help="GPU memory for the large model, such as 2GiB.")] = None
    arc_cache: Annotated[str | None, typer.Option(metavar="SIZE", rich_help_panel=LARGE, show_default="chosen",
        help="GPU memory for a cache of arcs that come from the host, such as 64MiB; 0 for no cache.")] = None


@dataclass
class Tables:
    """What a graph of other tools lacks."""

    words: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=FOREIGN, show_default=False,
        help="The word symbols of the graph, in lines of 'word id'.")] = None
    tokens: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=FOREIGN, show_default=False,
        help="The tokens of the model's columns, in lines of 'token id' or 'token'.")] = None
    lexicon: Annotated[Path | None, typer.Option(metavar="FILE", rich_help_panel=FOREIGN, show_default=False,
        help="How the graph's words are spelled, in lines of 'word token token ...', which gives their times. A graph "
        "that arcbeam built contains it.")] = None
    force: Annotated[bool, typer.Option("--force", rich_help_panel=FOREIGN,
        help="Take --words and --tokens even where they contradict the tables in the graph's file.")] = False
    blank: Annotated[str | None, typer.Option(
        metavar="TOKEN|COLUMN", rich_help_panel=FOREIGN, show_default="found by its name",
        help="The CTC blank, as a token or as a column counted from 0.")] = None
    label_to_column: Annotated[Path | None, typer.Option(
        metavar="FILE", rich_help_panel=FOREIGN, show_default="label - 1",
        help="Lines of 'label column' that map the graph's input labels to columns, such as transition ids to "
        "pdfs.")] = None
# fmt: on
