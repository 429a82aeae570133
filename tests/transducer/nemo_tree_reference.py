"""Scores and tokens with NeMo 3.0.0's boosting trees, and the script that wrote ``nemo_tree_reference.npz``.

python -m tests.transducer.nemo_tree_reference
"""

from itertools import product
from pathlib import Path

import numpy as np

from tests.transducer.networks import random_arrays, random_frames

FILE = Path(__file__).with_suffix(".npz")
TOKENS, WALKED = 9, 60
TREES = list(product((1.5, 0.25), (1.0, 2.0), (0.0, -0.5)))  # context score, depth scaling, score of unknown tokens
ORDERS = ([(1, 2, 3), (1, 2, 4)], [(1, 2, 4), (1, 2, 3)])
TWO_SCORES = {(1, 2, 3): 1.0, (1, 2, 4): 3.0}
BLANK, ALPHA = 19, 0.75
DURATIONS = {"rnnt": None, "tdt": [0, 1, 2, 3, 4]}


def phrases_of(seed, count, tokens):
    """Random phrases, many of which begin or go on alike."""
    rng = np.random.default_rng(seed)
    found = [tuple(rng.integers(0, tokens, rng.integers(1, 6)).tolist()) for _ in range(count)]
    found += [found[0][:1] + one for one in found[:4]] + [one + found[1] for one in found[:4]]
    return list(dict.fromkeys(found))


def walk(tree, tokens):
    """Every token's score before each of the tokens, float32[tokens, vocabulary]."""
    import torch

    states, rows = tree.get_init_states(1), []
    for token in tokens:
        with torch.inference_mode():
            scores, following = tree.advance(states)
        rows.append(scores[0].numpy().copy())
        states = following[:, token]
    return np.array(rows)


def main():
    from benchmarks.adapters import nemo_sources
    from tests.peers import nemo_label_looping

    looping = nemo_label_looping.load()
    part = "nemo.collections.asr.parts.context_biasing"
    trees = nemo_sources.load(f"{part}.boosting_graph_batched").GPUBoostingTreeModel
    graphs = nemo_sources.load(f"{part}.context_graph_universal").ContextGraph

    def tree_of(phrases, size, context_score=1.0, depth_scaling=2.0, unk_score=0.0, scores=None):
        graph = graphs(context_score=context_score, depth_scaling=depth_scaling)
        graph.build(token_ids=[list(phrase) for phrase in phrases], scores=scores, uniform_weights=False)
        return trees.from_context_graph(graph, size, unk_score, 0.0, use_triton=False, uniform_weights=False)

    content = {}
    for i, options in enumerate(TREES):
        phrases = phrases_of(i, 30, TOKENS)
        tokens = np.random.default_rng(i).integers(0, TOKENS, WALKED)
        content[f"tree{i}/phrases"] = np.array([" ".join(map(str, phrase)) for phrase in phrases])
        content[f"tree{i}/tokens"] = tokens
        content[f"tree{i}/scores"] = walk(tree_of(phrases, TOKENS, *options), tokens)
    for i, phrases in enumerate(ORDERS):
        scored = tree_of(phrases, 5, scores=[TWO_SCORES[phrase] for phrase in phrases])
        content[f"order{i}/scores"] = walk(scored, [1, 2, 3])
    for name, durations in DURATIONS.items():
        shape = {"tokens": BLANK + 1, "size": 12, "units": 16, "joint": 20, "features": 10}
        arrays = random_arrays(4, **shape, durations=len(durations or ()), blank=BLANK, blank_bias=1.0)
        phrases, frames = phrases_of(7, 12, BLANK), random_frames(4, 60, 10)
        models = {"fusion_models": [tree_of(phrases, BLANK)], "fusion_models_alpha": [ALPHA]}
        kind = looping.GreedyBatchedRNNTLabelLoopingComputer
        if durations is not None:
            kind, models = looping.GreedyBatchedTDTLabelLoopingComputer, {**models, "durations": durations}
        computer = kind(
            nemo_label_looping.Decoder(arrays), nemo_label_looping.Joint(arrays), blank_index=BLANK,
            max_symbols_per_step=3, allow_cuda_graphs=False, **models,
        )  # fmt: skip
        import torch

        with torch.inference_mode():
            found, _ = computer(torch.from_numpy(frames)[None], torch.tensor([len(frames)]), None)[:2]
        count = int(found.current_lengths[0])
        content |= {f"{name}/arrays/{key}": value for key, value in arrays.items()}
        content[f"{name}/phrases"] = np.array([" ".join(map(str, phrase)) for phrase in phrases])
        content[f"{name}/input"] = frames
        content[f"{name}/tokens"] = found.transcript[0, :count].numpy()
        content[f"{name}/frames"] = found.timestamps[0, :count].numpy()
    np.savez_compressed(FILE, **content)


if __name__ == "__main__":
    main()
