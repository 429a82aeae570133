"""The contenders of a table: those that can be made here are made, the others keep a row that says why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import adapters
from benchmarks.adapters import Adapter, SearchOptions
from benchmarks.data.datasets import DataMissing
from benchmarks.data.graphs import GraphFiles
from benchmarks.harness.registry import Row


@dataclass(frozen=True)
class Contender:
    """One row of a table: its label, the adapter's module, and what the adapter is made with beside the options."""

    label: str
    adapter: str
    more: Mapping[str, Any] = field(default_factory=dict)
    needs_token_lm: bool = False  # it searches without a lexicon, with an LM over tokens


@dataclass(frozen=True)
class Seat:
    """A contender and its adapter, or the reason why there is none."""

    contender: Contender
    adapter: Adapter | None
    status: str | None = None

    @property
    def row(self) -> Row:
        """What every table says of a contender."""
        row: Row = {"decoder": self.contender.label, "adapter": self.contender.adapter}
        if self.adapter is None:
            return row | {"status": self.status}
        return row | {"device": self.adapter.device, "settings": self.adapter.settings}


def seat(contender: Contender, files: GraphFiles, options: SearchOptions) -> Seat:
    """Makes the adapter. Where that cannot be, the seat is empty and says why:

    missing : its package or its device is not here
    cannot : it does not fit the graph, or the graph lacks what it needs
    failed : anything else, which keeps the result from being released
    """
    if contender.needs_token_lm and files.graph.pronunciations is not None:
        return Seat(contender, None, "cannot: its LM is one of tokens, that of this graph is one of words")
    try:
        return Seat(contender, adapters.make(contender.adapter)(files, options, **contender.more))
    except FileNotFoundError:
        raise  # a graph or a language model, not a package
    except (ImportError, OSError) as error:
        return Seat(contender, None, f"missing: {adapters.why(error)}")
    except (DataMissing, ValueError) as error:
        return Seat(contender, None, f"cannot: {adapters.why(error)}")
    except Exception as error:
        return Seat(contender, None, f"failed: {type(error).__name__}: {adapters.why(error)}")


def chosen(contenders: Sequence[Contender], only: str | None) -> list[Contender]:
    """Those whose adapter or label is named in ``only`` (comma-separated); all of them where it is None."""
    if only is None:
        return list(contenders)
    wanted = [name.strip() for name in only.split(",")]
    found = [c for c in contenders if {c.adapter, c.label} & set(wanted)]
    known = {name for c in contenders for name in (c.adapter, c.label)}
    if unknown := [name for name in wanted if name not in known]:
        raise KeyError(f"no contender {unknown[0]!r}; there are: {', '.join(c.adapter for c in contenders)}")
    return found
