"""The recipe: T o min(det(L o G)), or T o G if there is no lexicon."""

from __future__ import annotations

import numbers
import os
import tempfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.core.checks import as_float
from arcbeam.core.errors import FormatError
from arcbeam.core.show import few, shortened
from arcbeam.core.warn import warn
from arcbeam.files.reading import naming
from arcbeam.files.writing import beside
from arcbeam.lm.loading import arpa_of
from arcbeam.recipe import algebra
from arcbeam.recipe.arrays import ArcArrays
from arcbeam.recipe.language_model import (
    LanguageModel,
    read_language_model,
    unknown_word_score,
    with_unknown_word,
)
from arcbeam.recipe.lexicon import Lexicon, check_lexicon
from arcbeam.recipe.lexicon_fst import SEPARATOR_RULES, Labels, make_lexicon_fst
from arcbeam.recipe.open_slot import add_slot
from arcbeam.recipe.progress import Reporter
from arcbeam.recipe.separators import WORD_START, find_separator, separator_of
from arcbeam.recipe.topology import TOPOLOGIES, greedy_topology, make_topology
from arcbeam.recipe.word_lists import words_of_arpa

if TYPE_CHECKING:
    from arcbeam.graph.build_options import BuildOptions
    from arcbeam.graph.openfst import Compiled
    from arcbeam.graph.symbols import SymbolTable
    from arcbeam.graph.token_table import TokenTable
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel as BackoffModel

StrPath = str | os.PathLike[str]

_NEMO_OFFSET = 100

LEAST_SLOT_SCORE = -6.0
"""What a new word scores at least by default. It pays for the slot where it begins and gets its boost some letters
later, so with the score that models give ``<unk>`` (-16 in one of 211,000 words) the usual beams lose it before."""


def build_fields(
    tokens: StrPath | TokenTable | Iterable[str],
    lexicon: StrPath | Lexicon | None,
    lm: StrPath | BackoffModel | KenLM,
    options: BuildOptions,
) -> dict[str, Any]:
    """The arguments of `Graph` for a graph that is built; :meth:`arcbeam.Graph.build` documents them and the errors."""
    check_options(options, lexicon is not None)
    check_lexicon(lexicon)
    algebra.check_available()
    digest, lm = getattr(lm, "digest", None), arpa_of(lm)
    table = _as_tokens(tokens, options.blank)
    _warn_of_another_blank(table)
    reporter = Reporter(options.progress)
    topologies = [
        make_topology(options.topology, len(table), table.blank, options.token_self_loops, slot)
        for slot in ((False, True) if options.open_slot else (False,))
    ]
    meta: dict[str, Any] = {
        "topology": options.topology,
        "token_self_loops": int(options.token_self_loops),
        "lm_scale": float(options.lm_scale),
        "word_insertion_penalty": float(options.word_insertion_penalty),
        "epsilon_free": int(options.epsilon_free),
        "words_by_last_token": int(options.words_by_last_token),
    }
    if digest is not None:
        meta["lm_digest"] = digest
    separator, with_slot = options.separator, []
    if lexicon is None:
        separator = separator_of(table, separator)
        fst, fields = _open_vocabulary(table, lm, topologies[0], options, meta, reporter)
        fields |= {"join": "pieces", "separator": separator}
    else:
        if not isinstance(lexicon, Lexicon):
            given = None if separator == "auto" else separator
            reporter.begin("lexicon", f"reading {lexicon}")
            lexicon = Lexicon.from_file(
                lexicon, table, probabilities=options.probabilities, separator=given, max_bytes=options.max_bytes
            )
            if separator == "auto":
                _warn_of_unused_separator(lexicon, table)
            elif given is not None:
                _warn_of_spelled_separator(lexicon, table)
        fst, *with_slot, fields = _closed_vocabulary(table, lexicon, lm, topologies, options, meta, reporter)
        fields |= {"join": "words", "separator": lexicon.separator, "separator_column": lexicon.separator_column}
    if options.epsilon_free:
        compiled = _compiled(fst, table, None)
        arcs, most = len(compiled.columns["words"]), algebra.arcs_without_epsilons(compiled)
        del compiled
        if most > options.epsilon_free_limit * arcs:
            raise ValueError(
                f"epsilon_free=True would turn {arcs:,} arcs into up to {most:,}, more than the "
                f"{options.epsilon_free_limit:g} times as many that epsilon_free_limit allows: prune the language "
                "model, raise the limit or keep the epsilons"
            )
        reporter.begin("epsilons", "removing epsilon arcs")
        fst = algebra.remove_epsilons(fst)
        reporter.say("epsilons", f"removed: {fst.num_states:,} states")
    reporter.begin("graph", "laying out states and arcs")
    compiled = _compiled(fst, table, options.openfst)
    fields |= compiled.fields(fields["word_symbols"], None) | {"meta": meta}
    for composed in with_slot:  # one, or none
        _add_slot(fields, _compiled(composed, None, None, compiled.num_columns + 1))
    if options.openfst is not None:
        _write_tables(options.openfst, table, fields["word_symbols"])
    columns = fields["columns"]
    reporter.say("graph", f"{len(columns['finals']):,} states, {len(columns['words']):,} arcs")
    return fields


