"""Calls with an option that a function does not have are told which ones it has; its signature stays what is written.

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


def lists_options(**renamed: str) -> Callable[[Callable[P, Returned]], Callable[P, Returned]]:
    """Decorates a function or method: TypeError for unknown options, which lists the known ones.

    Parameters
    ----------
    **renamed : str
        What an option is called now that once had this name.
    """

    def decorate(function: Callable[P, Returned]) -> Callable[P, Returned]:
        parameters = inspect.signature(function).parameters.values()
        known = [one.name for one in parameters if one.kind in _NAMED and one.name not in ("self", "cls")]
        names = frozenset(known)

        @functools.wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> Returned:
            if not names.issuperset(options):
                raise TypeError(_message(sorted(options.keys() - names), known, renamed))
            return function(*arguments, **options)

        return call

    return decorate


def lists_fields(kind: Kind) -> Kind:
    """Decorates a dataclass, whose constructor then does the same."""
    kind.__init__ = lists_options()(kind.__init__)
    return kind


def _message(unknown: list[str], known: list[str], renamed: dict[str, str]) -> str:
    now = [f"; {name} is {renamed[name]} now" for name in unknown if name in renamed]
    return f"unknown option {', '.join(unknown)}: expected one of {', '.join(known)}{''.join(now)}"
