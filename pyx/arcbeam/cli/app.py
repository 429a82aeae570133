"""The commands of ``arcbeam``: arguments in, calls to the layers below, results out."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.build_lm import build_lm
from arcbeam.cli.console import check_output, guarded, note
from arcbeam.cli.decode import decode, greedy
from arcbeam.cli.groups import takes_groups
from arcbeam.cli.stream import stream
from arcbeam.cli.transduce import transduce
from arcbeam.cli.tune import tune

app = typer.Typer(
    name="arcbeam",
    help="Decode the output of speech recognition models into words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Topology(StrEnum):
    """The CTC topologies that a graph can be built with."""

    compact = "compact"
    normal = "normal"
    eesen = "eesen"
    identity = "identity"


class SeparatorRule(StrEnum):
    """How often a separator token stands between words."""

    auto = "auto"
    one = "one"
    many = "many"
    optional = "optional"
    loop = "loop"
    none = "none"


class TokenEncoding(StrEnum):
    """How a language model over tokens writes them."""

    names = "names"
    nemo = "nemo"


class Answer(StrEnum):
    """Yes, no, or whichever form the file has."""

    auto = "auto"
    yes = "yes"
    no = "no"


ANSWERS = {Answer.auto: None, Answer.yes: True, Answer.no: False}


def _choices(names: type[StrEnum]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _version(wanted: bool) -> None:
    if wanted:
        from arcbeam.cli.graphs import version

        print(f"arcbeam {version()}")
        raise typer.Exit


@app.callback()
def arcbeam(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Decode the output of speech recognition models into words."""


BUILD_NEEDS = {
    "sentencepiece_model": ("word_list", "lm_words"), "epsilon_free_limit": ("epsilon_free",),
    "open_slot_score": ("open_slot",), "lexicon_probabilities": ("lexicon",),
}  # fmt: skip


