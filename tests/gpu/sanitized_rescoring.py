"""A few frames rescored, to run under compute-sanitizer: ``python tests/gpu/sanitized_rescoring.py [--grow]``.

As ``sanitized.py``, in every shape and placement, with caches that few answers fit, so that they are overwritten while
others read. KenLM's placement needs the package kenlm.
"""

import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arcbeam import CtcDecoder, Graph, KenLM, SymbolTable, cuda_plan
from tests.baseline.ngrams import NGrams
from tests.decode.equality import same
from tests.decode.language_models import random_model
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.gpu.sanitized import ROOM, TIGHT

WORDS = [f"w{i}" for i in range(1, 50)]
# Hypotheses a state; where the model lives, the cache, and the budget, which leaves no room for the index if it is one.
RUNS = [
    (3, ("resident", 0, None)),
    (None, ("resident", 512, None)),
    (1, ("host-direct", 0, None)),
    (2, ("host-direct", 96, 96)),
    (None, ("host-direct", 512, None)),
    (3, ("host", 0, None)),
    (None, ("host", 512, None)),
]
OF_KENLM = [(3, ("cpu", 0, None)), (None, ("cpu", 512, None))]


def kenlm() -> KenLM:
    """Of scores that are often equal, so that the words of histories are compared."""
    with tempfile.TemporaryDirectory() as folder:
        made = NGrams(WORDS[:44], 3, 5)
        made.prob = {words: round(score) if len(words) > 1 else score for words, score in made.prob.items()}
        return KenLM(made.write(Path(folder, "lm.arpa")))


def main() -> None:
    room = TIGHT if "--grow" in sys.argv else ROOM
    cuda_plan.first_room = lambda max_active: room
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=share) for order, share in ((3, 0.2), (2, 0.3)))
    fields = {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS]), "meta": {"lm_digest": small.digest}}
    graph = Graph(**random_graph(4, states=200, columns=12).fields() | fields)
    batch = [random_log_probs(seed, frames, 12) for seed, frames in enumerate((5, 0, 9, 1, 7))]
    models = {"language_model": large, "graph_language_model": small, "max_active": 60, "lookup_margin": 1.0}
    runs = [(models, run) for run in RUNS]
    if find_spec("kenlm") is not None:
        runs += [(models | {"language_model": kenlm(), "unknown_words": "unk"}, run) for run in OF_KENLM]
    decodes = 0
    cuda_plan.RESCORING_TEAM_TOKENS = 16  # most frames are worked on by all blocks of a cluster
    for shape in (cuda_plan.WIDE, cuda_plan.DENSE, cuda_plan.CLUSTER, replace(cuda_plan.CLUSTER, cluster=2)):
        cuda_plan.launch_shapes = lambda *_, shape=shape: (shape, cuda_plan.WIDE)
        for given, (n, where) in runs:
            options = given | {"beam": 5.0, "hypotheses_per_state": n}
            gpu = CtcDecoder(
                graph, device="cuda", placement=where[0], arc_cache=where[1], gpu_budget=where[2], **options
            )
            same(gpu.decode(batch), CtcDecoder(graph, device="cpu", **options).decode(batch))
            decodes += 1
    without = "" if len(runs) > len(RUNS) else ", without KenLM's placement"
    print(f"rescored {decodes * len(batch)} utterances, the same as on the CPU{without}")


if __name__ == "__main__":
    main()
