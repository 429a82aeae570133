from collections.abc import Iterable
from typing import Any, TypeVar

_Kind = TypeVar("_Kind", bound=AnyStream)

class AnyStream:
    _decoder: Any

def checked_streams(streams: Iterable[Any], kind: type[_Kind], decoder: object) -> list[_Kind] | None: ...
