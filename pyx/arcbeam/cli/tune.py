"""The command ``arcbeam tune``: word error rate and speed of a grid of options, on a set with references."""

import csv
import itertools
import math
import operator
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, check_output, guarded
from arcbeam.cli.outputs import NAMES
from arcbeam.cli.parameters import takes_groups
from arcbeam.cli.terminal import note, progress

if TYPE_CHECKING:
    from arcbeam.cli.score import Scorer
    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.files.log_probs import Utterance
    from arcbeam.graph.graph import Graph
    from arcbeam.report.score import Score

SHOWN = 10  # rows of the table on a terminal; the CSV has all
CLOSE = 0.001  # a word error rate that is hardly worse than the best: 0.1 points
FASTER = 1.1  # times as fast as the best, from which on a place of the grid is worth a word
NO_CSV = (".xlsx", ".xls", ".ods", ".svg", ".png", ".pdf")  # how other files of tables and plots end
RUNS, TIMED = 5, 0.1  # the most runs that are timed, until they have taken these seconds


@dataclass(frozen=True)
class Point:
    """One place of the grid, and what was measured there."""

    acoustic_scale: float
    beam: float
    word_insertion_penalty: float
    score: "Score"
    speed: float  # RTFx, or frames a second where the seconds of a frame are not known

    @property
    def wer(self) -> float:
        """The word error rate as a fraction."""
        return self.score.errors / self.score.words


def numbers(option: str, text: str, least: float = -math.inf) -> list[float]:
    """Numbers with commas between; a usage error for anything else."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= value < math.inf for value in values):
        of = "numbers" if math.isinf(least) else f"numbers of at least {least:g}"
        raise typer.BadParameter(
            f"expected {of} with commas between, such as 1,1.5,2, got {text!r}", param_hint=f"'{option}'"
        )
    return sorted(set(values))


@guarded
@takes_groups
def tune(
    context: typer.Context,
    *,
    graph: opt.GraphFile,
    inputs: opt.LogProbs,
    logits: opt.Logits = False,
    reference: Annotated[list[Path], typer.Option(
        "--reference", "-r", metavar="FILE",
        help="Reference transcripts: .tsv (id, tab, words), .trn, Kaldi text, .jsonl (text, and id or "
        "audio_filepath), .trans.txt or a folder with .trans.txt.")],
    acoustic_scale: Annotated[str, typer.Option(
        "--acoustic-scale", metavar="FACTOR,...", rich_help_panel=opt.SEARCH,
        help="The factors of the log-probs to try.")] = "0.75,1,1.25,1.5,2,2.5",
    beam: Annotated[str, typer.Option(
        "--beam", metavar="NATS,...", rich_help_panel=opt.SEARCH, help="The beams to try.")] = "8,11,14,17",
    word_insertion_penalty: Annotated[str, typer.Option(
        "--word-insertion-penalty", metavar="NATS,...", rich_help_panel=opt.SEARCH,
        help="The penalties to try, in addition to that of the graph: costs of every word; above 0 means fewer "
        "words.")] = "-1,0,1",
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", metavar="FILE", show_default=False, help="Write all of the grid as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option(
        "--plot", metavar="FILE", show_default=False,
        help="Draw word error rates against speed: .svg, .png or .pdf; needs matplotlib.")] = None,
    frame_shift: opt.FrameShift = None,
    threads: opt.Threads = None,
    device: opt.Device = opt.DEFAULT.device,
    max_active: Annotated[int, typer.Option(
        "--max-active", metavar="TOKENS", min=0, rich_help_panel=opt.SEARCH,
        help="Keep at most this many paths in each frame; 0 for no limit.")] = opt.DEFAULT.max_active or 0,
    allow_missing: opt.AllowMissing = False,
    ignore_case: opt.IgnoreCase = False,
    tables: opt.Tables,
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Find the options with the fewest word errors: use a tuning set, never the test set."""
    scales, beams = numbers("--acoustic-scale", acoustic_scale, 0.01), numbers("--beam", beam, 0.0)
    penalties = numbers("--word-insertion-penalty", word_insertion_penalty)
    if output is not None and output.suffix.lower() in (*NAMES, *NO_CSV):
        raise typer.BadParameter(
            f"writes CSV, got {output}; type --output {output.with_suffix('.csv')}", param_hint="'--output'"
        )
    for file in (output, plot):
        if file is not None:
            check_output(file)
    if plot is not None:
        _check_picture(plot)
    from arcbeam.cli.graphs import describe_device, load_graph
    from arcbeam.cli.score import Scorer
    from arcbeam.files.log_probs import find_inputs, read_all
    from arcbeam.report.references import read_references

    references = read_references(reference)
    found = find_inputs(inputs, max_bytes)
    loaded = load_graph(graph, **vars(tables), max_bytes=max_bytes)
    scorer = Scorer(references, allow_missing, ignore_case)
    names: list[str] = []
    utterances: list[Utterance] = []
    for utterance in read_all(found):
        names.append(utterance.id)
        if utterance.id in references:
            utterances.append(utterance)
    scorer.expect(names)
    for remark in scorer.left_out():
        note(f"note: {remark}")
    note(f"tuning on {len(utterances):,} utterances of {len(references):,} references")
    scorer.compare_with_greedy(loaded)
    options = {"max_active": max_active or None, "threads": threads, "device": device, "frame_shift": frame_shift}
    if loaded.open_slot is not None and not opt.is_given(context, "word_insertion_penalty"):
        penalties = [0.0]
        note("note: --word-insertion-penalty 0, because the graph has an open slot")
    grid = list(itertools.product(penalties, scales, beams))
    points: list[Point] = []
    with progress("tuning", lambda: len(grid), lambda: len(points), "combinations"):
        for point, decoder in _measured(loaded, utterances, scorer, grid, logits, options):
            points.append(point)
            device = describe_device(decoder)
    scorer.add_greedy(utterances)
    points.sort(key=lambda point: (point.wer, abs(point.word_insertion_penalty), -point.speed))
    scorer.score = points[0].score
    for remark in scorer.remarks():
        note(f"note: {remark}")
    unit = "frames a second" if frame_shift is None else "RTFx"
    _print(points, unit, device, scorer)
    _advise(points, [graph, *inputs, *["--logits"][:logits]], loaded, unit)
    if output is not None:
        _write(points, output, unit)
        note(f"wrote {output}: {len(points):,} combinations")
    if plot is not None:
        _draw(points, plot, unit)
        note(f"wrote {plot}")


