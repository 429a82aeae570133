"""The command ``arcbeam transduce``: takes encoder output of an RNN-T or TDT model, returns transcripts."""

import functools
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, guarded
from arcbeam.cli.endpoints import EndpointRules, EndpointValues, check_seconds, check_transducer, endpoint_of
from arcbeam.cli.outputs import (
    STDOUT,
    TIMED,
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
from arcbeam.cli.terminal import note, progress, steps
from arcbeam.core.errors import FormatError
from arcbeam.words import as_dicts, finite

if TYPE_CHECKING:
    from arcbeam.files.log_probs import Utterance
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.transducer.hypothesis import TransducerHypothesis
    from arcbeam.transducer.streams.partial import TransducerPartial
    from arcbeam.transducer.streams.stream import TransducerStream

TOKEN_MODEL = "Language model of tokens"
MODELS = (*opt.TRANSDUCERS, ".npz")  # log-probs end in .npz, too
NEEDS = {
    "confidence_method": ("confidence",), "confidence_aggregation": ("confidence",),
    "allow_missing": ("reference",), "ignore_case": ("reference",),
    "real_time": ("chunk_frames",), "endpoint": ("chunk_frames",), "endpoint_rule": ("endpoint",),
    "boosting_tree_alpha": opt.LISTS, "context_score": opt.LISTS, "depth_scaling": opt.LISTS, "unk_score": opt.LISTS,
    "use_bpe_dropout": opt.LISTS, "ngram_lm_tokens": ("ngram_lm", "lodr"), "ngram_lm_alpha": ("ngram_lm",),
    "lodr": ("beam",), "lodr_scale": ("lodr",), "ilm_scale": ("beam",),
    "max_hypotheses": ("beam",), "merge": ("beam",), "length_power": ("beam",), "settle_frames": ("beam",),
    "merge_context": ("beam",), "nbest": ("beam",), "lattice": ("beam",), "raw_lattice": ("lattice",),
}  # fmt: skip


@guarded
@takes_groups
def transduce(
    context: typer.Context,
    *,
    model: Annotated[Path, typer.Argument(metavar="MODEL",
        help="A .nemo archive, a .pt checkpoint of icefall, .safetensors with the weights of either, or .npz with "
        "named arrays (docs/guide/transducers.md).")],
    inputs: Annotated[list[str], typer.Argument(
        metavar="INPUT", help=r"Encoder output \[frames, features]: .npz with one array per utterance, .npy, Kaldi "
        ".ark or .scp, a folder of them, or a manifest: .tsv (id, tab, path), NeMo's .jsonl, or Lhotse's cuts; or -, "
        "with --chunk-frames, for the standard input: float32 values, one frame after the other, without a header.")],
    output: Annotated[str, typer.Option(
        "--output", "-o", metavar="FILE", help="Where the transcripts go; - is the standard output.")] = STDOUT,
    format: Annotated[Format, typer.Option(
        "--format", "-f", help="text: 'id words'; trn: 'words (id)'; ctm: a word and its seconds a line; stm: the "
        "seconds of the first word and the last, and the words; json: one object per line, with words and tokens, or "
        "with --chunk-frames after each chunk, with words.")] = Format.text,
    scoring: opt.Scoring,
    tokenizer: Annotated[Path | None, typer.Option(
        "--tokenizer", metavar="FILE", show_default="the pieces in MODEL",
        help="SentencePiece model of the tokens.")] = None,
    max_symbols: Annotated[int | None, typer.Option(
        "--max-symbols", metavar="TOKENS", min=1, show_default="as MODEL says, or 10; icefall: 1",
        help="The most tokens that may be written on one frame.")] = None,
    beam: Annotated[float, typer.Option(
        "--beam", metavar="NATS", min=0, rich_help_panel=opt.SEARCH, help="Keep hypotheses that score less than the "
        "best by at most this, such as 4; 0 for greedy search.")] = 0.0,
    max_hypotheses: Annotated[int, typer.Option(
        "--max-hypotheses", metavar="N", min=1, rich_help_panel=opt.SEARCH,
        help="Keep at most this many hypotheses on a frame.")] = 8,
    merge: Annotated[str, typer.Option(
        "--merge", metavar="sum|max", rich_help_panel=opt.SEARCH,
        help="The probability of a hypothesis: the sum of those of its paths, or the largest.")] = "sum",
    length_power: Annotated[float, typer.Option(
        "--length-power", metavar="POWER", min=0, rich_help_panel=opt.SEARCH,
        help="Rank hypotheses at the end by score / (tokens + 1) ^ this.")] = 0.0,
    settle_frames: Annotated[int | None, typer.Option(
        "--settle-frames", metavar="FRAMES", min=1, show_default="never", rich_help_panel=opt.SEARCH,
        help="Frames after which the tokens of the best hypothesis stay, and others are dropped.")] = None,
    merge_context: Annotated[int | None, typer.Option(
        "--merge-context", metavar="TOKENS", min=1, show_default="none", rich_help_panel=opt.SEARCH,
        help="Also make one hypothesis of those whose last so many tokens are equal, such as 2, so that lattices hold "
        "more texts.")] = None,
    nbest: Annotated[int, typer.Option(
        "--nbest", metavar="N", min=0, rich_help_panel=opt.ANSWERS, help="Also give the N best distinct sequences of "
        "tokens, with their posteriors; needs --format json. 0 for none.")] = 0,
    lattice: opt.LatticeFile = None,
    raw_lattice: opt.RawLattice = False,
    confidence: Annotated[bool, typer.Option(
        "--confidence", rich_help_panel=opt.ANSWERS, help="Also give the confidence of each word, from 0 to 1, for "
        "json and ctm, and of each token, for json.")] = False,
    confidence_method: Annotated[str, typer.Option(
        "--confidence-method", metavar="max_prob|entropy", rich_help_panel=opt.ANSWERS, callback=opt.check_measure,
        help="How --confidence measures how certain the model is of a token.")] = "entropy",
    confidence_aggregation: Annotated[str, typer.Option(
        "--confidence-aggregation", metavar="mean|min|max|prod", rich_help_panel=opt.ANSWERS,
        help="How the confidence of a word is made of those of its tokens.")] = "min",
    chunk_frames: Annotated[int | None, typer.Option(
        "--chunk-frames", metavar="FRAMES", min=1, max=opt.MOST_CHUNK_FRAMES, show_default="all at once",
        rich_help_panel=opt.STREAMS, help="Decode chunks of so many frames, as they would arrive while someone speaks. "
        "A terminal shows what is said so far.")] = None,
    real_time: opt.RealTime = False,
    endpoint: EndpointRules = None,
    endpoint_rule: EndpointValues = None,
    boost: Annotated[Path | None, typer.Option(
        "--boost", metavar="FILE", rich_help_panel=opt.BOOSTING, help="Phrases to make likelier: one a line, and after "
        "a tab its context score, if it has its own. Text becomes tokens by --tokenizer, or else by the fewest pieces "
        "of MODEL.")] = None,
    boost_map: opt.BoostMap = None,
    boosting_tree_alpha: Annotated[float, typer.Option(
        "--boosting-tree-alpha", metavar="FACTOR", rich_help_panel=opt.BOOSTING,
        help="The factor of the scores of these phrases.")] = 1.0,
    context_score: Annotated[float, typer.Option(
        "--context-score", metavar="NATS", rich_help_panel=opt.BOOSTING,
        help="The score of each token of a phrase, for phrases without their own.")] = 1.0,
    depth_scaling: Annotated[float, typer.Option(
        "--depth-scaling", metavar="FACTOR", rich_help_panel=opt.BOOSTING,
        help="The factor of the context score for all tokens but a phrase's first.")] = 2.0,
    unk_score: Annotated[float, typer.Option(
        "--unk-score", metavar="NATS", rich_help_panel=opt.BOOSTING,
        help="The score of tokens that begin no phrase.")] = 0.0,
    use_bpe_dropout: Annotated[bool, typer.Option(
        "--use-bpe-dropout", rich_help_panel=opt.BOOSTING,
        help="Also boost other segmentations of each phrase, drawn by --tokenizer.")] = False,
    ngram_lm: Annotated[Path | None, typer.Option(
        "--ngram-lm", metavar="FILE", rich_help_panel=TOKEN_MODEL, help="ARPA or KenLM binary of tokens, whose words "
        "are NeMo's, the character 100 + token, or those of --ngram-lm-tokens.")] = None,
    ngram_lm_tokens: Annotated[Path | None, typer.Option(
        "--ngram-lm-tokens", metavar="FILE", show_default="NeMo's", rich_help_panel=TOKEN_MODEL, help="The words of "
        "--ngram-lm: the first word of each line is that of a token, from token 0 on; an empty line stands for a token "
        "that the model lacks.")] = None,
    ngram_lm_alpha: Annotated[float, typer.Option(
        "--ngram-lm-alpha", metavar="FACTOR", rich_help_panel=TOKEN_MODEL,
        help="The factor of the natural logs of --ngram-lm.")] = 0.2,
    lodr: Annotated[Path | None, typer.Option(
        "--lodr", metavar="FILE", rich_help_panel=TOKEN_MODEL, help="With --beam: an ARPA or KenLM binary of tokens, "
        "of order 2 and of the texts that MODEL was trained on, whose scores are subtracted; its words are those of "
        "--ngram-lm.")] = None,
    lodr_scale: Annotated[float, typer.Option(
        "--lodr-scale", metavar="FACTOR", min=-1, max=0, rich_help_panel=TOKEN_MODEL,
        help="The factor of the natural logs of --lodr.")] = -0.1,
    ilm_scale: Annotated[float, typer.Option(
        "--ilm-scale", metavar="FACTOR", min=0, max=1, rich_help_panel=TOKEN_MODEL, help="With --beam: the factor with "
        "which the scores of MODEL's internal language model are subtracted.")] = 0.0,
    jobs: opt.Jobs,
    frame_shift: opt.EncoderFrameShift = None,
    device: opt.Devices = opt.DEFAULT.device,
    precision: Annotated[str, typer.Option(
        "--precision", metavar="float32|bfloat16", help="bfloat16 is faster on a GPU, and may change a token.")
    ] = "float32",
    threads: opt.Threads = None,
    batch_size: opt.BatchSize = 256,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Decode the encoder output of an RNN-T or TDT model into transcripts, greedily or with a beam."""
    opt.check_needs(context, NEEDS)
    if model.suffix not in MODELS:
        raise Failure(f"{model}: unknown kind of model {model.suffix!r}, expected one of {', '.join(MODELS)}")
    check_name(output, format, opt.is_given(context, "format"))
    check_format(format, of_json={"nbest": nbest > 0}, confidence=confidence)
    archive = check_lattice_file(lattice, output)
    if archive == STDOUT and jobs.resume:
        raise typer.BadParameter("expected a file for --lattice, which a run can go on with", param_hint="'--resume'")
    if chunk_frames is None and opt.STDIN in inputs:
        raise typer.BadParameter("- is read in chunks: needs --chunk-frames", param_hint="'INPUT'")
    for option in ("batch_size", "resume", "shard", "skip_errors"):
        if chunk_frames is not None and opt.is_given(context, option):
            raise typer.BadParameter(
                "leave it out: --chunk-frames decodes one utterance after another",
                param_hint=f"'--{option.replace('_', '-')}'",
            )
    for option, is_given in {"merge-context": merge_context is not None, "lattice": lattice is not None}.items():
        if chunk_frames is not None and is_given:
            raise typer.BadParameter("is of whole utterances: leave out --chunk-frames", param_hint=f"'--{option}'")
    if merge_context is not None and settle_frames is not None:
        raise typer.BadParameter("leave out --settle-frames", param_hint="'--merge-context'")
    if device == "auto" and beam and (merge_context is not None or lattice is not None):
        device = "cpu"  # on a GPU a beam has neither
    devices = opt.devices_of(device)
    if chunk_frames is not None and len(devices) > 1:
        raise typer.BadParameter("expected one GPU for --chunk-frames, got cuda:all", param_hint="'--device'")
    from arcbeam.transducer.options import TransducerOptions, check_nbest

    search: dict[str, Any] = {
        "max_symbols": max_symbols, "confidence": confidence_method if confidence else None,
        "confidence_aggregation": confidence_aggregation, "frame_shift": frame_shift, "precision": precision,
        "threads": threads, "boosting_tree_alpha": boosting_tree_alpha, "ngram_lm_alpha": ngram_lm_alpha,
        "lodr_scale": lodr_scale, "ilm_scale": ilm_scale, "beam": beam, "max_hypotheses": max_hypotheses,
        "merge": merge, "length_power": length_power, "settle_frames": settle_frames, "merge_context": merge_context,
    }  # fmt: skip
    search = {name: one for name, one in search.items() if one is not None}
    with opt.usage_errors():
        check_nbest(TransducerOptions(blank_id=0, device=devices[0], **search), nbest or None)
    rules = endpoint_of(endpoint, endpoint_rule)
    check_transducer(rules)
    from arcbeam.cli.boosts import BoostFiles
    from arcbeam.cli.chunks import cut, find_frames
    from arcbeam.cli.live import Results, follow
    from arcbeam.cli.run import Done, decode_all
    from arcbeam.lattices.archives import lattice_archive

    found = find_frames(inputs, max_bytes, may_be_missing=jobs.skip_errors)
    scorer = scoring.scorer(inputs)
    job = jobs.job(context, found, output, scorer and scorer.pass_over)
    if is_done(job):
        return
    given: dict[str, Any] = {
        "tokenizer": tokenizer, "max_bytes": max_bytes, "ngram_lm_model": ngram_lm, "lodr_model": lodr,
        "ngram_lm_tokens": None if ngram_lm_tokens is None else _first_words(ngram_lm_tokens),
    }  # fmt: skip
    with steps(f"loading {model}"):
        try:
            given = search | {name: one for name, one in given.items() if one is not None}
            decoders = [_reader_of_model(model)(model, device=one, **given) for one in devices]
        except FormatError as error:
            if "unknown array" not in str(error):
                raise
            raise FormatError(f"{error}; the model comes first, and then the output of its encoder") from error
    decoder = decoders[0]
    shift = decoder.options.frame_shift
    if not decoder.has_text:
        if format in TIMED:
            raise Failure(
                f"{model}: {format.upper()} gives words, and the model has no pieces to make them of; give --tokenizer"
            )
        note("note: the model has no pieces, so tokens are numbers; give --tokenizer")
    check_times(format, shift)
    check_seconds(shift, real_time, endpoint)
    scores: dict[str, Any] = {
        "context_score": context_score, "depth_scaling": depth_scaling, "unk_score": unk_score,
        "use_bpe_dropout": use_bpe_dropout,
    }  # fmt: skip
    trees = BoostFiles(_reader(decoder, tokenizer, scores), boost, boost_map) if boost or boost_map else None

    def check(batch: "list[Utterance]") -> None:
        if scorer is not None and chunk_frames is not None:
            scorer.expect([utterance.id for utterance in batch])
        check_ids(batch, format, lattice is not None)
        _check_features(decoder, batch)

    def begin(name: str) -> "TransducerStream":
        return decoder.stream(boost=None if trees is None else trees(name), endpoint=rules, nbest=nbest or None)

    def readable(found: Any) -> Any:
        """A hypothesis or a result of a stream; its text is of numbers where the model has no pieces."""
        for one in () if decoder.has_text else (found, *(getattr(found, "nbest", None) or ())):
            one.text = " ".join(map(str, one.tokens.tolist()))
        return found

    if chunk_frames is not None:
        chunks = cut(found, chunk_frames, width=decoder.features, check=check, seconds=shift if real_time else None)
        with open_output(output, at_once=True) as file:
            fields = functools.partial(_of_partial, has_text=decoder.has_text)
            follow(chunks, chunk_frames, begin, Results(file, format, rules is not None, fields), readable, scorer)
    else:
        began, done = time.perf_counter(), Done()
        requested = {"nbest": nbest or None, "lattice": lattice is not None}
        with (
            job,
            open_output(output, job=job) as file,
            lattice_archive(lattice, determinize=not raw_lattice, opened=job.open)
            if lattice
            else nullcontext(None) as add_lattice,
            progress("decoding", job.total, done),
        ):

            def write_all(utterance: "Utterance", hypothesis: "TransducerHypothesis") -> None:
                write(file, format, utterance, readable(hypothesis), _fields)
                if add_lattice is not None and hypothesis.lattice is not None:
                    add_lattice(utterance.id, hypothesis.lattice)

            speed = decode_all(
                decoders, job.utterances(), write_all, check=check, batch_size=batch_size, referee=scorer, done=done,
                requested=requested, of_each={} if trees is None else {"boost": trees}, job=job,
            )  # fmt: skip
        if archive not in (None, STDOUT):
            count = job.position.written
            note(f"wrote {archive}: {count:,} lattice{'s' * (count != 1)}, whose words are tokens, numbered from 1")
        speed.run_seconds = time.perf_counter() - began
        note(speed.describe(shift, " and ".join(decoder.device for decoder in decoders)))
    if scorer is not None:
        scorer.tell(STDOUT not in (output, archive))
    if trees and jobs.shard is None:
        trees.tell_absent()
    tell_job(job)


def _reader(
    decoder: "TransducerDecoder", tokenizer: Path | None, scores: dict[str, Any]
) -> "Callable[[Path], BoostingTree]":
    """Reads lists of phrases, by the tokenizer or else by the model's pieces; `scores` are options of the tree."""
    from arcbeam import BoostingTree

    source = decoder.pieces if tokenizer is None else tokenizer

    def read(path: Path) -> BoostingTree:
        if source is None:
            raise Failure(f"{path}: the model has no pieces to make phrases of; give --tokenizer")
        try:
            return BoostingTree.read(path, source, **scores)
        except FormatError:  # which names the file
            raise
        except ValueError as error:
            raise Failure(f"{path}: {error}") from error

    return read


def _first_words(path: Path) -> list[str | None]:
    """The first word of each line, None where there is none."""
    from arcbeam.files.lines import read_lines

    words = [next(iter(line.split()), None) for _, line in read_lines(path)]
    return words[:-1] if words[-1] is None else words  # after the last line feed


def _reader_of_model(model: Path) -> "Callable[..., TransducerDecoder]":
    """The constructor that reads a model of this kind."""
    from arcbeam import TransducerDecoder
    from arcbeam.transducer.checkpoints.checkpoint import names_of_tensors

    if model.suffix == ".npz":
        return TransducerDecoder.from_arrays
    if model.suffix == ".safetensors":
        is_of_icefall = any(name.startswith("joiner.") for name in names_of_tensors(model))
    else:
        is_of_icefall = model.suffix == ".pt"
    return TransducerDecoder.from_icefall if is_of_icefall else TransducerDecoder.from_nemo


def _check_features(decoder: "TransducerDecoder", batch: list["Utterance"]) -> None:
    from arcbeam.cli.chunks import are_log_probs

    for utterance in batch:
        if utterance.log_probs.shape[1] != decoder.features:
            hint = ""
            if are_log_probs(utterance.log_probs):
                hint = ": they are log-probs of a CTC model, which arcbeam decode takes, and no output of an encoder"
            raise ValueError(
                f"{utterance.source}: utterance {utterance.id!r} has {utterance.log_probs.shape[1]} features, "
                f"the model expects {decoder.features}{hint}"
            )


def _fields(hypothesis: "TransducerHypothesis") -> dict[str, Any]:
    """What JSON has of an utterance: its tokens are objects, as its words are; what the model lacks is left out."""
    said = hypothesis.to_dict()
    columns = {
        "token": said["tokens"], "start_frame": said["frames"], "start": said["times"], "duration": said["durations"],
        "log_prob": list(map(finite, said["log_probs"])), "confidence": said["confidence"],
    }  # fmt: skip
    if said["times"] is None:
        columns["start"] = [None] * len(said["tokens"])  # as words without seconds have
    known = {name: values for name, values in columns.items() if values is not None}
    tokens = [dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=True)]
    words = {} if said["words"] is None else {"words": said["words"]}
    parts = {name: part for name, part in said.items() if name.endswith("_score")}
    posterior = {} if hypothesis.posterior is None else {"posterior": hypothesis.posterior}
    nbest = {} if hypothesis.nbest is None else {"nbest": [_fields(entry) for entry in hypothesis.nbest]}
    return {"text": said["text"], **words, "score": said["score"], **parts, **posterior, "tokens": tokens, **nbest}


def _of_partial(partial: "TransducerPartial", has_text: bool) -> dict[str, object]:
    """What JSON has of a result of a stream; the list, if it was requested, at the end of a sentence."""
    words = as_dicts(partial.words) if has_text else []
    stable = partial.num_stable if has_text else 0
    found: dict[str, object] = {"stable_words": words[:stable], "unstable_words": words[stable:]} if has_text else {}
    if partial.is_final and partial.nbest is not None:
        found |= {"posterior": partial.posterior, "nbest": [_fields(entry) for entry in partial.nbest]}
    return found
