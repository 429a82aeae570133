"""What CUPTI saw of one decode, through torch's profiler: the kernel, and the copies to the device beside it.

It records what the whole process launches and copies, whoever asks the driver for it.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.registry import Row

WORD = 4
"""Bytes of a copy that only counts what has come."""

Event = dict[str, Any]


def profiled(decode: Callable[[], object], kernel: str, window_us: float) -> Row:
    """:func:`told` of a decode, or a row with a ``status`` that says why the profiler could not be used."""
    try:
        return told(record(decode), kernel, window_us)
    except Exception as error:  # whatever torch, CUPTI or the file may do: the other rows are worth having
        return {"status": f"no profile: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def spent(decode: Callable[[], object]) -> Row:
    """Milliseconds and numbers of a decode's kernels and copies, or a ``profile`` that says why they are not known."""
    try:
        spans = [event for event in record(decode) if event.get("ph") == "X"]
    except Exception as error:  # whatever torch, CUPTI or the file may do: the other figures are worth having
        return {"profile": f"none: {type(error).__name__}: {error}"}
    row: Row = {}
    for kind, category in (("kernel", "kernel"), ("copies", "gpu_memcpy")):
        times = [float(event["dur"]) for event in spans if event.get("cat") == category]
        row |= {f"{kind}_ms": sum(times) / 1e3, f"{kind}_count": len(times)}
    return row


def record(decode: Callable[[], object]) -> list[Event]:
    """The events of a decode, as in a file for chrome://tracing; times in microseconds."""
    import torch
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        raise RuntimeError("torch has no CUPTI here")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            decode()
            torch.cuda.synchronize()
        profiler.export_chrome_trace(str(path))
        events: list[Event] = json.loads(path.read_text())["traceEvents"]
    return events


def told(events: list[Event], kernel: str, window_us: float) -> Row:
    """The longest kernel of a name, and copies to the device that began while it ran.

    Parameters
    ----------
    events : list of dict
    kernel : str
        What its name contains.
    window_us : float
        Of the middle of the kernel, from which single copies are kept.

    Returns
    -------
    dict
        ``kernel_ms``; of copies of more than a word ``copies``, ``streams``, ``copy_bytes``, ``copy_us`` and
        ``turn_us`` (from one to the next of a stream), medians; ``copied``, [stream, began (us in the window), us,
        bytes] of all that fall into the window; ``kernel_from_to`` in the same time.
    """
    spans = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in spans if event.get("cat") == "kernel" and kernel in event["name"]]
    if not kernels:
        raise ValueError(f"the trace has {len(spans)} spans and no kernel {kernel!r}")
    longest = max(kernels, key=lambda event: float(event["dur"]))
    began, ended = float(longest["ts"]), float(longest["ts"]) + float(longest["dur"])
    copies = sorted(
        (float(event["ts"]), float(event["dur"]), int(event["args"]["stream"]), int(event["args"]["bytes"]))
        for event in spans
        if event.get("cat") == "gpu_memcpy" and "HtoD" in event["name"] and began <= float(event["ts"]) < ended
    )
    data = [copy for copy in copies if copy[3] > WORD]
    of_stream: dict[int, list[float]] = {}
    for start, _, stream, _ in data:
        of_stream.setdefault(stream, []).append(start)
    turns = np.concatenate([np.diff(starts) for starts in of_stream.values()]) if data else np.zeros(0)
    middle = (began + ended) / 2
    shown = [
        [stream, start - middle, took, count]
        for start, took, stream, count in copies
        if start + took > middle and start < middle + window_us
    ]
    return {
        "kernel_ms": (ended - began) / 1e3,
        "copies": len(data),
        "streams": len(of_stream),
        "copy_bytes": float(np.median([copy[3] for copy in data])) if data else None,
        "copy_us": float(np.median([copy[1] for copy in data])) if data else None,
        "turn_us": float(np.median(turns)) if len(turns) else None,
        "kernel_from_to": [began - middle, ended - middle],
        "copied": shown,
    }
