"""Soak: streams with faults for minutes, of both decoders at once in one process.

`tests/batching/soak.py` runs 32 clients of a `Batcher` with a `CtcDecoder` and 32 of one with a `TransducerDecoder`.
Each speaks one utterance after another, in chunks of any length, as a client of a kind drawn by chance: it waits for
each result, hurries, or dawdles (*slow*); sends chunks with NaN and after the last (*refused*); takes chunks back
(*cancelled*); goes away in the middle (*vanished*); or has chunks for which memory is said to run out (*out of
memory*). Memory is what of the process is resident, after a collection of garbage and without caches of glibc: after
the first look, at the last, and from the median of the second quarter of the time to that of the last (*growth*).
Checked: every utterance that was spoken to its end has the bytes of the whole, every fault has its own error and harms
no other, each kind of fault occurred, and growth is below 1 MiB; if not, the experiment fails.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.record import ROOT
from benchmarks.harness.registry import Column, Context, Row

ORDER = 25
TITLE = "Soak: streams with faults for minutes"
MINUTES, TRIAL_MINUTES = 10.0, 0.1
TAKES = {"minutes": f"how long ({MINUTES:g})"}
FAULTS = {  # in a row, and in what the soak says
    "slow": "slow", "refused": "refused", "cancelled": "cancelled", "vanished": "vanishes",
    "out_of_memory": "out of memory",
}  # fmt: skip
COLUMNS = [
    Column("decoder", "decoder"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("chunks", "chunks", "{:,}"),
    Column("rounds", "rounds", "{:,}"),
    *(Column(key.replace("_", " "), key, "{:,}") for key in FAULTS),
    Column("memory, MiB: first", "first_mib", "{:.1f}"),
    Column("last", "last_mib", "{:.1f}"),
    Column("growth", "growth_mib", "{:.2f}"),
]


def run(context: Context) -> Iterator[Row]:
    minutes = float(context.options.get("minutes", TRIAL_MINUTES if context.utterances else MINUTES))
    context.step(f"{minutes:g} minutes")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "soak.json")
        command = [sys.executable, "-W", "ignore", "-m", "tests.batching.soak", "--minutes", str(minutes)]
        ended = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, cwd=ROOT)
        if ended.returncode:
            raise AssertionError(f"the soak has failed:\n{ended.stdout}{ended.stderr}")
        yield from rows(json.loads(out.read_text()))


def rows(found: dict[str, Any]) -> Iterator[Row]:
    """A row for each decoder, and one for the process of both."""
    minutes = found["sizes"][-1][0] / 60.0
    for decoder, (rounds, chunks) in found["work"].items():
        happened = {key: found["happened"][decoder].get(name, 0) for key, name in FAULTS.items()}
        yield {"decoder": decoder, "minutes": minutes, "chunks": chunks, "rounds": rounds} | happened
    first, last = (found["sizes"][at][1] / 2**20 for at in (0, -1))
    yield {
        "decoder": "the process of both", "minutes": minutes, "first_mib": first, "last_mib": last,
        "growth_mib": found["grown"] / 2**20,
    }  # fmt: skip
