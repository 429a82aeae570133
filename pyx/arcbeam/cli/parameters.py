"""How a command's parameters become options: groups of options that several commands take, numbers, and choices.

A group is a dataclass whose fields are options. The error for a text that is no number, or none of a few names, says
what was expected.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from arcbeam.cli.overwrites import OUTPUTS

MEANT = {
    "--lm": ("--language-model", "--ngram-lm"),
    "--lm-weight": ("--lm-scale", "--ngram-lm-alpha"), "--alpha": ("--lm-scale", "--ngram-lm-alpha"),
    "--beam-size": ("--beam", "--max-active"), "--beam-width": ("--beam", "--max-active"),
    "--hotwords": ("--boost",), "--ref": ("--reference",), "--vocab": ("--tokens", "--word-list"),
}  # fmt: skip
"""Options of other programs, and those that they may stand for here."""


class Command(TyperCommand):
    """A command that answers options of other programs with its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the command line; the error for an unknown option names the options that may be meant."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # NoSuchOption of the click that typer uses
            own = {name for parameter in self.params for name in parameter.opts}
            if meant := [name for name in MEANT.get(getattr(error, "option_name", ""), ()) if name in own]:
                error.possibilities = meant  # type: ignore[attr-defined]
            if why := self._elsewhere(getattr(error, "option_name", "")):
                error.message, error.possibilities = why, None  # type: ignore[attr-defined]
            missing: Any = getattr(error, "param", None)
            if getattr(missing, "nargs", 1) == -1:  # what was given may have become the arguments after it
                rest = [one for one in self.params if one.param_type_name == "argument"]
                names = [f"'{one.metavar}'" for one in rest[rest.index(missing) :] if one.metavar]
                error.param_hint = " or ".join(names) or None  # type: ignore[attr-defined]
            raise

    def _elsewhere(self, option: str) -> str | None:
        """Where an option is that this command lacks and another has, if that is no option here."""
        if option in ("--reference", "-r") and any(one.metavar == "TEXTS" for one in self.params):
            return f"No such option: {option}. The file of the texts is the last argument, TEXTS"
        if option == "--lattice":
            return f"No such option: {option}. Lattices are written by arcbeam decode and arcbeam transduce"
        return None


def takes_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command: a parameter that is a dataclass becomes the options that are its fields, in its place."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    members = {name: [field.name for field in dataclasses.fields(kind)] for name, kind in groups.items()}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += inspect.signature(groups[name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def call(**given: Any) -> None:
        made = {name: kind(**{field: given.pop(field) for field in members[name]}) for name, kind in groups.items()}
        command(**given, **made)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def is_choice(kind: Any) -> bool:
    """Whether an option takes one of a few names; from Python 3.13 on ``list[str]`` is no argument of issubclass."""
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def parse_values(command: Callable[..., Any]) -> None:
    """Has the options of a command that are numbers or one of a few names read by this module."""
    for parameter in inspect.signature(command).parameters.values():
        if typing.get_origin(parameter.annotation) is not Annotated:
            continue
        kind, *details = typing.get_args(parameter.annotation)
        kinds = {*(typing.get_args(kind) or (kind,))} - {type(None)}
        for info in details:
            if isinstance(info, OptionInfo) and kinds in ({int}, {float}):
                info.parser = partial(number, kinds.pop(), info.min, info.max)
            elif (
                isinstance(info, OptionInfo)
                and kinds == {Path}
                and parameter.name in OUTPUTS
                and info.metavar == "FILE"
            ):
                info.parser = file_name
            elif isinstance(info, OptionInfo) and len(kinds) == 1 and is_choice(next(iter(kinds))):
                names = kinds.pop()
                info.parser, info.autocompletion = partial(choice, names), _completion(names)
                info.metavar = info.metavar or "|".join(names)


def typed_names(command: Callable[..., Any]) -> dict[str, str]:
    """The options of a command as they are typed, such as --boost, by the names of their parameters."""
    found = {}
    for parameter in inspect.signature(command).parameters.values():
        for info in typing.get_args(parameter.annotation)[1:]:
            if isinstance(info, OptionInfo):
                declared = [one for one in info.param_decls or () if one.startswith("--")]
                found[parameter.name] = declared[0] if declared else f"--{parameter.name.replace('_', '-')}"
    return found


def file_name(text: str) -> Path:
    """The name of a file to write; a usage error for that of a folder, from which a path would drop the slash."""
    if text.endswith("/") and not Path(text).is_dir():  # a folder that exists may be meant
        raise typer.BadParameter(f"expected the name of a file, got that of a folder, {text!r}")
    return Path(text)


def choices(names: type[StrEnum]) -> str:
    """The names, as a sentence lists them."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def choice(names: type[StrEnum], text: Any) -> StrEnum:
    """One of the names; a usage error for anything else."""
    if text not in list(names):
        raise typer.BadParameter(f"expected one of {choices(names)}, got {text!r}")
    return names(text)


def _completion(names: type[StrEnum]) -> Callable[[str], list[str]]:
    """A function that returns the names which complete what a shell has so far."""

    def complete(incomplete: str) -> list[str]:
        return [str(name) for name in names if name.startswith(incomplete)]

    return complete


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
