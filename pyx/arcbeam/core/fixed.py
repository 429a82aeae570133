"""Objects whose options are chosen when they are made: an assignment to one of these later would have no effect."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any


class Fixed:
    """AttributeError where an attribute is set that the class does not have; classes of a user's own may have any."""

    if not TYPE_CHECKING:  # type checkers take a class with __setattr__ for one that has any attribute

        def __setattr__(self, name: str, value: Any) -> None:
            kind = type(self)
            if not name.startswith("_") and not hasattr(kind, name) and kind.__module__.startswith("arcbeam."):
                raise AttributeError(_message(kind, name))
            super().__setattr__(name, value)


def _message(kind: type[Any], name: str) -> str:
    """Why an attribute cannot be set, and what to type if it is an option."""
    if name in inspect.signature(kind).parameters:
        return f"{name}: an option cannot be changed; make another object, as in {kind.__name__}(..., {name}=...)"
    return f"{kind.__name__} has neither an attribute nor an option {name!r}"
