"""The commands ``arcbeam build-graph`` and ``arcbeam build-lm``: from text files to what decoding loads."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import check_output, guarded
from arcbeam.cli.parameters import choices
from arcbeam.cli.terminal import note


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


BUILD_NEEDS = {
    "sentencepiece_model": ("word_list", "lm_words"), "epsilon_free_limit": ("epsilon_free",),
    "open_slot_score": ("open_slot",), "lexicon_probabilities": ("lexicon",),
}  # fmt: skip


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
        "--topology", metavar="NAME", help=f"The CTC topology: {choices(Topology)}.")] = Topology.compact,
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
        help=f"How often a separator token stands between words: {choices(SeparatorRule)}; auto means one if the "
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
    if output.suffix == ".fst":
        raise typer.BadParameter(
            f"writes a graph of arcbeam, and {output} is a name of OpenFst's; type --output "
            f"{output.with_suffix('.arcbeam')}, and --openfst {output}, too, if you need that format",
            param_hint="'--output'",
        )
    check_output(output, "a graph of arcbeam")
    from arcbeam.cli.graphs import build
    from arcbeam.graph.build_options import BuildOptions
    from arcbeam.recipe.recipe import check_options

    options: dict[str, Any] = {
        "separator": None if separator == "none" else separator, "topology": topology.value,
        "epsilon_free": epsilon_free, "epsilon_free_limit": epsilon_free_limit,
        "words_by_last_token": words_by_last_token, "token_self_loops": not no_token_self_loops, "lm_scale": lm_scale,
        "word_insertion_penalty": word_insertion_penalty, "separator_rule": separator_rule.value,
        "blank": opt.parse_blank(blank), "probabilities": ANSWERS[lexicon_probabilities],
        "token_encoding": token_encoding.value, "openfst": openfst, "max_bytes": max_bytes, "open_slot": open_slot,
        "open_slot_score": open_slot_score,
    }  # fmt: skip
    with opt.usage_errors():
        check_options(BuildOptions(**options), lexicon is not None or word_list is not None or lm_words)
    graph = build(
        tokens=tokens, lm=lm, lexicon=lexicon, word_list=word_list, lm_words=lm_words,
        sentencepiece_model=sentencepiece_model, **options,
    )  # fmt: skip
    graph.save(output)
    note(f"wrote {output}: {graph.num_states:,} states, {graph.num_arcs:,} arcs, {output.stat().st_size / 1e6:,.1f} MB")


@guarded
def build_lm(
    arpa: Annotated[
        Path, typer.Argument(metavar="ARPA", help="N-gram LM of any order in ARPA format: plain, .gz, .xz or .bz2.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the model is written.")],
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:
    """Build a language model for rescoring from its ARPA file."""
    if output.suffix in (".arpa", ".fst"):
        raise typer.BadParameter(
            f"writes a language model of arcbeam, and {output} is a name of another format; type --output "
            f"{output.with_suffix('.lm')}",
            param_hint="'--output'",
        )
    check_output(output, "a language model of arcbeam")
    from arcbeam.cli.models import build_model

    model = build_model(arpa, max_bytes)
    model.save(output)
    info = model.info()
    note(
        f"wrote {output}: {model.order}-gram, {info.words:,} words, {info.states:,} states, {info.arcs:,} arcs, "
        f"{output.stat().st_size / 1e6:,.1f} MB"
    )
