"""Numbers on the command line: the error for any other text says what was expected, and what was given."""

import inspect
import typing
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from typer.models import OptionInfo


def parse_numbers(command: Callable[..., Any]) -> None:
    """Has the options of a command that are numbers read by this module."""
    for parameter in inspect.signature(command).parameters.values():
        if typing.get_origin(parameter.annotation) is not Annotated:
            continue
        kind, *details = typing.get_args(parameter.annotation)
        kinds = {*(typing.get_args(kind) or (kind,))} - {type(None)}
        for info in details:
            if isinstance(info, OptionInfo) and kinds in ({int}, {float}):
                info.parser = partial(number, kinds.pop(), info.min, info.max)


def number(kind: type, least: float | None, most: float | None, text: Any) -> Any:
    """A number of this kind within the limits; a usage error for anything else. A default comes as a number."""
    limits = [f"of at least {least:,}"] if least is not None else []
    limits += [f"of at most {most:,}"] if most is not None else []
    expected = " ".join(["a whole number" if kind is int else "a number", " and ".join(limits)]).strip()
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or (least is not None and value < least) or (most is not None and value > most):
        raise typer.BadParameter(f"expected {expected}, got {text!r}")
    return value
