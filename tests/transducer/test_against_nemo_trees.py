"""Boosting trees against what NeMo 3.0.0's own classes gave: the same scores to the byte, and the same tokens."""

import numpy as np
import pytest

from arcbeam import BoostingTree, TransducerDecoder
from arcbeam.transducer._boosting_tree import walk
from tests.transducer import fusion_oracle
from tests.transducer import nemo_tree_reference as nemo


@pytest.fixture(scope="module")
def stored():
    with np.load(nemo.FILE) as file:
        return {name: file[name] for name in file}


def phrases_in(array):
    return [tuple(map(int, phrase.split())) for phrase in array.tolist()]


def rows_of(tree, tokens):
    state, rows = 0, []
    for token in tokens:
        steps = [walk(tree.automaton, state, np.array([t], np.uint32)) for t in range(tree.vocab_size)]
        rows.append([scores[0] for scores, _ in steps])
        state = int(steps[token][1][0])
    return np.array(rows, np.float32)


@pytest.mark.parametrize("case", range(len(nemo.TREES)))
def test_the_scores_of_a_tree(stored, case):
    context_score, depth_scaling, unk_score = nemo.TREES[case]
    phrases, tokens = phrases_in(stored[f"tree{case}/phrases"]), stored[f"tree{case}/tokens"]
    expected = stored[f"tree{case}/scores"]
    tree = BoostingTree(
        phrases, vocab_size=nemo.TOKENS, context_score=context_score, depth_scaling=depth_scaling, unk_score=unk_score
    )
    assert rows_of(tree, tokens).tobytes() == expected.tobytes()
    oracle = fusion_oracle.boosting_tree(dict.fromkeys(phrases, context_score), depth_scaling, unk_score)
    history = oracle.start
    for row, token in zip(expected, tokens.tolist(), strict=True):
        scores = [oracle.score(history, t)[0] for t in range(nemo.TOKENS)]
        assert np.array(scores, np.float32).tobytes() == row.tobytes()
        history = oracle.score(history, token)[1]


def test_requests_to_the_trees(stored):
    """The walks leave phrases early, at their end and for a suffix that begins another one."""
    for case, (_, _, unk_score) in enumerate(nemo.TREES):
        phrases, tokens = phrases_in(stored[f"tree{case}/phrases"]), stored[f"tree{case}/tokens"].tolist()
        begun = {phrase[:n] for phrase in phrases for n in range(1, len(phrase) + 1)}
        state, seen = (), set()
        for token in tokens:
            left, state = state, (*state, token)
            while state and state not in begun:
                state = state[1:]
            if left and state != (*left, token):
                seen.add(("end" if left in phrases else "early", len(state) > 1))
        assert seen >= {("early", False), ("early", True), ("end", False)}, (case, seen)
        assert (stored[f"tree{case}/scores"] < min(0.0, unk_score)).any()


def test_phrases_with_scores_of_their_own(stored):
    """NeMo keeps what the first phrase gave a shared token, unless a later bare score is larger; here the max."""
    first, second = (stored[f"order{i}/scores"] for i in range(2))
    assert first.tobytes() != second.tobytes()
    trees = [BoostingTree({p: nemo.TWO_SCORES[p] for p in order}, vocab_size=5) for order in nemo.ORDERS]
    ours = rows_of(trees[0], [1, 2, 3])
    assert ours.tobytes() == rows_of(trees[1], [1, 2, 3]).tobytes()
    largest = [3.0, 3.0 * 2 + np.log(2)]
    np.testing.assert_array_equal([ours[0, 1], ours[1, 2]], np.float32(largest))
    np.testing.assert_array_equal([second[0, 1], second[1, 2]], np.float32(largest))  # NeMo's, the larger one first
    assert first[0, 1] == np.float32(3.0) and first[1, 2] < ours[1, 2]


@pytest.mark.parametrize("case", nemo.DURATIONS)
def test_the_tokens_of_label_looping(stored, case):
    """The network alone decides blanks and durations, and the tree which label is written."""
    prefix = f"{case}/arrays/"
    arrays = {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}
    options = {"durations": nemo.DURATIONS[case], "max_symbols": 3, "boosting_tree_alpha": nemo.ALPHA, "device": "cpu"}
    decoder = TransducerDecoder.from_arrays(arrays, nemo.BLANK, **options)
    tree = BoostingTree(phrases_in(stored[f"{case}/phrases"]), vocab_size=nemo.BLANK)
    [found] = decoder.decode([stored[f"{case}/input"]], boost=tree)
    assert found.tokens.tolist() == stored[f"{case}/tokens"].tolist()
    assert found.frames.tolist() == stored[f"{case}/frames"].tolist()
    [plain] = decoder.decode([stored[f"{case}/input"]])
    assert len(found.tokens) > 10 and found.tokens.tolist() != plain.tokens.tolist()
