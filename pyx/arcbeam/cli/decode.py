"""The commands ``arcbeam decode``, ``greedy`` and ``align``: take log-probs of a CTC model, return words."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, guarded
from arcbeam.cli.outputs import (
    STDOUT,
    Format,
    check_format,
    check_ids,
    check_lattice_file,
    check_name,
    check_times,
    is_done,
    open_output,
    tell_job,
    write,
)
from arcbeam.cli.parameters import takes_groups
from arcbeam.cli.terminal import note, progress
from arcbeam.core.json_lines import LEFT_OUT

if TYPE_CHECKING:
    from arcbeam.cli.score import Scorer
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.files.log_probs import Utterance
    from arcbeam.jobs.job import Job


@guarded
@takes_groups
def decode(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: opt.LogProbs,
    logits: opt.Logits = False,
    output: opt.Output = STDOUT,
    format: opt.FormatOfOutput = Format.text,
    scoring: opt.Scoring,
    frame_shift: opt.FrameShift = None,
    search: opt.Search,
    boosting: opt.Boosting,
    answers: opt.Answers,
    lattice: opt.LatticeFile = None,
    raw_lattice: opt.RawLattice = False,
    posterior: opt.Posteriors,
    jobs: opt.Jobs,
    threads: opt.Threads = None,
    batch_size: opt.BatchSize = 256,
    device: opt.Devices = opt.DEFAULT.device,
    memory_limit: opt.MemoryLimit = None,
    large: opt.LargeModel,
    tables: opt.Tables,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:
    """Decode log-probs into transcripts."""
    opt.check_needs(context)
    opt.check_gpu_memory(context, device)
    check_name(output, format, opt.is_given(context, "format"))
    _check_format(format, frame_shift, answers)
    if check_lattice_file(lattice, output) == STDOUT and jobs.resume:
        raise typer.BadParameter("expected a file for --lattice, which a run can go on with", param_hint="'--resume'")
    devices = opt.devices_of(device)
    settings = opt.decoder_options(
        search, answers, posterior, large, frame_shift=frame_shift, device=devices[0], threads=threads,
        memory_limit=memory_limit,
    )  # fmt: skip
    from arcbeam.cli.boosts import tell_unused, word_boosts
    from arcbeam.cli.graphs import load_graph
    from arcbeam.cli.models import check_given, make_decoders
    from arcbeam.files.log_probs import find_inputs

    check_given(large.language_model, large.graph_language_model)
    found = find_inputs(inputs, max_bytes, may_be_missing=jobs.skip_errors)
    opt.check_max_bytes(context, found)
    boosts = word_boosts(**vars(boosting))
    scorer = scoring.scorer(inputs)
    job = jobs.job(context, found, output, scorer and scorer.pass_over)
    if is_done(job):
        return
    loaded = load_graph(graph, **vars(tables), max_bytes=max_bytes)
    if loaded.word_symbols is None:
        note("note: the graph has no word symbols, so words are numbers; give --words")
    tell_unused(boosting.boost_lexicon, loaded)
    models = large.language_model, large.graph_language_model
    decoders = make_decoders(loaded, *models, dataclasses.asdict(settings), devices, max_bytes)
    opt.check_gpu_memory(context, decoders[0].device)
    if scorer is not None:
        scorer.compare_with_greedy(loaded)
    requested = answers.requested() | {"lattice": lattice is not None, "logits": logits}
    _decode_files(
        decoders, job, output, format, batch_size, requested, scorer=scorer, lattice=lattice, raw_lattice=raw_lattice,
        boosts=boosts,
    )  # fmt: skip
    if boosts and jobs.shard is None:
        boosts.tell_absent()
    tell_job(job)


@guarded
@takes_groups
def greedy(
    context: typer.Context,
    *,
    inputs: opt.LogProbs,
    logits: opt.Logits = False,
    tokens: Annotated[Path, typer.Option(
        "--tokens", metavar="FILE", help="The tokens of the model's columns, in lines of 'token id' or 'token'.")],
    output: opt.Output = STDOUT,
    format: opt.FormatOfOutput = Format.text,
    scoring: opt.Scoring,
    frame_shift: opt.FrameShift = None,
    separator: Annotated[str, typer.Option(
        "--separator", metavar="TOKEN",
        help="The token between words, or the mark at the start of a word; 'none' if there is neither.")] = "auto",
    blank: opt.Blank = None,
    frame_confidence: opt.FrameConfidence = None,
    confidence_aggregation: opt.ConfidenceAggregation = opt.DEFAULT.confidence_aggregation,
    jobs: opt.Jobs,
    threads: opt.Threads = None,
    batch_size: opt.BatchSize = 256,
    device: opt.Devices = opt.DEFAULT.device,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Decode log-probs greedily: the best label of each frame, without a graph or a language model."""
    answers = opt.Answers(frame_confidence=frame_confidence, confidence_aggregation=confidence_aggregation)
    opt.check_needs(context)
    check_name(output, format, opt.is_given(context, "format"))
    _check_format(format, frame_shift, answers)
    devices = opt.devices_of(device)
    settings = opt.decoder_options(answers, beam=0.0, frame_shift=frame_shift, device=devices[0], threads=threads)
    from arcbeam import Graph
    from arcbeam.cli.models import make_decoders
    from arcbeam.files.log_probs import find_inputs

    found = find_inputs(inputs, max_bytes, may_be_missing=jobs.skip_errors)
    opt.check_max_bytes(context, found)
    scorer = scoring.scorer(inputs)
    job = jobs.job(context, found, output, scorer and scorer.pass_over)
    if is_done(job):
        return
    graph = Graph.greedy(
        tokens, blank=opt.parse_blank(blank), separator=None if separator == "none" else separator
    )  # fmt: skip
    decoders = make_decoders(graph, None, None, dataclasses.asdict(settings), devices)
    requested = answers.requested() | {"logits": logits}
    _decode_files(decoders, job, output, format, batch_size, requested, scorer=scorer)
    tell_job(job)


