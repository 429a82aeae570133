"""Minutes, memory and bytes of a large language model: from its ARPA to a checked file.

The model is built in a process of its own; the peak is that process's largest resident memory. Then the file is loaded
and scores the held-out sentences, each beside KenLM's score of the same ARPA. `data/make_large_lm.py` makes the folder
(option `folder`; `large-lm` in the cache) that holds ``large.arpa`` and ``heldout.txt``.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.data import datasets
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.memory import ROOT

ORDER = 55
TITLE = "Building a large language model"
COLUMNS = [
    Column("n-grams", "ngrams"),
    Column("states", "states", "{:,}"),
    Column("arcs", "arcs", "{:,}"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("CPU minutes", "cpu_minutes", "{:.1f}"),
    Column("peak GB", "peak_gb", "{:.1f}"),
    Column("MB", "mb", "{:,.0f}"),
    Column("of it index, MB", "index_mb", "{:,.0f}"),
    Column("seconds to load", "load_seconds", "{:.2f}"),
    Column("sentences", "sentences", "{:,}"),
    Column("unknown words", "unknown_words", "{:,}"),
    Column("largest difference from KenLM, log10", "largest_difference", "{:.1e}"),
]
CHILD = """
import json, sys, time
from arcbeam import LanguageModel
from benchmarks.tasks import memory
began, cpu = time.monotonic(), time.process_time()
model = LanguageModel.build(sys.argv[1])
model.save(sys.argv[2])
print(json.dumps({"minutes": (time.monotonic() - began) / 60, "cpu_minutes": (time.process_time() - cpu) / 60,
                  "peak_gb": memory.peak_bytes() / 1e9}))
"""


def run(context: Context) -> Iterator[Row]:
    import kenlm

    from arcbeam import LanguageModel

    folder = Path(context.options.get("folder", datasets.CACHE / "large-lm"))
    arpa = folder / "large.arpa"
    if not arpa.exists():
        raise datasets.DataMissing(f"{arpa} is not there; python -m data.make_large_lm makes it")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = os.path.join(temporary, "lm")
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(arpa), path], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
        )
        began = time.monotonic()
        model = LanguageModel.load(path)
        seconds = time.monotonic() - began
        info = model.info()
        row = {
            "ngrams": " / ".join(f"{n:,}" for n in info.ngrams),
            "states": info.states,
            "arcs": info.arcs,
            "mb": info.bytes / 1e6,
            "index_mb": info.index_bytes / 1e6,
            "load_seconds": seconds,
        } | json.loads(done.stdout.splitlines()[-1])
        lines = (folder / "heldout.txt").read_text(encoding="utf-8").splitlines()[: context.utterances]
        context.progress("KenLM reads the ARPA")
        theirs = kenlm.Model(str(arpa))
        differences, unknown = [], 0
        for line in lines:
            wanted = sum(score for score, _, _ in theirs.full_scores(line))
            differences.append(abs(model.score(line) / math.log(10) - wanted))
            unknown += sum(word not in model for word in line.split())
        yield row | {
            "sentences": len(lines), "unknown_words": unknown, "largest_difference": max(differences),
        }  # fmt: skip
