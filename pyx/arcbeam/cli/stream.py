"""The command ``arcbeam stream``: log-probs in chunks, and what is known of the words after each chunk."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import guarded
from arcbeam.cli.endpoints import EndpointRules, EndpointValues, check_seconds, endpoint_of
from arcbeam.cli.outputs import STDOUT, Format, check_format, check_ids, check_name, check_times, open_output
from arcbeam.cli.parameters import takes_groups
from arcbeam.words import as_dicts

if TYPE_CHECKING:
    from arcbeam.ctc.streams.partial import Partial
    from arcbeam.ctc.streams.stream import Stream
    from arcbeam.files.log_probs import Utterance

ANSWERS = ("confidence", "confidence_truncated", "nbest", "nbest_is_all", "nbest_truncated", "mbr", "sausage", "labels")


@guarded
@takes_groups
def stream(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: Annotated[list[str], typer.Argument(
        metavar="INPUT", help="Log-probs (natural logs): .npz, .npy, Kaldi .ark or .scp, or a folder of them; or - for "
        "the standard input: float32 values of the graph's columns, one frame after the other, without a header.")],
    logits: opt.Logits = False,
    output: opt.Output = STDOUT,
    format: Annotated[Format, typer.Option(
        "--format", "-f", help="At the end of each utterance or sentence, text: 'id words'; trn: 'words (id)'; ctm: a "
        "word and its seconds a line; stm: the seconds of the first word and the last, and the words. json: an object "
        "after each chunk. A terminal shows what is said so far, but not with json.")] = Format.text,
    endpoint: EndpointRules = None,
    endpoint_rule: EndpointValues = None,
    chunk_frames: Annotated[int, typer.Option(
        "--chunk-frames", metavar="FRAMES", min=1, max=opt.MOST_CHUNK_FRAMES, rich_help_panel=opt.STREAMS,
        help="Frames of a chunk.")] = 20,
    real_time: opt.RealTime = False,
    frame_shift: opt.FrameShift = None,
    scoring: opt.Scoring,
    search: opt.Search,
    boosting: opt.Boosting,
    answers: opt.Answers,
    interim_answers: Annotated[bool, typer.Option(
        "--interim-answers", rich_help_panel=opt.ANSWERS, help="Give n-best lists, confidences and minimum Bayes risk "
        "after each chunk, not only at the end of a sentence; needs --format json.")] = False,
    posteriors: Annotated[bool, typer.Option(
        "--posteriors", rich_help_panel=opt.ANSWERS, help="Also give the posterior of each word after the stable ones, "
        "from 0 to 1; needs --format json.")] = False,
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
    check_seconds(frame_shift, real_time, endpoint)
    check_name(output, format, opt.is_given(context, "format"))
    check_times(format, frame_shift)
    of_json = answers.of_json() | {"interim-answers": interim_answers, "posteriors": posteriors}
    check_format(format, of_json=of_json, confidence=answers.confidence)
    rules = endpoint_of(endpoint, endpoint_rule)
    settings = opt.decoder_options(
        search, answers, posterior, large, frame_shift=frame_shift, device=device, threads=threads,
        memory_limit=memory_limit,
    )  # fmt: skip
    from arcbeam.cli.boosts import tell_unused, word_boosts
    from arcbeam.cli.chunks import cut, find_frames
    from arcbeam.cli.graphs import load_graph
    from arcbeam.cli.live import Results, follow
    from arcbeam.cli.models import check_given, make_decoders
    from arcbeam.cli.run import check_width

    found = find_frames(inputs, max_bytes)
    scorer = scoring.scorer(inputs)
    opt.check_max_bytes(context, found)
    check_given(large.language_model, large.graph_language_model)
    boosts = word_boosts(**vars(boosting))
    loaded = load_graph(graph, **vars(tables), max_bytes=max_bytes)
    tell_unused(boosting.boost_lexicon, loaded)
    models = large.language_model, large.graph_language_model
    [decoder] = make_decoders(loaded, *models, dataclasses.asdict(settings), [device], max_bytes)
    opt.check_gpu_memory(context, decoder.device)
    if scorer is not None:
        scorer.compare_with_greedy(loaded)

    def check(batch: "list[Utterance]") -> None:
        if scorer is not None:
            scorer.expect([utterance.id for utterance in batch])
        check_ids(batch, format)
        check_width(loaded, batch)
        if scorer is not None:
            scorer.add_greedy(batch)

    def begin(name: str) -> "Stream":
        return decoder.stream(
            boost=None if boosts is None else boosts(name), endpoint=rules, interim_answers=interim_answers,
            posteriors=posteriors, logits=logits, **answers.requested(),
        )  # fmt: skip

    chunks = cut(found, chunk_frames, width=loaded.num_columns, check=check, seconds=frame_shift if real_time else None)
    with open_output(output, at_once=True) as file:
        follow(chunks, chunk_frames, begin, Results(file, format, rules is not None, _fields), referee=scorer)
    if scorer is not None:
        scorer.tell(output != STDOUT)
    if boosts:
        boosts.tell_absent()


def _fields(partial: "Partial") -> dict[str, object]:
    """The words, and the outputs that were requested."""
    words, stable = as_dicts(partial.words, partial.word_confidence), partial.num_stable
    if partial.posteriors is not None:
        for word, posterior in zip(words[stable:], partial.posteriors[stable:].tolist(), strict=True):
            word["posterior"] = posterior
    more = (partial.confidence, partial.nbest, partial.mbr, partial.labels)
    found = partial.to_dict() if any(answer is not None for answer in more) else {}
    return {
        "stable_words": words[:stable],
        "unstable_words": words[stable:],
        **{name: found[name] for name in ANSWERS if name in found},
    }
