"""The picture of throughput for the README: arcbeam and its peers, a panel for each run that holds them together."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.harness.registry import Row
from benchmarks.report.results import Result, latest

NAME = "plots/peers.svg"  # beside the page
# Of middle lightness, since the picture has no ground of its own: they are read on white and on black.
TEXT, OURS, PEER = "#757f8a", "#3b82f6", "#8b949e"
TITLE = "Speed of arcbeam and its peers"
OWN, SET = "arcbeam", "workload-512"


@dataclass(frozen=True)
class Bar:
    """A decoder: seconds of speech decoded in a second, word error rate in %, and minutes of speech that it decoded."""

    name: str
    rtfx: float
    wer: float
    minutes: float

    def __str__(self) -> str:
        return f"{self.name} {self.rtfx:,.0f} (WER {self.wer:.1f} %, {self.minutes:.0f} min of speech)"


@dataclass(frozen=True)
class Panel:
    """Bars of one run: what was decoded; by which experiment, on which GPU, when, at which commit."""

    title: str
    bars: Sequence[Bar]
    experiment: str
    gpu: str
    day_and_commit: str

    @property
    def run(self) -> str:
        return f"{self.experiment}, {self.gpu}, {self.day_and_commit}"


def _decoders(rows: Sequence[Row]) -> Iterator[Bar]:
    names = {
        "arcbeam cuda": "arcbeam, GPU",
        "riva-asrlib-decoder": "riva-asrlib-decoder, GPU",
        "arcbeam cpu, 16 cores": "arcbeam, 16 cores",
        "arcbeam cpu, 1 core": "arcbeam, 1 core",
        "pyctcdecode, 1 core": "pyctcdecode, 1 core",
        "kaldi-decoder FasterDecoder, 1 core": "kaldi-decoder, 1 core",
        "flashlight-text, 1 core": "flashlight-text, 1 core",
    }
    found: dict[object, Any] = {row["decoder"]: row for row in rows if row.get("set") == SET and row.get("rtfx")}
    for key, name in names.items():
        if row := found.get(key):
            yield Bar(name, row["rtfx"], row["wer"], row["minutes"])


def _both(row: Any, peer: str) -> Iterator[Bar]:
    yield Bar("arcbeam, GPU", row["rtfx"], row["wer"], row["minutes"])
    yield Bar(f"{peer}, GPU", row["peer_rtfx"], row["peer_wer"], row["minutes"])


def _riva(rows: Sequence[Row]) -> Iterator[Bar]:
    """At the wider beam, which is the first."""
    row = next((row for row in rows if row.get("set") == SET and row.get("peer_rtfx")), None)
    yield from _both(row, "riva-asrlib-decoder") if row else ()


def _nemo(rows: Sequence[Row]) -> Iterator[Bar]:
    """NeMo with the beam with which it is fastest."""
    measured: list[Any] = [row for row in rows if row.get("peer_rtfx")]
    yield from _both(max(measured, key=lambda row: row["peer_rtfx"]), "NeMo's beam search") if measured else ()


KINDS: Mapping[str, tuple[str, Callable[[Sequence[Row]], Iterator[Bar]]]] = {
    "gk23_table3": ("Words by a 3-gram, 512 pieces: settings of the paper, batches of 200", _decoders),
    "gpu_riva": ("The same, batches of 264, riva with the fastest of its settings", _riva),
    "gpu_nemo": ("Pieces by a 5-gram, batches of 264, NeMo with the fastest of its beams", _nemo),
}


def panels(results: list[Result]) -> list[Panel]:
    """A panel for each experiment that has measured peers on a GPU, of its latest run."""
    found = []
    for name, (title, bars_of) in KINDS.items():
        result = latest(results, name, gpu=True)
        bars = list(bars_of(result.rows)) if result else []
        if result and len(bars) > 1:
            found.append(Panel(title, bars, name, result.gpu, result.day_and_commit))
    return found


def caption(shown: Sequence[Panel]) -> str:
    """What the picture shows, for whoever cannot see it, too."""
    bars = " ".join(f"{panel.title} ({panel.run}): {'; '.join(map(str, panel.bars))}." for panel in shown)
    return (
        f"RTFx, seconds of speech that are decoded in a second, on a logarithmic scale. Each panel is one run on one "
        f"GPU and its machine, in which arcbeam and its peers take turns on the same log-probs; slow decoders get the "
        f"first minute of them. {bars}"
    )


def digest(shown: Sequence[Panel]) -> str:
    """Of what is drawn, which the picture carries: its bytes are also those of a version of matplotlib."""
    return hashlib.sha256(json.dumps([*map(asdict, shown)]).encode()).hexdigest()


def is_current(path: Path, shown: Sequence[Panel]) -> bool:
    """Whether the picture is that of these panels: by its bytes where matplotlib is that which drew it.

    With another version of matplotlib, or without it, by the digest that the picture carries.
    """
    if not path.exists():
        return False
    old = path.read_text(encoding="utf-8")
    try:
        from matplotlib import __version__
    except ModuleNotFoundError:
        __version__ = "of none"
    if f"Matplotlib v{__version__}<" in old:
        return old == svg(shown)
    return f"sha256 {digest(shown)}" in old


def svg(shown: Sequence[Panel]) -> str:
    """The picture: the same text for the same panels and the same matplotlib."""
    from matplotlib import __version__, rc_context, rcdefaults, rcParams

    made = StringIO()
    with rc_context():
        rcdefaults()
        # Letters are drawn as outlines, so that they have the same width wherever the picture is shown.
        rcParams.update({"svg.hashsalt": OWN, "svg.fonttype": "path"})
        draw(shown).savefig(
            made, format="svg", transparent=True,
            metadata={
                "Date": None, "Creator": f"Matplotlib v{__version__}", "Title": TITLE,
                "Description": f"{caption(shown)} sha256 {digest(shown)}",
            },
        )  # fmt: skip
    return "".join(line.rstrip() + "\n" for line in made.getvalue().splitlines())


def draw(shown: Sequence[Panel]) -> Any:
    """The figure of matplotlib, on no ground."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    heights = [len(panel.bars) + 0.3 for panel in shown]
    figure = Figure(figsize=(8.4, 0.8 + 0.3 * sum(heights) + 0.35 * len(shown)), layout="constrained")
    FigureCanvasSVG(figure)
    grid = figure.subplots(len(shown), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, panel in zip(grid[:, 0], shown, strict=True):
        bars = panel.bars[::-1]
        colors = [OURS if bar.name.startswith(OWN) else PEER for bar in bars]
        drawn = axes.barh([bar.name for bar in bars], [bar.rtfx for bar in bars], 0.7, color=colors)
        axes.bar_label(drawn, [f"{bar.rtfx:,.0f}   WER {bar.wer:.1f} %" for bar in bars], padding=4, color=TEXT)
        axes.set_title(f"{panel.title} ({panel.gpu})", loc="left", fontsize=10, color=TEXT)
        axes.set_xscale("log")
        axes.set_axisbelow(True)
        axes.grid(axis="x", color=TEXT, alpha=0.25)
        axes.tick_params(which="both", colors=TEXT, length=0)
        axes.spines[:].set_visible(False)
    grid[0, 0].set_xlim(1, 60 * max(bar.rtfx for panel in shown for bar in panel.bars))  # with room for the figures
    grid[-1, 0].xaxis.set_major_formatter("{x:,.0f}")
    grid[-1, 0].set_xlabel(f"{TITLE}, in times of real time (RTFx)", color=TEXT)
    return figure
