"""The result of `Graph.info`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from arcbeam.graph import _graph

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph

HOT_BYTES_PER_ARC = 10  # next state, weight, column


@dataclass(frozen=True)
class GraphInfo:
    """Sizes of a graph. Bytes are those of its columns, without symbol tables."""

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
    blank: str | None
    hot_bytes_per_arc: int
    memory_bytes: int
    meta: dict[str, str | int | float]

    @classmethod
    def of(cls, graph: "Graph") -> Self:
        """Counts a graph."""
        counts = _graph.count_arcs(graph._columns())
        blank = None if graph.blank is None else f"column {graph.blank}"
        if graph.blank is not None and graph.tokens is not None:
            blank = f"{graph.tokens[graph.blank]} ({blank})"
        return cls(
            states=graph.num_states,
            final_states=counts["final_states"],
            arcs=graph.num_arcs,
            epsilon_arcs=counts["epsilon"],
            epsilon_arcs_with_word=counts["epsilon_with_word"],
            emitting_arcs=counts["emitting"],
            emitting_arcs_with_word=counts["emitting_with_word"],
            self_loops=counts["self_loops"],
            epsilon_depth=graph.max_depth,
            columns=graph.num_columns,
            width_is_exact=graph.width_is_exact,
            words=None if graph.word_symbols is None else len(graph.word_symbols),
            pronunciations=None if graph.pronunciations is None else len(graph.pronunciations.words),
            blank=blank,
            hot_bytes_per_arc=HOT_BYTES_PER_ARC,
            memory_bytes=sum(getattr(graph, name).nbytes for name in _graph.COLUMNS),
            meta=dict(graph.meta),
        )

    def __str__(self) -> str:
        def share(part: int) -> str:
            return f"{part:,} ({100.0 * part / max(1, self.arcs):.1f} % of arcs)"

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
            ("hot bytes an arc", f"{self.hot_bytes_per_arc}"),
            ("memory", f"{self.memory_bytes / 1e6:,.1f} MB"),
            *sorted((name, str(value)) for name, value in self.meta.items()),
        ]
        return "\n".join(f"{name:<22} {value}" for name, value in lines)
