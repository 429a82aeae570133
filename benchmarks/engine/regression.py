"""A gate for regressions of the CPU engine that is honest on noisy machines: ``make bench-check``.

Nothing is compared with a time of another day. Each subject is timed between two turns of a reference, in the same
process, and what is judged is their ratio in processor time, reference over subject: above 1 the subject is the faster
one. The references are a plain kernel in NumPy (sums, gathers, a sort: memory and arithmetic, none of ours) and, where
it is installed, kaldi-decoder's FasterDecoder on the same graph and frames. What disturbs a single turn is left out by
the median of a process. Processes differ, too, in where their memory lies (a stage of 7 microseconds by a third), so
there are several. Stored are median, smallest and largest of their medians, in benchmarks/results/cpu/reference.jsonl.

A subject has become slower only if its whole spread lies below the stored one by more than the margin: the largest
median of now is less than (1 - margin) times the smallest stored one. Noise widens both spreads, so it hides
regressions rather than inventing them. On another processor than the stored one nothing is judged.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import arcbeam
from benchmarks.data.openfst_writer import write_openfst
from benchmarks.engine import stage_timing
from benchmarks.harness import record
from benchmarks.harness.registry import Row

STORED = record.RESULTS / "cpu" / "reference.jsonl"
MARGIN, PROCESSES, TURNS = 0.10, 7, 9  # turns of each process
SECONDS_A_TURN = 0.03  # at least, of each contender
UTTERANCES, SEED = 8, 1
KERNEL, PEER, ENGINE = "plain kernel", "FasterDecoder", "engine, one core"
OK, SLOWER, FASTER, NEW, GONE = "as stored", "SLOWER", "faster", "not stored yet", "stored, not measured here"

Call = Callable[[], object]


@dataclass(frozen=True)
class Verdict:
    subject: str
    against: str
    kind: str
    now: list[float] | None
    stored: list[float] | None

    def told(self, margin: float) -> float | None:
        """The smallest further loss of speed, as a share, that would not be hidden by these spreads."""
        if self.now is None or self.stored is None:
            return None
        return max(0.0, 1 - (1 - margin) * self.stored[0] / self.now[1])

    def __str__(self) -> str:
        def spread(values: list[float] | None) -> str:
            return "-" if values is None else f"{values[0]:.3g} to {values[1]:.3g}"

        now, stored = spread(self.now), spread(self.stored)
        return f"{self.subject:20} {self.against + ' over it':22} {now:18} stored {stored:18} {self.kind}"


def judge(now: Sequence[Row], stored: Sequence[Row], margin: float = MARGIN) -> list[Verdict]:
    """A verdict for each pair of subject and reference, by their spreads alone."""
    spreads: list[dict[tuple[str, str], list[float]]] = [
        {(str(r["subject"]), str(r["against"])): list(r["spread"]) for r in rows}  # type: ignore[call-overload]
        for rows in (now, stored)
    ]
    found = []
    for key in dict.fromkeys([*spreads[0], *spreads[1]]):
        mine, theirs = spreads[0].get(key), spreads[1].get(key)
        if mine is None:
            kind = GONE
        elif theirs is None:
            kind = NEW
        elif mine[1] < (1 - margin) * theirs[0]:
            kind = SLOWER
        elif mine[0] > (1 + margin) * theirs[1]:
            kind = FASTER
        else:
            kind = OK
        found.append(Verdict(*key, kind, mine, theirs))
    return found


def sandwiched(reference: Call, subjects: Mapping[str, Call], clock: Callable[[], float]) -> dict[str, float]:
    """Reference over each subject: the mean of its turns before and after over the subject's turn between them."""

    def spent(call: Call) -> float:
        began = clock()
        call()
        return clock() - began

    found, before = {}, spent(reference)
    for name, call in subjects.items():
        mine, after = spent(call), spent(reference)
        found[name] = (before + after) / 2 / mine
        before = after
    return found


def ratios(subjects: Mapping[str, Call], references: Mapping[str, Call], turns: int) -> list[Row]:
    """Reference over subject in processor time: of the plain kernel over all, of others over the engine; medians."""
    each: dict[tuple[str, str], list[float]] = {}
    for turn in range(turns):
        order = list(subjects.items())[:: 1 if turn % 2 == 0 else -1]
        for against, reference in references.items():
            measured = dict(order) if against == KERNEL else {ENGINE: subjects[ENGINE]}
            for subject, ratio in sandwiched(reference, measured, time.process_time).items():
                each.setdefault((subject, against), []).append(ratio)
    return [
        {"subject": subject, "against": against, "ratio": statistics.median(each[subject, against])}
        for against in references
        for subject in subjects
        if (subject, against) in each
    ]


def summary(processes: Sequence[Sequence[Row]]) -> list[Row]:
    """Median, smallest and largest of the processes' medians."""
    every: dict[tuple[str, str], list[float]] = {}
    for rows in processes:
        for row in rows:
            every.setdefault((str(row["subject"]), str(row["against"])), []).append(float(row["ratio"]))  # type: ignore[arg-type]
    return [
        {"subject": s, "against": a, "ratio": statistics.median(each), "spread": [min(each), max(each)]}
        for (s, a), each in every.items()
    ]


