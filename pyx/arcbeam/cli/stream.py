"""The command ``arcbeam stream``: log-probs in chunks, and what is known of the words after each chunk."""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, guarded, note
from arcbeam.cli.outputs import rounded
from arcbeam.words import as_dict

if TYPE_CHECKING:
    import numpy as np

    from arcbeam.ctc.partial import Partial
    from arcbeam.ctc.stream import Stream

STDIN = "-"
NPY = b"\x93NUMPY"  # how such files begin
ANSWERS = ("confidence", "confidence_truncated", "nbest", "nbest_is_all", "nbest_truncated", "mbr", "sausage")


class Shown(StrEnum):
    """What is printed."""

    text = "text"
    json = "json"


class Rules(StrEnum):
    """What ends a sentence."""

    kaldi = "kaldi"
    sherpa = "sherpa"


@guarded
def stream(
    graph: opt.GraphFile,
    inputs: Annotated[list[str], typer.Argument(
        metavar="INPUT", help="Log-probs (natural logs): .npz, .npy, Kaldi .ark or .scp, or a folder of them; or - for "
        "the standard input: float32 values of the graph's columns, one frame after the other, without a header.")],
    format: Annotated[Shown, typer.Option(
        "--format", "-f", help="text: 'id words' at the end of each utterance, and on a terminal what is said so far; "
        "json: an object after each chunk.")] = Shown.text,
    endpoint: Annotated[Rules | None, typer.Option(
        "--endpoint", show_default="none", help="End sentences at pauses, by the rules of Kaldi or of sherpa with "
        "their defaults: 'id-1 words', 'id-2 words' and so on for each utterance; needs --frame-shift.")] = None,
    chunk_frames: Annotated[int, typer.Option(
        "--chunk-frames", metavar="FRAMES", min=1, help="Frames of a chunk.")] = 20,
    real_time: Annotated[bool, typer.Option(
        "--real-time", help="Decode a chunk when it would have been said; needs --frame-shift.")] = False,
    frame_shift: opt.FrameShift = None,
    beam: opt.Beam = opt.DEFAULT.beam,
    max_active: opt.MaxActive = opt.DEFAULT.max_active or 0,
    acoustic_scale: opt.AcousticScale = opt.DEFAULT.acoustic_scale,
    blank_penalty: opt.BlankPenalty = opt.DEFAULT.blank_penalty,
    boost: opt.BoostFile = None,
    boost_map: opt.BoostMap = None,
    boost_score: opt.BoostScore = opt.DEFAULT_BOOST,
    boost_lexicon: opt.BoostLexicon = None,
    nbest: opt.NBest = 0,
    confidence: opt.Confidence = False,
    mbr: opt.Mbr = False,
    interim_answers: Annotated[bool, typer.Option(
        "--interim-answers", help="Give n-best lists, confidences and minimum Bayes risk after each chunk, not only at "
        "the end of a sentence.")] = False,
    posteriors: Annotated[bool, typer.Option(
        "--posteriors", help="Also give the words behind the stable ones, each with its posterior, from 0 to 1; needs "
        "--format json.")] = False,
    lattice_beam: opt.LatticeBeam = opt.DEFAULT.lattice_beam,
    posterior_scale: opt.PosteriorScale = opt.DEFAULT.posterior_scale,
    threads: Annotated[int, typer.Option(
        "--threads", metavar="N", min=1, rich_help_panel=opt.SEARCH,
        help="CPU threads. A stream is decoded by one; others look words up for a GPU.")] = 1,
    device: opt.Device = "cpu",
    memory_limit: opt.MemoryLimit = None,
    language_model: opt.LargeModel = None,
    graph_language_model: opt.GraphModel = None,
    lm_scale: opt.LmScale = opt.DEFAULT.lm_scale,
    graph_lm_scale: opt.GraphLmScale = None,
    hypotheses_per_state: opt.HypothesesPerState = 0,
    unknown_words: opt.UnknownWords = opt.DEFAULT.unknown_words,
    placement: opt.Placement = opt.DEFAULT.placement,
    gpu_budget: opt.GpuBudget = None,
    arc_cache: opt.ArcCache = None,
    words: opt.Words = None,
    tokens: opt.Tokens = None,
    lexicon: opt.Lexicon = None,
    blank: opt.Blank = None,
    label_to_column: opt.LabelToColumn = None,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Decode log-probs chunk by chunk, as they would arrive while someone speaks."""
    if real_time and frame_shift is None:
        raise typer.BadParameter(
            "real time needs the seconds of a frame: set --frame-shift", param_hint="'--real-time'"
        )
    if endpoint is not None and frame_shift is None:
        raise typer.BadParameter("pauses need the seconds of a frame: set --frame-shift", param_hint="'--endpoint'")
    for name, asked in (("nbest", nbest), ("confidence", confidence), ("mbr", mbr), ("posteriors", posteriors)):
        if asked and format is not Shown.json:
            raise typer.BadParameter("expected --format json, which alone shows it", param_hint=f"'--{name}'")
    if interim_answers and not (nbest or confidence or mbr):
        raise typer.BadParameter(
            "expected --nbest, --confidence or --mbr, which it gives sooner", param_hint="'--interim-answers'"
        )
    if STDIN in inputs and len(inputs) > 1:
        raise typer.BadParameter("expected - alone, without files", param_hint="'INPUT'")
    settings = opt.decoder_options(
        beam=beam, max_active=max_active, acoustic_scale=acoustic_scale, blank_penalty=blank_penalty,
        lattice_beam=lattice_beam, posterior_scale=posterior_scale, frame_shift=frame_shift, device=device,
        threads=threads, lm_scale=lm_scale, graph_lm_scale=graph_lm_scale,
        hypotheses_per_state=hypotheses_per_state or None, unknown_words=unknown_words, placement=placement,
        gpu_budget=gpu_budget, arc_cache=arc_cache, memory_limit=memory_limit,
    )  # fmt: skip
    import numpy as np

    from arcbeam import Endpoint
    from arcbeam.cli.boosts import tell_unused, word_boosts
    from arcbeam.cli.graphs import load_graph
    from arcbeam.cli.inputs import find_inputs, read_all
    from arcbeam.cli.models import check_given, make_decoder
    from arcbeam.cli.run import check_width

    check_given(language_model, graph_language_model, settings)
    boosts = word_boosts(boost, boost_map, boost_score, boost_lexicon)
    loaded = load_graph(
        graph, words=words, tokens=tokens, lexicon=lexicon, blank=opt.parse_blank(blank),
        label_to_column=label_to_column, max_bytes=max_bytes,
    )  # fmt: skip
    tell_unused(boost_lexicon, loaded)
    decoder = make_decoder(loaded, language_model, graph_language_model, dataclasses.asdict(settings), max_bytes)
    pace = frame_shift if real_time and frame_shift is not None else None
    rules = None if endpoint is None else Endpoint.kaldi() if endpoint is Rules.kaldi else Endpoint.sherpa()
    seconds: list[float] = []

    def follow(name: str, chunks: Iterator["np.ndarray"]) -> None:
        began, list_of = time.monotonic(), None if boosts is None else boosts(name)
        ours = decoder.stream(
            boost=list_of, endpoint=rules, nbest=nbest or None, confidence=confidence, mbr=mbr,
            interim_answers=interim_answers, posteriors=posteriors,
        )  # fmt: skip
        with _shown(name, format, rules is not None) as show:
            try:
                for chunk in chunks:
                    if pace is not None:
                        time.sleep(max(0.0, began + pace * (ours.num_frames + len(chunk)) - time.monotonic()))
                    partial = _timed(ours, chunk, seconds)
                    show(partial)
                    while partial.endpoint is not None:
                        partial = ours.reset()
                        show(partial)
            except BaseException:  # also Ctrl-C: what has been said is shown first
                if ours.num_frames:
                    with suppress(ValueError):  # of a stream that was interrupted in the middle of a chunk
                        show(ours.finish())
                raise
            show(ours.finish())

    if STDIN in inputs:
        follow(STDIN, _rows(sys.stdin.buffer, loaded.num_columns, chunk_frames))
    else:
        for utterance in read_all(find_inputs(inputs, max_bytes)):
            check_width(loaded, [utterance])
            rows = utterance.log_probs
            follow(utterance.id, (rows[at : at + chunk_frames] for at in range(0, len(rows), chunk_frames)))
    if not seconds:
        raise Failure("the input contains no frames")
    if boosts:
        boosts.tell_absent()
    milliseconds = 1e3 * np.asarray(seconds)
    note(
        f"decoded {len(seconds)} chunks of {chunk_frames} frames: {np.median(milliseconds):.2f} ms a chunk in the "
        f"median, {np.percentile(milliseconds, 95):.2f} ms at most for 95 %"
    )


def _timed(stream: "Stream", chunk: "np.ndarray", seconds: list[float]) -> "Partial":
    start = time.perf_counter()
    partial = stream.decode_chunk(chunk)
    seconds.append(time.perf_counter() - start)
    return partial


def _rows(source: BinaryIO, columns: int, frames: int) -> Iterator["np.ndarray"]:
    """Chunks of frames from a pipe, each as soon as it is there."""
    import numpy as np

    size, is_first = 4 * columns, True
    while data := source.read(size * frames):
        if is_first and data.startswith(NPY):
            raise Failure(
                "standard input: expected float32 values without a header, got a .npy file; give the file's name "
                "instead of -"
            )
        is_first = False
        whole = len(data) // size
        if whole:
            yield np.frombuffer(data, "<f4", whole * columns).reshape(-1, columns)
        if more := len(data) - whole * size:
            raise Failure(
                f"standard input: expected frames of {columns} float32 values, {size} bytes each, got {more} bytes "
                "more behind the last; is it float16, or are there other columns? Write log_probs.astype('float32')"
            )


@contextmanager
def _shown(name: str, format: Shown, in_sentences: bool) -> Iterator[Callable[["Partial"], None]]:
    """Prints results: as JSON, or final ones and, on a terminal, the others in place with what is stable in bold.

    Without sentences an utterance has one final result. With them, those without words are not printed as text.
    """
    if format is Shown.json:
        yield lambda partial: print(json.dumps(_fields(name, partial, in_sentences), ensure_ascii=False), flush=True)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console, number = Console(stderr=True), 0
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(partial: "Partial") -> None:
            nonlocal number
            if partial.is_final:
                live.update("")
                live.stop()
                if not in_sentences:
                    print(f"{name} {partial.text}".rstrip(), flush=True)
                elif partial.text:
                    number += 1
                    print(f"{name}-{number} {partial.text}", flush=True)
                live.start()
            elif console.is_terminal:
                stable = partial.stable_text
                said = Text.assemble((stable, "bold"), (partial.text.removeprefix(stable), "dim"))
                width, height = console.width, console.height - 1
                block = (width + 1) * (height + 1)  # at least a line more than fits, which may begin within a word
                newest = said[max(0, len(said) // block - 1) * block :]  # lines stay as they are for a block
                lines = newest.wrap(console, width)
                live.update(Text("\n").join(lines[-height:]), refresh=True)

        yield show


def _fields(name: str, partial: "Partial", in_sentences: bool) -> dict[str, object]:
    has_answers = partial.confidence is not None or partial.nbest is not None or partial.mbr is not None
    found: dict[str, object] = partial.to_dict() if has_answers else {}
    sentence = {"first_frame": partial.first_frame, "endpoint": partial.endpoint} if in_sentences else {}
    return {
        "utterance": name,
        "frames": partial.num_frames,
        **sentence,
        "stable_text": partial.stable_text,
        "text": partial.text,
        "stable_words": rounded([as_dict(word) for word in partial.stable_words]),
        **_unstable(partial),
        "is_final": partial.is_final,
        **{name: rounded(found[name]) for name in ANSWERS if name in found},
    }


def _unstable(partial: "Partial") -> dict[str, object]:
    """The words behind the stable ones, if they have posteriors or, before the end, confidences."""
    words = [as_dict(word) for word in partial.words]
    if partial.posteriors is not None:
        words = [
            word | {"posterior": posterior} for word, posterior in zip(words, partial.posteriors.tolist(), strict=True)
        ]
    elif partial.confidence is None or partial.is_final:
        return {}
    return {"unstable_words": rounded(words[partial.num_stable :])}
