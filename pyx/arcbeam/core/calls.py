"""Options of functions: errors for wrong ones that name the known, and options that are declared elsewhere."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Container
from typing import Any, ParamSpec, TypeVar

UNNAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

P = ParamSpec("P")
Returned = TypeVar("Returned")
Kind = TypeVar("Kind", bound=type[Any])

_ENTRY = re.compile(r"^(\w+) : .+\n(?:    .*\n)+", re.MULTILINE)
_REST = re.compile(r"^\*\*options\n(?:    .*\n)+", re.MULTILINE)


def lists_options(
    kind: Callable[..., Any] | None = None, /, *, without: Container[str] = (), opened_by: str = "", **hints: str
) -> Callable[[Callable[P, Returned]], Callable[P, Returned]]:
    """Decorates a function: TypeErrors that name its options; those of `kind` go into signature and docstring.

    They are the fields of a dataclass, or what another function takes by keyword alone, but for those in `without`.
    `opened_by` names what takes a path, which a constructor does not. `hints` follow the names of options, known or
    not, where these are wrong or missing; that of the function's own name where it gets too many arguments.
    """

    def decorate(function: Callable[P, Returned]) -> Callable[P, Returned]:
        signature = inspect.signature(function)
        own = {name: one for name, one in signature.parameters.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
        declared = [] if kind is None else [one for one in _declared(kind) if one.name not in without]
        signature = signature.replace(parameters=[*own.values(), *(one for one in declared if one.name not in own)])
        known = [name for name in signature.parameters if name not in ("self", "cls")]
        names = frozenset(known)
        is_init = function.__name__ == "__init__"
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
        unnamed = [one for one in signature.parameters.values() if one.kind in UNNAMED]
        required = [one for one in signature.parameters.values() if one.default is inspect.Parameter.empty]
        needed = [one.name for one in required if one.kind in UNNAMED]
        named = frozenset(one.name for one in required if one.kind is inspect.Parameter.KEYWORD_ONLY)
        fewest, most, order = len(needed), len(unnamed), [one.name for one in unnamed]
        if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in signature.parameters.values()):
            most = sys.maxsize

        @functools.wraps(function)
        def call(*arguments: P.args, **options: P.kwargs) -> Returned:
            if not names.issuperset(options):
                raise TypeError(_message(sorted(options.keys() - names), known, hints))
            if opened_by and len(arguments) > 1 and isinstance(arguments[1], (str, os.PathLike)):
                raise TypeError(f"{known[0]}: got the path {os.fspath(arguments[1])!r}, which {opened_by} opens")
            if len(arguments) < fewest or not named.issubset(options):
                missing = [one for one in (*needed[len(arguments) :], *sorted(named)) if one not in options]
                if missing:
                    shown = type(arguments[0]).__name__ if is_init and arguments else called
                    raise TypeError(_missing(missing, shown, known, [*needed, *named], named, hints))
            if len(arguments) > most:
                raise TypeError(_too_many(called, len(arguments), order, known, hints))
            if options and (twice := options.keys() & order[: len(arguments)]):
                name = min(twice)
                raise TypeError(f"{name}: expected it once, got it by place and by name; leave out {name}=")
            return function(*arguments, **options)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call if kind is None else explains(kind, {one.name for one in declared})(call)

    return decorate


def lists_fields(kind: Kind) -> Kind:
    """Decorates a dataclass: its constructor then does the same."""
    kind.__init__ = lists_options()(kind.__init__)
    return kind


def explains(kind: Any, names: Container[str] | None = None) -> Callable[[Returned], Returned]:
    """Decorates what takes the options, or these, of a dataclass or function: its text has them for ``**options``."""

    def decorate(taker: Returned) -> Returned:
        if taker.__doc__ and kind.__doc__:  # which Python's -OO drops
            text = inspect.cleandoc(taker.__doc__) + "\n"
            own = {entry[1] for entry in _ENTRY.finditer(text)}
            entries = (entry for entry in _ENTRY.finditer(inspect.cleandoc(kind.__doc__) + "\n") if entry[1] not in own)
            rest = "".join(entry[0] for entry in entries if names is None or entry[1] in names)
            taker.__doc__ = _REST.sub(lambda _: rest, text).rstrip("\n")
        return taker

    return decorate


def _declared(kind: Callable[..., Any]) -> list[inspect.Parameter]:
    """The options of a dataclass, or of a function."""
    if dataclasses.is_dataclass(kind):
        return [_parameter(field) for field in dataclasses.fields(kind)]
    return [one for one in inspect.signature(kind).parameters.values() if one.kind is one.KEYWORD_ONLY]


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)


def _message(unknown: list[str], known: list[str], hints: dict[str, str]) -> str:
    said = [f"; {name} {hints[name]}" for name in unknown if name in hints]
    expected = f"one of {', '.join(known)}" if known else "none"
    return f"unknown option {', '.join(unknown)}: expected {expected}{''.join(said)}"


def _missing(
    missing: list[str], called: str, known: list[str], needed: list[str], named: frozenset[str], hints: dict[str, str]
) -> str:
    """The message of a call without some of the arguments that it needs, of which some have to be named."""
    shown = [f"{name}=..." if name in named else name for name in known if name in needed]
    call = f"{called}({', '.join([*shown, '...'][: len(shown) + (len(known) > len(shown))])})"
    said = "".join(f"; {name} {hints[name]}" for name in missing if name in hints)
    return f"{missing[0]}: expected {call}, got no {' and no '.join(missing)}{said}"


def _too_many(called: str, got: int, unnamed: list[str], known: list[str], hints: dict[str, str]) -> str:
    """The message of a call with more arguments without a name than there are."""
    taken = [name for name in unnamed if name in known]
    others = [f"{name}=" for name in known if name not in taken]
    named = f"; give the others by their names: {', '.join(others)}" if others else ""
    call = f"{called}({', '.join([*taken, '...'][: len(taken) + bool(others)])})"
    got -= len(unnamed) - len(taken)
    hint = f"; {called} {hints[called]}" if called in hints else ""
    return f"{call}: expected at most {len(taken)} arguments without a name, got {got}{named}{hint}"
