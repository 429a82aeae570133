"""Extension of griffe: public docstrings as a reader of the site needs them. Public is what the reference has.

* What takes the options of a dataclass or of a function (``@lists_options(X)``, ``@explains(X)``) has these in its
  signature and in its docstring, as ``help()`` shows them.
* Names of public classes and functions in backticks become links, and so do pages in double backticks.
* A class names the public classes that it is derived from, and no others. The constructor of a class is left out if its
  docstring does not say what it takes, because a decoder makes such objects.
* A public name, or a public member of one, without a docstring is a warning, which ends a strict build.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT / "pyx"))

from arcbeam.core.calls import explains  # noqa: E402

log = logging.getLogger("mkdocs.plugins.docstrings")
_TAKES = re.compile(r"(?:lists_options|explains)\(([A-Za-z]\w*)\b(?!=)((?:\.\w+)*)(?:, without=\(([^)]*)\))?")
_ROLE = re.compile(r":(?:class|meth|func|attr):`~?([\w.]+)`")
_NAME = re.compile(r"(?<![`\[\w])`([A-Za-z]\w*(?:\.\w+)*)`(?!`)")
_PAGE = re.compile(r"``(?:docs/([\w/-]+\.md)|([A-Z]+\.md))``")


class Docstrings(griffe.Extension):
    """Prepares all docstrings of the package."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Is called when all modules of a package have been read."""
        if pkg.path != "arcbeam":
            return
        names = re.findall(r"^::: (\S+)$", "\n".join(page.read_text() for page in REFERENCE.glob("*.md")), re.MULTILINE)
        public = {name: target for name in names if (target := _target(pkg, name)) is not None}
        everything = list(_objects(pkg))
        fields = {obj.path: list(_fields(obj)) for obj in everything if obj.is_class}
        for obj in everything:
            _take_options(pkg, obj, fields)
        known = set(map(id, public.values()))
        for path, obj in public.items():
            _check(path, obj)
            if obj.is_class and obj.docstring is not None:
                _show_class(obj, known)
        for obj in everything:
            if obj.docstring is not None:
                obj.docstring.value = _with_links(obj.docstring.value, obj, public)


def _objects(obj: Any) -> Iterator[Any]:
    """The object and all that are defined in it."""
    yield obj
    for member in obj.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _target(pkg: griffe.Module, path: str) -> Any:
    """What a name stands for, through all imports; None if it is unknown, of which mkdocstrings tells."""
    try:
        found: Any = pkg[path.removeprefix("arcbeam.")]
        while found.is_alias:
            found = pkg[found.target_path.removeprefix("arcbeam.")]
    except KeyError:
        return None
    return found


def _fields(kind: griffe.Class) -> Iterator[griffe.Parameter]:
    """The fields of a dataclass as keywords."""
    for name, field in kind.attributes.items():
        if field.annotation is not None and not field.is_alias and "property" not in field.labels:
            keyword = griffe.ParameterKind.keyword_only
            yield griffe.Parameter(name, annotation=field.annotation, kind=keyword, default=field.value)


def _take_options(pkg: griffe.Module, obj: Any, fields: dict[str, list[griffe.Parameter]]) -> None:
    """Gives the taker of the options of a dataclass or function their names, types, defaults and descriptions."""
    for takes in filter(None, (_TAKES.match(str(one.value)) for one in getattr(obj, "decorators", ()))):
        kind = _target(pkg, f"{_target(pkg, obj.resolve(takes[1])).path}{takes[2]}")
        _take_options(pkg, kind, fields)
        without = re.findall(r"\w+", takes[3] or "")
        options_of = fields[kind.path] if kind.is_class else kind.parameters
        alone = griffe.ParameterKind.keyword_only
        declared = [one for one in options_of if one.kind is alone and one.name not in without]
        if obj.is_function:
            own = [one for one in obj.parameters if one.kind is not griffe.ParameterKind.var_keyword]
            names = {one.name for one in own}
            obj.parameters = griffe.Parameters(*own, *(one for one in declared if one.name not in names))
        if obj.docstring is not None:
            options, taker = (SimpleNamespace(__doc__=one.docstring.value) for one in (kind, obj))
            obj.docstring.value = explains(options, {one.name for one in declared})(taker).__doc__


def _entries(obj: Any) -> set[str]:
    """The parameters and attributes that a docstring describes."""
    lines = re.findall(r"^(\w+(?:, \w+)*)(?: : .*)?$", obj.docstring.value if obj.docstring else "", re.MULTILINE)
    return {name for line in lines for name in line.split(", ")}


def _check(path: str, obj: Any) -> None:
    """Warns of what has no docstring; attributes may be described in that of their class."""
    members = obj.all_members.items() if obj.is_class else ()
    entries = set().union(*map(_entries, [obj, *(obj.mro() if members else ())]))
    missing = [] if obj.docstring else [path]
    for name, member in members:
        is_field = member.is_attribute and "property" not in member.labels
        is_described = member.docstring or (is_field and name in entries)
        if not name.startswith("_") and not hasattr(BaseException, name) and not is_described:
            missing.append(f"{path}.{name}")
    for name in missing:
        log.warning(f"{name}: expected a docstring")


def _show_class(obj: Any, public: set[int]) -> None:
    """Names the bases that a user knows, and hides a constructor that none calls."""
    ours = {base.path: base for base in obj.mro()}
    bases = []
    for base in obj.bases:
        path = getattr(base, "canonical_path", str(base))
        if path in ours and id(ours[path]) in public:
            bases.append(ours[path].name)
        elif not path.startswith(("arcbeam.", "typing.", "enum.")):
            bases.append(path.removeprefix("builtins."))
    if bases:
        summary, gap, rest = obj.docstring.value.partition("\n\n")
        named = ", ".join(f"`{base.rpartition('.')[2]}`" for base in bases)
        obj.docstring.value = f"{summary}\n\nBases: {named}.{gap}{rest}"
    takes = [one.name for one in obj.parameters if one.name != "self"]
    fields = {name for name, member in obj.all_members.items() if member.docstring is not None}
    if not fields.union(_entries(obj)).issuperset(takes):
        for kind in [obj, *ours.values()]:
            kind.members.pop("__init__", None)


def _with_links(text: str, obj: Any, public: dict[str, Any]) -> str:
    """The docstring with links to the public names and to the pages in it."""
    parts = obj.path.split(".")
    rooms = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    single = {name.rpartition(".")[2]: name for name in public}

    def name(found: re.Match[str]) -> str:
        head, _, member = found[1].removeprefix("arcbeam.").partition(".")
        nearest = next((f"{room}.{head}" for room in rooms if f"{room}.{head}" in public), single.get(head))
        if nearest is None or public[nearest] is obj:
            return found[0]
        members = public[nearest].all_members if member and public[nearest].is_class else {}
        documented = member in members and members[member].docstring is not None
        return f"[`{found[1]}`][{nearest}{f'.{member}' if documented else ''}]"

    def page(found: re.Match[str]) -> str:
        return f"[{found[1] or found[2]}](../{found[1] or f'../{found[2]}'})"

    return _PAGE.sub(page, _NAME.sub(name, _ROLE.sub(r"`\1`", text)))
