"""The frames by which the stages of the search that rescores are timed, and what the twin makes of them.

``synthetic`` is the last frame of `benchmarks.engine.stage_timing`, with the random models of its lookup. The others
are of speech: in each the frame of one utterance that has the most hypotheses. ``demo`` has letters and the novels'
3-gram over the graph of a pruned one; ``spm512-3gram`` pieces and the 3-gram of the books, where the larger data is.
"""

import tempfile
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from benchmarks.data import datasets, graphs
from benchmarks.data.datasets import DataMissing
from benchmarks.engine import rescoring_models, stage_timing
from benchmarks.engine.rescoring_stage_kernel import Made, RescoringFrame, RescoringTwin
from benchmarks.harness import seeds
from benchmarks.stages import lookup

DEMO = datasets.ROOT / "data" / "demo"
UTTERANCE = 1  # of each set of speech
HYPOTHESES = 3  # of a state


@cache
def demo() -> tuple["arcbeam.Graph", dict[str, "arcbeam.LanguageModel"], list[npt.NDArray[np.float32]]]:
    """Graph, both models as options of a decoder, and log-probs of the demo's utterances.

    Raises
    ------
    DataMissing
        kaldifst is not installed, which builds the graph.
    """
    from data import arpa_prune

    try:
        from arcbeam.recipe.lexicon import Lexicon, words_of_arpa
    except ImportError as error:
        raise DataMissing(f"the demo's graph needs arcbeam[build]: {error}") from None
    tokens, large = arcbeam.TokenTable.read(DEMO / "tokens.txt"), DEMO / "novels.3gram.arpa.xz"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pruned = Path(folder, "small.arpa")
        arpa_prune.prune_file(large, pruned, 1e-5)
        graph = arcbeam.Graph.build(tokens, Lexicon.spell(words_of_arpa(pruned), tokens), pruned)
        models = {
            "language_model": arcbeam.LanguageModel.build(large, progress=False),
            "graph_language_model": arcbeam.LanguageModel.build(pruned, progress=False),
        }
    with np.load(DEMO / "log_probs.npz") as data:
        batch = np.split(data["log_probs"].astype(np.float32), np.cumsum(data["lengths"])[:-1])
    return graph, models, batch


def _hottest(twin: RescoringTwin, rows: Iterable[npt.NDArray[np.float32]]) -> tuple[RescoringFrame, Made]:
    best: tuple[RescoringFrame, Made] | None = None
    for row in rows:
        frame = twin.frame(np.ascontiguousarray(row, np.float32))
        made = twin.make(frame)
        if made is not None and (best is None or len(made.frontier) > len(best[1].frontier)):
            best = frame, made
    assert best is not None
    return best


@seeds.kept
def frame_and_answer(name: str, beam: float, max_active: int) -> tuple[RescoringFrame, Made]:
    """A frame, and what the twin makes of it.

    Raises
    ------
    DataMissing
        What it is made from is not there.
    """
    options = {"beam": beam, "max_active": max_active, "hypotheses_per_state": HYPOTHESES}
    if name == "synthetic":
        given = stage_timing.frame()
        twin = RescoringTwin(given.graph, lookup.rescoring(), blank=given.log_probs.shape[1] - 1, **options)
        for row in given.log_probs[:-1]:
            twin.make(twin.frame(row))
        return _hottest(twin, given.log_probs[-1:])
    if name == "demo":
        graph, models, batch = demo()
        rows, options["acoustic_scale"] = batch[UTTERANCE], 1.5
    else:
        files = graphs.files(name)
        if not files.arcbeam.exists():
            raise DataMissing(f"{files.arcbeam} is not there: make gpu-graphs builds it")
        graph, models = files.graph, rescoring_models.load(name)
        rows = datasets.load("workload-512", UTTERANCE + 1).utterances[UTTERANCE].astype(np.float32)
    rescoring = Rescoring(graph, models["language_model"], models["graph_language_model"], DecoderOptions())
    return _hottest(RescoringTwin(graph, rescoring, blank=graph.blank, **options), rows)
