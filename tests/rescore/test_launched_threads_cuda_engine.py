"""Every search kernel in blocks of as many threads as the engine launches: the CPU engine's bytes.

Other tests of the engine take blocks of 64 threads, for the emulator's time's sake.
"""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.ctc.gpu.searches import kernels
from arcbeam.ctc.gpu.searches.kernels import ARCS_REQUESTED, BUCKETED, RESIDENT, WORDS_REQUESTED, all_kernels
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import SHAPES
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import ROOMY
from tests.decode.test_streams_emulated import on_both
from tests.rescore.placed import PLACES, kenlm
from tests.rescore.searches import CLOSED_OVER, LARGE, OPEN_OVER, SMALL, known_words, new_words

BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((7, 3))]
LAUNCHES = {"wide": search_plan.WIDE, "dense": search_plan.DENSE, "cluster": search_plan.RESCORING_CLUSTER}
KNOWN, NEW = known_words(len(BATCH)), new_words(OPEN_OVER, len(BATCH))
LARGE_MODELS = {
    None: None, RESIDENT: "resident", BUCKETED: "bucketed", WORDS_REQUESTED: "kenlm", ARCS_REQUESTED: "arcs requested",
}  # fmt: skip
BOOSTS = {None: None, kernels.KNOWN: KNOWN, kernels.NEW: NEW}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def test_the_table_is_that_of_the_files():
    assert {kernel.name: set(kernel.entries) for kernel in all_kernels()} == {
        name: set(entries) for name, entries in SHAPES.items()
    }


@pytest.mark.parametrize(
    ("search", "kernel"),
    [pytest.param(one, entry, id=f"{one.name}-{entry}") for one in all_kernels() for entry in one.entries],
)
def test_equal_bytes(emulated_gpu, search, kernel):
    emulated_gpu.begin_with(ROOMY)
    emulated_gpu.launch_as(LAUNCHES[kernel])
    emulated_gpu.threads, emulated_gpu.schedule = None, {}
    name, place, boost = search.name, LARGE_MODELS[search.models[-1]], BOOSTS[search.boosts[-1]]
    graph = OPEN_OVER if boost is NEW else CLOSED_OVER
    options = {"beam": 5.0, "max_active": 40}
    if place is not None:
        large = kenlm() if place == "kenlm" else LARGE
        options |= {"language_model": large, "graph_language_model": SMALL, "unknown_words": "unk"}
    on_gpu, on_cpu = (
        CtcDecoder(graph, device=device, **(options | where))
        for device, where in (("cuda", PLACES.get(place, {})), ("cpu", {}))
    )
    if "stream" in name:
        on_both(BATCH, np.random.default_rng(1), graph=graph, requested=[{"lattice": True}], **options)
    elif "lattice" in name:
        found, wanted = ([packed(one) for one in lattices(decoder, BATCH, boost=boost)] for decoder in (on_gpu, on_cpu))
        assert found == wanted
    else:
        same(on_gpu.decode(BATCH, boost=boost), on_cpu.decode(BATCH, boost=boost))
    assert set(emulated_gpu.searches) == {name}
    assert set(emulated_gpu.launched) == {(kernel, LAUNCHES[kernel].cluster)}
    assert {threads for _, threads, _ in emulated_gpu.shapes} == {256 if kernel == "dense" else 512}
