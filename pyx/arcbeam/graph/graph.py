"""The compiled decoding graph."""

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy.typing as npt

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import check_path
from arcbeam.core.errors import FormatError, GraphError
from arcbeam.core.show import shown_as
from arcbeam.core.warn import warn
from arcbeam.files.reading import naming
from arcbeam.graph import _graph, graph_file, openfst
from arcbeam.graph._words import WordReader
from arcbeam.graph.build_options import BuildKeywords, BuildOptions
from arcbeam.graph.compiled_graph import CompiledGraph
from arcbeam.graph.info import GraphInfo
from arcbeam.graph.inputs import (
    Arcs,
    StrPath,
    Tokens,
    Wording,
    WordingKeywords,
    Words,
    as_tokens,
    as_words,
    check_width,
    unzip,
)
from arcbeam.graph.k2 import compile_k2, is_k2
from arcbeam.graph.open_slot import OpenSlot, deepen
from arcbeam.graph.pronunciations import Pronunciations
from arcbeam.graph.spelling import spell
from arcbeam.graph.token_table import TokenTable, check_same

__all__ = ["Graph", "GraphInfo", "OpenSlot", "Pronunciations"]

if TYPE_CHECKING:
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel
    from arcbeam.recipe.lexicon import Lexicon


class Graph(CompiledGraph):
    """A decoding graph, compiled and checked; immutable, safe to share among threads and decoders.

    Made by `from_arcs`, `from_fst`, `load` or `build`. Costs are negative natural logs in float32.

    Attributes
    ----------
    states : structured [num_states + 1]
        ``first_arc, first_emitting`` (uint32), ``smallest_weight`` (float32; over the emitting arcs, +inf where there
        is none), ``depth`` (uint32; arcs on the longest epsilon path that ends in the state).
    targets : structured [num_arcs]
        ``next_state`` (uint32), ``weight`` (float32).
    columns : uint16 [num_arcs]
        The column of the log-probs that an arc reads; 0xffff for an epsilon arc. Epsilon arcs of a state come first,
        in their original order, then the others, stably sorted by column.
    words : uint32 [num_arcs]
        Output labels; 0 for none.
    finals : float32 [num_states]
        Final costs; +inf where not final.
    start, num_states, num_arcs, max_depth : int
    num_columns : int
        The number of columns that log-probs must have, or if not `width_is_exact` must have at least.
    width_is_exact : bool
    tokens : TokenTable or None
    word_symbols : SymbolTable or None
    blank : int or None
        The blank's column.
    pronunciations : Pronunciations or None
    join : str
        "words": the text is the output words with spaces between; "pieces": outputs are pieces, put together and split
        at `separator`.
    separator : str or None
        The token that separates words, or the mark that starts one.
    separator_column : int or None
        Column of a separator that is a token of its own.
    meta : dict of str to str, int or float
        Anything known about how the graph was made.
    open_slot : OpenSlot or None
        Where words of a request that the graph lacks may stand.
    """

    @classmethod
    @lists_options(Wording)
    def from_arcs(
        cls,
        arcs: Arcs,
        *,
        start: int = 0,
        finals: Mapping[int, float] | npt.ArrayLike,
        num_states: int | None = None,
        tokens: Tokens = None,
        word_symbols: Words = None,
        blank: str | int | None = None,
        label_to_column: npt.ArrayLike | None = None,
        num_columns: int | None = None,
        open_slot: OpenSlot | None = None,
        **wording: Unpack[WordingKeywords],
    ) -> Self:
        """Compiles arcs.

        Parameters
        ----------
        arcs
            ``(source, destination, input label, output label, cost)`` each, or five arrays of these [arcs].
            Input label 0 is epsilon and label l reads column l - 1, unless `label_to_column` is given.
        start
            The start state.
        finals
            ``{state: cost}``, or costs [states] with +inf where not final.
        num_states
            Number of states; None takes the largest that is mentioned.
        tokens, word_symbols
            A table, the path of one, or a list of symbols (of columns from 0, of ids from 0).
        blank
            The blank's token or column; None: the usual name that is among the tokens.
        label_to_column
            int [labels]: the column that each input label reads.
        num_columns
            The number of columns of the log-probs, if no tokens give it.
        pronunciations : Pronunciations, optional
            How words are written in tokens, if that is known.
        join : str
            "words": the text is the output words with spaces between; "pieces": outputs are pieces, put together and
            split at `separator`.
        separator : str, optional
            The token that separates words, or the mark that starts one.
        separator_column : int, optional
            Column of a separator that is a token of its own; None: that of `separator` among the tokens.
        meta : mapping of str to str, int or float, optional
            Anything known about how the graph was made. New words in an open slot follow its ``topology`` and
            ``token_self_loops``.
        open_slot : OpenSlot, optional
            Where words of a request that the graph lacks may stand.

        Raises
        ------
        GraphError
            An arc leads to or leaves a state that does not exist, a weight is NaN or -inf, a label has no column or no
            symbol, there is no start state, or epsilon arcs form a cycle; the message names the state and arc (its
            position among the arcs of the state).
        """
        table = as_tokens(tokens, blank)
        five = openfst.as_arcs(*unzip(arcs))
        if num_states is None:
            num_states = openfst.count_states(five, start, finals)
        if num_states <= 0 or start < 0:
            raise GraphError(f"the graph has no start state ({num_states} states, start {start})")
        check_width(num_columns, table)
        if table is not None:
            num_columns = len(table)
        labels = None if label_to_column is None else openfst.as_label_table(label_to_column)
        costs = openfst.as_finals(finals, num_states)
        columns, depth = _graph.compile_arrays(five, num_states, start, costs, labels, num_columns)
        if open_slot is not None and int(open_slot.exits.max(initial=0)) < num_states:
            depth = deepen(columns, depth, open_slot.exits)
        exact = num_columns is not None
        if num_columns is None:
            num_columns = openfst.used_columns(columns["columns"], labels)
        return cls(
            columns,
            start=start,
            max_depth=depth,
            num_columns=num_columns,
            width_is_exact=exact,
            tokens=table,
            word_symbols=as_words(word_symbols),
            blank=blank,
            open_slot=open_slot,
            **wording,
        )

    @classmethod
    @lists_options(Wording)
    def from_fst(
        cls,
        fst: Any,
        *,
        words: Words = None,
        tokens: Tokens = None,
        blank: str | int | None = None,
        label_to_column: npt.ArrayLike | None = None,
        num_columns: int | None = None,
        **wording: Unpack[WordingKeywords],
    ) -> Self:
        """Compiles a kaldifst or pywrapfst (pynini) FST with the standard arc type.

        Parameters are those of `from_arcs` (`words` is its `word_symbols`); symbol tables inside the FST are used if
        none are given.

        Raises
        ------
        TypeError
            `fst` is not such an object, or has another arc type.
        GraphError
            As in `from_arcs`.
        """
        table = as_tokens(tokens, blank)
        check_width(num_columns, table)
        compiled = openfst.from_object(
            fst, tokens=table, blank=blank, label_to_column=label_to_column, num_columns=num_columns
        )
        return cls(**compiled.fields(as_words(words), blank), **wording)

    @classmethod
    @lists_options(Wording)
    def load(
        cls,
        path: StrPath,
        *,
        words: Words = None,
        tokens: Tokens = None,
        blank: str | int | None = None,
        label_to_column: npt.ArrayLike | None = None,
        num_columns: int | None = None,
        lexicon: "StrPath | Lexicon | None" = None,
        in_memory: bool = False,
        force: bool = False,
        max_bytes: int | str | None = None,
        **wording: Unpack[WordingKeywords],
    ) -> Self:
        """Loads a file of arcbeam's own format, of k2, or an OpenFst `vector` or `const` file, by its first bytes.

        A file of arcbeam's own is memory-mapped: it must not be changed in place while the graph is used (`save`
        replaces files and never does that). If it is changed all the same, there is a FormatError when the graph next
        decodes, is saved, or is taken by a decoder; a change during such a use may end the process, unless the file
        just shrinks. That holds for any number of mapped graphs; none of their files is kept open.

        Parameters
        ----------
        path
            The file.
        words, tokens, blank
            As in `from_arcs` (`words` is its `word_symbols`). Tables in the file are used if none are given. An
            error, unless `force` is set: `words` that contradict them, or `tokens` that contradict arcbeam's own file.
        label_to_column, num_columns, pronunciations, join, separator, separator_column, meta
            As in `from_arcs`, for an OpenFst file. A file of arcbeam's own contains them, so they cannot be given. In
            k2's, label l reads column l, so it takes no `label_to_column`; one without blanks (``LG.pt``) is composed
            with the topology ``compact``, which needs `tokens` or `num_columns`, and the extra ``build``.
        lexicon : path or Lexicon, optional
            How the words of a graph without spellings are spelled, so that words have the times of the labels that
            spell them: a file that `Lexicon.from_file` reads, or a `Lexicon` of the same columns. Without it a word
            starts with the frame that writes it, which is late. Words are matched by name; those that the graph lacks
            do not matter, those that the lexicon lacks keep the times of the frames that write them, with a warning.
            If no `separator` is given it is the lexicon's, or else the usual one among the tokens; separators at the
            ends of spellings belong to no word. `save` keeps the spellings.
        in_memory : bool
            Copy a file of arcbeam's own into memory, instead of mapping it: then the file may change or be deleted.
            OpenFst files are always copied.
        force : bool
            Take `words` and `tokens` even where they contradict the tables in the file.
        max_bytes : int, str or None
            Bytes, or a size such as ``"2GiB"``, that the text of a packed `lexicon` may have, as in `build`; and that a
            file of k2 may unpack to.

        Raises
        ------
        FormatError
            The file is none of these, or is truncated, corrupted, or of another version; or the lexicon's is none.
        GraphError
            The file is in order, but the graph in it breaks a rule of `from_arcs`.
        ValueError
            Something is given that the file contains, `words` or `tokens` contradict those in it, or `force` is set
            without either of them. With a
            `lexicon`: the graph has spellings, writes pieces, or has no words, tokens or blank; or the lexicon has no
            word of the graph. A `blank` beyond the columns that the graph reads, without `tokens` and `num_columns`.
        OSError
            The file cannot be read.

        Warns
        -----
        UserWarning
            The lexicon lacks words that the graph writes; or no arc reads the column of `blank`, and there are no
            `tokens`; or a graph of arcbeam has another blank.
        """
        if force and words is None and tokens is None:
            raise ValueError("force: expected words or tokens (--words, --tokens), which replace those in the file")
        if lexicon is not None and wording.get("pronunciations") is not None:
            raise ValueError("expected spellings once, got lexicon and pronunciations: give one of them")
        check_path("path", path, "the path of a graph's file")
        table, symbols = as_tokens(tokens, blank), as_words(words)
        check_width(num_columns, table)
        of_openfst: dict[str, Any] = {"label_to_column": label_to_column, "num_columns": num_columns}
        with open(os.fspath(path), "rb") as file:  # not a number, which would be an open file's
            head = file.read(64)
        file_map = own_blank = None
        of_k2 = is_k2(path, head)
        if head and (of_k2 or _graph.is_openfst(head)):
            with naming(path):
                if of_k2:
                    compiled = compile_k2(path, tokens=table, blank=blank, max_bytes=max_bytes, **of_openfst)
                    blank = 0 if blank is None and table is None else blank  # as k2 has it
                else:
                    compiled = openfst.read_file(path, tokens=table, blank=blank, **of_openfst)
                    if label_to_column is None:
                        openfst.warn_of_grammar(path, compiled)
                own = {"words": compiled.word_symbols, "tokens": None}
                said = {name: value for name, value in wording.items() if value is not None}
                graph = cls(**compiled.fields(symbols, blank), **said)  # type: ignore[arg-type]
        else:
            graph_file.check_head(path, head)
            if names := ", ".join(name for name, value in {**of_openfst, **wording}.items() if value is not None):
                raise ValueError(f"{path} is a graph of arcbeam, which contains {names}: leave them out")
            fields, file_map = graph_file.read(path, in_memory=in_memory)
            own = {"words": fields["word_symbols"], "tokens": fields["tokens"]}
            own_blank = fields["blank"]
            if symbols is not None:
                fields["word_symbols"] = symbols
            if table is not None:
                fields["tokens"], fields["blank"] = table, None
            if blank is not None:
                fields["blank"] = blank
            with naming(path):
                graph = cls(**fields)
        if not force:
            for name, given in (("words", symbols), ("tokens", table)):
                check_same(name, given, own[name], path)
            if own_blank not in (None, graph.blank):
                warn(
                    f"blank: expected none, because {path} is a graph whose blank is {_named(graph, own_blank)}, got "
                    f"{_named(graph, graph.blank)}, which takes its place; is this the order of the model's columns?"
                )
        if lexicon is not None:
            spelled = spell(graph.fields(), lexicon, max_bytes)
            graph.pronunciations, graph.separator, graph.separator_column = spelled
        graph._map = file_map
        if file_map is not None and all(given is None for given in (words, tokens, blank, lexicon)):
            graph._file = os.path.abspath(path), head
        return graph

    @classmethod
    @lists_options(BuildOptions)
    def build(
        cls,
        tokens: StrPath | TokenTable | Iterable[str],
        lexicon: "StrPath | Lexicon | None",
        lm: "StrPath | LanguageModel | KenLM",
        topology: str = "compact",
        **options: Unpack[BuildKeywords],
    ) -> Self:
        """Builds T, L and G and composes them; needs the extra ``build``.

        Parameters
        ----------
        tokens
            The columns of the model's log-probs: a TokenTable, the path of one, or a list of tokens.
        lexicon
            The path of a lexicon file, a `Lexicon` (of words spelled or cut into pieces), or None: then `lm` is a model
            over tokens, and the vocabulary is open.
        lm
            The path of an ARPA model of any order: plain, .gz, .xz or .bz2. Or a model that was made from one, whose
            file is read once more: a KenLM, or a LanguageModel that `LanguageModel.build` returned.
        **options
            Those of `BuildOptions`, `topology` among them.

        Raises
        ------
        TypeError, ValueError
            An option is unknown or does not fit, or no sentence of the language model can be spelled in tokens.
        FormatError
            A file breaks its format; the message names the line.
        MissingDependencyError
            kaldifst (or sentencepiece) is missing.
        """
        from arcbeam.recipe.recipe import build_fields

        return cls(**build_fields(tokens, lexicon, lm, BuildOptions(topology=topology, **options)))

    @classmethod
    @lists_options()
    def greedy(
        cls, tokens: StrPath | TokenTable | Iterable[str], *, blank: str | int | None = None,
        separator: str | None = "auto", topology: str = "greedy",
    ) -> Self:  # fmt: skip
        """A graph without words and language model: its best path is the best label of each frame, collapsed.

        Repeated labels are merged and blanks dropped; the text is the labels, put together and split at the separator.
        No beam loses that path, so ``CtcDecoder(graph, beam=0.0)`` is the fastest. If several columns are the best of a
        frame, the path has one of them, the same on every device. No other package is needed.

        Parameters
        ----------
        tokens
            The columns of the model's log-probs: a TokenTable, the path of one, or a list of tokens.
        blank
            The blank's token or column; None for the one with a usual name.
        separator
            The token between words, or the mark that begins a word's first piece; "auto" for the one among
            <space>, |, U+2581 ... that the tokens have; None: the labels are one word.
        topology
            "greedy" has 3 arcs a label, and is for the best path: n-best lists, confidences, minimum Bayes risk and
            lattices also count a label that lasts as the same label twice. For these take "normal", with as many arcs
            as labels squared.

        Raises
        ------
        ValueError
            None of the tokens is known to be the blank, or several may be the separator; an unknown topology.
        FormatError
            The file of tokens breaks its format.
        """
        from arcbeam.recipe.recipe import greedy_fields

        return cls.from_arcs(**greedy_fields(tokens, blank, separator, topology))

    def save(self, path: StrPath) -> None:
        """Writes the graph in arcbeam's own format: versioned, checksummed, to be memory-mapped by `load`.

        The file appears under its name only when it is complete.

        Warns
        -----
        UserWarning
            The name is one of OpenFst's, ``.fst``; `build` writes such files with ``openfst=``.
        """
        self.check_file()
        graph_file.write(path, self)
        if (name := os.fsdecode(path)).lower().endswith(".fst"):
            warn(
                f"path: save writes a graph of arcbeam, and {name} is a name of OpenFst's, whose tools cannot read it; "
                "Graph.build(..., openfst=path) writes that format"
            )

    @cached_property
    def word_reader(self) -> WordReader:
        """Reads the words of paths; made once for all hypotheses."""
        return WordReader(self)

    def info(self) -> GraphInfo:
        """Sizes and kinds of states and arcs; ``print(graph.info())`` shows them."""
        return GraphInfo.of(self.fields())

    def __repr__(self) -> str:
        sizes = [f"{self.num_arcs:,} arcs", f"{self.num_columns} columns" + " or more" * (not self.width_is_exact)]
        if self.word_symbols is not None:
            sizes.append(f"{len(self.word_symbols):,} words")
        blank = "blank not known" if self.blank is None else f"blank in column {self.blank}"
        mapped = () if self._map is None else (f"mapped from {self._map.path!r}",)
        return shown_as(f"Graph of {self.num_states:,} states", *sizes, blank, *mapped)

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapped graph is pickled as the path of its file: other processes map it, too, and share its memory.
        if self._file is not None:
            return load_same, self._file
        return restore, (self.fields(),)


def _named(graph: Graph, column: int | None) -> str:
    """A column, with its token if there are tokens."""
    return f"column {column}" if graph.tokens is None else f"column {column} ({graph.tokens.tokens[column or 0]!r})"


def load_same(path: str, head: bytes) -> Graph:
    """Unpickles a mapped graph; FormatError if its file has been replaced since."""
    graph = Graph.load(path)
    if graph._file is None or graph._file[1] != head:
        raise FormatError(f"{path}: expected the graph that was pickled, but the file has been replaced since")
    return graph


def restore(fields: dict[str, Any]) -> Graph:
    """Unpickles a graph that was pickled with its arrays."""
    return Graph(**fields)
