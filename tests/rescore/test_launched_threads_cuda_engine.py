"""Every search kernel in blocks of as many threads as the engine launches: the CPU engine's bytes.

Other tests of the engine take blocks of 64 threads, for the emulator's time's sake.
"""

import numpy as np
import pytest

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs
from tests.decode.emulated_gpu import SHAPES, SOURCES
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.small_search import ROOMY
from tests.decode.test_streams_emulated import on_both
from tests.rescore.placed import PLACES, kenlm
from tests.rescore.searches import CLOSED_OVER, LARGE, OPEN_OVER, SMALL, known_words, new_words

BATCH = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((7, 3))]
LAUNCHES = {"wide": search_plan.WIDE, "dense": search_plan.DENSE, "cluster": search_plan.RESCORING_CLUSTER}
KNOWN, NEW = known_words(len(BATCH)), new_words(OPEN_OVER, len(BATCH))
# Of a search without lattices: where the large model is, and the boosts.
TAKES = {
    "search": (None, None),
    "rescore": ("resident", None),
    "host_lookup": ("kenlm", None),
    "host_arcs": ("arcs requested", None),
    "bucketed": ("bucketed", None),
    "boosted": (None, KNOWN),
    "boosted_rescore": ("resident", KNOWN),
    "boosted_host": ("arcs requested", NEW),
    "new_words": (None, NEW),
    "new_words_rescore": ("resident", NEW),
}
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize(("name", "kernel"), [(name, kernel) for name in SOURCES for kernel in SHAPES[name]])
def test_equal_bytes(emulated_gpu, name, kernel):
    emulated_gpu.begin_with(ROOMY)
    emulated_gpu.launch_as(LAUNCHES[kernel])
    emulated_gpu.threads, emulated_gpu.schedule = None, {}
    place, boost = TAKES[name.removesuffix("_lattice").removesuffix("_stream")]
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
