"""Where a large language model lives and who looks its words up: the choices that experiments compare.

A placement that this version, this machine or the model does not have keeps its rows, which say why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import arcbeam
from arcbeam.core.errors import (
    ArcbeamError,
    CapacityError,
    CudaOutOfMemoryError,
    MissingDependencyError,
    UnsupportedError,
)
from arcbeam.ctc.decoder import DecodeStats
from benchmarks import adapters
from benchmarks.data.datasets import DataMissing
from benchmarks.harness.registry import Row

BUCKETED = "host-direct, in buckets"  # a budget that the cache fills: no room for the index
ON_GPU = ("resident", "host-direct", BUCKETED, "host", "cpu")
KENLM = "kenlm"  # key of KenLM's model among the models of a task, beside the options of a decoder


def options(placement: str, cache: int = 0) -> dict[str, Any]:
    """Options of a decoder: the placement, and the bytes of its arc cache."""
    budget = max(1, cache) if placement == BUCKETED else None
    return {"placement": placement.split(",")[0], "gpu_budget": budget, "arc_cache": cache}


def models_of(placement: str, models: Mapping[str, Any]) -> dict[str, Any]:
    """The models as options of a decoder: `cpu` takes KenLM's, all others ours.

    Raises
    ------
    DataMissing
        There is no KenLM model of this language model.
    """
    chosen = {key: model for key, model in models.items() if key != KENLM}
    if placement == "cpu":
        if models.get(KENLM) is None:
            raise DataMissing("there is no KenLM file of this model")
        chosen["language_model"] = models[KENLM]
    return chosen


def seat(make: Callable[[], "arcbeam.CtcDecoder"]) -> tuple["arcbeam.CtcDecoder | None", str]:
    """A decoder, or the status of the row in its place: "missing: " or "cannot: " and the reason."""
    try:
        return make(), ""
    except (UnsupportedError, MissingDependencyError, DataMissing, adapters.Unavailable) as error:
        return None, f"missing: {_line(error)}"
    except (CapacityError, CudaOutOfMemoryError) as error:
        return None, f"cannot: {_line(error)}"


def _line(error: Exception) -> str:
    return str(error).split("\n")[0]


def kenlm(load: Callable[[], "arcbeam.KenLM"], say: Callable[[str], None]) -> "arcbeam.KenLM | None":
    """KenLM's model, or None where its package or its file is missing, and a line that says so."""
    try:
        return load()
    except (ArcbeamError, DataMissing, FileNotFoundError) as error:
        say(f"no KenLM: {_line(error)}")
        return None


def looked_up(work: DecodeStats) -> Row:
    """The requests to the large model, a frame: words, distinct, hit rate, bytes, rounds, copies; and waiting, %.

    A frame that is begun anew, for lack of room or of an answer, may have more requests than distinct words.
    """
    distinct = work.lookups if work.distinct_lookups is None else work.distinct_lookups
    return {
        "lookups": work.lookups / work.frames,
        "distinct": distinct / work.frames,
        "hits": max(0.0, 100 * (1 - work.lookup_misses / max(1, distinct))),
        "bytes": None if work.model_bytes_read is None else work.model_bytes_read / work.frames,
        "rounds": None if work.lookup_rounds is None else work.lookup_rounds / work.frames,
        "copies": None if work.lookup_copies is None else work.lookup_copies / work.frames,
        "waits": None if work.lookup_waiting is None else 100 * work.lookup_waiting,
    }


def total(each: Sequence[DecodeStats]) -> DecodeStats:
    """The work of several batches; how long lanes waited is weighed by frames."""
    sums: dict[str, Any] = {}
    for field in fields(DecodeStats):
        values = [getattr(one, field.name) for one in each]
        if field.name == "lookup_waiting" and None not in values:
            values = [value * one.frames for value, one in zip(values, each, strict=True)]
        sums[field.name] = None if None in values else sum(values)
    if sums["lookup_waiting"] is not None:
        sums["lookup_waiting"] /= max(1, sums["frames"])
    return DecodeStats(**sums)
