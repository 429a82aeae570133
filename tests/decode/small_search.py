"""A small graph and batch for tests of the engine on a GPU, and what the CPU makes of them."""

import math
from dataclasses import replace

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from tests.decode.emulated_gpu import scheduled
from tests.decode.random_graphs import random_graph, random_log_probs

GRAPH = random_graph(4, states=120, columns=12)
BATCH = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
OPTIONS = {"beam": 5.0, "max_active": 40}
LATTICE_BEAMS = (None, 0.0, 0.5, math.inf)  # None: no lattice
AS_SHIPPED = search_plan.first_room(40)
ROOMY = search_plan.Room(spill_states=512, log_entries=4096, shared_states=128)


def on_cpu(batch=None, lengths=None, graph=GRAPH, **options):
    return CtcDecoder(graph, device="cpu", threads=1, **(options or OPTIONS)).decode(
        BATCH if batch is None else batch, lengths
    )


def check_chunks(graph, shape, boosts=(None, None, None), **options):
    """Streams with chunks of several sizes, two lanes and this shape, end as whole utterances on the CPU do."""
    long = [random_log_probs(seed, 40, 12, sharpness=4.0) for seed in range(len(boosts))]
    wanted = CtcDecoder(graph, device="cpu", **options).decode(long, boost=list(boosts) if any(boosts) else None)
    for size in (1, 7, 16):
        with scheduled(room=ROOMY, shape=replace(shape, lanes=2)):
            decoder = CtcDecoder(graph, device="cuda", **options)
            streams = [decoder.stream(boost=boost) for boost in boosts]
            for first in range(0, 40, size):
                chunks = [logp[first : first + size] for logp in long]
                found = decoder.decode_chunks(streams, chunks, last=first + size >= 40)
            assert [one.text for one in found] == [one.text for one in wanted]
            assert [one.arcs.tobytes() for one in found] == [one.arcs.tobytes() for one in wanted]
            assert [one.score for one in found] == [one.score for one in wanted]
            del decoder, streams, found
