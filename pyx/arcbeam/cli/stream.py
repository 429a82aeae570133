"""The command ``arcbeam stream``: log-probs in chunks, and what is known of the words after each chunk."""

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.captions import captions
from arcbeam.cli.console import guarded
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
def stream(
    context: typer.Context,
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
    frame_confidence: opt.FrameConfidence = None,
    confidence_aggregation: opt.ConfidenceAggregation = opt.DEFAULT.confidence_aggregation,
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
    opt.check_needs(context)
    opt.check_memory_limit(context, device)
    opt.check_seconds(frame_shift, real_time, endpoint)
    for name, asked in (
        ("nbest", nbest), ("confidence", confidence), ("mbr", mbr), ("posteriors", posteriors),
        ("frame-confidence", frame_confidence is not None),
    ):  # fmt: skip
        if asked and format is not Shown.json:
            raise typer.BadParameter("expected --format json, which alone shows it", param_hint=f"'--{name}'")
    resolve(frame_confidence, "--frame-confidence")
    settings = opt.decoder_options(
        beam=beam, max_active=max_active, acoustic_scale=acoustic_scale, blank_penalty=blank_penalty,
        lattice_beam=lattice_beam, posterior_scale=posterior_scale, confidence_aggregation=confidence_aggregation,
        frame_shift=frame_shift, device=device, threads=threads, lm_scale=lm_scale, graph_lm_scale=graph_lm_scale,
        hypotheses_per_state=hypotheses_per_state or None, unknown_words=unknown_words, placement=placement,
        gpu_budget=gpu_budget, arc_cache=arc_cache, memory_limit=memory_limit,
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
    check_given(language_model, graph_language_model)
    boosts = word_boosts(boost, boost_map, boost_score, boost_lexicon)
    loaded = load_graph(
        graph, words=words, tokens=tokens, lexicon=lexicon, blank=opt.parse_blank(blank),
        label_to_column=label_to_column, max_bytes=max_bytes,
    )  # fmt: skip
    tell_unused(boost_lexicon, loaded)
    decoder = make_decoder(loaded, language_model, graph_language_model, dataclasses.asdict(settings), max_bytes)
    opt.check_memory_limit(context, decoder.device)
    rules = None if endpoint is None else getattr(Endpoint, endpoint)()

    def check(batch: "list[Utterance]") -> None:
        check_ids(batch, Format(format.value))
        check_width(loaded, batch)

    def begin(name: str) -> "Stream":
        return decoder.stream(
            boost=None if boosts is None else boosts(name), endpoint=rules, nbest=nbest or None, confidence=confidence,
            mbr=mbr, interim_answers=interim_answers, posteriors=posteriors, frame_confidence=frame_confidence,
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
    """The words, and the answers that were asked for."""
    more = (partial.confidence, partial.nbest, partial.mbr, partial.labels)
    has_answers = any(answer is not None for answer in more)
    found = partial.to_dict() if has_answers else {}
    return {
        "stable_words": rounded([as_dict(word) for word in partial.stable_words]),
        **_unstable(partial),
        **{name: rounded(found[name]) for name in ANSWERS if name in found},
    }


def _unstable(partial: "Partial") -> dict[str, object]:
    """The words behind the stable ones, if they have posteriors or, before the end, confidences of any kind."""
    words = [as_dict(word) for word in partial.words]
    if partial.posteriors is not None:
        words = [
            word | {"posterior": posterior} for word, posterior in zip(words, partial.posteriors.tolist(), strict=True)
        ]
    elif partial.is_final or (partial.confidence is None and partial.labels is None):
        return {}
    return {"unstable_words": rounded(words[partial.num_stable :])}
