"""A small graph and batch for tests of the engine on a GPU, and what the CPU makes of them."""

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode.random_graphs import random_graph, random_log_probs

GRAPH = random_graph(4, states=120, columns=12)
BATCH = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
OPTIONS = {"beam": 5.0, "max_active": 40}
AS_SHIPPED = search_plan.first_room(40)
ROOMY = search_plan.Room(spill_states=512, log_entries=4096, shared_states=128)


def on_cpu(batch=None, lengths=None, graph=GRAPH, **options):
    return CtcDecoder(graph, device="cpu", threads=1, **(options or OPTIONS)).decode(
        BATCH if batch is None else batch, lengths
    )
