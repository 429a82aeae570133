"""``arcbeam demo``: decodes real recordings with a language model, and compares with the truth and greedy decoding."""

from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcbeam.cli import cache
from arcbeam.cli.console import Failure, note
from arcbeam.cli.graphs import build, describe_device, version
from arcbeam.cli.references import read_references
from arcbeam.cli.run import Scorer, check_width, decode_all
from arcbeam.cli.score import Score
from arcbeam.core.errors import FormatError
from arcbeam.files.log_probs import Utterance, find_inputs, read_all

if TYPE_CHECKING:
    from rich.text import Text

    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.graph.graph import Graph

FRAME_SHIFT = 0.02
#: Set on other speech (200 sentences of LJSpeech, this graph): WER 5.9 % at 1.0, 5.7 % at 1.5, 5.6 % at 2.0.
ACOUSTIC_SCALE = 1.5
SEPARATOR = "auto"
RUNS = 9
GAP = "***"


def data_folder() -> Path:
    """Return the folder of the demo's files: in the installed package, or in the source that this module is part of."""
    package = Path(str(resources.files("arcbeam")))
    for folder in (package / "demo_data", package.parent.parent / "data" / "demo"):
        if (folder / "log_probs.npz").is_file():
            return folder
    raise Failure("the recordings of the demo are not in this installation; run it from the source: make demo")


def run(*, rebuild: bool, threads: int | None, device: str) -> None:
    """Decode the demo and print the table, word error rates and speed."""
    from arcbeam import CtcDecoder

    folder = data_folder()
    references = read_references([folder / "reference.tsv"])
    utterances = list(read_all(find_inputs([str(folder / "log_probs.npz")])))
    graph = demo_graph(folder, rebuild=rebuild)
    decoder = CtcDecoder(graph, acoustic_scale=ACOUSTIC_SCALE, frame_shift=FRAME_SHIFT, threads=threads, device=device)
    found: dict[str, Hypothesis] = {}
    # All of it takes milliseconds, so a single run says little; the first run warms the memory up.
    speeds = [
        decode_all(
            decoder, utterances, lambda u, h: found.update({u.id: h}), check=partial(check_width, graph),
            batch_size=len(utterances),
        )
        for _ in range(1 + RUNS)
    ]  # fmt: skip
    speed = sorted(speeds[1:], key=lambda speed: speed.seconds)[RUNS // 2]
    scorer = Scorer(references, keep_alignments=True)
    scorer.compare_with_greedy(graph)
    scorer.add(utterances, [found[utterance.id] for utterance in utterances])
    _print_table(utterances, scorer.score)
    print(f"\nbeam search  {scorer.score}")
    print(f"greedy       {scorer.greedy_score}")
    print(f"{speed.describe(FRAME_SHIFT, describe_device(decoder))} (median of {RUNS} runs)")


def demo_graph(folder: Path, *, rebuild: bool) -> "Graph":
    """Return the demo's graph, from the cache if it is there."""
    from arcbeam import Graph

    lm = only(folder, "*.arpa*")
    tokens = folder / "tokens.txt"
    recipe = sorted(Path(str(resources.files("arcbeam"))).glob("recipe/*.py"))
    path = cache.folder() / f"demo-{cache.key([lm, tokens, *recipe], f'{version()} {SEPARATOR}')}.arcbeam"
    if not rebuild and path.exists():
        try:
            return Graph.load(path)
        except (FormatError, OSError, ValueError) as error:
            note(f"note: the cached graph cannot be used and is built again ({error})")
    note("building the graph of the demo (once)")
    graph = build(tokens=tokens, lm=lm, lm_words=True, separator=SEPARATOR)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        graph.save(path)
        for outdated in path.parent.glob("demo-*.arcbeam"):
            if outdated != path:
                outdated.unlink(missing_ok=True)
    except OSError as error:
        note(f"note: the graph is not kept: {error}")
    return graph


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of `folder` that fits `pattern`."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise Failure(f"{folder}: expected one file {pattern}, got {len(files)}")
    return files[0]


def _print_table(utterances: list[Utterance], score: Score) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Errors are in capitals", title_justify="left", show_lines=True)
    for heading in ("id", "transcript", "reference"):
        table.add_column(heading, no_wrap=heading == "id")
    for utterance, alignment in zip(utterances, score.alignments, strict=True):
        transcript, reference = mark_errors(*alignment)
        table.add_row(utterance.id, transcript, reference)
    Console(soft_wrap=False).print(table)


def mark_errors(reference: list[str], transcript: list[str], alignment: list[Any]) -> tuple["Text", "Text"]:
    """Return transcript and reference with errors in capitals, and a gap where the other one has an extra word."""
    from rich.text import Text

    reference_text, transcript_text = Text(), Text()
    for chunk in alignment:
        left = transcript[chunk.hyp_start_idx : chunk.hyp_end_idx]
        right = reference[chunk.ref_start_idx : chunk.ref_end_idx]
        if chunk.type == "equal":
            transcript_text.append(" ".join(left) + " ")
            reference_text.append(" ".join(right) + " ")
        else:
            transcript_text.append(" ".join(w.upper() for w in left) or GAP, style="bold red").append(" ")
            reference_text.append(" ".join(w.upper() for w in right) or GAP, style="bold green").append(" ")
    transcript_text.rstrip()
    reference_text.rstrip()
    return transcript_text, reference_text