def plain_kernel() -> Call:
    """Float sums over 8 MB, a gather from 32 MB, a sort of 200 000 numbers; always the same ones, in memory kept."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    values, table = rng.random(2_000_000, np.float32), rng.random(8_000_000, np.float32)
    places, numbers = rng.integers(0, len(table), 500_000), rng.random(200_000)
    squares, gathered, ordered = np.empty_like(values), np.empty(len(places), np.float32), np.empty_like(numbers)

    def run() -> float:
        np.multiply(values, values, out=squares)
        np.sqrt(np.add(squares, 1.0, out=squares), out=squares)
        np.take(table, places, out=gathered, mode="clip")  # "raise" would make a copy
        ordered[:] = numbers
        ordered.sort()
        return float(squares.sum()) + float(gathered.sum()) + float(ordered[1000])

    return run


def engine() -> Call:
    frame = stage_timing.frame()
    decoder = arcbeam.CtcDecoder(
        frame.graph, beam=stage_timing.BEAM, max_active=stage_timing.MAX_ACTIVE, threads=1, device="cpu"
    )
    utterances = [frame.log_probs] * UTTERANCES
    return lambda: decoder.decode(utterances)


def faster_decoder(folder: Path) -> Call | None:
    """FasterDecoder on the same frames, its answer compared with the engine's; None where it is not installed."""
    try:
        import kaldi_decoder
        import kaldifst
    except ImportError:
        return None
    frame = stage_timing.frame()
    write_openfst(frame.graph, folder / "graph.fst")
    fst = kaldifst.StdVectorFst.read(str(folder / "graph.fst"))
    options = kaldi_decoder.FasterDecoderOptions(
        beam=stage_timing.BEAM, max_active=stage_timing.MAX_ACTIVE, min_active=0
    )

    def decode() -> object:
        decoder = kaldi_decoder.FasterDecoder(fst, options)
        decoder.decode(kaldi_decoder.DecodableCtc(frame.log_probs))
        return decoder.get_best_path()

    ok, path = decode()  # type: ignore[misc]
    weight = kaldifst.get_linear_symbol_sequence(path)[3]
    (found,) = engine()()[:1]  # type: ignore[index]
    theirs, ours = weight.value1 + weight.value2, -(found.acoustic_score + found.graph_score)
    if not ok or abs(theirs - ours) > 1e-2:
        raise AssertionError(f"FasterDecoder and the engine differ: costs {theirs} and {ours}")
    return lambda: [decode() for _ in range(UTTERANCES)]


def repeated(call: Call) -> tuple[Call, int]:
    """The call often enough for a turn, and how often that is; by the fastest of some, for one may be disturbed."""

    def spent() -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    times = max(1, round(SECONDS_A_TURN / max(1e-6, min(spent() for _ in range(4)))))

    def run() -> None:
        for _ in range(times):
            call()

    return run, times


def measure(processes: int, turns: int, step: Callable[[str], None] = lambda text: None) -> list[Row]:
    """The ratios of several processes together."""
    found = []
    for number in range(processes):
        step(f"process {number + 1} of {processes}")
        command = [sys.executable, "-m", "benchmarks.check", "--turns", str(turns), "--one-process"]
        done = subprocess.run(command, cwd=record.ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(done.stdout))
    return summary(found)


def measure_here(turns: int) -> list[Row]:
    """Times every subject in turns with the references, in this process; answers are checked first."""
    subjects = {f"stage {name}": stage_timing.checked_case(name)[0] for name in stage_timing.names()}
    subjects[ENGINE] = engine()
    references = {KERNEL: plain_kernel()}
    with tempfile.TemporaryDirectory() as folder:
        peer = faster_decoder(Path(folder))
    if peer is not None:
        references[PEER] = peer
    turn_of = {name: repeated(call) for name, call in (references | subjects).items()}
    rows = ratios({name: turn_of[name][0] for name in subjects}, {name: turn_of[name][0] for name in references}, turns)
    return [
        row | {"ratio": row["ratio"] * turn_of[row["subject"]][1] / turn_of[row["against"]][1]}  # type: ignore[index, operator]
        for row in rows
    ]


def report(head: Row, stored_head: Row, verdicts: Sequence[Verdict], margin: float) -> int:
    """Prints the verdicts; 1 if a subject has become slower on the processor of the stored ratios."""
    print("processor time of a reference over that of a subject: more is better")
    for verdict in verdicts:
        told = verdict.told(margin)
        print(
            verdict,
            "" if told is None or verdict.kind == SLOWER else f"(a further loss of {100 * told:.0f} % would be told)",
        )
    loads = [f"{h['load_before']} before and {h.get('load_after', '?')} after" for h in (head, stored_head)]
    print(f"load {loads[0]}, margin {100 * margin:g} %; stored at load {loads[1]}")
    if head["processor"] != stored_head["processor"]:
        print(f"not judged: stored on {stored_head['processor']}, this is {head['processor']}")
        return 0
    slower = [v for v in verdicts if v.kind == SLOWER]
    if slower:
        print(f"slower than stored by more than {100 * margin:g} %: {', '.join(v.subject for v in slower)}")
    return 1 if slower else 0
