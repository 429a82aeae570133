"""F19 Figures 3 and 4: word error rate against the real-time factor, beams 8 to 16.

The search of Table 1 at each beam; one curve a decoder and set. RTF is seconds of decoding over seconds of audio, of
processor time for one core, the whole set at a time. All decoders with the large model have the same words, byte for
byte, so their curves differ in speed alone; `no rescoring` is the small graph by itself, whose own model takes the
place of the large one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import datasets, lm_task, plots
from benchmarks.lm_task import Contender
from benchmarks.registry import Column, Context, Row

ORDER, PAPER, ON_GPU = 3, "F19", None
KERNELS = ("search", "rescore", "asking")
TITLE = "Figures 3 and 4: WER against RTF"
BEAMS = tuple(float(beam) for beam in range(8, 17))
TAKES = lm_task.TAKES
COLUMNS = [
    Column("set", "set"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("decoder", "contender"),
    Column("beam", "beam", "{:g}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("word errors", "errors"),
    Column("RTF", "rtf", "{:.6f}"),
    Column("spread", "rtf_spread", "{:.6f}"),
    Column("over one core", "ratio", "{:,.1f}"),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("status", "status"),
]


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
    sets = [datasets.load(name).first(context.utterances) for name in lm_task.SETS]
    yield from lm_task.several(context, task, sets, BEAMS, lambda name: contenders(context))


def draw(rows: list[Row], path: Path) -> None:
    plots.line_plot(path, curves(rows), "RTF", "WER, %", log="x", title="beams 8 to 16", from_zero=False)


def curves(rows: list[Row]) -> dict[str, list[tuple[float, float]]]:
    """Points of each decoder and set that has been timed."""
    series: dict[str, list[tuple[float, float]]] = {}
    timed: list[dict[str, Any]] = [row for row in rows if "rtf" in row]
    for row in timed:
        series.setdefault(f"{row['contender']}, {row['set']}", []).append((row["rtf"], row["wer"]))
    return series
