"""Tells whether the CPU engine has become slower, as ``make bench-check``; `benchmarks.engine.regression` says how.

python -m benchmarks.check             judge; exit code 1 if a subject has become slower
python -m benchmarks.check --update    store what is measured now
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine import regression, stage_timing
from benchmarks.engine.regression import KERNEL, MARGIN, PROCESSES, SEED, STORED, TURNS
from benchmarks.harness import record
from benchmarks.harness.progress import Progress
from benchmarks.stages import lookup


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="store what is measured, instead of judging it")
    parser.add_argument("--processes", type=int, default=PROCESSES, help=f"that take turns each ({PROCESSES})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"timed turns of a process ({TURNS})")
    parser.add_argument("--one-process", action="store_true", help="measure in this process, print JSON, judge nothing")
    parser.add_argument("--margin", type=float, default=MARGIN, help=f"share that does not count yet ({MARGIN:g})")
    parser.add_argument("--stored", type=Path, default=STORED)
    args = parser.parse_args(argv)
    if min(args.turns, args.processes) < 1 or not 0 <= args.margin < 1:
        parser.error("expected at least one process and turn, and a margin from 0 to 1")
    if args.one_process:
        print(json.dumps(regression.measure_here(args.turns)))
        return 0
    command = "python -m benchmarks.check " + shlex.join(argv)
    seeds = {
        KERNEL: SEED,
        "graph and frames of the stages": stage_timing.SEED,
        "language models of the stages": lookup.SEED,
        "histories of the stages": lookup.SEED_OF_HISTORIES,
    }
    head = record.header("check", command.strip(), repeats=args.processes * args.turns, margin=args.margin, seeds=seeds)
    rows = regression.measure(args.processes, args.turns, Progress().step)
    head["load_after"] = round(os.getloadavg()[0], 2)
    if args.update:
        record.write(args.stored, head, rows)
        print(f"stored in {args.stored}")
        return 0
    if not args.stored.exists():
        print(f"{args.stored}: nothing is stored; say --update", file=sys.stderr)
        return 2
    stored_head, stored = record.read(args.stored)
    return regression.report(head, stored_head, regression.judge(rows, stored, args.margin), args.margin)


if __name__ == "__main__":
    sys.exit(main())