@app.command(
    "build-graph",
    epilog="Example: arcbeam build-graph --tokens tokens.txt --word-list words.txt --lm 3gram.arpa.gz -o TLG.arcbeam",
)
@guarded
def build_graph(
    context: typer.Context,
    tokens: Annotated[Path, typer.Option(
        "--tokens", metavar="FILE", help="The tokens of the model's columns, in lines of 'token id' or 'token'.")],
    lm: Annotated[Path, typer.Option(
        "--lm", metavar="FILE",
        help="N-gram LM in ARPA format: plain, .gz, .xz or .bz2; over words, or without a lexicon over tokens.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the graph is written.")],
    lexicon: Annotated[Path | None, typer.Option(
        "--lexicon", metavar="FILE", show_default=False,
        help="Lines of 'word token token ...', optionally with a probability after the word. With none of --lexicon, "
        "--word-list and --lm-words, the graph has an open vocabulary.")] = None,
    word_list: Annotated[Path | None, typer.Option(
        "--word-list", metavar="FILE", show_default=False, help="One word per line, to be spelled in tokens.")] = None,
    lm_words: Annotated[bool, typer.Option("--lm-words", help="Take the words of the LM as the word list.")] = False,
    sentencepiece_model: Annotated[Path | None, typer.Option(
        "--sentencepiece-model", metavar="FILE", show_default=False,
        help="The model that cuts the words of the list into pieces; without it they are spelled in characters."),
    ] = None,
    topology: Annotated[Topology, typer.Option(
        "--topology", metavar="NAME", help=f"The CTC topology: {_choices(Topology)}.")] = Topology.compact,
    no_token_self_loops: Annotated[bool, typer.Option(
        "--no-token-self-loops", help="Every token lasts one frame only.")] = False,
    lm_scale: Annotated[float, typer.Option(
        "--lm-scale", metavar="FACTOR", help="Multiplies the costs of the LM.")] = 1.0,
    word_insertion_penalty: Annotated[float, typer.Option(
        "--word-insertion-penalty", metavar="NATS",
        help="Added to the cost of every word; above 0 means fewer words.")] = 0.0,
    epsilon_free: Annotated[bool, typer.Option(
        "--epsilon-free", help="Remove the epsilon arcs. The graph grows several times; decoding needs no closure."),
    ] = False,
    epsilon_free_limit: Annotated[float, typer.Option(
        "--epsilon-free-limit", metavar="TIMES",
        help="The most arcs that --epsilon-free may make, as a multiple of those before; more is an error.")] = 8.0,
    open_slot: Annotated[bool, typer.Option(
        "--open-slot", help="Leave a place for words that the graph lacks; boost lists (decode --boost) bring them.",
    )] = False,
    open_slot_score: Annotated[float | None, typer.Option(
        "--open-slot-score", metavar="NATS", show_default=False,
        help="The score of such a word, a natural log; without it that of <unk> in the LM, but at least -6.")] = None,
    words_by_last_token: Annotated[bool, typer.Option(
        "--words-by-last-token",
        help="Write each word on the arc of its last token or earlier: a smaller graph that decodes more slowly."),
    ] = False,
    separator: Annotated[str, typer.Option(
        "--separator", metavar="TOKEN",
        help="The token between words, or the mark at the start of a word; 'none' if there is neither.")] = "auto",
    separator_rule: Annotated[SeparatorRule, typer.Option(
        "--separator-rule", metavar="RULE",
        help=f"How often a separator token stands between words: {_choices(SeparatorRule)}; auto means one if the "
        "lexicon has such a token, else none.")] = SeparatorRule.auto,
    blank: opt.Blank = None,
    lexicon_probabilities: Annotated[Answer, typer.Option(
        "--lexicon-probabilities", metavar="YES|NO",
        help="Whether a probability stands after the word in --lexicon: yes, no, or auto, which reads the file."),
    ] = Answer.auto,
    token_encoding: Annotated[TokenEncoding, typer.Option(
        "--token-encoding", metavar="NAME",
        help="How an LM over tokens writes them: names, or nemo, which writes the character with code 100 + column.",
    )] = TokenEncoding.names,
    openfst: Annotated[Path | None, typer.Option(
        "--openfst", metavar="FILE", show_default=False,
        help="Also write the graph as an OpenFst vector file, and its labels as TLG.tokens.txt and TLG.words.txt where "
        "FILE is TLG.fst.")] = None,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Build a decoding graph (TLG) from tokens, a lexicon and a language model."""
    if (lexicon is not None) + (word_list is not None) + lm_words > 1:
        raise typer.BadParameter("give at most one of --lexicon, --word-list and --lm-words")
    opt.check_needs(context, BUILD_NEEDS)
    check_output(output)
    from arcbeam.cli.graphs import build

    graph = build(
        tokens=tokens, lm=lm, lexicon=lexicon, word_list=word_list, lm_words=lm_words,
        sentencepiece_model=sentencepiece_model,
        separator=None if separator == "none" else separator, topology=topology.value, epsilon_free=epsilon_free,
        epsilon_free_limit=epsilon_free_limit, words_by_last_token=words_by_last_token,
        token_self_loops=not no_token_self_loops, lm_scale=lm_scale, word_insertion_penalty=word_insertion_penalty,
        separator_rule=separator_rule.value, blank=opt.parse_blank(blank), probabilities=ANSWERS[lexicon_probabilities],
        token_encoding=token_encoding.value, openfst=openfst, max_bytes=max_bytes, open_slot=open_slot,
        open_slot_score=open_slot_score,
    )  # fmt: skip
    graph.save(output)
    note(f"wrote {output}: {graph.num_states} states, {graph.num_arcs} arcs, {output.stat().st_size / 1e6:.1f} MB")


app.command(epilog="Example: arcbeam decode TLG.arcbeam log_probs.npz --frame-shift 0.02 --reference reference.tsv")(
    decode
)
app.command(epilog="Example: arcbeam greedy log_probs.npz --tokens tokens.txt --reference reference.tsv")(greedy)
app.command(
    epilog="Examples: arcbeam stream TLG.arcbeam log_probs.npz --frame-shift 0.02 --real-time; "
    "model | arcbeam stream TLG.arcbeam - --frame-shift 0.02"
)(stream)
app.command(
    epilog="Examples: arcbeam transduce parakeet.nemo encoder_output.npz -f json; "
    "encoder | arcbeam transduce parakeet.nemo - --chunk-frames 5"
)(transduce)
app.command(epilog="Example: arcbeam tune TLG.arcbeam log_probs.npz --reference reference.tsv --frame-shift 0.02")(tune)
app.command("build-lm", epilog="Example: arcbeam build-lm 4gram.arpa.xz -o 4gram.lm")(build_lm)


@app.command(epilog="Example: arcbeam info 4gram.lm --json")
@guarded
@takes_groups
def info(
    *,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Graph or language model of arcbeam, or an OpenFst vector or const file."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    tables: opt.Tables,
    debug: opt.Debug = False,
) -> None:
    """Show the size and shape of a graph or of a language model."""
    from arcbeam.cli.graphs import info_fields, info_of

    described = info_of(file, **vars(tables))
    print(json.dumps(info_fields(described), ensure_ascii=False) if as_json else described)


@app.command()
@guarded
def demo(
    transducer: Annotated[
        bool, typer.Option("--transducer", help="Decode with a small TDT transducer instead of beam search.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the graph again even if it is in the cache.")
    ] = False,
    threads: opt.Threads = None,
    device: opt.Device = opt.DEFAULT.device,
    debug: opt.Debug = False,
) -> None:
    """Decode thirteen real recordings and compare with greedy decoding of CTC."""
    if transducer and rebuild:
        raise typer.BadParameter("leave it out: a transducer has no graph", param_hint="'--rebuild'")
    from arcbeam.cli.demo import run

    run(transducer=transducer, rebuild=rebuild, threads=threads, device=device)


@app.command(epilog="Example: arcbeam bench gk23_table3 --repeats 3")
@guarded
def bench(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="NAME...", show_default=False,
        help="Experiments to run, or 'all'; without names the experiments are listed.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    repeats: Annotated[int, typer.Option(
        "--repeats", metavar="N", min=1, help="Timed runs of each contender; the contenders take turns.")] = 5,
    utterances: Annotated[int | None, typer.Option(
        "--utterances", metavar="N", min=1, show_default=False,
        help="Use only the first N of each set: a trial run, which is not kept among the results.")] = None,
    set_: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="An option of the experiment; its source in the checkout's benchmarks/experiments lists them.")] = None,
    machine: Annotated[str, typer.Option(
        "--machine", metavar="cpu|gpu|NAME", help="Folder of the results; gpu stands for the name of the GPU found.")
    ] = "cpu",
    resume: Annotated[bool, typer.Option(
        "--resume", help="Skip experiments for which this commit already has results.")] = False,
    allow_missing: Annotated[bool, typer.Option(
        "--allow-missing", help="Store a result that lacks a peer which the stored one has.")] = False,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", metavar="FOLDER", show_default="benchmarks/results/MACHINE", help="Where the results go."),
    ] = None,
    checkout: Annotated[Path | None, typer.Option(
        "--checkout", metavar="FOLDER", show_default="the one that this folder is in",
        help="A checkout of arcbeam, which contains the benchmarks.")] = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Run benchmarks of a checkout and write their results."""
    from arcbeam.cli.bench import run

    arguments = list(names or [])
    arguments += ["--list"] if list_ else []
    arguments += ["--repeats", str(repeats)] if repeats != 5 else []
    arguments += ["--utterances", str(utterances)] if utterances is not None else []
    for item in set_ or []:
        if "=" not in item:
            raise typer.BadParameter(f"expected KEY=VALUE, got {item!r}", param_hint="'--set'")
        arguments += ["--set", item]
    arguments += ["--machine", machine] if machine != "cpu" else []
    arguments += ["--resume"] if resume else []
    arguments += ["--allow-missing"] if allow_missing else []
    arguments += ["--output", str(output)] if output is not None else []
    code = run(arguments, checkout)
    if code:
        raise typer.Exit(code)
