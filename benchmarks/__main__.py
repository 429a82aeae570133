"""``python -m benchmarks NAME...``: runs experiments and writes their result files."""

import argparse
import inspect
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.data.datasets import CACHE, DataMissing
from benchmarks.harness import record, registry, seeds

OWN = ("arcbeam", "benchmarks", "data")


def parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="Runs experiments; results as JSON lines.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments (--list), or 'all' of the machine")
    parser.add_argument("--list", action="store_true", help="list the experiments and exit")
    parser.add_argument("--repeats", type=_count, default=5, help="timed runs of each contender, interleaved (5)")
    parser.add_argument(
        "--utterances", type=_count, help="first N of each set only; such a trial goes to .cache/results"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the experiment")
    parser.add_argument("--machine", default="cpu", help="folder of the results (cpu); 'gpu': named after the GPU here")
    parser.add_argument("--resume", action="store_true", help="skip what this commit and these kernels have measured")
    parser.add_argument(
        "--allow-missing", action="store_true", help="store a result that lacks what the stored one has, such as a peer"
    )
    parser.add_argument(
        "--output", "-o", type=Path, help="folder of the results, instead of benchmarks/results/MACHINE"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def print_list(names: Sequence[str] = ()) -> None:
    """All experiments, a line each; or what these measure, and the options that they take."""
    for name in names:
        print(f"{name}: {inspect.cleandoc(registry.load(name).__doc__ or '')}")
        options = getattr(registry.load(name), "TAKES", {})
        print("".join(f"\n  --set {key}=  {text}" for key, text in options.items()).rstrip())
    if names:
        return
    width = max(map(len, registry.names()))
    for name in registry.names():
        where = {True: "gpu", False: "cpu", None: "cpu, gpu"}[getattr(registry.load(name), "ON_GPU", False)]
        print(f"{name:{width}}  {where:8}  {registry.summary(name)}")


def main(argv: Sequence[str] | None = None, program: str = "python -m benchmarks") -> int:
    argv = sys.argv[1:] if argv is None else argv
    args = parser(program).parse_args(argv)
    if wrong := [item for item in args.set if "=" not in item]:
        parser(program).error(f"--set: expected KEY=VALUE, got {wrong[0]!r}")
    if args.list or not args.names:
        try:
            print_list(args.names)
        except KeyError as error:
            print(error.args[0], file=sys.stderr)
            return 2
        return 0
    on_gpu = args.machine != "cpu"
    machine = args.machine
    if machine == "gpu":
        machine = record.device_folder(str(record.gpu().get("name", "")))
        if not machine:
            print("--machine gpu: nvidia-smi names no GPU", file=sys.stderr)
            return 2
    folder = args.output or (CACHE / "results" if args.utterances else record.RESULTS / machine)
    every = [name for name in registry.names() if registry.runs_on(name, on_gpu)] if args.names == ["all"] else []
    options = dict(item.partition("=")[::2] for item in args.set)
    for name in every or args.names:  # before hours of others
        try:
            check_options(name, options)
        except KeyError as error:
            print(error.args[0], file=sys.stderr)
            return 2
        if not on_gpu and not args.utterances and getattr(registry.load(name), "ON_GPU", False):
            print(f"{name} measures on a GPU: say --machine gpu", file=sys.stderr)
            return 2
    failures, names = 0, every or args.names
    if on_gpu:
        names = sorted(names, key=lambda name: getattr(registry.load(name), "KEEPS_CUDA", False))
    for name in names:  # one that fails does not keep the others from running
        path = folder / f"{name}.jsonl"
        if args.resume and record.is_done(path):
            print(f"{name}: {path} is there for these kernels and this commit", file=sys.stderr)
            continue
        context = registry.Context(args.repeats, args.utterances, options, on_gpu)
        try:
            failures += run(name, context, f"{program} {shlex.join(argv)}", path, args.allow_missing)
        except (DataMissing, KeyError, FileNotFoundError) as error:
            # Data or an option; anything else is a fault of the experiment, and shows where.
            print(f"{name}: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
            failures += 1
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] not in OWN:
                print(f"{name}: the package {error.name} is missing", file=sys.stderr)
            elif len(names) == 1:
                raise
            else:
                traceback.print_exc()
            failures += 1
    return 1 if failures else 0


def check_options(name: str, options: Mapping[str, str]) -> None:
    """KeyError unless the experiment is there and takes these options."""
    known = getattr(registry.load(name), "TAKES", {})
    if unknown := [key for key in options if key not in known]:
        raise KeyError(f"{name} has no option {unknown[0]!r}; it has: {', '.join(known) or 'none'}")


def run(name: str, context: registry.Context, command: str, path: Path, allow_missing: bool = False) -> int:
    """Runs one experiment, writes its result file, and tells how many rows failed.

    While it runs, and where it breaks off, the rows so far are in NAME.partial.jsonl, which is no result. There they
    stay, too, where the stored result has something that they lack.
    """
    experiment = registry.load(name)
    kernels = registry.kernels(name) if context.gpu else None
    head = record.header(name, command, kernels=kernels, repeats=context.repeats, trial=context.utterances is not None)
    if context.options:
        head["options"] = context.options
    print(f"{name}: {registry.summary(name)}", file=sys.stderr)
    began, rows, partial = time.monotonic(), [], path.with_suffix(".partial.jsonl")
    seeds.taken()
    for row in experiment.run(context):
        rows.append(row)
        print("  " + ", ".join(f"{c.heading} {c.text(row)}" for c in experiment.COLUMNS if c.text(row)), flush=True)
        record.write(partial, head, rows)
    record.close(head, time.monotonic() - began, seeds.taken())
    if path.exists() and not allow_missing and (lost := record.lost(experiment.COLUMNS, record.read(path)[1], rows)):
        record.write(partial, head, rows)
        what = "".join(f"\n  {one}" for one in lost)
        print(
            f"{name}: not stored, because {path} has what this run lacks:{what}\n"
            f"  The run is in {partial}; say --allow-missing to store such a run.",
            file=sys.stderr,
        )
        return 1
    record.write(path, head, rows)
    partial.unlink(missing_ok=True)
    print(f"  -> {path} ({head['seconds']} s)", file=sys.stderr)
    return sum(map(record.failed, rows))


if __name__ == "__main__":
    # `timeout` sends it: the children end with us, and the rows so far stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
