from typing import Any

class AnyStream:
    _decoder: Any
    _worker: int

def all_usable(streams: list[Any], kind: type[AnyStream], decoder: object) -> bool: ...
