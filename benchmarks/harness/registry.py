"""Finds the experiments: every module of ``benchmarks/experiments`` is one.

An experiment module has

TITLE : heading in the report
COLUMNS : list of :class:`Column`, the table in the report
run(context) : yields one dictionary of plain values a row; checks answers before it times anything, and names the seeds
    of what it makes at random (`benchmarks.harness.seeds`)

and its docstring says what is measured and how. ORDER (default 100) places it in the list and in the report; PAPER
names the paper (`benchmarks.papers`) whose table or figure it makes; TAKES is what ``--set`` takes, with a word on
each (default: nothing). One with ON_GPU = True measures on a GPU: its results name the GPU and the fatbins in KERNELS
(default: the search's), and go stale with these.
ON_GPU = None: it runs on either, with the contenders that are there, as `Context.gpu` says. KEEPS_CUDA = True: it uses
CUDA in this process, from which others could not fork any more, so that it comes after them. ``draw(rows, path)``,
where there is one, makes a PNG file of the rows for the report.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

from benchmarks import experiments
from benchmarks.harness.progress import Progress

Row = dict[str, object]


@dataclass(frozen=True)
class Column:
    """One column of a table: its heading, the key in a row, and how a value is written.

    of : where the row of an older result lacks the key, the value by what else the row holds, None if it cannot be
    """

    heading: str
    key: str
    form: str = "{}"
    of: Callable[[Row], object] | None = None

    def value(self, row: Row) -> object:
        value = row.get(self.key)
        return self.of(row) if value is None and self.of is not None else value

    def text(self, row: Row) -> str:
        value = self.value(row)
        if value is None:
            return ""
        if isinstance(value, list):  # a spread: smallest and largest
            return " to ".join(self.form.format(v) for v in value)
        return self.form.format(value)


@dataclass(frozen=True)
class Context:
    """What an experiment is told: how much to run, and where to say how far it is."""

    repeats: int = 5
    utterances: int | None = None  # first utterances of each set only: a trial, never a result
    options: dict[str, str] = field(default_factory=dict)
    gpu: bool = False  # whether the results are those of a GPU
    shown: Progress = field(default_factory=Progress)

    def progress(self, text: str) -> None:
        """Says a line that stays."""
        self.shown.say(text)

    def step(self, text: str) -> None:
        """Says what is being done, on a terminal alone."""
        self.shown.step(text)


def names() -> list[str]:
    found = [module.name for module in pkgutil.iter_modules(experiments.__path__)]
    return sorted(found, key=lambda name: (getattr(load(name), "ORDER", 100), name))


def load(name: str) -> ModuleType:
    known = [module.name for module in pkgutil.iter_modules(experiments.__path__)]
    if name not in known:
        raise KeyError(f"no experiment {name!r}; there are: {', '.join(sorted(known))}")
    return importlib.import_module(f"benchmarks.experiments.{name}")


def runs_on(name: str, gpu: bool) -> bool:
    """Whether an experiment measures there."""
    return getattr(load(name), "ON_GPU", False) in (None, gpu)


def kernels(name: str) -> tuple[str, ...]:
    """The fatbins that it measures on a GPU."""
    return tuple(getattr(load(name), "KERNELS", ("search",)))


def summary(name: str) -> str:
    return (load(name).__doc__ or "").strip().split("\n")[0]
