"""Confidences of frames in the state of a stream: their method as facts, and the checks of both."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.confidence import ConfidenceMethod, measure
from arcbeam.core.errors import FormatError

if TYPE_CHECKING:
    from arcbeam.graph.graph import Graph


def facts_of_method(method: ConfidenceMethod) -> dict[str, Any]:
    """The method in plain Python, for JSON."""
    return asdict(method) | {"alpha": float(method.alpha)}


def method_of(facts: dict[str, Any] | None) -> ConfidenceMethod | None:
    """The method with these facts, None if no confidences were requested; FormatError if there is no such method."""
    if facts is None:
        return None
    try:
        return ConfidenceMethod(**facts)
    except (TypeError, ValueError) as error:
        raise FormatError(f"stream state: the method of its confidences of frames cannot be read: {error}") from None


def check_confidences(
    found: npt.NDArray[np.float32], frames: int, method: ConfidenceMethod, graph: Graph, columns: int
) -> None:
    """Raises FormatError unless these may be the method's confidences of so many frames."""
    if graph.blank is None:
        raise FormatError("stream state: expected no confidences of frames, because the graph has no blank")
    try:
        measure(method, columns)
    except ValueError as error:
        raise FormatError(f"stream state: the method of its confidences of frames cannot be used: {error}") from None
    if len(found) != frames:
        raise FormatError(f"stream state: expected a confidence for each of {frames} frames, got {len(found)}")
    if not np.all((found >= 0.0) & (found <= 1.0)):
        raise FormatError("stream state: expected confidences of frames from 0 to 1, got others")
