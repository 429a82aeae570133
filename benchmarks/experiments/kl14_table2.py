"""KL14 Table 2: time per phase: words looked up on one core, on all cores, and while the GPU goes on.

Rescoring over the graph of the small 3-gram with n = 3 hypotheses a state, at beam 14. A phase is a difference of two
decodes in the same turn: `search` is the decode without rescoring, `rescoring` what the decode with the large model on
the same device takes longer (look-ups, and the search for hypotheses with several histories), and `waiting` what
requests to the CPU's cores take longer than look-ups on the GPU itself. There is no arc cache unless a row says so.
Where utterances are decoded one by one (the first 32) there is nothing to do while the CPU looks up; in a batch other
utterances go on meanwhile, which hides the waiting. Microseconds are those of a frame of one utterance, `multi` all at
once. Answers are the CPU engine's, byte for byte, before that; one core's times are of its processor time.
"""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.data import datasets
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import Contender

ORDER, PAPER, ON_GPU = 2, "KL14", None
KERNELS = ("search", "rescore", "host_lookup", "host_arcs")
TITLE = "Table 2: time per phase"
BEAM, HYPOTHESES = 14.0, 3
SET, SINGLE = "test-other-100", 32
TAKES = lm_task.TAKES | {"beam": "of the search (14)", "set": f"log-probs to decode ({SET})"}
COLUMNS = [
    Column("set", "set"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("words are looked up", "contender"),
    Column("utterances", "mode"),
    Column("microseconds a frame", "microseconds", "{:.2f}"),
    Column("spread", "spread", "{:.2f}"),
    Column("search", "search", "{:.2f}"),
    Column("rescoring", "rescoring", "{:.2f}"),
    Column("waiting", "waiting", "{:.2f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("asked", "asked", "{:.2f}"),
    Column("rounds a frame", "rounds", "{:.2f}"),
    Column("lanes wait, % of their time", "waits", "{:.1f}"),
    Column("status", "status"),
]


def contenders(context: Context) -> list[Contender]:
    cores = lm_task.cores(context)
    small: dict[str, Any] = {"hypotheses": HYPOTHESES}
    found = []
    for threads in sorted({1, cores}):
        device = "CPU" if threads == 1 else f"CPU, {threads} cores"
        found += [
            Contender(f"{device}: not at all", placement="none", threads=threads),
            Contender(f"{device}: in ours", threads=threads, **small),
            Contender(f"{device}: in KenLM's", placement="cpu", threads=threads, **small),
        ]
    none: dict[str, Any] = {"arc_cache": 0}
    for mode, single in (("one by one", True), ("a batch", False)) if context.gpu else ():
        how: dict[str, Any] = {"single": single, "first": SINGLE if single else None}
        found += [
            Contender(f"GPU, {mode}: not at all", "cuda", "none", **how),
            Contender(f"GPU, {mode}: on the GPU", "cuda", "resident", **how, **small, more=none),
        ]
        for n in sorted({1, cores}):
            label = f"GPU, {mode}: in KenLM's on {n} core{'s'[: n != 1]}"
            found.append(Contender(label, "cuda", "cpu", **how, **small, more=none | {"threads": n}))
        label = f"GPU, {mode}: in KenLM's on {cores} cores, arc cache"
        found.append(Contender(label, "cuda", "cpu", **how, **small, more={"threads": cores}))
        label = f"GPU, {mode}: arcs on {cores} cores"
        found.append(Contender(label, "cuda", "host", **how, **small, more=none | {"threads": cores}))
    return found


def run(context: Context) -> Iterator[Row]:
    task = lm_task.load(context)
    dataset = datasets.load(context.options.get("set", SET)).first(context.utterances)
    beams = [float(context.options.get("beam", BEAM))]
    rows = list(lm_task.several(context, task, [dataset], beams, lambda name: contenders(context)))
    timed: dict[tuple[object, object, object, str], Mapping[str, Any]] = {
        (row["device"], row["threads"], row["mode"], str(row["placement"])): row for row in rows if "taken" in row
    }
    for row in rows:
        yield row | (phases(row, timed) if "taken" in row else {})


def phases(row: Mapping[str, Any], timed: Mapping[Any, Mapping[str, Any]]) -> Row:
    """Microseconds a frame of a row, and what of it is which phase, by the rows of the same device and mode."""
    frames = row["seconds"] / row["shift"]

    def of(other: str) -> list[float] | None:
        found = timed.get((row["device"], row["threads"], row["mode"], other))
        return None if found is None else [1e6 * s / frames for s in found["taken"]]

    def longer(times: list[float] | None, than: list[float] | None) -> float | None:
        if times is None or than is None:
            return None
        return statistics.median(a - b for a, b in zip(times, than, strict=True))

    mine = [1e6 * s / frames for s in row["taken"]]
    place, plain = str(row["placement"]), of("none")
    found: Row = {"microseconds": statistics.median(mine), "spread": [min(mine), max(mine)]}
    found["search"] = None if plain is None else statistics.median(plain)
    if place == "none":
        return found
    on_gpu = row["device"] != "cpu"
    found["rescoring"] = longer(of("resident") if on_gpu else mine, plain)
    if on_gpu and place != "resident":
        found["waiting"] = longer(mine, of("resident"))
    found["asked"] = row["distinct"] * (1 - row["hits"] / 100)
    return found
