"""F19 Table 1: real-time factors, CPU and GPU, one utterance at a time and several.

A small graph, rescored on the fly by a large language model, without a limit of hypotheses a state, at beam 14; who
looks words up, and where the arcs are, is the placement. `single` decodes the first 32 utterances of a set one after
the other, `multi` the whole set in one batch; on a CPU an utterance is one core's work. Log-probs lie where the decoder
takes them; arc caches have the sizes that they have by default, which is none for `resident`. Every answer is the CPU
engine's on all cores, byte for byte, before anything is timed (`cpu` on a GPU: the CPU engine's with KenLM), so a set
has one WER. RTF is seconds of decoding over seconds of audio, of processor time for one core; ratios are to the CPU
engine on one core, within a turn. `throughput` is speech that the acoustic model has seen, for its speed alone. Speech
in letters is a search of few tokens; one of many, as the paper's, is that of `workload-512` at beam 17: SentencePiece
words, models as in `gpu_rescoring`, of which one core, and results of a CPU, get the first 32 utterances.
"""

from collections.abc import Iterator

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import Contender

ORDER, PAPER, ON_GPU = 1, "F19", None
KERNELS = ("search", "rescore", "host_lookup", "host_arcs")
TITLE = "Table 1: real-time factors"
BEAM, WIDE = 14.0, 17.0  # of the sets of speech, and of the workload
SINGLE, ONE_CORE = 32, 32  # utterances that are decoded one by one, and by one core of those of the workload
SETS = (*lm_task.SETS, "throughput")
PLACEMENTS = ("none", "resident", "host", "host-direct", "cpu")
TAKES = lm_task.TAKES | {"beam": "of the search (14, and 17 for the workload)"}
COLUMNS = [
    Column("set", "set"),
    Column("n-grams", "ngrams", "{:,}"),
    Column("beam", "beam", "{:g}"),
    Column("decoder", "contender"),
    Column("utterances", "utterances", "{:,}"),
    Column("RTF", "rtf", "{:.6f}"),
    Column("spread", "rtf_spread", "{:.6f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("over one core of the CPU engine", "ratio", "{:,.1f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("word errors", "errors"),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("look-ups a frame", "lookups", "{:.2f}"),
    Column("bytes of the model a frame", "bytes", "{:,.0f}"),
    Column("status", "status"),
]


def contenders(context: Context, name: str) -> list[Contender]:
    """The CPU engine on one core first: all others are compared with it."""
    cores = lm_task.cores(context)
    part = ONE_CORE if name == lm_task.WORKLOAD else None
    found = [
        Contender("CPU, one core", first=part),
        *([Contender(f"CPU, {cores} cores", threads=cores)] if cores > 1 else []),
        Contender("CPU, one core, no rescoring", placement="none", first=part),
        Contender("CPU, one core, KenLM", placement="cpu", first=part),
    ]
    if context.gpu:
        modes = (False,) if name == "throughput" else (True, False)
        found += [
            Contender(
                f"GPU, {'single' if single else 'multi'}, {place}", "cuda", place, single=single,
                first=SINGLE if single else None,
            )
            for single in modes
            for place in PLACEMENTS
        ]  # fmt: skip
    return found


def run(context: Context) -> Iterator[Row]:
    for names, load, beam in ((SETS, lm_task.load, BEAM), ((lm_task.WORKLOAD,), lm_task.pieces, WIDE)):
        sets = lm_task.sets(context, names)
        if names[0] == lm_task.WORKLOAD and not context.gpu:
            sets = [sets[0].first(ONE_CORE)]
        beams = [float(context.options.get("beam", beam))]
        yield from lm_task.several(context, load(context), sets, beams, lambda name: contenders(context, name))