def _measured(
    graph: "Graph", utterances: "list[Utterance]", scorer: "Scorer", grid: list[tuple[float, float, float]],
    logits: bool, options: dict[str, Any],
) -> "Iterator[tuple[Point, CtcDecoder]]":  # fmt: skip
    """Each place of the grid with a decoder of it; the first decode warms the memory up and is not timed."""
    from arcbeam import CtcDecoder
    from arcbeam.cli.run import check_width, decode_batch
    from arcbeam.report.score import Score

    check_width(graph, utterances)
    frames = sum(len(utterance.log_probs) for utterance in utterances)
    seconds = options["frame_shift"] or 1.0
    for penalty, places in itertools.groupby(grid, operator.itemgetter(0)):
        penalised = graph if not penalty else with_penalty(graph, penalty)
        for _, scale, beam in places:
            decoder = CtcDecoder(penalised, acoustic_scale=scale, beam=beam, **options)
            decode = partial(decode_batch, [decoder], utterances, logits=logits)
            found, took = decode(), _seconds(decode)
            scorer.score = Score(ignore_case=scorer.ignore_case, keep_counts=True)
            scorer.add({u.id: hypothesis.text for u, hypothesis in zip(utterances, found, strict=True)})
            if not scorer.score.words:
                raise Failure("the references have no words")
            yield Point(scale, beam, penalty, scorer.score, frames * seconds / max(took, 1e-9)), decoder


def _seconds(decode: Callable[[], Any]) -> float:
    """The seconds of the fastest of some runs: one says little of a small set, and is enough for a large one."""
    runs: list[float] = []
    while sum(runs) < TIMED and len(runs) < RUNS:
        began = time.perf_counter()
        decode()
        runs.append(time.perf_counter() - began)
    return min(runs)


def with_penalty(graph: "Graph", penalty: float) -> "Graph":
    """The graph with this cost, in nats, added to every arc that writes a word."""
    import numpy as np

    from arcbeam import Graph

    if graph.open_slot is not None:
        raise Failure("--word-insertion-penalty: expected a graph without an open slot; give 0")
    fields = graph.fields()
    columns = fields["columns"]
    sources = np.repeat(np.arange(graph.num_states), np.diff(columns["states"]["first_arc"].astype(np.int64)))
    inputs = np.where(columns["columns"] == 0xFFFF, 0, columns["columns"].astype(np.int64) + 1)
    costs = graph.weights + np.float32(penalty) * (columns["words"] != 0)
    arcs = (sources, columns["targets"]["next_state"], inputs, columns["words"], costs.astype(np.float32))
    kept = ("start", "num_columns", "tokens", "word_symbols", "blank", "pronunciations", "join", "separator", "meta")
    given = {name: fields[name] for name in (*kept, "separator_column")}
    return Graph.from_arcs(arcs, finals=graph.finals, num_states=graph.num_states, **given)


