"""An error for unknown options that lists the known ones; the function keeps the signature that is written there.

Python's own message names the unknown option alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Returned = TypeVar("Returned")
Kind = TypeVar("Kind", bound=type[Any])

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def lists_options(**hints: str) -> Callable[[Callable[P, Returned]], Callable[P, Returned]]:
    """Decorates a function or method: TypeError for unknown options, which lists the known ones.

    Parameters
    ----------
    **hints : str
        What is said of an unknown option, after its name: how it is called now, or what to use instead.
    """

    def decorate(function: Callable[P, Returned]) -> Callable[P, Returned]:
        parameters = inspect.signature(function).parameters.values()
        known = [one.name for one in parameters if one.kind in _NAMED and one.name not in ("self", "cls")]
        names = frozenset(known)

        @functools.wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> Returned:
            if not names.issuperset(options):
                raise TypeError(_message(sorted(options.keys() - names), known, hints))
            return function(*arguments, **options)

        return call

    return decorate


def lists_fields(kind: Kind) -> Kind:
    """Decorates a dataclass: its constructor then does the same."""
    kind.__init__ = lists_options()(kind.__init__)
    return kind


def _message(unknown: list[str], known: list[str], hints: dict[str, str]) -> str:
    said = [f"; {name} {hints[name]}" for name in unknown if name in hints]
    return f"unknown option {', '.join(unknown)}: expected one of {', '.join(known)}{''.join(said)}"
