"""GK23 Figure 1: where the time goes: features, acoustic model, decoder.

Passes like those of Table 2, in a run of their own, over as many recordings as the table says (``--set recordings=N``),
part by part; a part ends when its work is done. `features` holds the samples' way to the model's device, `decoder` that
of the log-probs to the decoder. Parts are medians over the turns.
"""

import functools
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.experiments import gk23_table2
from benchmarks.harness import plots
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import end_to_end, gk23

ORDER, PAPER, ON_GPU = 0, gk23.PAPER, None
KEEPS_CUDA = True
TITLE = "Figure 1: time by part"
TAKES = gk23_table2.TAKES


def part_spread(part: str, row: Mapping[str, Any]) -> list[float] | None:
    """Smallest and largest milliseconds a minute of a part, of a row that holds the turns themselves."""
    each = [1e3 * turn[part] / row["minutes"] for turn in row.get("wall", [])]
    return [min(each), max(each)] if each else None


COLUMNS = [
    Column("set", "set"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("acoustic model", "model"),
    Column("on", "model_device"),
    Column("decoder", "decoder"),
    Column("on", "device"),
    *(
        column
        for part in end_to_end.PARTS
        for column in (
            Column(f"{part}, ms a minute", f"{part}_ms", "{:,.1f}"),
            Column("spread", f"{part}_spread", "{:,.1f}", functools.partial(part_spread, part)),
            Column("share, %", f"{part}_share", "{:.1f}"),
        )
    ),
    Column("model's settings", "model_settings"),
    Column("decoder's settings", "settings"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for row, passes in gk23_table2.measure(context):
        if passes:
            minutes = float(row["minutes"])  # type: ignore[arg-type]
            medians = {part: statistics.median(p.seconds[part] for p in passes) for part in end_to_end.PARTS}
            for part, seconds in medians.items():
                share = 100 * seconds / sum(medians.values())
                row |= {f"{part}_ms": 1e3 * seconds / minutes, f"{part}_share": share}
            row["recordings"] = len(passes[0].texts)
            row["wall"] = [p.seconds for p in passes]
        yield row


def draw(rows: list[Row], path: Path) -> None:
    keys = [f"{part}_ms" for part in end_to_end.PARTS]
    bars = {str(row["decoder"]): [float(row[k]) for k in keys] for row in rows if keys[0] in row}  # type: ignore[arg-type]
    plots.stacked_bars(path, bars, end_to_end.PARTS, "milliseconds a minute of audio", title=TITLE)
