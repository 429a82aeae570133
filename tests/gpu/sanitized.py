"""A few frames through every launch shape, to run under compute-sanitizer: ``python tests/gpu/sanitized.py [--grow]``.

--grow begins with room for almost nothing, so that everything grows, spills and is redone. Growing copies what was
never written along, which initcheck does not like. ``--share 2of5`` takes every fifth step, from the second on, for
racecheck takes minutes for all of them. What comes next is said with the seconds since the start, so that a log that
was cut off tells where it was.
"""

import itertools
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arcbeam import CtcDecoder
from arcbeam.gpu.tuned import search_plan
from benchmarks.adapters.gpu import send
from tests.decode.equality import same
from tests.decode.lattices import lattices, packed
from tests.decode.moving import beside
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_streams import BATCH, GRAPH, boost
from tests.decode.test_streams_emulated import OPTIONS, on_both, seen

ROOM = search_plan.Room(spill_states=512, log_entries=1 << 16, links=1 << 16, shared_states=128)
TIGHT = search_plan.Room(
    spill_states=8, log_entries=64, links=8, lattice_bytes=1, path_entries=1, window_bytes=1 << 12, shared_states=8
)

BEGAN = time.monotonic()
SHARE = sys.argv[sys.argv.index("--share") + 1] if "--share" in sys.argv else "1of1"
OURS, SHARES = map(int, SHARE.split("of"))
STEPS = itertools.cycle(range(1, SHARES + 1))


def step(what: object) -> bool:
    """Whether what comes next is of this share; says so if it is."""
    if next(STEPS) != OURS:
        return False
    print(f"{time.monotonic() - BEGAN:7.1f} s  {what}", file=sys.stderr, flush=True)
    return True


def logits() -> None:
    """That lie on the GPU, in rows of any alignment; a batch of several parts where little memory is taken."""
    graph, rng = random_graph(4, states=200, columns=37), np.random.default_rng(2)
    for kind in (np.float32, np.float16):
        batch = [rng.normal(0, 4, (frames, 37)).astype(kind) for frames in (5, 0, 9, 1, 30)]
        gpu, cpu = (CtcDecoder(graph, device=on, beam=5.0) for on in ("cuda", "cpu"))
        same(gpu.decode(send(batch, kind), logits=True), cpu.decode(batch, logits=True))


def streams() -> None:
    """In chunks, plain and boosted."""
    speech = [one[:9] for one in BATCH]
    for boosts in (None, [boost(i) if i % 2 else None for i in range(len(BATCH))]):
        on_both(speech, np.random.default_rng(1), boosts, GRAPH, **OPTIONS)


def stream_lattices() -> None:
    """In chunks, of streams with lattices, in company of others; and of one that moves."""
    speech = [one[:9] for one in BATCH[:3]]
    on_both(speech, np.random.default_rng(1), None, GRAPH, requested=[{"lattice": True}, {}], **OPTIONS)
    decoders = [CtcDecoder(GRAPH, device=on, **OPTIONS) for on in ("cuda", "cpu")]
    beside(decoders, speech[:1], np.random.default_rng(1), requested=[{"lattice": True}])


def endpoints() -> None:
    """Streams that endpoints end, each chunk by a decoder that the state was moved to."""
    decoders = [CtcDecoder(SILENCE, device=on, frame_shift=OPTIONS["frame_shift"], beam=6.0) for on in ("cuda", "cpu")]
    own, other = (decoder.stream(endpoint=RULES) for decoder in decoders)
    ended = 0
    speech = SPEECH[:48]  # more than the rule of the longest sentence lets pass
    for at in range(0, len(speech), 12):
        found, wanted = (s.decode_chunk(speech[at : at + 12]) for s in (own, other))
        assert seen(found) == seen(wanted) and found.endpoint == wanted.endpoint
        if found.endpoint is not None:
            ended += 1
            own.reset()
            other.reset()
        own = decoders[0].restore(own.save())
    assert ended


def main() -> None:
    room = TIGHT if "--grow" in sys.argv else ROOM
    search_plan.STREAM_PRUNE_ABOVE = 64
    search_plan.first_room = lambda max_active: room
    graph = random_graph(4, states=200, columns=12)
    batch = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
    batch[3] = batch[3].astype(np.float16)
    shapes = (
        search_plan.WIDE,
        search_plan.DENSE,
        *(search_plan.CLUSTER._replace(cluster=blocks) for blocks in (8, 4, 2)),
    )
    for shape in shapes:
        search_plan.launch_shapes = lambda *_, shape=shape: (shape, search_plan.WIDE)
        search_plan.TEAM_TOKENS = 16  # most frames are worked on by all blocks of a cluster
        for beam, max_active in ((5.0, 40), (17.0, None)):
            if not step(f"{shape}, beam {beam}, max_active {max_active}"):
                continue
            gpu, cpu = (CtcDecoder(graph, device=on, beam=beam, max_active=max_active) for on in ("cuda", "cpu"))
            same(gpu.decode(batch), cpu.decode(batch))
            of_gpu, of_cpu = lattices(gpu, batch), lattices(cpu, batch)
            assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
        for job in (streams, stream_lattices, endpoints, logits):
            if step(f"{shape}, {job.__name__}"):
                job()
    print(
        f"decoded {len(batch)} utterances in {len(shapes)} shapes, and streams, the same as on the CPU; share {SHARE}"
    )


if __name__ == "__main__":
    main()
