from collections.abc import Callable

ARRAYS: tuple[str, ...]

class Table: ...

class FusionMemory:
    def memory(self) -> dict[str, int]: ...

def forget(memory: Callable[[], FusionMemory | None], number: int, _: object) -> None: ...
