from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.transducer.token_automaton import TokenAutomaton

ARC: np.dtype[Any]

def build(
    tokens: npt.NDArray[np.uint32],
    ends: npt.NDArray[np.uintp],
    scores: npt.NDArray[np.float64],
    logs: npt.NDArray[np.float64],
    *,
    depth_scaling: float,
    unk_score: float,
    num_tokens: int,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[Any], npt.NDArray[Any]]: ...
def walk(
    automaton: TokenAutomaton, state: int, tokens: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]: ...
