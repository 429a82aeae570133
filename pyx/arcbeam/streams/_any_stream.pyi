from typing import Any

class AnyStream:
    _decoder: Any
    _worker: int

def are_sound(streams: list[Any], kind: type[AnyStream], decoder: object) -> bool: ...
