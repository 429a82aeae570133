"""Pictures of lattices: text for Graphviz, and drawings over time with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from arcbeam.core.checks import check_axes
from arcbeam.core.packages import missing_package
from arcbeam.lattices.word_graph import Edge

BEST, OTHER = "#c0392b", "#34495e"
FONT = 8  # points
PADDING = 12  # points that a box is wider than its word
ROW = 26  # points from one row to the next
MARGIN = 48  # points beyond the first and the last time, where the start and the end are drawn
RISE = 14  # points that a line rises over boxes between its ends
SMALLEST, WIDEST = 8.0, 40.0  # inches of a figure
ROUNDED = 6  # digits of numbers in Graphviz's text


class Box(NamedTuple):
    """A word at a time, with its posterior; "" for the start and the end."""

    time: float
    word: str
    posterior: float
    best: bool


class Picture(NamedTuple):
    """What is drawn of a lattice."""

    boxes: list[Box]  # by time
    lines: list[Edge]
    unit: str  # of the times
    note: str  # what is left out; "" if nothing is


def to_dot(picture: Picture) -> str:
    """The picture as a digraph for Graphviz."""
    lines = ["digraph lattice {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    if picture.note:
        lines.append(f'  label="{picture.note}";')
    for i, box in enumerate(picture.boxes):
        time = f"{round(box.time, ROUNDED):g}"
        if not box.word:
            lines.append(f'  {i} [label="{time}", shape=circle, style=""];')
            continue
        word = box.word.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {i} [label="{word}\\n{time}", penwidth={_width(box.posterior):.2f}, color="{_colour(box)}"];')
    for line in picture.lines:
        style = f'penwidth={_width(line.posterior):.2f}, color="{_colour(line)}"'
        lines.append(f"  {line.source} -> {line.target} [{style}{', style=bold' if line.best else ''}];")
    return "\n".join([*lines, "}", ""])


def _width(posterior: float) -> float:
    return 0.4 + 2.0 * posterior


def _opacity(posterior: float) -> float:
    return 0.3 + 0.7 * posterior


def _colour(drawn: Box | Edge) -> str:
    return f"{BEST if drawn.best else OTHER}{round(255 * _opacity(drawn.posterior)):02x}"


def rows_of(boxes: Sequence[Box], middles: Sequence[float], widths: Sequence[float]) -> list[int]:
    """A row for each box, so that no two boxes of a row overlap: for the best path 0 where there is room."""
    rows = [0] * len(boxes)
    taken: dict[int, list[tuple[float, float]]] = {}
    order = sorted(range(len(boxes)), key=lambda i: (not boxes[i].best, -boxes[i].posterior * (not boxes[i].best), i))
    for i in order:
        begin, end = middles[i] - widths[i] / 2, middles[i] + widths[i] / 2
        row = 0 if boxes[i].best else 1
        while any(begin < other_end and other_begin < end for other_begin, other_end in taken.get(row, ())):
            row = -row if row > 0 else 1 - row  # 0, 1, -1, 2, ...
        taken.setdefault(row, []).append((begin, end))
        rows[i] = row
    return rows


def plot(picture: Picture, ax: Any = None) -> Any:
    """Draws the picture with matplotlib; returns the axes."""
    check_axes(ax)
    try:
        from matplotlib import pyplot
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.textpath import TextPath
    except ModuleNotFoundError:
        raise missing_package("matplotlib", "plot") from None
    names = [box.word.replace("$", r"\$") for box in picture.boxes]
    widths = [TextPath((0, 0), name, size=FONT).get_extents().width + PADDING if name else PADDING for name in names]
    begin, end = picture.boxes[0].time, picture.boxes[-1].time
    span = end - begin or 1.0
    if ax is None:
        of_best = sum(width + PADDING for width, box in zip(widths, picture.boxes, strict=True) if box.best)
        inches = min(max((of_best + 2 * MARGIN) / 72, SMALLEST), WIDEST)
        points = inches * 72 - 2 * MARGIN
    else:
        ax.figure.draw_without_rendering()  # then distances in the picture are known
        points = ax.get_window_extent().width * 72 / ax.figure.dpi - 2 * MARGIN
    scale = points / span
    times = [begin - 0.7 * MARGIN / scale, *(box.time for box in picture.boxes[1:-1]), end + 0.7 * MARGIN / scale]
    middles = [time * scale for time in times]
    rows = rows_of(picture.boxes, middles, widths)
    if ax is None:
        height = (max(rows) - min(rows) + 1) * ROW / 72 + (1.0 if picture.note else 0.8)
        _, ax = pyplot.subplots(figsize=(inches, height), layout="constrained")
    ax.set_xlabel(picture.unit)
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)
    ax.set_xlim(begin - MARGIN / scale, end + MARGIN / scale)
    ax.set_ylim(min(rows) - 0.7, max(rows) + 0.7)
    if picture.note:
        ax.set_title(picture.note, fontsize=FONT, loc="left")
    places = list(zip(times, rows, strict=True))
    for line in picture.lines:
        source, target = places[line.source], places[line.target]
        passes = source[1] == target[1] and any(
            place[1] == source[1] and source[0] < place[0] < target[0] for place in places
        )
        bend = -2 * RISE / max((target[0] - source[0]) * scale, RISE) if passes else 0.0
        ax.add_patch(
            FancyArrowPatch(
                source, target, connectionstyle=f"arc3,rad={bend}", arrowstyle="-", shrinkA=0, shrinkB=0,
                color=BEST if line.best else OTHER, linewidth=_width(line.posterior), alpha=_opacity(line.posterior),
                zorder=2 if line.best else 1,
            )
        )  # fmt: skip
    for (x, y), box, name in zip(places, picture.boxes, names, strict=True):
        colour = BEST if box.best else OTHER
        if not box.word:
            ax.plot(x, y, "o", color=OTHER, markersize=5, zorder=3)
            continue
        drawn = ax.text(x, y, name, ha="center", va="center", fontsize=FONT, color=colour, zorder=4)
        drawn.set_bbox(
            {"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": colour, "linewidth": _width(box.posterior)}
        )
    return ax
