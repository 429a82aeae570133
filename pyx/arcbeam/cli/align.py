"""The command ``arcbeam align``: takes log-probs of a CTC model and what was said, returns words with their times."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, guarded
from arcbeam.cli.outputs import LEFT_OUT, STDOUT, Format, check_ids, check_times, open_output, write
from arcbeam.cli.parameters import takes_groups
from arcbeam.cli.terminal import note, progress

if TYPE_CHECKING:
    from arcbeam.ctc.align.alignment import Alignment
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.files.log_probs import Utterance


@guarded
@takes_groups
def align(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: opt.LogProbs,
    texts: Annotated[Path, typer.Argument(
        metavar="TEXTS", help="What was said: .tsv (id, tab, words), .trn, Kaldi text, .trans.txt or a folder of "
        "these.")],
    output: opt.Output = STDOUT,
    format: opt.FormatOfOutput = Format.ctm,
    frame_shift: opt.FrameShift = None,
    allow_missing: Annotated[bool, typer.Option(
        "--allow-missing", help="If the texts or the input lack utterances, align those that are in both.")] = False,
    pronunciations: Annotated[Path | None, typer.Option(
        "--pronunciations", metavar="FILE", show_default=False,
        help="Spellings of words that replace the graph's, in lines of 'word token token ...'. Other words that the "
        "graph lacks are spelled in characters or pieces.")] = None,
    star: Annotated[float | None, typer.Option(
        "--star", metavar="NATS", min=0.0, show_default="no star",
        help="The cost of a frame at which <star> in a text takes what the text lacks, such as 1.")] = None,
    beam: Annotated[float, typer.Option(
        "--beam", metavar="NATS", rich_help_panel=opt.SEARCH,
        help="Paths worse than the best by more than this are dropped (difference of natural logs); it is widened "
        "until a path reaches the end of the text.")] = opt.DEFAULT.beam,
    acoustic_scale: Annotated[float, typer.Option(
        "--acoustic-scale", metavar="FACTOR", rich_help_panel=opt.SEARCH,
        help="The log-probs are multiplied by this.")] = opt.DEFAULT.acoustic_scale,
    blank_penalty: Annotated[float, typer.Option(
        "--blank-penalty", metavar="NATS", rich_help_panel=opt.SEARCH,
        help="Added to the cost of the blank in every frame.")] = opt.DEFAULT.blank_penalty,
    threads: opt.Threads = None,
    batch_size: opt.BatchSize = 256,
    device: opt.Device = opt.DEFAULT.device,
    memory_limit: opt.MemoryLimit = None,
    tables: opt.Tables,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Find when the words of known texts were said (forced alignment)."""
    opt.check_gpu_memory(context, device)
    check_times(format, frame_shift)
    if opt.STDIN in inputs:
        raise typer.BadParameter(
            "expected files, whose utterances have names to find their texts by, got the standard input",
            param_hint="'INPUT'",
        )
    settings = opt.decoder_options(
        beam=beam, acoustic_scale=acoustic_scale, blank_penalty=blank_penalty, frame_shift=frame_shift, device=device,
        threads=threads, memory_limit=memory_limit,
    )  # fmt: skip
    from arcbeam import CtcDecoder
    from arcbeam.cli.graphs import describe_device, load_graph
    from arcbeam.cli.references import read_references
    from arcbeam.cli.run import Done, check_width, decode_all, named
    from arcbeam.files.log_probs import count, find_inputs, read_all

    found = find_inputs(inputs, max_bytes)
    opt.check_max_bytes(context, found)
    said = read_references([texts])
    decoder = CtcDecoder(load_graph(graph, **vars(tables), max_bytes=max_bytes), **dataclasses.asdict(settings))
    opt.check_gpu_memory(context, decoder.device)
    seen: set[str] = set()
    doubtful: list[str] = []
    began, done = time.perf_counter(), Done()

    def check(batch: "list[Utterance]") -> None:
        check_ids(batch, format)
        check_width(decoder.graph, batch)
        if missing := [utterance.id for utterance in batch if utterance.id not in said]:
            raise Failure(f"{texts} lacks {named(missing)}; --allow-missing aligns the others")
        seen.update(utterance.id for utterance in batch)

    def write_one(utterance: "Utterance", alignment: "Alignment") -> None:
        write(file, format, utterance, alignment, align_fields)
        if alignment.doubtful:
            doubtful.append(utterance.id)

    utterances = read_all(found)
    if allow_missing:
        utterances = (utterance for utterance in utterances if utterance.id in said)
    with open_output(output) as file, progress("aligning", lambda: count(found), done):
        speed = decode_all(
            TextAligner(decoder), utterances, write_one, check=check, batch_size=batch_size, done=done,
            requested={"star": star, "pronunciations": pronunciations}, of_each={"texts": said.__getitem__},
        )  # fmt: skip
    absent = [name for name in said if name not in seen]
    if absent and not allow_missing:
        raise Failure(f"the input lacks utterances of {texts} ({named(absent)}); --allow-missing aligns the others")
    speed.run_seconds = time.perf_counter() - began
    note(speed.describe(frame_shift, describe_device(decoder), "aligned"))
    if doubtful:
        note(f"note: {named(doubtful)} with a confidence below 0.1: is this what was said?")


class TextAligner:
    """A decoder that aligns what `decode_all` has it decode."""

    def __init__(self, decoder: "CtcDecoder") -> None:
        self._decoder = decoder
        self.finished: Callable[[], int] = decoder.finished

    def decode(self, log_probs: list[Any], *, texts: list[str], **options: Any) -> "list[Alignment]":
        """The alignments of a batch."""
        return self._decoder.align(log_probs, texts, **options)


def align_fields(alignment: "Alignment") -> Mapping[str, Any]:
    """What JSON has of an alignment."""
    left_out = {*LEFT_OUT, "frame_scores"}
    return {name: value for name, value in alignment.to_dict().items() if name not in left_out}
