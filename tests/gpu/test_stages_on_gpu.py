"""Every stage of the search on a GPU alone: one block, frame after frame, makes what the CPU twin's stage makes."""

import numpy as np
import pytest

from arcbeam import Graph, SymbolTable
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from benchmarks.engine.placements import BUCKETED
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.demo_models import demo_speech
from tests.stages import rescoring_stage_kernel, stage_kernel
from tests.stages.gpu_machine import Gpu
from tests.stages.rescoring_stage_kernel import Lookup, RescoringStageKernel, RescoringTwin
from tests.stages.stage_kernel import ROOMS, Layout, StageKernel, Twin

WORDS = [f"w{i}" for i in range(1, 50)]
LOOKUPS = [
    Lookup(), Lookup(cache=16), Lookup("host-direct", cache=16, cold=True), Lookup("host-direct"), Lookup(BUCKETED),
    Lookup(BUCKETED, cache=16), Lookup(cache=16, apart=False), Lookup(BUCKETED, apart=False),
]  # fmt: skip
FRAMES = 12


def compiled(**what):
    try:
        return Gpu(**what)
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def machine():
    return compiled()


@pytest.fixture(scope="module")
def rescoring_machine():
    """The machine for a place of the large model."""
    known = {}

    def of(lookup):
        kernel = lookup.compiled["kernel"]
        known[kernel] = known.get(kernel) or compiled(**lookup.compiled)
        return known[kernel]

    return of


@pytest.mark.parametrize("threads", [32, 96, 512])
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("seed", range(3))
def test_plain_search(machine, seed, room, threads):
    twin = Twin(random_graph(seed, states=800), beam=8.0, max_active=200)
    for row in random_log_probs(seed, FRAMES):
        frame = twin.frame(row)
        wanted = twin.make(frame)
        made = StageKernel(machine, frame, Layout(shared=512, spilled=8192, room=room, threads=threads)).run(turns=2)
        stage_kernel.compare(frame, made, wanted)


def rescored(machine, twin, rows, layout, lookup):
    for row in rows:
        frame = twin.frame(row)
        wanted = twin.make(frame)
        kernel = RescoringStageKernel(machine, frame, layout, lookup)
        for turns in (1, 2):  # the second time with a warm cache
            rescoring_stage_kernel.compare(frame, kernel.run(turns), wanted)


@pytest.mark.parametrize("lookup", LOOKUPS, ids=repr)
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize(("room", "threads"), [("shared", 32), ("mixed", 512), ("spilled", 96)])
def test_search_that_rescores(rescoring_machine, room, threads, n, lookup):
    """The second seed has costs that tie."""
    for seed in (2, 3):
        rng = np.random.default_rng(seed)
        cost = (lambda r: float(r.gamma(4.0))) if seed == 2 else (lambda r: int(r.integers(0, 8)) / 4)
        models = [random_model(rng, WORDS, order, share=0.3, cost=cost) for order in (3, 2)]
        fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": models[1].digest}}
        graph = Graph(**random_graph(seed, states=400).fields() | fields)
        twin = RescoringTwin(
            graph, Rescoring(graph, *models, DecoderOptions()), beam=8.0, max_active=60,
            hypotheses_per_state=n,
        )  # fmt: skip
        layout = Layout(shared=832, spilled=8192, room=room, threads=threads)
        rescored(rescoring_machine(lookup), twin, random_log_probs(seed, FRAMES), layout, lookup)


@pytest.mark.parametrize("lookup", LOOKUPS, ids=repr)
def test_demo_speech(rescoring_machine, lookup):
    graph, models, batch = demo_speech()
    rescoring = Rescoring(graph, models["language_model"], models["graph_language_model"], DecoderOptions())
    twin = RescoringTwin(
        graph, rescoring, beam=14.0, max_active=1000, acoustic_scale=1.5, hypotheses_per_state=3, blank=graph.blank
    )
    rescored(rescoring_machine(lookup), twin, batch[1][:60], Layout(shared=320, spilled=4096, room="spilled"), lookup)
