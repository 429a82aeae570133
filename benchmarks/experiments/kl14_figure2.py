"""KL14 Figure 2: word error rate against the real-time factor: standard search, and rescoring over two graphs.

Standard search goes over the graph of the small 3-gram with that model alone; the others rescore with the large model,
over the graph of the bigram that the 3-gram contains with n = 5 hypotheses a state, and over that of the 3-gram with n
= 3, at the same beams. RTF is seconds of decoding over seconds of audio, of processor time for one core, the whole set
at a time. Answers are the CPU engine's, byte for byte, before anything is timed. On a GPU the large model is looked up
on the CPU's cores, as in the paper (KenLM, `cpu`), and on the GPU (`resident`).
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from benchmarks.tasks.lm_task import Contender

ORDER, PAPER, ON_GPU = 4, "KL14", None
KERNELS = ("search", "rescore", "host_lookup", "host_arcs")
TITLE = "Figure 2: WER against RTF, standard search and rescoring"
BEAMS = (6.0, 8.0, 10.0, 12.0, 14.0, 17.0)
RESCORED = (("bigram", 5), ("small", 3))
GRAPHS = {"bigram": "bigram", "small": "3-gram"}
TAKES = lm_task.TAKES
COLUMNS = lm_task.curve_columns(Column("times as fast as standard search on one core", "ratio", "{:,.2f}"))


def contenders(context: Context) -> list[Contender]:
    found = [Contender("CPU, standard search, 3-gram", placement="none")]
    found += [
        Contender(f"CPU, rescoring, {GRAPHS[graph]}, n = {n}", graph=graph, hypotheses=n) for graph, n in RESCORED
    ]
    if context.gpu:
        found.append(Contender("GPU, standard search, 3-gram", "cuda", "none"))
        found += [
            Contender(f"GPU, {place}, {GRAPHS[graph]}, n = {n}", "cuda", place, graph, n)
            for graph, n in RESCORED
            for place in ("resident", "cpu")
        ]
    return found


def run(context: Context) -> Iterator[Row]:
    task = lm_task.load(context, tuple(GRAPHS))
    yield from lm_task.several(context, task, lm_task.sets(context), BEAMS, lambda name: contenders(context))


def draw(rows: list[Row], path: Path) -> None:
    lm_task.draw_curves(rows, path, "beams 6 to 17")
