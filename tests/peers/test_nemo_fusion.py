"""NeMo 3.0.0's boosting tree and n-gram model in its label-looping: the same tokens and frames, in chunks, too."""

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.transducer._boosting_tree import walk
from arcbeam.transducer.ngram_lm import token_automaton
from benchmarks.adapters import nemo_sources
from tests.peers import nemo_label_looping
from tests.peers.test_nemo_label_looping import BLANK, DURATIONS, networks, run
from tests.peers.test_nemo_label_looping import computer as plain_computer
from tests.transducer.arpas import random_arpa
from tests.transducer.nemo_tree_reference import phrases_of
from tests.transducer.networks import random_frames

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
ARPA_TOKENS = range(BLANK - 2)  # the model lacks two


@pytest.fixture(scope="module")
def looping():
    return nemo_label_looping.load()


@pytest.fixture(scope="module")
def fusion(looping):
    """(their boosting tree's module, their phrases' graph, their n-gram model)."""
    parts = "nemo.collections.asr.parts"
    return (
        nemo_sources.load(f"{parts}.context_biasing.boosting_graph_batched").GPUBoostingTreeModel,
        nemo_sources.load(f"{parts}.context_biasing.context_graph_universal").ContextGraph,
        nemo_sources.load(f"{parts}.submodules.ngram_lm.ngram_lm_batched").NGramGPULanguageModel,
    )


def their_tree(fusion, phrases, context_score, depth_scaling, unk_score):
    tree, graph, _ = fusion
    contexts = graph(context_score=context_score, depth_scaling=depth_scaling)
    contexts.build(token_ids=[list(phrase) for phrase in phrases], uniform_weights=False)
    return tree.from_context_graph(contexts, BLANK, unk_score, 0.0, use_triton=False, uniform_weights=False)


def computer(looping, arrays, durations, models, alphas):
    return plain_computer(looping, arrays, durations, 3, fusion_models=models, fusion_models_alpha=alphas)


@pytest.mark.parametrize("unk_score", [0.0, -0.5])
@pytest.mark.parametrize("depth_scaling", [1.0, 2.0])
def test_the_same_scores_of_a_tree(fusion, depth_scaling, unk_score):
    import torch

    for seed in range(5):
        phrases = phrases_of(seed, 40, 9)
        theirs = their_tree(fusion, phrases, 1.5, depth_scaling, unk_score)
        ours = BoostingTree(
            phrases, vocab_size=BLANK, context_score=1.5, depth_scaling=depth_scaling, unk_score=unk_score
        ).automaton
        their_states, our_state = theirs.get_init_states(1), 0
        for token in np.random.default_rng(seed).integers(0, 9, 60):
            with torch.inference_mode():
                scores, states = theirs.advance(their_states)
            mine = [walk(ours, our_state, np.array([t], np.uint32)) for t in range(BLANK)]
            assert np.array([score[0] for score, _ in mine]).tobytes() == scores[0].numpy().tobytes()
            our_state, their_states = int(mine[token][1][0]), states[:, token]


def test_the_same_scores_of_a_model(fusion, tmp_path):
    import torch

    for seed in range(3):
        path = random_arpa(tmp_path / f"{seed}.arpa", ARPA_TOKENS, order=2 + seed, seed=seed)
        theirs = fusion[2].from_arpa(path, BLANK, use_triton=False)
        ours = token_automaton(path, None, BLANK + 1, BLANK)
        their_states, our_state = theirs.get_init_states(1), ours.start
        for token in np.random.default_rng(seed).integers(0, BLANK, 60):
            with torch.inference_mode():
                scores, states = theirs.advance(their_states)
            mine = [walk(ours, our_state, np.array([t], np.uint32)) for t in range(BLANK)]
            np.testing.assert_allclose([score[0] for score, _ in mine], scores[0].numpy(), rtol=1e-6)
            our_state, their_states = int(mine[token][1][0]), states[:, token]


@pytest.mark.parametrize("durations", [None, DURATIONS], ids=["rnnt", "tdt"])
@pytest.mark.parametrize("what", ["tree", "model", "both"])
def test_the_same_tokens(looping, fusion, tmp_path, durations, what):
    path = random_arpa(tmp_path / "a.arpa", ARPA_TOKENS)
    written = changed = 0
    for seed in range(8):
        arrays, phrases = networks(seed, durations), phrases_of(seed, 12, BLANK)
        frames = [random_frames(100 * seed + n, n, 20) for n in (1, 40, 17, 33)]
        models, alphas, options = [], [], {"durations": durations, "max_symbols": 3}
        if what != "tree":
            models, alphas = [fusion[2].from_arpa(path, BLANK, use_triton=False)], [0.4]
            options |= {"ngram_lm_model": path, "ngram_lm_alpha": 0.4}
        boost = None
        if what != "model":
            models, alphas = [*models, their_tree(fusion, phrases, 1.0, 2.0, 0.0)], [*alphas, 0.5]
            boost = BoostingTree(phrases, vocab_size=BLANK)
            options |= {"boosting_tree_alpha": 0.5}
        decoder = TransducerDecoder.from_arrays(arrays, BLANK, **options)
        plain = TransducerDecoder.from_arrays(arrays, BLANK, durations=durations, max_symbols=3).decode(frames)
        for x, unbiased in zip(frames, plain, strict=True):
            [theirs], _ = run(computer(looping, arrays, durations, models, alphas), [x])
            [found] = decoder.decode([x], boost=boost)
            assert found.tokens.tolist() == theirs[0].tolist()
            assert found.frames.tolist() == theirs[1].tolist()
            written += len(found.tokens)
            changed += found.tokens.tolist() != unbiased.tokens.tolist()
    assert written > 200 and changed > 10


@pytest.mark.parametrize("durations", [None, DURATIONS], ids=["rnnt", "tdt"])
def test_the_same_in_chunks(looping, fusion, durations):
    for seed in range(4):
        arrays, phrases = networks(seed, durations), phrases_of(seed, 12, BLANK)
        x = random_frames(seed, 40, 20)
        decoder = TransducerDecoder.from_arrays(arrays, BLANK, durations=durations, max_symbols=3)
        theirs = computer(looping, arrays, durations, [their_tree(fusion, phrases, 1.0, 2.0, 0.0)], [1.0])
        state, ours = None, None
        for begin in range(0, 40, 8):
            [expected], state = run(theirs, [x[begin : begin + 8]], state)
            [found] = decoder.decode(
                [x[begin : begin + 8]], state=[ours], boost=BoostingTree(phrases, vocab_size=BLANK)
            )
            ours = found.state
            assert found.tokens.tolist() == expected[0].tolist()
