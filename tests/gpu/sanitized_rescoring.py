"""A few frames rescored, to run under compute-sanitizer: ``python tests/gpu/sanitized_rescoring.py [--grow]``.

As ``sanitized.py``: every shape and placement, with and without a limit of hypotheses a state, and with caches that few
answers fit, so that they are overwritten while others read; but each placement in a shape or two, for a decode takes
racecheck ten seconds and more. KenLM's placement needs the package kenlm.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arcbeam import Boost, CtcDecoder, Graph, KenLM, SymbolTable
from arcbeam.gpu.tuned import search_plan
from tests.baseline.ngrams import NGrams
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.lattices import lattices, packed
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.test_streams_emulated import on_both
from tests.gpu.sanitized import ROOM, SHARE, TIGHT, step
from tests.rescore.searches import new_words, open_graph

WORDS = [f"w{i}" for i in range(1, 50)]
SHAPES = {
    "wide": search_plan.WIDE,
    "dense": search_plan.DENSE,
    "four": search_plan.RESCORING_CLUSTER,
    "two": search_plan.RESCORING_CLUSTER._replace(cluster=2),
}
# The shape; hypotheses a state; where the model lives, the cache, and the budget, which leaves no room for the index if
# it is one. Lanes that send requests to the host have no clusters.
RUNS = [
    ("wide", 3, ("resident", 0, None)),
    ("wide", None, ("host-direct", 512, None)),
    ("dense", 2, ("host-direct", 96, 96)),
    ("dense", None, ("resident", 512, None)),
    ("four", 3, ("resident", 512, None)),
    ("four", None, ("host-direct", 0, None)),
    ("two", 1, ("host-direct", 0, None)),
    ("two", 2, ("host-direct", 96, 96)),
    ("wide", 3, ("host", 0, None)),
    ("dense", None, ("host", 512, None)),
]
BOOSTED = [(3, ("resident", 512, None)), (None, ("host-direct", 96, 96)), (2, ("host", 512, None))]
BOOSTED_OF_KENLM = (3, ("cpu", 512, None))
# Of new words, without models and with them.
OPENED = [None, ("resident", 512, None), ("host-direct", 96, 96), ("host", 0, None)]
OF_KENLM = [("dense", 3, ("cpu", 0, None)), ("wide", None, ("cpu", 512, None))]
# The same for streams; the last is boosted.
STREAMED = [
    ("wide", None, ("resident", 512, None)),
    ("dense", 2, ("host-direct", 96, 96)),
    ("four", 3, ("resident", 0, None)),
    ("wide", 3, ("host", 0, None)),
    ("wide", 3, ("host-direct", 0, None)),
]
STREAMED_OF_KENLM = ("wide", 3, ("cpu", 0, None))


def kenlm() -> KenLM:
    """Of scores that are often equal, so that the words of histories are compared."""
    with tempfile.TemporaryDirectory() as folder:
        made = NGrams(WORDS[:44], 3, 5)
        made.prob = {words: round(score) if len(words) > 1 else score for words, score in made.prob.items()}
        return KenLM(made.write(Path(folder, "lm.arpa")))


def streams(given: dict[str, Any], shape: str, n: int | None, where: tuple[str, int, int | None], boosts: Any) -> None:
    """In chunks, in company of which some is boosted where any is, and some has lattices where kernels with
    lattices have the shape."""
    placement, cache, budget = where
    search_plan.launch_shapes = lambda *_: (SHAPES[shape], search_plan.WIDE)
    on_gpu = {"placement": placement, "arc_cache": cache, "gpu_budget": budget}
    options = given | {"beam": 5.0, "hypotheses_per_state": n}
    options |= {"where": on_gpu, "requested": [{"lattice": True}, {}] if shape == "wide" else [{}]}
    on_both([random_log_probs(seed, 7, 12) for seed in range(3)], np.random.default_rng(1), boosts, **options)


def main() -> None:
    room = TIGHT if "--grow" in sys.argv else ROOM
    search_plan.first_room = lambda max_active: room
    search_plan.STREAM_PRUNE_ABOVE = 64
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=share) for order, share in ((3, 0.2), (2, 0.3)))
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**random_graph(4, states=200, columns=12).fields() | fields)
    batch = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((4, 0, 6, 1))]
    models = {"language_model": large, "graph_language_model": small, "max_active": 60}
    runs = [(models, run) for run in RUNS]
    if find_spec("kenlm") is not None:
        runs += [(models | {"language_model": kenlm(), "unknown_words": "unk"}, run) for run in OF_KENLM]
    search_plan.RESCORING_TEAM_TOKENS = 16  # most frames are worked on by all blocks of a cluster
    for given, (shape, n, where) in runs:
        placement, cache, budget = where
        if not step(f"{shape}, hypotheses a state {n}, {placement}, cache {cache}, budget {budget}"):
            continue
        search_plan.launch_shapes = lambda *_, shape=shape: (SHAPES[shape], search_plan.WIDE)
        options = given | {"beam": 5.0, "hypotheses_per_state": n}
        gpu = CtcDecoder(graph, device="cuda", placement=placement, arc_cache=cache, gpu_budget=budget, **options)
        cpu = CtcDecoder(graph, device="cpu", **options)
        same(gpu.decode(batch), cpu.decode(batch))
        if shape == "wide":  # the one that kernels with lattices have, and those with boosts
            of_gpu, of_cpu = lattices(gpu, batch), lattices(cpu, batch)
            assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    boosted = [(models, run) for run in BOOSTED]
    if find_spec("kenlm") is not None:
        boosted.append((models | {"language_model": kenlm(), "unknown_words": "unk"}, BOOSTED_OF_KENLM))
    for given, (n, (placement, cache, budget)) in boosted:
        if not step(f"boosts, hypotheses a state {n}, {placement}, cache {cache}, budget {budget}"):
            continue
        options = given | {"beam": 5.0, "hypotheses_per_state": n}
        gpu = CtcDecoder(graph, device="cuda", placement=placement, arc_cache=cache, gpu_budget=budget, **options)
        cpu = CtcDecoder(graph, device="cpu", **options)
        boosts = [Boost({"w1 w2": 2.0, "w3": 1.0, "w2 w5 w1": 3.0, "w4": -1.0}), None, Boost(["w7"]), Boost(["w2"])]
        same(gpu.decode(batch, boost=boosts), cpu.decode(batch, boost=boosts))
        of_gpu, of_cpu = (lattices(decoder, batch, boost=boosts) for decoder in (gpu, cpu))
        assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    opened = open_graph(4)
    lists = [*new_words(opened, 2), None, Boost(["w1"])]
    for where in OPENED:
        if not step(f"new words, {where}"):
            continue
        options = {"beam": 5.0} | ({} if where is None else models | {"graph": over(opened, small)})
        options = {"graph": opened} | options
        on_gpu = {} if where is None else dict(zip(("placement", "arc_cache", "gpu_budget"), where, strict=True))
        gpu, cpu = CtcDecoder(device="cuda", **options | on_gpu), CtcDecoder(device="cpu", **options)
        same(gpu.decode(batch, boost=lists), cpu.decode(batch, boost=lists))
        of_gpu, of_cpu = (lattices(decoder, batch, boost=lists) for decoder in (gpu, cpu))
        assert [packed(lattice) for lattice in of_gpu] == [packed(lattice) for lattice in of_cpu]
    if step("streams of new words"):
        search_plan.launch_shapes = lambda *_: (SHAPES["wide"],)
        short = [random_log_probs(seed, 7, 12) for seed in range(3)]
        boosts = [*lists[:2], lists[3]]
        on_both(short, np.random.default_rng(1), boosts, opened, beam=5.0, max_active=60)
    streamed = [(models, run) for run in STREAMED]
    if find_spec("kenlm") is not None:
        streamed.insert(0, (models | {"language_model": kenlm(), "unknown_words": "unk"}, STREAMED_OF_KENLM))
    for given, run in streamed:
        if step(f"streams: shape, hypotheses a state and placement {run}"):
            boosts = [Boost({"w1 w2": 2.0, "w3": 1.0}), None, None] if run is STREAMED[-1] else None
            streams(given | {"graph": graph}, *run, boosts)
    without = "" if len(runs) > len(RUNS) else ", without KenLM's placement"
    times = len(runs) + len(boosted) + len(OPENED)
    print(
        f"rescored {len(batch)} utterances {times} times, and streams {len(streamed) + 1} times, the same as on the "
        f"CPU{without}; share {SHARE}"
    )


if __name__ == "__main__":
    main()
