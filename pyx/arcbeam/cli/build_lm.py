"""The command ``arcbeam build-lm``: a language model for rescoring, from its ARPA file."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.console import Failure, check_output, guarded, note


@guarded
def build_lm(
    arpa: Annotated[
        Path, typer.Argument(metavar="ARPA", help="N-gram LM of any order in ARPA format: plain, .gz, .xz or .bz2.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the model is written.")],
    max_bytes: opt.MaxBytes = None,
    debug: opt.Debug = False,
) -> None:
    """Build a language model for rescoring from its ARPA file."""
    check_output(output)
    if output.exists() and arpa.exists() and output.samefile(arpa):
        raise Failure(f"{output}: the model would replace its ARPA; give --output another name")
    from arcbeam import LanguageModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the steps reported on stderr include these notes
        model = LanguageModel.build(arpa, max_bytes=max_bytes)
    model.save(output)
    info = model.info()
    note(
        f"wrote {output}: {model.order}-gram, {info.words} words, {info.states} states, {info.arcs} arcs, "
        f"{output.stat().st_size / 1e6:.1f} MB"
    )
