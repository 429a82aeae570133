"""The commands of ``arcbeam``: arguments in, calls to the layers below, results out."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from arcbeam.cli import options as opt
from arcbeam.cli.build import build_graph, build_lm
from arcbeam.cli.console import guarded
from arcbeam.cli.decode import align, decode, greedy
from arcbeam.cli.parameters import Command, takes_groups
from arcbeam.cli.report import report
from arcbeam.cli.stream import stream
from arcbeam.cli.transcribe.command import transcribe
from arcbeam.cli.transduce import transduce
from arcbeam.cli.tune import tune

app = typer.Typer(
    name="arcbeam",
    help="Decode the output of speech recognition models into words.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
command = partial(app.command, cls=Command)


def _version(wanted: bool) -> None:
    if wanted:
        from arcbeam.cli.console import version

        print(f"arcbeam {version()}")
        raise typer.Exit


@app.callback()
def arcbeam(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Decode the output of speech recognition models into words."""


command(
    "build-graph",
    epilog="Example: arcbeam build-graph --tokens tokens.txt --word-list vocabulary.txt --lm 3gram.arpa.gz "
    "-o TLG.arcbeam",
)(build_graph)
command(epilog="Example: arcbeam decode TLG.arcbeam log_probs.npz --frame-shift 0.02 --reference reference.tsv")(decode)
command(epilog="Example: arcbeam greedy log_probs.npz --tokens tokens.txt --reference reference.tsv")(greedy)
command(epilog="Example: arcbeam align TLG.arcbeam log_probs.npz reference.tsv --frame-shift 0.02 -o words.ctm")(align)
command(
    epilog="Examples: arcbeam stream TLG.arcbeam log_probs.npz --frame-shift 0.02 --real-time; "
    "model | arcbeam stream TLG.arcbeam - --frame-shift 0.02"
)(stream)
command(
    epilog="Examples: arcbeam transduce parakeet.nemo encoder_output.npz -f json; "
    "encoder | arcbeam transduce parakeet.nemo - --chunk-frames 5"
)(transduce)
command(
    epilog="Examples: arcbeam transcribe parakeet-ctc-0.6b-onnx talk.mp3 --lm 3gram.arpa.gz -o talk.srt; "
    "arcbeam transcribe parakeet-ctc-0.6b-onnx recordings/ -f vtt -o subtitles/"
)(transcribe)
command(epilog="Example: arcbeam tune TLG.arcbeam log_probs.npz --reference reference.tsv --frame-shift 0.02")(tune)
command(epilog="Example: arcbeam report hypotheses.jsonl --reference reference.tsv --audio recordings -o report.html")(
    report
)
command("build-lm", epilog="Example: arcbeam build-lm 4gram.arpa.xz -o 4gram.lm")(build_lm)


@command(epilog="Example: arcbeam info 4gram.lm --json")
@guarded
@takes_groups
def info(
    *,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Graph or language model of arcbeam, or an OpenFst vector or const file."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    tables: opt.Tables,
    debug: opt.Debug = False,
) -> None:
    """Show the size and shape of a graph or of a language model."""
    from arcbeam.cli.graphs import info_fields, info_of

    described = info_of(file, **vars(tables))
    print(json.dumps(info_fields(described), ensure_ascii=False) if as_json else described)


@command()
@guarded
def demo(
    transducer: Annotated[
        bool, typer.Option("--transducer", help="Decode with a small TDT transducer instead of beam search.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the graph again even if it is in the cache.")
    ] = False,
    threads: opt.Threads = None,
    device: opt.Device = opt.DEFAULT.device,
    debug: opt.Debug = False,
) -> None:
    """Decode thirteen real recordings and compare with greedy decoding of CTC."""
    if transducer and rebuild:
        raise typer.BadParameter("leave it out: a transducer has no graph", param_hint="'--rebuild'")
    from arcbeam.cli.demo import run

    run(transducer=transducer, rebuild=rebuild, threads=threads, device=device)


@command(epilog="Example: arcbeam bench gk23_table3 --repeats 3")
@guarded
def bench(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="NAME...", show_default=False,
        help="Experiments to run, or 'all'; without names the experiments are listed.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    repeats: Annotated[int, typer.Option(
        "--repeats", metavar="N", min=1, help="Timed runs of each contender; the contenders take turns.")] = 5,
    utterances: Annotated[int | None, typer.Option(
        "--utterances", metavar="N", min=1, show_default=False,
        help="Use only the first N of each set: a trial run, which is not kept among the results.")] = None,
    set_: Annotated[list[str] | None, typer.Option(
        "--set", metavar="KEY=VALUE", show_default=False,
        help="An option of the experiment; its source in the checkout's benchmarks/experiments lists them.")] = None,
    machine: Annotated[str, typer.Option(
        "--machine", metavar="cpu|gpu|NAME", help="Folder of the results; gpu stands for the name of the GPU found.")
    ] = "cpu",
    resume: Annotated[bool, typer.Option(
        "--resume", help="Skip experiments for which this commit already has results.")] = False,
    allow_missing: Annotated[bool, typer.Option(
        "--allow-missing", help="Store a result that lacks a peer which the stored one has.")] = False,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", metavar="FOLDER", show_default="benchmarks/results/MACHINE", help="Where the results go."),
    ] = None,
    checkout: Annotated[Path | None, typer.Option(
        "--checkout", metavar="FOLDER", show_default="the one that this folder is in",
        help="A checkout of arcbeam, which contains the benchmarks.")] = None,
    debug: opt.Debug = False,
) -> None:  # fmt: skip
    """Run benchmarks of a checkout and write their results."""
    from arcbeam.cli.bench import run

    arguments = list(names or [])
    arguments += ["--list"] if list_ else []
    arguments += ["--repeats", str(repeats)] if repeats != 5 else []
    arguments += ["--utterances", str(utterances)] if utterances is not None else []
    for item in set_ or []:
        if "=" not in item:
            raise typer.BadParameter(f"expected KEY=VALUE, got {item!r}", param_hint="'--set'")
        arguments += ["--set", item]
    arguments += ["--machine", machine] if machine != "cpu" else []
    arguments += ["--resume"] if resume else []
    arguments += ["--allow-missing"] if allow_missing else []
    arguments += ["--output", str(output)] if output is not None else []
    code = run(arguments, checkout)
    if code:
        raise typer.Exit(code)
