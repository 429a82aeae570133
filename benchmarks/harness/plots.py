"""Curves of results as PNG files; matplotlib comes with the extra ``bench``."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

Points = Sequence[tuple[float, float]]

SHADES = "winter", "autumn", "copper", "cool_r"  # matplotlib's, one a family of curves
MARKS = "os^Dv<>Ph"


def line_plot(
    path: Path,
    series: Mapping[str, Points],
    xlabel: str,
    ylabel: str,
    *,
    log: str,
    title: str,
    from_zero: bool = True,
) -> Path:
    """Draws one curve a series, with a mark at every point, into a PNG file.

    series : name of each curve, as the legend shows it, and its (x, y) points
    log : axes that are logarithmic: ``"x"``, ``"y"`` or ``"xy"``; an x axis of powers of two is labelled as such
    from_zero : a y axis that is not logarithmic begins at zero
    """
    if not set(log) <= {"x", "y"}:
        raise ValueError(f'log: expected "", "x", "y" or "xy", got {log!r}')
    # Neither pyplot nor a display: figures are made, written and gone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, points in series.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=4, label=name)
    xs = [x for points in series.values() for x, _ in points]
    if "x" in log:
        of_two = all(x > 0 and float(x).is_integer() and int(x) & (int(x) - 1) == 0 for x in xs)
        axes.set_xscale("log", base=2 if of_two else 10)
        if of_two:
            axes.set_xticks(sorted(set(xs)), labels=[f"{x:,.0f}" for x in sorted(set(xs))])
    if "y" in log:
        axes.set_yscale("log")
    else:
        if from_zero:
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title)
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})  # no version of matplotlib in the file
    return path


def stacked_bars(
    path: Path, bars: Mapping[str, Sequence[float]], parts: Sequence[str], xlabel: str, *, title: str
) -> Path:
    """Draws one horizontal bar a name, made of its parts, into a PNG file; the first name is on top."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 1.2 + 0.4 * len(bars)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = list(bars)[::-1]
    left = [0.0] * len(names)
    for at, part in enumerate(parts):
        widths = [bars[name][at] for name in names]
        axes.barh(names, widths, left=left, label=part, height=0.6)
        left = [x + width for x, width in zip(left, widths, strict=True)]
    axes.set_xlabel(xlabel)
    axes.xaxis.set_major_formatter("{x:,.6g}")
    axes.set_title(title)
    axes.grid(alpha=0.3, axis="x")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def line_plots(
    path: Path,
    panels: Mapping[str, Mapping[str, Points]],
    ylabel: str,
    *,
    logarithmic: Collection[str] = (),
    limits: tuple[float, float | None] = (0.0, None),
    marks: tuple[str, Mapping[str, float]] = ("", {}),
) -> Path:
    """Draws panels side by side with one y axis into a PNG file; every panel is named by its x axis.

    What a name has before its first comma is its family. Curves of the first one are solid and those of others dashed;
    each family has shades of its own, and each of its curves a mark of its own. Legends stand below the panels.

    logarithmic : the panels whose x axis is logarithmic
    limits : where the y axis begins and ends; curves are cut there
    marks : what a ring around a point means, and the x of that point by the name of its curve
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max((len(series) + 1) // 2 for series in panels.values())
    figure = Figure(figsize=(6.5 * len(panels), 4.6 + 0.22 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    of_rings, ringed = marks
    told: set[tuple[str, ...]] = set()  # names of curves that a legend has
    for axes, (xlabel, series) in zip(grid[0], panels.items(), strict=True):
        families: dict[str, list[str]] = {}
        for name in series:
            families.setdefault(name.split(",")[0], []).append(name)
        for family, names in enumerate(families.values()):
            shades = colormaps[SHADES[family % len(SHADES)]]
            for at, name in enumerate(names):
                axes.plot(
                    [x for x, _ in series[name]], [y for _, y in series[name]], "--" if family else "-", label=name,
                    color=shades(at / max(1, len(names) - 1) * 0.8), marker=MARKS[at % len(MARKS)], markersize=4,
                )  # fmt: skip
        if xlabel in logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel(xlabel)
        rings = [point for name, points in series.items() for point in points if point[0] == ringed.get(name)]
        if rings:
            axes.plot(*zip(*rings, strict=True), "o", markersize=8, fillstyle="none", color="black", label=of_rings)
        axes.set_ylim(*limits)
        axes.grid(alpha=0.3)
        if series and tuple(series) not in told:
            axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
            told.add(tuple(series))
    grid[0, 0].set_ylabel(ylabel)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
