"""F19 Figures 3 and 4: word error rate against the real-time factor, beams 8 to 16.

The search of Table 1 at each beam; one curve a decoder and set. RTF is seconds of decoding over seconds of audio, of
processor time for one core, the whole set at a time. All decoders with the large model have the same words, byte for
byte, so their curves differ in speed alone; `no rescoring` is the small graph by itself, whose own model takes the
place of the large one.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import Contender

ORDER, PAPER, ON_GPU = 3, "F19", None
KERNELS = ("search", "rescore", "host_lookup", "host_arcs")
TITLE = "Figures 3 and 4: WER against RTF"
BEAMS = tuple(float(beam) for beam in range(8, 17))
TAKES = lm_task.TAKES
COLUMNS = lm_task.curve_columns(Column("over one core", "ratio", "{:,.1f}"))


def contenders(context: Context) -> list[Contender]:
    cores = lm_task.cores(context)
    found = [
        Contender("CPU, one core"),
        Contender("CPU, one core, no rescoring", placement="none"),
    ]
    if cores > 1:
        found.append(Contender(f"CPU, {cores} cores", threads=cores))
    if context.gpu:
        found += [Contender(f"GPU, {place}", "cuda", place) for place in ("none", "resident", "host", "host-direct")]
    return found


def run(context: Context) -> Iterator[Row]:
    task = lm_task.load(context, kenlm=False)
    yield from lm_task.several(context, task, lm_task.sets(context), BEAMS, lambda name: contenders(context))


def draw(rows: list[Row], path: Path) -> None:
    lm_task.draw_curves(rows, path, "beams 8 to 16")
