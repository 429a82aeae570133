"""Options that are set one by one, as in the Python bindings of C++: an attribute keeps its name and its type."""

from __future__ import annotations

import copy
import dataclasses
import numbers
from typing import Any

from arcbeam.core.checks import is_bool


class TypedOptions:
    """Base of dataclasses of options: AttributeError for an unknown name, TypeError for a value of another type.

    It has no public attributes of its own, because callers list those of an instance. A nested group of options that is
    assigned is copied, as in C++.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        fields: dict[str, dataclasses.Field[Any]] = getattr(type(self), "__dataclass_fields__", {})
        if name not in fields:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}, but {', '.join(fields)}")
        make = fields[name].default_factory
        default = fields[name].default if make is dataclasses.MISSING else make()
        object.__setattr__(self, name, _plain(name, value, type(default)))


def _plain(name: str, value: Any, kind: Any) -> Any:
    """The value as a plain one of this type; TypeError if it is none."""
    if kind is bool and is_bool(value):
        return bool(value)
    if kind is int and isinstance(value, numbers.Integral) and not is_bool(value):
        return int(value)
    if kind is float and isinstance(value, numbers.Real) and not is_bool(value):
        return float(value)
    if kind is str and isinstance(value, str):
        return value
    if kind not in (bool, int, float, str) and isinstance(value, kind):
        return copy.deepcopy(value)
    raise TypeError(f"{name}: expected a {kind.__name__}, got {type(value).__name__}")
