"""Greedy decoding is a search on a graph of labels alone: it equals the best column of each frame, collapsed."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, TokenTable
from arcbeam.files.log_probs import find_inputs, read_all
from tests.decode import both_engines

TOKENS = ["<space>", "a", "b", "<blank>", "c"]
BLANK = TOKENS.index("<blank>")
GRAPH = Graph.greedy(TOKENS)


def collapsed(best, blank=BLANK):
    """Pairs of a column and its first frame: the best column of each frame, repeats merged and blanks dropped."""
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    return [(int(best[frame]), int(frame)) for frame in starts if best[frame] != blank]


def labels_of(hypothesis, tokens):
    return [(tokens.index(label.label), label.start_frame) for label in hypothesis.labels]


@st.composite
def frames(draw, ties):
    """Log-probs of few values; in a frame they tie, or all differ."""
    row = st.lists(st.integers(0, 2), min_size=len(TOKENS), max_size=len(TOKENS))
    rows = draw(st.lists(row if ties else st.permutations(range(len(TOKENS))), max_size=5 if ties else 12))
    return -np.array(rows, np.float32).reshape(len(rows), len(TOKENS))


def greedy(log_probs, beam, scale=1.0):
    decoder = CtcDecoder(GRAPH, beam=beam, acoustic_scale=scale, device="cpu", threads=1)
    return decoder.decode([log_probs], frame_confidence="max_prob", errors="return")[0]


@given(frames(ties=False), st.sampled_from([0.0, 1.0, 17.0]), st.sampled_from([0.5, 1.0, 1.5]))
def test_the_best_column_of_each_frame(log_probs, beam, scale):
    found = greedy(log_probs, beam, scale)
    expected = collapsed(log_probs.argmax(axis=1))
    assert labels_of(found, TOKENS) == expected
    letters = "".join({0: " "}.get(column, TOKENS[column]) for column, _ in expected)
    assert found.text == " ".join(letters.split())


@given(frames(ties=True), st.sampled_from([0.0, 17.0]))
def test_columns_that_tie(log_probs, beam):
    best = [np.flatnonzero(row == row.max()) for row in log_probs]
    assert labels_of(greedy(log_probs, beam), TOKENS) in [
        collapsed(np.array(columns, int)) for columns in itertools.product(*best)
    ]


@pytest.mark.parametrize("device", ["cuda"])
def test_a_gpu_has_the_same_bytes(device):  # of which the mark of tests that run kernels follows
    rng = np.random.default_rng(3)
    batch = [-rng.integers(0, 3, (count, len(TOKENS))).astype(np.float32) for count in (0, 1, 7, 30)]
    both_engines.check(GRAPH, batch, beam=0.0, schedule={"seed": 5})


def test_the_demo(demo_data):
    tokens = TokenTable.read(demo_data / "tokens.txt")
    decoder = CtcDecoder(Graph.greedy(demo_data / "tokens.txt"), beam=0.0, device="cpu")
    utterances = [utterance.log_probs for utterance in read_all(find_inputs([str(demo_data / "log_probs.npz")]))]
    for log_probs, found in zip(utterances, decoder.decode(utterances, frame_confidence="entropy"), strict=True):
        assert labels_of(found, tokens.tokens) == collapsed(log_probs.argmax(axis=1), tokens.blank)
        assert found.text and found.complete and found.reached_final
        assert [word.word for word in found.words] == found.text.split()


def test_pieces_and_separators():
    pieces = Graph.greedy(["▁he", "llo", "▁", "<blk>"])
    log_probs = np.log(np.eye(4, dtype=np.float32)[[0, 0, 3, 1, 3, 1, 2, 1, 0]] * 0.9 + 0.025)
    [found] = CtcDecoder(pieces, beam=0.0, device="cpu").decode([log_probs])
    assert found.text == "hellollo llo he"
    letters = Graph.greedy(["h", "i", "|", "^"], blank="^", separator=None)
    [found] = CtcDecoder(letters, beam=0.0, device="cpu").decode([log_probs])
    assert found.text == "hii|ih"


@pytest.mark.parametrize("blank", ["<eps>", 0])
def test_the_blank_may_be_called_as_epsilon_is(blank):
    graph = Graph.greedy(["<eps>", "a", "b"], blank=blank)
    assert list(graph.word_symbols) == ["<epsilon>", "<eps>", "a", "b"]
    log_probs = np.log(np.full((6, 3), 0.1, np.float32))
    log_probs[range(6), [0, 1, 1, 0, 1, 2]] = 0
    assert CtcDecoder(graph, device="cpu", threads=1).decode(log_probs).text == "aab"


@pytest.mark.parametrize(
    ("tokens", "options", "message"),
    [
        (["a", "b"], {}, "greedy decoding needs the column of the blank, but none of the 2 tokens is known"),
        (["a", "<blank>", "|", "<space>"], {}, "expected one separator between words"),
        ("a b", {}, "No such file"),
        (["a", "<blank>"], {"blank": 7}, "blank"),
        (
            ["a", "<space>", "<blank>"],
            {"separator": " "},
            r"separator: expected one of the 3 tokens, got ' '; it may be '<space>' \(column 1\)",
        ),
        (["a", "|", "<blank>"], {"separator": ""}, r"got ''; it may be '\|' \(column 1\)"),
        (["a", "b", "<blank>"], {"separator": "|"}, "got '|'; none of the tokens looks like one"),
    ],
)
def test_what_no_graph_follows_from(tokens, options, message):
    with pytest.raises((ValueError, OSError), match=message):
        Graph.greedy(tokens, **options)
