"""Peak memory of one decoder, measured in a process of its own: ``python -m benchmarks.tasks.memory``."""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def peak_bytes() -> int:
    """Largest resident memory of this process so far, pages of mapped files included.

    Linux's own figure is preferred: that of getrusage starts with the size of the process that forked this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform != "darwin" else 1)


def measure(adapter: str, graph: str, dataset: str, beam: float, max_active: int, utterances: int | None) -> int:
    """Peak MiB of a fresh process that loads the graph and decodes the set, log-probs included."""
    command = [sys.executable, "-m", "benchmarks.tasks.memory", adapter, graph, dataset, str(beam), str(max_active)]
    done = subprocess.run([*command, str(utterances or 0)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return round(json.loads(done.stdout.splitlines()[-1])["peak_bytes"] / MIB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("adapter", str), ("graph", str), ("dataset", str), ("beam", float), ("max_active", int)):
        parser.add_argument(name, type=kind)
    parser.add_argument("utterances", type=int, help="first ones only; 0: all")
    args = parser.parse_args()

    from benchmarks import adapters
    from benchmarks.data import datasets, graphs

    dataset = datasets.load(args.dataset).first(args.utterances or None)
    options = adapters.SearchOptions(args.beam, args.max_active)
    decoder = adapters.make(args.adapter)(graphs.files(args.graph), options)
    for utterance in dataset.utterances:  # one by one, so that float32 copies of the whole set do not count
        decoder.decode(decoder.prepare([utterance]))
    print(json.dumps({"peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main()
