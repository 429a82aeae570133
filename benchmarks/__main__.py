"""``python -m benchmarks NAME...``: runs experiments and writes their result files."""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import record, registry
from benchmarks.datasets import CACHE


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Runs experiments; results as JSON lines."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (--list), or 'all' of the device")
    parser.add_argument("--list", action="store_true", help="list the experiments and leave")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each contender, interleaved (5)")
    parser.add_argument("--utterances", type=int, help="first N of each set only; such a trial goes to .cache/results")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the experiment")
    parser.add_argument("--device", default="cpu", help="folder of the results (cpu); 'gpu': named after the GPU here")
    parser.add_argument("--resume", action="store_true", help="skip what these kernels and this commit have results of")
    parser.add_argument("--out", type=Path, help="folder of the results, instead of benchmarks/results/DEVICE")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = parse(argv)
    if args.list or not args.names:
        for name in registry.names():
            print(f"{name:16} {registry.summary(name)}")
        return 0
    options = dict(item.partition("=")[::2] for item in args.set)
    context = registry.Context(args.repeats, args.utterances, options)
    device = args.device
    if device == "gpu":
        device = record.device_folder(str(record.gpu().get("name", "")))
        if not device:
            print("--device gpu: nvidia-smi names no GPU", file=sys.stderr)
            return 2
    folder = args.out or (CACHE / "results" if args.utterances else record.RESULTS / device)
    on_gpu = args.device != "cpu"
    every = [name for name in registry.names() if registry.on_gpu(name) == on_gpu] if args.names == ["all"] else []
    for name in every or args.names:
        try:
            experiment = registry.load(name)
        except KeyError as error:
            print(error.args[0], file=sys.stderr)
            return 2
        if args.resume and record.is_done(folder / f"{name}.jsonl"):
            print(f"{name}: {folder / name}.jsonl is there for these kernels and this commit", file=sys.stderr)
            continue
        command = "python -m benchmarks " + shlex.join(argv)
        trial = args.utterances is not None
        head = record.header(name, command, on_gpu=registry.on_gpu(name), repeats=args.repeats, trial=trial)
        print(f"{name}: {registry.summary(name)}", file=sys.stderr)
        began, rows = time.monotonic(), []
        for row in experiment.run(context):
            rows.append(row)
            print("  " + ", ".join(f"{c.heading} {c.text(row)}" for c in experiment.COLUMNS if c.text(row)))
        head["seconds"] = round(time.monotonic() - began, 1)
        record.write(folder / f"{name}.jsonl", head, rows)
        print(f"  -> {folder / name}.jsonl ({head['seconds']} s)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
