"""The contenders of a table: those that can be made here are made, the others keep a row that says why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks import adapters
from benchmarks.adapters import Adapter, SearchOptions
from benchmarks.graphs import GraphFiles
from benchmarks.registry import Row


@dataclass(frozen=True)
class Contender:
    """One row of a table: its label, the adapter's module, and what the adapter is made with beside the options."""

    label: str
    adapter: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Seat:
    """A contender and its adapter, or the reason why there is none."""

    contender: Contender
    adapter: Adapter | None
    missing: str | None = None

    @property
    def row(self) -> Row:
        """What every table says of a contender."""
        row: Row = {"decoder": self.contender.label, "adapter": self.contender.adapter}
        if self.adapter is None:
            return row | {"status": f"missing: {self.missing}"}
        return row | {"device": self.adapter.device, "settings": self.adapter.settings}


def seat(contender: Contender, files: GraphFiles, options: SearchOptions) -> Seat:
    """Makes the adapter; a package or device that is not there leaves the seat empty, with the reason."""
    try:
        return Seat(contender, adapters.make(contender.adapter)(files, options, **contender.more))
    except (ImportError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise  # a graph or a language model, not a package
        return Seat(contender, None, adapters.why(error))


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
