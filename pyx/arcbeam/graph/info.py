"""The result of `Graph.info`."""

from dataclasses import dataclass
from typing import Any, Self

from arcbeam.graph import _graph
from arcbeam.graph.spelling import unspelled_words, written_words

HOT_BYTES_PER_ARC = 10  # next state, weight, column
WORD_TIMES = {  # how late: measured on recordings, docs/guide/word-times.md
    "spellings": "of the labels that spell a word, to the frame",
    "pieces": "of the pieces that make a word, to the frame",
    "writing frames": "of the frames that write words: 0.1 s late in the median, seconds at worst; give a lexicon",
}


@dataclass(frozen=True)
class GraphInfo:
    """Sizes of a graph, and what its word times mean; ``str()`` of it is a table for people.

    Attributes
    ----------
    states, final_states : int
        How many there are.
    arcs, epsilon_arcs, epsilon_arcs_with_word, emitting_arcs, emitting_arcs_with_word, self_loops : int
        How many there are. An emitting arc reads a column of the log-probs, an epsilon arc none; a self-loop emits and
        returns to its own state.
    epsilon_depth : int
        The arcs of the longest path without an emitting arc.
    columns : int
        The columns that log-probs have; if `width_is_exact` is False, the fewest that they may have.
    width_is_exact : bool
    words : int or None
        The symbols of the graph's table of words; None if it has no table.
    pronunciations : int or None
        How many the graph has kept; None if it was loaded or built without a lexicon.
    word_times : str
        ``"spellings"`` if words have the times of the labels that spell them, but for `unspelled_words` of them;
        ``"pieces"`` if each output is one label; ``"writing frames"`` if all that is known is where a word is written.
    unspelled_words : int
        The words whose times are those of the frames that write them.
    blank : str or None
        The blank's name and column; None if the graph does not know it.
    hot_bytes_per_arc : int
        The bytes of an arc that the search reads for every token.
    memory_bytes : int
        Bytes of the graph's columns, without symbol tables.
    meta : dict
        What the builder has recorded: topology, scales, inputs.
    """

    states: int
    final_states: int
    arcs: int
    epsilon_arcs: int
    epsilon_arcs_with_word: int
    emitting_arcs: int
    emitting_arcs_with_word: int
    self_loops: int
    epsilon_depth: int
    columns: int
    width_is_exact: bool
    words: int | None
    pronunciations: int | None
    word_times: str
    unspelled_words: int
    blank: str | None
    hot_bytes_per_arc: int
    memory_bytes: int
    meta: dict[str, str | int | float]

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Self:
        """Counts a graph of these fields, as `Graph.fields` returns them."""
        columns, pronunciations, symbols = (fields[name] for name in ("columns", "pronunciations", "word_symbols"))
        counts = _graph.count_arcs(columns)
        if fields["join"] == "pieces":
            word_times, unspelled = "pieces", 0
        elif pronunciations is not None:
            word_times, unspelled = "spellings", len(unspelled_words(columns["words"], pronunciations))
        else:
            word_times, unspelled = "writing frames", len(written_words(columns["words"]))
        blank = None if fields["blank"] is None else f"column {fields['blank']}"
        if blank is not None and fields["tokens"] is not None:
            blank = f"{fields['tokens'][fields['blank']]} ({blank})"
        return cls(
            states=len(columns["finals"]),
            final_states=counts["final_states"],
            arcs=len(columns["words"]),
            epsilon_arcs=counts["epsilon"],
            epsilon_arcs_with_word=counts["epsilon_with_word"],
            emitting_arcs=counts["emitting"],
            emitting_arcs_with_word=counts["emitting_with_word"],
            self_loops=counts["self_loops"],
            epsilon_depth=fields["max_depth"],
            columns=fields["num_columns"],
            width_is_exact=fields["width_is_exact"],
            words=None if symbols is None else len(symbols),
            pronunciations=None if pronunciations is None else len(pronunciations.words),
            word_times=word_times,
            unspelled_words=unspelled,
            blank=blank,
            hot_bytes_per_arc=HOT_BYTES_PER_ARC,
            memory_bytes=sum(array.nbytes for array in columns.values()),
            meta=dict(fields["meta"]),
        )

    def __str__(self) -> str:
        def share(part: int) -> str:
            return f"{part:,} ({100.0 * part / max(1, self.arcs):.1f} % of arcs)"

        times = WORD_TIMES[self.word_times]
        if self.word_times == "spellings" and self.unspelled_words:
            times += f"; {self.unspelled_words:,} words have none, and the times of the frames that write them"
        lines = [
            ("states", f"{self.states:,} ({self.final_states:,} final)"),
            ("arcs", f"{self.arcs:,}"),
            ("  epsilon", share(self.epsilon_arcs)),
            ("    with a word", share(self.epsilon_arcs_with_word)),
            ("  emitting", share(self.emitting_arcs)),
            ("    with a word", share(self.emitting_arcs_with_word)),
            ("    self-loops", share(self.self_loops)),
            ("epsilon depth", f"{self.epsilon_depth}"),
            ("columns", f"{self.columns:,}" + ("" if self.width_is_exact else " or more")),
            ("blank", self.blank or "not known"),
            ("words", "no symbols" if self.words is None else f"{self.words:,}"),
            ("pronunciations", "none" if self.pronunciations is None else f"{self.pronunciations:,}"),
            ("word times", times),
            ("hot bytes an arc", f"{self.hot_bytes_per_arc}"),
            ("memory", f"{self.memory_bytes / 1e6:,.1f} MB"),
            *sorted((name, str(value)) for name, value in self.meta.items()),
        ]
        return "\n".join(f"{name:<22} {value}" for name, value in lines)