def _print(points: list[Point], unit: str, device: str, scorer: "Scorer") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"The best {min(SHOWN, len(points))} of {len(points)}, on {device}", title_justify="left")
    for heading in ("acoustic scale", "beam", "word insertion", "WER, %", "sub.", "ins.", "del.", unit):
        table.add_column(heading, justify="right")
    for point in points[:SHOWN]:
        table.add_row(
            f"{point.acoustic_scale:g}", f"{point.beam:g}", f"{point.word_insertion_penalty:g}",
            f"{100 * point.wer:.2f}", f"{point.score.substitutions:,}", f"{point.score.insertions:,}",
            f"{point.score.deletions:,}", f"{point.speed:,.0f}",
        )  # fmt: skip
    Console(soft_wrap=False).print(table)
    if scorer.greedy_score.words:
        print(f"greedy decoding: {scorer.greedy_score}")


def _advise(points: list[Point], given: list[str], loaded: "Graph", unit: str) -> None:
    """Prints the command lines of the best place, and of the fastest that is hardly worse, and how sure that is."""
    from arcbeam.report.score import difference

    best = points[0]
    fastest = max((point for point in points if point.wer <= best.wer + CLOSE), key=lambda point: point.speed)
    chosen = [("the fewest errors", best)]
    if fastest.speed >= FASTER * best.speed:
        low, high = difference(best.score.by_utterance, fastest.score.by_utterance)
        worse = f"{100 * (fastest.wer - best.wer):.2f} points worse on these {best.score.utterances:,} utterances"
        if high > CLOSE:
            worse += f" (on as many others like them {_points(low)} to {_points(high)}, in 95 of 100 cases)"
        chosen.append((f"{fastest.speed / best.speed:.1f} times as fast, {worse}", fastest))
    for what, point in chosen:
        print(f"\n{what}: WER {100 * point.wer:.2f} %, {point.speed:,.0f} {unit}")
        scale, beam = f"--acoustic-scale {point.acoustic_scale:g}", f"--beam {point.beam:g}"
        print(f"  arcbeam decode {shlex.join(given)} {scale} {beam}")
        if point.word_insertion_penalty:
            built = float(loaded.meta.get("word_insertion_penalty", 0.0))
            penalty = built + point.word_insertion_penalty
            print(f"  with a graph built with: arcbeam build-graph ... --word-insertion-penalty {penalty:g}")


def _points(difference: float) -> str:
    """A difference of word error rates in points, and its direction."""
    return f"{abs(100 * difference):.2f} {'worse' if difference >= 0 else 'better'}"


def _write(points: list[Point], path: Path, unit: str) -> None:
    """Writes a line for each place of the grid, the best first."""
    from arcbeam.files.writing import replacing_text

    with replacing_text(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow((
            "acoustic_scale", "beam", "word_insertion_penalty", "wer", "substitutions", "insertions", "deletions",
            unit.lower().replace(" ", "_"),
        ))  # fmt: skip
        rows.writerows(
            (
                point.acoustic_scale, point.beam, point.word_insertion_penalty, point.wer, point.score.substitutions,
                point.score.insertions, point.score.deletions, point.speed,
            )
            for point in points
        )  # fmt: skip


def _check_picture(path: Path) -> None:
    """Fails on a name that says no kind of picture, before any work is done for it."""
    from arcbeam.core.packages import require

    kinds = require("matplotlib.backend_bases", "a plot", "matplotlib").FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in kinds:
        raise typer.BadParameter(
            f"expected a name such as wer.svg, wer.png or wer.pdf, got {path}", param_hint="'--plot'"
        )


def _draw(points: list[Point], path: Path, unit: str) -> None:
    """Draws a line over the beams for each scale and penalty, of the six that come lowest."""
    from arcbeam.core.packages import require

    figure = require("matplotlib.figure", "a plot", "matplotlib")
    picture = figure.Figure(figsize=(7, 5), layout="constrained")
    axes = picture.add_subplot()
    lines: dict[tuple[float, float], list[Point]] = {}
    for point in points:  # the best first
        lines.setdefault((point.acoustic_scale, point.word_insertion_penalty), []).append(point)
    for (scale, penalty), line in list(lines.items())[:6]:
        line.sort(key=lambda point: point.beam)
        label = f"acoustic scale {scale:g}" + (f", word insertion {penalty:g}" if penalty else "")
        axes.plot([point.speed for point in line], [100 * point.wer for point in line], marker="o", label=label)
        for point in line:
            axes.annotate(f"{point.beam:g}", (point.speed, 100 * point.wer), xytext=(3, 3), textcoords="offset points")
    axes.set(xscale="log", xlabel=unit, ylabel="word error rate, %", title="A number at a point is its beam")
    axes.legend()
    picture.savefig(path)