def greedy_fields(
    tokens: StrPath | TokenTable | Iterable[str], blank: str | int | None, separator: str | None, topology: str
) -> dict[str, Any]:
    """The arguments of `Graph.from_arcs` for greedy decoding; :meth:`arcbeam.Graph.greedy` documents them."""
    table = _as_tokens(tokens, blank)
    _warn_of_another_blank(table)
    _check_choice("topology", topology, ("greedy", "normal"))
    arcs = (
        greedy_topology(len(table), table.blank)
        if topology == "greedy"
        else make_topology(topology, len(table), table.blank)
    )
    return {
        "arcs": (arcs.sources, arcs.targets, arcs.inputs, arcs.outputs, arcs.costs),
        "start": arcs.start,
        "finals": arcs.finals,
        "tokens": table,
        "word_symbols": _labels(table),
        "join": "pieces",
        "separator": separator_of(table, separator),
        "meta": {"topology": topology},
    }


def _labels(table: TokenTable) -> list[str]:
    """The names of the labels: that of epsilon, which is another one if the blank is called <eps>, and the tokens."""
    is_taken = table.blank is not None and table.tokens[table.blank] == "<eps>"
    return ["<epsilon>" if is_taken else "<eps>", *table.tokens]


def _warn_of_another_blank(table: TokenTable) -> None:
    """Warns if the blank was given as a token of another name than one that stands for the blank."""
    named = [token for token in table.tokens if token.lower() in ("<blank>", "<blk>", "[blank]", "<ctc_blank>")]
    if table.blank is not None and named and (given := table.tokens[table.blank]) not in named:
        warn(
            f"blank: expected {named[0]!r}, which is column {table.column(named[0])}, got {given!r}, which is column "
            f"{table.blank}; is this the order of the model's columns?"
        )


def with_topology(
    arcs: Sequence[np.ndarray], finals: np.ndarray, tokens: TokenTable | None, blank: int | None, num_columns: int
) -> Compiled:
    """T o LG, for five arrays of arcs in which each token is read once, such as k2's; the topology is compact."""
    topology = make_topology("compact", num_columns, blank)
    algebra.check_available()
    sources, destinations, inputs, outputs = (array.astype(np.int32) for array in arcs[:4])
    lexicon = ArcArrays(sources, destinations, inputs, outputs, arcs[4], finals)
    reader = algebra.topology_reader(topology, Labels(num_columns, {}).unmark())
    fst = algebra.compose(reader, lexicon.to_kaldifst())
    return _compiled(fst, tokens, None, None if tokens is not None else num_columns)


def _warn_of_spelled_separator(lexicon: Lexicon, table: TokenTable) -> None:
    """Warns if the separator that was given is a label of words, and another one usually stands between them."""
    try:
        usual = find_separator(table)
    except ValueError:
        return  # several could be meant
    if usual not in (None, WORD_START, lexicon.separator) and lexicon.separator_column in lexicon.columns:
        warn(f"separator: expected {usual!r}, got {lexicon.separator!r}, which the lexicon uses in spellings of words")


