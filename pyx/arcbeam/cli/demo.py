"""``arcbeam demo``: decodes real recordings by beam search or a transducer; compares with the truth and greedy CTC."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcbeam.cli.console import Failure
from arcbeam.cli.graphs import build, describe_device
from arcbeam.cli.run import check_width, decode_all
from arcbeam.cli.score import Scorer
from arcbeam.cli.terminal import note
from arcbeam.files.log_probs import Utterance, find_inputs, read_all
from arcbeam.report.references import read_references
from arcbeam.report.score import Score

if TYPE_CHECKING:
    from rich.text import Text

    from arcbeam.ctc.decoder import CtcDecoder
    from arcbeam.graph.graph import Graph
    from arcbeam.transducer.decoder import TransducerDecoder
    from arcbeam.words import Word

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


@dataclass(frozen=True)
class Contender:
    """A decoder, the utterances that it decodes with their seconds a frame, and what may fail on a batch of them."""

    name: str
    decoder: "CtcDecoder | TransducerDecoder"
    utterances: list[Utterance]
    frame_shift: float
    check: Callable[[list[Utterance]], None] = lambda batch: None


def run(*, transducer: bool, rebuild: bool, threads: int | None, device: str) -> None:
    """Decode the demo, by beam search or with its transducer, and print the table, word error rates and speed."""
    from arcbeam import Graph

    folder = data_folder()
    references = read_references([folder / "reference.tsv"])
    log_probs = read_data(folder / "log_probs.npz")
    if transducer:
        ours = with_transducer(folder, threads=threads, device=device)
    else:
        ours = beam_search(demo_graph(folder, rebuild=rebuild), log_probs, threads=threads, device=device)
    found: dict[str, Any] = {}
    # All of it takes milliseconds, so a single run says little; the first run warms the memory up.
    speeds = [
        decode_all(
            [ours.decoder], ours.utterances, lambda u, h: found.update({u.id: h}), check=ours.check,
            batch_size=len(ours.utterances),
        )
        for _ in range(1 + RUNS)
    ]  # fmt: skip
    speed = sorted(speeds[1:], key=lambda speed: speed.seconds)[RUNS // 2]
    scorer = Scorer(references, keep_alignments=True)
    scorer.compare_with_greedy(Graph.greedy(folder / "tokens.txt"))
    hypotheses = [found[utterance.id] for utterance in log_probs]
    scorer.add({u.id: h.text for u, h in zip(log_probs, hypotheses, strict=True)})
    scorer.add_greedy(log_probs)
    _print_table([(u.id, h.words) for u, h in zip(log_probs, hypotheses, strict=True)], scorer.score)
    print(f"\n{ours.name:<12} {scorer.score}")
    print(f"greedy CTC   {scorer.greedy_score}")
    print(f"{speed.describe(ours.frame_shift, describe_device(ours.decoder))} (median of {RUNS} runs)")


def read_data(path: Path) -> list[Utterance]:
    """Return the utterances of a file of the demo."""
    return list(read_all(find_inputs([str(path)])))


def beam_search(graph: "Graph", log_probs: list[Utterance], *, threads: int | None, device: str) -> Contender:
    """Return beam search of log-probs with a language model."""
    from arcbeam import CtcDecoder

    decoder = CtcDecoder(graph, acoustic_scale=ACOUSTIC_SCALE, frame_shift=FRAME_SHIFT, threads=threads, device=device)
    return Contender("beam search", decoder, log_probs, FRAME_SHIFT, partial(check_width, graph))


def with_transducer(folder: Path, *, threads: int | None, device: str) -> Contender:
    """Return the demo's transducer, which decodes the output of its encoder."""
    from arcbeam import TransducerDecoder

    decoder = TransducerDecoder.from_arrays(folder / "transducer.npz", threads=threads, device=device)
    shift = decoder.options.frame_shift
    if shift is None:
        raise Failure("the transducer of the demo has no frame_shift")
    return Contender("transducer", decoder, read_data(folder / "encoder_output.npz"), shift)


def demo_graph(folder: Path, *, rebuild: bool) -> "Graph":
    """Return the demo's graph, from the cache if it is there."""
    from arcbeam.recipe import cache

    lm, tokens = only(folder, "*.arpa*"), folder / "tokens.txt"

    def build_it() -> "Graph":
        note("building the graph of the demo (once)")
        return build(tokens=tokens, lm=lm, lm_words=True, separator=SEPARATOR)

    return cache.kept(
        "demo", cache.key([lm, tokens], SEPARATOR), build_it, lambda line: note(f"note: {line}"),
        rebuild=rebuild, newest_only=True,
    )  # fmt: skip


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of `folder` that fits `pattern`."""
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise Failure(f"{folder}: expected one file {pattern}, got {len(files)}")
    return files[0]


def _print_table(said: list[tuple[str, list["Word"]]], score: Score) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Errors are in capitals", title_justify="left", show_lines=True)
    for heading in ("id", "seconds", "transcript", "reference"):
        table.add_column(heading, no_wrap=heading in ("id", "seconds"))
    for (name, words), alignment in zip(said, score.alignments, strict=True):
        table.add_row(name, spoken_between(words), *mark_errors(*alignment))
    Console(soft_wrap=False).print(table)


def spoken_between(words: list["Word"]) -> str:
    """Return when the first word begins and the last one ends; nothing for no words."""
    return f"{words[0].start:.2f}-{words[-1].end:.2f}" if words else ""


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
