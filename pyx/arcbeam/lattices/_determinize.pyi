from typing import Any

import numpy.typing as npt

STEP_LIMIT: int
WIDEST: int

def determinize(
    arrays: dict[str, npt.NDArray[Any]], start: int, beam: int, *, step_limit: int = ...
) -> tuple[dict[str, npt.NDArray[Any]], int]: ...