def _warn_of_unused_separator(lexicon: Lexicon, table: TokenTable) -> None:
    """Warns if a graph would lack the label that the model writes between words; a lexicon file does not name it."""
    try:
        separator = find_separator(table)
    except ValueError:
        return  # several could be meant
    if separator in (None, WORD_START) or table.column(separator) in lexicon.columns:
        return
    warn(
        f"lexicon: no spelling uses {separator!r}, which models with these labels write between words, so the graph "
        f"expects none; pass separator={separator!r} (--separator), or "
        "separator=None if the model writes none"
    )


#: The rule that wins on tuning data where there is a separator token; the table is in docs/design/files.md.
DEFAULT_RULE = "one"


def _closed_vocabulary(
    table: TokenTable,
    lexicon: Lexicon,
    lm: StrPath,
    topologies: Sequence[ArcArrays],
    options: BuildOptions,
    meta: dict[str, Any],
    reporter: Reporter,
) -> tuple[Any, ...]:
    """T o min(det(L o G)) for each topology, and fields of the graph."""
    from arcbeam.graph.pronunciations import Pronunciations
    from arcbeam.graph.symbols import SymbolTable

    meta["separator_rule"] = rule = options.separator_rule
    if rule == "auto":
        meta["separator_rule"] = rule = "none" if lexicon.separator_column is None else DEFAULT_RULE
    slot_cost = None
    if options.open_slot:
        if options.open_slot_score is None:
            score = max(unknown_word_score(lm, options.max_bytes), LEAST_SLOT_SCORE)
        else:
            score = float(options.open_slot_score)
        slot_cost = options.word_insertion_penalty - options.lm_scale * score
        meta["open_slot_score"] = score
    num_words = len(lexicon.words)
    skipped = lexicon.tell_skipped()
    sizes = f"{num_words:,} words, {lexicon.num_pronunciations:,} pronunciations"
    reporter.say("lexicon", f"{sizes}; skipped {skipped}" if skipped else sizes)
    model = read_language_model(lm, lexicon.words, backoff_label=num_words + 1, **_weights(options, reporter))
    _report_model(model, meta, reporter, "lexicon", lexicon.words)
    if not model.words_in_lm.any():
        cased = {word.swapcase() for word in lexicon.words}
        hint = (
            "; they are written in the other case" if cased.intersection(words_of_arpa(lm, options.max_bytes)) else ""
        )
        raise ValueError(
            f"{lm}: no word of the language model is in the lexicon of {num_words:,} words, such as "
            f"{shortened(lexicon.words[0])}{hint}"
        )
    meta["lexicon_skipped"] = sum(lexicon.skipped.values())
    if skipped:
        meta["lexicon_left_out"] = skipped
    mark_prefixes = bool(meta["words_by_last_token"] or meta["epsilon_free"])
    has_slot = slot_cost is not None
    arrays, labels = make_lexicon_fst(lexicon, len(table), model.words_in_lm, rule, mark_prefixes, has_slot)
    meta["marked_pronunciations"] = len(labels.marked) - has_slot
    # Each automaton is freed as soon as the next one exists, so the peak of memory is one composition.
    acceptor = model.acceptor if slot_cost is None else with_unknown_word(model.acceptor, num_words + 2, slot_cost)
    left, right = arrays.to_kaldifst(), acceptor.to_kaldifst()
    del arrays, model, acceptor
    reporter.begin("compose", "composing L o G")
    fst = algebra.compose(left, right)
    del left, right
    reporter.say("compose", f"L o G: {fst.num_states:,} states")
    fst = algebra.determinize_and_minimize(fst, reporter)
    reporter.begin("compose", "composing T o LG")
    composed = [algebra.compose(algebra.topology_reader(t, labels.unmark()), fst) for t in topologies]
    reporter.say("compose", f"T o LG: {composed[0].num_states:,} states")
    pronunciations = Pronunciations(
        words=(lexicon.word_index + 1).astype("<u4"),
        offsets=lexicon.offsets.astype("<u4"),
        columns=lexicon.columns.astype("<u2"),
    )
    return *composed, {
        "word_symbols": SymbolTable.from_list(["<eps>", *lexicon.words]),
        "pronunciations": pronunciations,
    }