@guarded
@takes_groups
def align(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: opt.LogProbs,
    texts: Annotated[Path, typer.Argument(
        metavar="TEXTS", help="What was said: .tsv (id, tab, words), .trn, Kaldi text, .jsonl (text, and id "
        "or audio_filepath), .trans.txt or a folder with .trans.txt.")],
    logits: opt.Logits = False,
    output: opt.Output = STDOUT,
    format: opt.FormatOfOutput = Format.ctm,
    textgrids: Annotated[Path | None, typer.Option(
        "--textgrids", metavar="FOLDER", show_default=False,
        help="Also write a TextGrid of Praat for each utterance, with tiers of words and labels; needs "
        "--frame-shift.")] = None,
    frame_shift: opt.FrameShift = None,
    allow_missing: Annotated[bool, typer.Option(
        "--allow-missing", help="If the texts or the input lack utterances, align those that are in both.")] = False,
    jobs: opt.Jobs,
    pronunciations: Annotated[Path | None, typer.Option(
        "--pronunciations", metavar="FILE", show_default=False,
        help="Spellings of words that replace the graph's, in lines of 'word token token ...'. Other words that the "
        "graph lacks are spelled in characters or pieces.")] = None,
    star: Annotated[float | None, typer.Option(
        "--star", metavar="NATS", min=0.0, show_default="no star",
        help="The cost of a frame at which <star> in a text takes what the text lacks, such as 1.")] = None,
    beam: Annotated[float, typer.Option(
        "--beam", metavar="NATS", rich_help_panel=opt.SEARCH,
        help="Paths worse than the best by more than this are dropped (difference of natural logs); less than 17 "
        "counts as 17, and it is widened until a path reaches the end of the text.")] = opt.DEFAULT.beam,
    acoustic_scale: Annotated[float, typer.Option(
        "--acoustic-scale", metavar="FACTOR", rich_help_panel=opt.SEARCH,
        help="The log-probs are multiplied by this.")] = opt.DEFAULT.acoustic_scale,
    blank_penalty: Annotated[float, typer.Option(
        "--blank-penalty", metavar="NATS", rich_help_panel=opt.SEARCH,
        help="Added to the cost of the blank in every frame.")] = opt.DEFAULT.blank_penalty,
    threads: opt.Threads = None,
    batch_size: opt.BatchSize = 256,
    device: opt.Devices = opt.DEFAULT.device,
    memory_limit: opt.MemoryLimit = None,
    tables: opt.Tables,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Find when the words of known texts were said (forced alignment)."""
    opt.check_gpu_memory(context, device)
    check_name(output, format, opt.is_given(context, "format"))
    check_times(format, frame_shift)
    if output.lower().endswith(".textgrid"):
        raise typer.BadParameter(
            f"a TextGrid has one utterance, got {output}; --textgrids FOLDER writes one for each",
            param_hint="'--output'",
        )
    if textgrids is not None and frame_shift is None:
        raise typer.BadParameter("gives times in seconds: set --frame-shift", param_hint="'--textgrids'")
    if opt.STDIN in inputs:
        raise typer.BadParameter(
            "expected files, whose utterances have names to find their texts by, got the standard input",
            param_hint="'INPUT'",
        )
    devices = opt.devices_of(device)
    settings = opt.decoder_options(
        beam=beam, acoustic_scale=acoustic_scale, blank_penalty=blank_penalty, frame_shift=frame_shift,
        device=devices[0], threads=threads, memory_limit=memory_limit,
    )  # fmt: skip
    from arcbeam.cli.graphs import describe_devices, load_graph
    from arcbeam.cli.models import make_decoders
    from arcbeam.cli.run import Done, Names, TextAligner, check_width, decode_all
    from arcbeam.cli.score import named
    from arcbeam.files.ids import Ids
    from arcbeam.files.log_probs import find_inputs
    from arcbeam.report.references import read_references

    found = find_inputs(inputs, max_bytes, may_be_missing=jobs.skip_errors)
    opt.check_max_bytes(context, found)
    said = read_references([texts])
    seen = Ids()
    job = jobs.job(context, found, output, seen.add)
    if is_done(job):
        return
    _tell_unused(said.values(), pronunciations, star)
    loaded = load_graph(graph, **vars(tables), max_bytes=max_bytes)
    decoders = make_decoders(loaded, None, None, dataclasses.asdict(settings), devices)
    opt.check_gpu_memory(context, decoders[0].device)
    doubtful, wordless, others = Names(), Names(), Names()
    began, done = time.perf_counter(), Done()

    def check(batch: "list[Utterance]") -> None:
        check_ids(batch, format)
        check_width(loaded, batch)
        if missing := [utterance.id for utterance in batch if utterance.id not in said]:
            if len(missing) == len(batch) and not seen:
                raise Failure(_of_others(texts, said, named(missing)))
            raise Failure(f"{texts} lacks {named(missing)}; --allow-missing aligns the others")
        for utterance in batch:
            seen.add(utterance.id)

    def has_text(name: str) -> bool:
        if name not in said:
            others.add(name)
        return name in said

    def write_one(utterance: "Utterance", alignment: "Alignment") -> None:
        write(file, format, utterance, alignment, _align_fields)
        if textgrids is not None and frame_shift is not None:
            _write_textgrid(textgrids, utterance, alignment, frame_shift)
        if alignment.doubtful:
            doubtful.add(utterance.id)
        if not said[utterance.id]:
            wordless.add(utterance.id)

    with job, open_output(output, job=job) as file, progress("aligning", job.total, done):
        speed = decode_all(
            [TextAligner(decoder) for decoder in decoders], job.utterances(), write_one, check=check,
            batch_size=batch_size, done=done, job=job,
            requested={"star": star, "pronunciations": pronunciations, "logits": logits},
            of_each={"texts": said.__getitem__}, is_wanted=has_text if allow_missing else None,
        )  # fmt: skip
        if others.count and not seen:
            raise Failure(_of_others(texts, said, others))
    absent = [name for name in said if name not in seen]
    if absent and not allow_missing:
        raise Failure(f"the input lacks utterances of {texts} ({named(absent)}); --allow-missing aligns the others")
    speed.run_seconds = time.perf_counter() - began
    note(speed.describe(frame_shift, describe_devices(decoders), "aligned"))
    if wordless.count:
        note(f"note: {wordless} without a word in {texts}")
    if doubtful.count:
        note(f"note: {doubtful} with a confidence below 0.1: is this what was said?")
    tell_job(job)


def _write_textgrid(folder: Path, utterance: "Utterance", alignment: "Alignment", frame_shift: float) -> None:
    """A file of Praat's in a folder, which is made if it is not there."""
    from arcbeam.files.writing import file_in, replacing_text
    from arcbeam.textgrid import textgrid

    path = file_in(folder, utterance.id, ".TextGrid")
    tiers = {
        "words": [(one.start or 0.0, one.end or 0.0, one.word) for one in alignment.words],
        "labels": [(one.start or 0.0, one.end or 0.0, one.label) for one in alignment.labels],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing_text(path) as file:
        file.write(textgrid(tiers, len(utterance.log_probs) * frame_shift))


def _of_others(texts: Path, said: Mapping[str, str], missing: object) -> str:
    """The message about texts of none of the utterances."""
    return (
        f"{texts} lacks {missing}, all of them; its first is {next(iter(said))!r}: are these the texts of these "
        "inputs, and does each line begin with the name of an utterance?"
    )


def _tell_unused(texts: Iterable[str], pronunciations: Path | None, star: float | None) -> None:
    """Notes that no text has a word of `pronunciations`, or a star."""
    from arcbeam.ctc.align.texts import spellings_of
    from arcbeam.graph.text_graph import STAR

    words = {word for text in texts for word in text.split()}
    if pronunciations is not None:
        spellings = spellings_of(pronunciations)
        if not any(word in spellings for word in words):
            note(f"note: --pronunciations: no text has a word of {pronunciations}")
    if star is not None and STAR not in words:
        note(f"note: --star: no text has the word {STAR}")


def _align_fields(alignment: "Alignment") -> Mapping[str, Any]:
    """What JSON has of an alignment."""
    left_out = {*LEFT_OUT, "frame_scores"}
    return {name: value for name, value in alignment.to_dict().items() if name not in left_out}


def _check_format(format: Format, frame_shift: float | None, answers: opt.Answers) -> None:
    """A usage error for outputs that the format has no place for."""
    check_times(format, frame_shift)
    check_format(format, of_json=answers.of_json(), confidence=answers.confidence)


def _decode_files(
    decoders: "list[CtcDecoder]",
    job: "Job",
    output: str,
    format: Format,
    batch_size: int,
    requested: dict[str, Any],
    *,
    scorer: "Scorer | None",
    lattice: str | None = None,
    raw_lattice: bool = False,
    boosts: Callable[[str], Any] | None = None,
) -> None:
    """Decodes the utterances of a job, writes the results, and tells the speed and the word error rate."""
    from arcbeam.cli.graphs import describe_devices
    from arcbeam.cli.run import Done, check_width, decode_all
    from arcbeam.lattices.archives import lattice_archive

    archive = check_lattice_file(lattice, output)
    began = time.perf_counter()
    done = Done()
    with (
        job,
        open_output(output, job=job) as file,
        lattice_archive(lattice, determinize=not raw_lattice, opened=job.open)
        if lattice
        else nullcontext(None) as add_lattice,
        progress("decoding", job.total, done),
    ):

        def check(batch: "list[Utterance]") -> None:
            check_ids(batch, format, lattice is not None)
            check_width(decoders[0].graph, batch)

        def write_all(utterance: "Utterance", hypothesis: "Hypothesis") -> None:
            write(file, format, utterance, hypothesis)
            if add_lattice is not None and hypothesis.lattice is not None:
                add_lattice(utterance.id, hypothesis.lattice)

        speed = decode_all(
            decoders, job.utterances(), write_all, check=check, batch_size=batch_size, referee=scorer, done=done,
            requested=requested, of_each={} if boosts is None else {"boost": boosts}, job=job,
        )  # fmt: skip
    if archive not in (None, STDOUT):
        count = job.position.written
        note(f"wrote {archive}: {count:,} lattice{'s' * (count != 1)}")
    speed.run_seconds = time.perf_counter() - began
    note(speed.describe(decoders[0].options.frame_shift, describe_devices(decoders)))
    if scorer is not None:
        scorer.tell(STDOUT not in (output, archive))
