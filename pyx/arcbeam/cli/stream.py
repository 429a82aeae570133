"""The command ``arcbeam stream``: log-probs in chunks, and what is known of the words after each chunk."""

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.captions import captions
from arcbeam.cli.console import guarded
from arcbeam.cli.groups import takes_groups
from arcbeam.cli.outputs import Format, check_ids, rounded
from arcbeam.core.confidence import resolve
from arcbeam.words import as_dict

if TYPE_CHECKING:
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.files.log_probs import Utterance

ANSWERS = (
    "confidence", "confidence_truncated", "nbest", "nbest_is_all", "nbest_truncated", "mbr", "sausage", "labels",
    "word_confidence",
)  # fmt: skip


class Shown(StrEnum):
    """What is printed."""

    text = "text"
    json = "json"


@guarded
@takes_groups
def stream(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: Annotated[list[str], typer.Argument(
        metavar="INPUT", help="Log-probs (natural logs): .npz, .npy, Kaldi .ark or .scp, or a folder of them; or - for "
        "the standard input: float32 values of the graph's columns, one frame after the other, without a header.")],
    format: Annotated[Shown, typer.Option(
        "--format", "-f", help="text: 'id words' at the end of each utterance, and on a terminal what is said so far; "
        "json: an object after each chunk.")] = Shown.text,
    endpoint: Annotated[opt.Rules | None, typer.Option(
        "--endpoint", show_default="none", rich_help_panel=opt.STREAMS, help="End sentences at pauses, by the rules of "
        "Kaldi or of sherpa with their defaults: 'id-1 words', 'id-2 words' and so on for each utterance; needs "
        "--frame-shift.")] = None,
    chunk_frames: Annotated[int, typer.Option(
        "--chunk-frames", metavar="FRAMES", min=1, max=opt.MOST_CHUNK_FRAMES, rich_help_panel=opt.STREAMS,
        help="Frames of a chunk.")] = 20,
    real_time: opt.RealTime = False,
    frame_shift: opt.FrameShift = None,
    search: opt.Search,
    boosting: opt.Boosting,
    answers: opt.Answers,
    interim_answers: Annotated[bool, typer.Option(
        "--interim-answers", help="Give n-best lists, confidences and minimum Bayes risk after each chunk, not only at "
        "the end of a sentence.")] = False,
    posteriors: Annotated[bool, typer.Option(
        "--posteriors", help="Also give the words after the stable ones, each with its posterior, from 0 to 1; needs "
        "--format json.")] = False,
    posterior: opt.Posteriors,
    threads: Annotated[int, typer.Option(
        "--threads", metavar="N", min=1, rich_help_panel=opt.SEARCH,
        help="CPU threads. A stream is decoded by one; others look words up for a GPU.")] = 1,
    device: opt.Device = "cpu",
    memory_limit: opt.MemoryLimit = None,
    large: opt.LargeModel,
    tables: opt.Tables,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Decode log-probs chunk by chunk, as they would arrive while someone speaks."""
    opt.check_needs(context)
    opt.check_gpu_memory(context, device)
    opt.check_seconds(frame_shift, real_time, endpoint)
    for name, requested in (
        ("nbest", answers.nbest), ("confidence", answers.confidence), ("mbr", answers.mbr), ("posteriors", posteriors),
        ("frame-confidence", answers.frame_confidence is not None),
    ):  # fmt: skip
        if requested and format is not Shown.json:
            raise typer.BadParameter("expected --format json, which alone shows it", param_hint=f"'--{name}'")
    resolve(answers.frame_confidence, "--frame-confidence")
    settings = opt.decoder_options(
        search, answers, posterior, large, frame_shift=frame_shift, device=device, threads=threads,
        memory_limit=memory_limit,
    )  # fmt: skip
    from arcbeam import Endpoint
    from arcbeam.cli.boosts import tell_unused, word_boosts
    from arcbeam.cli.chunks import cut, find_frames
    from arcbeam.cli.graphs import load_graph
    from arcbeam.cli.live import follow
    from arcbeam.cli.models import check_given, make_decoder
    from arcbeam.cli.run import check_width

    found = find_frames(inputs, max_bytes)
    opt.check_max_bytes(context, found)
    check_given(large.language_model, large.graph_language_model)
    boosts = word_boosts(**vars(boosting))
    loaded = load_graph(graph, **vars(tables), max_bytes=max_bytes)
    tell_unused(boosting.boost_lexicon, loaded)
    models = large.language_model, large.graph_language_model
    decoder = make_decoder(loaded, *models, dataclasses.asdict(settings), max_bytes)
    opt.check_gpu_memory(context, decoder.device)
    rules = None if endpoint is None else getattr(Endpoint, endpoint)()

    def check(batch: "list[Utterance]") -> None:
        check_ids(batch, Format(format.value))
        check_width(loaded, batch)

    def begin(name: str) -> "Stream":
        return decoder.stream(
            boost=None if boosts is None else boosts(name), endpoint=rules, interim_answers=interim_answers,
            posteriors=posteriors, **answers.requested(),
        )  # fmt: skip

    follow(
        cut(
            found, chunk_frames, width=loaded.num_columns, check=check, seconds=frame_shift if real_time else None,
        ),
        chunk_frames,
        begin,
        lambda name: captions(name, rules is not None, _fields if format is Shown.json else None),
    )  # fmt: skip
    if boosts:
        boosts.tell_absent()


def _fields(partial: "Partial") -> dict[str, object]:
    """The words, and the outputs that were requested."""
    more = (partial.confidence, partial.nbest, partial.mbr, partial.labels)
    has_answers = any(answer is not None for answer in more)
    found = partial.to_dict() if has_answers else {}
    return {
        "stable_words": rounded([as_dict(word) for word in partial.stable_words]),
        **_unstable(partial),
        **{name: rounded(found[name]) for name in ANSWERS if name in found},
    }


def _unstable(partial: "Partial") -> dict[str, object]:
    """The words after the stable ones, if they have posteriors or, before the end, confidences of any kind."""
    words = [as_dict(word) for word in partial.words]
    if partial.posteriors is not None:
        words = [
            word | {"posterior": posterior} for word, posterior in zip(words, partial.posteriors.tolist(), strict=True)
        ]
    elif partial.is_final or (partial.confidence is None and partial.labels is None):
        return {}
    return {"unstable_words": rounded(words[partial.num_stable :])}