def _weights(options: BuildOptions, reporter: Reporter) -> dict[str, Any]:
    return {
        "scale": options.lm_scale,
        "word_insertion_penalty": options.word_insertion_penalty,
        "reporter": reporter,
        "max_bytes": options.max_bytes,
    }


def check_options(options: BuildOptions, has_lexicon: bool) -> None:
    """Raises TypeError or ValueError for options that no graph can be built with, with or without a lexicon."""
    _check_choice("topology", options.topology, TOPOLOGIES)
    _check_choice("separator_rule", options.separator_rule, ("auto", *SEPARATOR_RULES))
    _check_choice("token_encoding", options.token_encoding, ("names", "nemo"))
    _check_number("lm_scale", options.lm_scale, lowest=0.0)
    _check_number("word_insertion_penalty", options.word_insertion_penalty)
    _check_slot(options, has_lexicon)


def _check_slot(options: BuildOptions, has_lexicon: bool) -> None:
    if not options.open_slot:
        if options.open_slot_score is not None:
            raise ValueError("open_slot_score: this needs open_slot=True")
        return
    if options.open_slot_score is not None:
        _check_number("open_slot_score", options.open_slot_score)
        if options.open_slot_score > 0:
            raise ValueError(
                f"open_slot_score: expected a natural log of a probability, at most 0, got "
                f"{options.open_slot_score!r}; a cost of {options.open_slot_score:g} is {-options.open_slot_score:g}"
            )
    if not has_lexicon:
        raise ValueError("open_slot: this needs a lexicon; a graph of tokens can write any word as it is")
    if options.epsilon_free:
        raise ValueError("open_slot: expected epsilon_free=False, because new words enter after a back-off")
    if options.openfst is not None:
        raise ValueError("open_slot: expected no openfst=, because OpenFst files have no slot; use graph.save")


def _open_vocabulary(
    table: TokenTable,
    lm: StrPath,
    topology: ArcArrays,
    options: BuildOptions,
    meta: dict[str, Any],
    reporter: Reporter,
) -> tuple[Any, dict[str, Any]]:
    """T o G, and fields of the graph."""
    from arcbeam.graph.symbols import SymbolTable

    names = (
        [chr(column + _NEMO_OFFSET) for column in range(len(table))]
        if options.token_encoding == "nemo"
        else list(table.tokens)
    )
    if table.blank is not None:
        names[table.blank] = "<blank>"  # the language model never writes it
    labels = Labels(len(table), {})
    model = read_language_model(lm, names, backoff_label=labels.backoff, **_weights(options, reporter))
    if table.blank is not None:
        model.tally["words_without_unigram"] -= 1
    _report_model(model, meta, reporter, "tokens", names)
    known, unknown = int(model.words_in_lm.sum()), model.tally["unknown_words"]
    if unknown > known:  # the model is one over words
        raise ValueError(
            f"{lm}: expected a language model over the tokens, because there is no lexicon, got one over words "
            f"({unknown:,} of its words are not tokens, {known:,} are); give a lexicon of its words (--lexicon, "
            "--word-list or --lm-words on the command line)"
        )
    fst = model.acceptor.to_kaldifst()
    del model
    reporter.begin("compose", "composing T o G")
    fst = algebra.compose(algebra.topology_reader(topology, labels.unmark()), fst)
    reporter.say("compose", f"T o G: {fst.num_states:,} states")
    return fst, {"word_symbols": SymbolTable.from_list(_labels(table))}


