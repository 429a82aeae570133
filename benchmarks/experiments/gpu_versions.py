"""Another version of arcbeam compared with this one, on one GPU in one run: the same files, log-probs and answers.

Each version decodes in a process of its own; the log-probs (float32) are on the device. First the answers of each are
compared with this version's twin as bytes: paths, tokens, words and scores. Then the versions take turns, by the clock
of each: a turn decodes everything once untimed, because the others' data are in the caches, and once timed. `other /
this` is the ratio within a turn: above 1, this version is faster. Several other versions take turns, too, and have a
row each.

`one utterance alone`: 24 of middle length, each a batch of its own. Rescoring keeps 3 hypotheses a state; the arc cache
of the model that is not resident has a tenth of the model's bytes. A placement that a version lacks has a row that
says so.

Rows of a kernel are of its machine code in both versions, other / this, as cuobjdump tells it: registers and bytes of
stack of a thread, instructions, and bytes that its instructions store to local memory and load from it, which is where
registers are spilled.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.adapters import SearchOptions, Unavailable, gpu
from benchmarks.data import datasets, graphs
from benchmarks.engine import machine_code, placements, rescoring_models
from benchmarks.experiments import gpu_rescoring, gpu_single
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import versions

ON_GPU = True
KERNELS = ("search", "rescore", "bucketed", "host_lookup", "host_arcs")
ORDER = 295
TITLE = "Two versions"
SINGLE, BATCH, RESCORING, CODE = KINDS = ("single", "batch", "rescoring", "code")
TAKES = {
    "other": "folder that holds the other version, built: FOLDER/arcbeam/__init__.py; or several, as in A,B",
    "name": "of the other version, as its commit (the folder); or of each",
    "only": f"some of {','.join(KINDS)}",
}
PIECES, LETTERS = gpu.WORKLOADS
UTTERANCES = gpu_rescoring.UTTERANCES  # of the workload of pieces
PLACEMENTS = ("resident", placements.BUCKETED, "host")
THIS = "this version"


def _pair(key: str) -> Callable[[Row], object]:
    """A cell of both versions' figures."""

    def text(row: Row) -> str | None:
        both = row.get(f"both_{key}")
        return None if both is None else " / ".join(f"{value:,}" for value in both)  # type: ignore[attr-defined]

    return text


COLUMNS = [
    Column("other version", "name"),
    Column("what", "what"),
    Column("graph", "graph"),
    Column("set", "set"),
    Column("utterances", "utterances", "{:,}"),
    Column("beam / max_active", "search"),
    Column("other, ms", "other_ms", "{:.2f}"),
    Column("this, ms", "this_ms", "{:.2f}"),
    Column("other, microseconds a frame", "other_us", "{:.2f}"),
    Column("this, microseconds a frame", "this_us", "{:.2f}"),
    Column("other / this", "ratio", "{:.3f}"),
    Column("spread", "ratio_spread", "{:.3f}"),
    Column("answers", "answers"),
    Column("registers", "registers", of=_pair("registers")),
    Column("stack, bytes", "stack", of=_pair("stack")),
    Column("instructions", "instructions", of=_pair("instructions")),
    Column("stored to local memory, bytes", "stored", of=_pair("stored")),
    Column("loaded from it, bytes", "loaded", of=_pair("loaded")),
    Column("status", "status"),
]


@dataclass(frozen=True)
class Condition:
    """What both versions decode, and how."""

    kind: str
    workload: tuple[str, str]  # graph and set
    options: SearchOptions
    placement: str | None = None

    def what(self) -> str:
        kinds = {SINGLE: "one utterance alone", BATCH: "a batch", RESCORING: f"rescoring, {self.placement}"}
        return kinds[self.kind]


CONDITIONS = [
    condition
    for options in gpu.BEAMS
    for condition in (
        Condition(SINGLE, LETTERS, options),
        Condition(BATCH, PIECES, options),
        Condition(BATCH, LETTERS, options),
        *(Condition(RESCORING, PIECES, options, placement) for placement in PLACEMENTS),
    )
]


def run(context: Context) -> Iterator[Row]:
    others = others_of(context)
    kinds = context.options.get("only", ",".join(KINDS)).split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise KeyError(f"only: there is no {unknown[0]!r}; there are: {', '.join(KINDS)}")
    for condition in (condition for condition in CONDITIONS if condition.kind in kinds):
        context.progress(f"{condition.what()}, {condition.workload[0]}, beam {condition.options.beam:g}")
        what: Row = {
            "name": ", ".join(others),
            "what": condition.what(),
            "graph": condition.workload[0],
            "set": condition.workload[1],
            "search": gpu.beam_text(condition.options),
        }
        work = (context, others, condition, *work_of(condition, context), what)
        yield from gpu.rows_or_failure(what, compared, *work)
    if CODE in kinds:
        for name, folder in others.items():
            yield from ({"name": name} | row for row in code(folder))


