"""Arrays of torch or of NumPy, and where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def taken(array: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The array without torch's gradients, and what turns one of NumPy into one of its library."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach(), torch.from_numpy
    return array, np.asarray


def on_host(array: Any) -> Any:
    """The array in the memory of the CPU, as NumPy has it."""
    array, _ = taken(array)
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)
