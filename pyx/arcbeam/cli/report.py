"""The command ``arcbeam report``: one HTML page of what a decoder found, to look at and to listen to."""

from pathlib import Path
from typing import Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import check_output, guarded
from arcbeam.cli.terminal import note

PAGES = (".html", ".htm")
NEEDS = {
    "embed_audio": ("audio",), "words": ("lattices",), "acoustic_scale": ("lattices",),
    "allow_missing": ("reference",), "ignore_case": ("reference",),
}  # fmt: skip
"""Options that do nothing without another."""


@guarded
def report(
    context: typer.Context,
    *,
    hypotheses: Annotated[Path, typer.Argument(
        metavar="HYPOTHESES",
        help="JSON lines, as decode, transduce, align and transcribe write them with --format json.")],
    output: Annotated[Path, typer.Option(
        "--output", "-o", metavar="FILE", help="Where the page goes, such as report.html.")],
    reference: Annotated[list[Path] | None, typer.Option(
        "--reference", "-r", metavar="FILE", show_default=False,
        help="Reference transcripts: .tsv (id, tab, words), .trn, Kaldi text, .jsonl (text, and id or "
        "audio_filepath), .trans.txt or a folder with .trans.txt. Prints "
        "the word error rate.")] = None,
    audio: Annotated[Path | None, typer.Option(
        "--audio", metavar="FOLDER", show_default=False,
        help="The recordings, named by the utterance ids: .wav, .flac, .mp3, .ogg, .opus, .m4a. The page links to "
        "them.")] = None,
    embed_audio: Annotated[bool, typer.Option(
        "--embed-audio", help="Store the recordings in the page, which then needs no other file.")] = False,
    lattices: Annotated[str | None, typer.Option(
        "--lattices", metavar="FILE", show_default=False,
        help="Lattices to draw: the archive of decode --lattice, or an index (.scp).")] = None,
    words: Annotated[Path | None, typer.Option(
        "--words", metavar="FILE", show_default=False,
        help="The names of the words in the lattices, in lines of 'word id'; or the graph of arcbeam that decoded.",
    )] = None,
    acoustic_scale: Annotated[float, typer.Option(
        "--acoustic-scale", metavar="FACTOR", help="That of decode, for the posteriors in the lattices.")] = 1.0,
    allow_missing: opt.AllowMissing = False,
    ignore_case: opt.IgnoreCase = False,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Write an HTML page of hypotheses: word errors, confidences, n-best lists, recordings and lattices."""
    opt.check_needs(context, NEEDS)
    if output.suffix.lower() not in PAGES:
        raise typer.BadParameter(
            f"writes HTML, got {output}; type --output {output.with_suffix('.html')}", param_hint="'--output'"
        )
    check_output(output)
    from arcbeam.report.page import write_report

    score = write_report(
        output, hypotheses, reference or None, audio=audio, embed_audio=embed_audio, lattices=lattices, words=words,
        acoustic_scale=acoustic_scale, ignore_case=ignore_case, allow_missing=allow_missing,
    )  # fmt: skip
    note(f"wrote {output}: {output.stat().st_size:,} bytes")
    if score is not None:
        print(score)