def others_of(context: Context) -> dict[str, Path]:
    """The folders of the other versions by name. Raises KeyError or FileNotFoundError with what to say instead."""
    if "other" not in context.options:
        raise KeyError(f"say --set other=FOLDER: {TAKES['other']}")
    folders = context.options["other"].split(",")
    names = context.options.get("name", context.options["other"]).split(",")
    if len(names) != len(folders) or len({*names, THIS}) <= len(names):
        raise KeyError(
            f"name: expected as many names as there are folders, {len(folders)}, all different and none {THIS!r}, got "
            f"{', '.join(names)}"
        )
    return {name: versions.folder_of(folder) for name, folder in zip(names, folders, strict=True)}


def compared(
    context: Context,
    others: Mapping[str, Path],
    condition: Condition,
    files: graphs.GraphFiles,
    utterances: Sequence[npt.NDArray[np.float32]],
    what: Row,
) -> Iterator[Row]:
    """Rows of one condition; on the CPU where the results are not those of a GPU, which is for trials."""
    search = condition.options
    options: dict[str, Any] = {"beam": search.beam, "max_active": search.max_active}
    options["acoustic_scale"] = search.acoustic_scale
    where: dict[str, Any] = {"device": "cuda" if context.gpu else "cpu"}
    if condition.placement is not None:
        paths = rescoring_models.files(condition.workload[0])
        options |= {key: str(path) for key, path in paths.items()} | {"hypotheses_per_state": gpu_rescoring.LIMIT}
        size = arcbeam.LanguageModel.load(paths["language_model"]).info().bytes
        where |= placements.options(condition.placement, 0 if condition.placement == "resident" else size // 10)
    batch, frames = 1 if condition.kind == SINGLE else len(utterances), sum(map(len, utterances))
    what = what | {"utterances": len(utterances), "frames": frames}
    with versions.started({**others, THIS: versions.OURS}) as workers:
        lacking = versions.together(workers, "load", str(files.arcbeam), utterances, batch, options | where)
        for name in others:
            if missing := [f"{one} has no such decoder: {lacking[one]}" for one in (name, THIS) if lacking[one]]:
                yield what | {"name": name, "status": f"missing: {'; '.join(missing)}"}
        able = {name: worker for name, worker in workers.items() if not lacking[name]}
        if THIS not in able or len(able) == 1:
            return
        twin = arcbeam.CtcDecoder(files.graph, **options, device="cpu", threads=len(os.sched_getaffinity(0)))
        digests = versions.check(able, twin.decode(utterances))
        took = versions.times(able, context.repeats)
    ours = took.pop(THIS)
    for name, theirs in took.items():
        ratio, spread = timing.ratio(theirs, ours)
        row = what | {"name": name, "ratio": ratio, "ratio_spread": spread, "answers": "equal"}
        row["digest"] = sha256("".join(digests).encode()).hexdigest()
        for which, one in (("other", theirs), ("this", ours)):
            row |= {f"{which}_ms": 1e3 * one.seconds, f"{which}_wall": one.wall}
            if condition.kind == SINGLE:
                row[f"{which}_us"] = 1e6 * one.seconds / frames
        yield row


def work_of(condition: Condition, context: Context) -> tuple[graphs.GraphFiles, list[npt.NDArray[np.float32]]]:
    """The graph of a condition, and the log-probs that are decoded with it."""
    graph, name = condition.workload
    dataset = datasets.load(name, UTTERANCES if condition.workload == PIECES else None).first(context.utterances)
    chosen = dataset.utterances
    if condition.kind == SINGLE:
        chosen = gpu_single.of_middle_length(dataset, context.utterances)
    return graphs.get(graph, context.progress), [np.ascontiguousarray(u, np.float32) for u in chosen]


def code(other: Path) -> Iterator[Row]:
    """Rows of the kernels that both versions have."""
    with ThreadPoolExecutor() as readers:
        for rows in readers.map(lambda fatbin: code_of(fatbin, other), KERNELS):
            yield from rows


def code_of(fatbin: str, other: Path) -> list[Row]:
    """The same of one fatbin."""
    what: Row = {"what": f"machine code, {fatbin}"}
    both = [folder / "arcbeam" / "kernels" / f"{fatbin}.fatbin" for folder in (other, versions.OURS)]
    if missing := [path for path in both if not path.exists()]:
        return [what | {"status": f"missing: {missing[0]}"}]
    try:
        common = set.intersection(*map(machine_code.architectures, both))
        if not common:
            return [what | {"status": "missing: machine code of both versions for the same architecture"}]
        architecture = max(common, key=lambda name: (len(name), name))  # the newest
        theirs, ours = (machine_code.of_fatbin(path, architecture) for path in both)
    except Unavailable as error:
        return [what | {"status": f"missing: {error}"}]
    digests = [sha256(path.read_bytes()).hexdigest() for path in both]
    rows = []
    for kernel in sorted(theirs.keys() & ours.keys()):
        pair = asdict(theirs[kernel]), asdict(ours[kernel])
        figures = {f"both_{key}": [one[key] for one in pair] for key in pair[0]}
        rows.append({"what": f"{kernel}, {architecture}", "fatbins": digests, **figures})
    return rows