def _report_model(
    model: LanguageModel, meta: dict[str, Any], reporter: Reporter, vocabulary: str, words: Sequence[str]
) -> None:
    """Reports what a language model has, and what of it and of the words is left out."""
    tally = model.tally
    reporter.say(
        "lm",
        " / ".join(f"{n:,}" for n in tally["ngrams"])
        + f" n-grams; {model.acceptor.num_states:,} states, {model.acceptor.num_arcs:,} arcs",
    )
    if model.digest != meta.setdefault("lm_digest", model.digest):
        raise FormatError(
            f"expected the language model {meta['lm_digest']}, got {model.digest}: its ARPA was replaced since"
        )
    meta["lm_ngrams"] = "/".join(str(n) for n in tally["ngrams"])
    for name in ("unknown_words", "unknown_ngrams", "misplaced_ngrams", "added_ngrams", "words_without_unigram"):
        meta[f"lm_{name}"] = int(tally[name])
    if tally["unknown_words"]:
        unknown, ngrams = tally["unknown_words"], tally["unknown_ngrams"]
        reporter.say(
            "lm",
            f"left out {unknown:,} word{'s'[: unknown != 1]} not in the {vocabulary}, and {ngrams:,} "
            f"n-gram{'s'[: ngrams != 1]} with {'them' if unknown != 1 else 'it'}",
        )
    if count := tally["words_without_unigram"]:
        lost = [word for word, is_known in zip(words, model.words_in_lm, strict=True) if not is_known]
        if vocabulary == "lexicon":
            reporter.tell("lm", f"the graph never writes {few(lost, count)}: the language model lacks these words")
        else:
            reporter.say("lm", f"{count:,} of the tokens have no unigram")
    if tally["misplaced_ngrams"]:
        reporter.say("lm", f"left out {tally['misplaced_ngrams']:,} n-grams with <s> or </s> in a wrong place")
    if tally["added_ngrams"]:
        reporter.say("lm", f"added {tally['added_ngrams']:,} contexts that the file lacks")
    if not tally["has_sentence_end"]:
        reporter.say("lm", "there is no </s>: sentences may end anywhere at no cost")


def _compiled(fst: Any, tokens: TokenTable | None, openfst: StrPath | None, num_columns: int | None = None) -> Compiled:
    """An automaton as a graph has it, by way of an OpenFst file: `openfst`, or one that does not stay."""
    from arcbeam.graph.openfst import read_file

    if fst.num_states == 0:
        raise ValueError("the graph is empty: no word of the language model can be spelled with the lexicon and tokens")
    with tempfile.TemporaryDirectory(prefix="arcbeam-") as folder:
        path = os.path.join(folder, "TLG.fst") if openfst is None else os.fspath(openfst)
        with beside(path) as name:
            if fst.write(name) is False:
                raise OSError(f"cannot write {path}")
        with naming(path):
            return read_file(path, tokens=tokens, num_columns=num_columns)


def _write_tables(openfst: StrPath, tokens: TokenTable, words: SymbolTable) -> None:
    """Writes the tables of an OpenFst file's labels next to it: of TLG.fst as TLG.tokens.txt and TLG.words.txt."""
    from arcbeam.graph.symbols import SymbolTable

    stem = os.path.splitext(openfst)[0]
    SymbolTable.from_list(_labels(tokens)).write(f"{stem}.tokens.txt")
    words.write(f"{stem}.words.txt")


def _add_slot(fields: dict[str, Any], composed: Compiled) -> None:
    """Adds the open slot of a graph in which the pseudo-token reads the column after all others."""
    fields["columns"], fields["max_depth"], fields["open_slot"] = add_slot(
        fields["columns"], fields["start"], fields["max_depth"], composed.columns, composed.start, fields["num_columns"]
    )


def _as_tokens(tokens: Any, blank: str | int | None) -> TokenTable:
    from arcbeam.graph.token_table import TokenTable

    if isinstance(tokens, TokenTable):
        return tokens if blank is None else TokenTable.from_list(tokens.tokens, blank)
    if isinstance(tokens, str | os.PathLike):
        return TokenTable.read(tokens, blank)
    return TokenTable.from_list(tokens, blank)


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, got {value!r}")


def _check_number(name: str, value: float, lowest: float = -np.inf) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    if not np.isfinite(as_float(name, value, "that is finite")) or value < lowest:
        least = "" if lowest == -np.inf else f" of at least {lowest:g}"
        raise ValueError(f"{name}: expected a finite number{least}, got {value!r}")
