"""Which frames a word gets: spelled, in pieces, and where only its label is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcbeam import CtcDecoder, Graph, SymbolTable, TokenTable
from arcbeam.core.pieces import join_pieces
from arcbeam.graph.graph import Pronunciations
from arcbeam.words import Word
from tests.decode import word_times_oracle as word_times
from tests.decode.word_times_oracle import EPSILON_COLUMN as EPSILON

BLANK, SPACE, A, B = 3, 0, 1, 2
TOKENS = TokenTable.from_list(["<space>", "a", "b", "<blank>"])


def loop_graph(**known):
    """One state a token with a self-loop, a blank state between; words written late or early as the arcs say."""
    arcs = [(0, 0, BLANK + 1, 0, 0.0)]
    for column in (SPACE, A, B):
        arcs += [(0, column + 1, column + 1, 0, 0.0), (column + 1, column + 1, column + 1, 0, 0.0)]
        arcs += [(column + 1, 0, 0, 0, 0.5)]  # dearer than its loop, so that a repeat is a repeat
    return Graph.from_arcs(arcs, start=0, finals={0: 0.0}, tokens=TOKENS, **known)


def rows(text):
    """One frame a letter; '_' is space, '-' blank."""
    columns = ["_ab-".index(letter) for letter in text]
    logp = np.full((len(text), 4), -20.0, dtype=np.float32)
    logp[np.arange(len(text)), columns] = 0.0
    return logp


def decoded_arcs(graph, text):
    return CtcDecoder(graph, device="cpu").decode([rows(text)])[0].arcs


def test_repeats_and_blanks_are_not_tokens():
    graph = loop_graph()
    tokens = word_times._tokens(graph, decoded_arcs(graph, "-aa-ab_b"))
    assert tokens.columns == [A, A, B, SPACE, B]
    assert list(zip(tokens.starts, tokens.ends, strict=True)) == [(1, 3), (4, 5), (5, 6), (6, 7), (7, 8)]


def word_graph(pronunciations, separator_column=SPACE):
    """Writes 1 for "ab" on its second token, 2 for "b" on its first, tokens as in loop_graph, spaces anywhere."""
    arcs = [
        (0, 0, BLANK + 1, 0, 0.0),
        (0, 1, SPACE + 1, 0, 0.0), (1, 1, SPACE + 1, 0, 0.0), (1, 0, 0, 0, 0.0),
        (0, 2, A + 1, 0, 0.0), (2, 2, A + 1, 0, 0.0), (2, 3, 0, 0, 0.0), (3, 3, BLANK + 1, 0, 0.0),
        (3, 4, B + 1, 1, 0.0), (4, 4, B + 1, 0, 0.0), (4, 0, 0, 0, 0.0),
        (0, 5, B + 1, 2, 0.0), (5, 5, B + 1, 0, 0.0), (5, 0, 0, 0, 0.0),
    ]  # fmt: skip
    return Graph.from_arcs(
        arcs, start=0, finals={0: 0.0}, tokens=TOKENS, word_symbols=SymbolTable.from_list(["<eps>", "ab", "b"]),
        pronunciations=pronunciations, separator_column=separator_column,
    )  # fmt: skip


SPELLED = Pronunciations.from_lists([(1, [A, B]), (2, [B])])


def timed(graph, text, frame_shift=None):
    found = CtcDecoder(graph, device="cpu", frame_shift=frame_shift).decode([rows(text)])[0]
    return [(w.word, w.start_frame, w.end_frame, w.start, w.end) for w in found.words]


def test_words_span_the_tokens_that_spell_them():
    assert timed(word_graph(SPELLED), "--aa-bb__-b-", 0.5) == [("ab", 2, 7, 1.0, 3.5), ("b", 10, 11, 5.0, 5.5)]


def test_without_a_frame_shift_there_are_frames_only():
    assert timed(word_graph(SPELLED), "ab") == [("ab", 0, 2, None, None)]


def test_without_pronunciations_a_word_starts_where_it_is_written():
    assert timed(word_graph(None), "--aa-bb__-b-") == [("ab", 5, 9, None, None), ("b", 10, 11, None, None)]


def read(columns, written):
    """Tokens of one frame each; `written` are the tokens read with the arc of each label, which reads the last one."""
    at = [n - 1 for n in written]
    return word_times._Tokens(columns, list(range(len(columns))), list(range(1, len(columns) + 1)), at, at, written)


def test_spellings_that_share_a_prefix_are_told_apart_by_the_word_that_closes_them():
    """Label 1 may be "a" or "ab"; only "a" leaves a "b" for label 2."""
    graph = word_graph(Pronunciations.from_lists([(1, [A, B]), (1, [A]), (2, [B])]))
    tokens = word_times._Tokens([A, B], [0, 5], [2, 6], [1, 5], [0, 1], [1, 2])
    assert word_times._spelled(graph, [1, 2], tokens) == ([(0, 2), (5, 6)], 1)
    assert word_times._spelled(graph, [1], read([A, B], [1])) == ([(0, 2)], 0)
    assert word_times._spelled(graph, [1, 2], read([A, B, B], [1, 3])) == ([(0, 2), (2, 3)], 1)


def test_what_follows_the_next_word_changes_nothing():
    """The third label would be spelled if the first were "a"; it is written too late to be in it."""
    graph = word_graph(Pronunciations.from_lists([(1, [A]), (1, [A, B]), (2, [B]), (3, [B, A])]))
    begun = read([A, B, B], [1, 3])
    whole = read([A, B, B, A], [1, 3, 4])
    assert word_times._spelled(graph, [1, 2], begun) == ([(0, 2), (2, 3)], 1)
    assert word_times._spelled(graph, [1, 2, 3], whole)[0][:2] == [(0, 2), (2, 3)]


def test_labels_written_ahead_of_their_tokens():
    """A graph whose sentences begin alike writes all that they share at once."""
    graph = word_graph(Pronunciations.from_lists([(1, [A, B]), (2, [B])]))
    tokens = read([A, B, SPACE, B, SPACE, A, B], [1, 1, 1])
    assert word_times._spelled(graph, [1, 2, 1], tokens) == ([(0, 2), (3, 4), (5, 7)], 2)


def test_a_word_without_a_spelling_spans_what_its_label_says():
    """Label 3, of tokens 2 to 4, is written by token 3; label 2 is found after it, label 1 follows that."""
    graph = word_graph(Pronunciations.from_lists([(1, [A, B]), (2, [B])]))
    tokens = read([A, B, A, A, A, B, A, B], [1, 4, 6, 8])
    assert word_times._spelled(graph, [1, 3, 2, 1], tokens) == ([(0, 2), (3, 5), (5, 6), (6, 8)], 3)
    assert word_times._spelled(graph, [3, 1], read([A, A, B], [1, 3])) == ([(0, 1), (1, 3)], 0)
    assert word_times._spelled(graph, [1, 3], read([A, B, A, A], [1, 4])) == ([(0, 2), (3, 4)], 1)


def test_tokens_that_no_word_has_are_passed_over():
    """As the silence of a graph from elsewhere, whose token nobody named."""
    graph = word_graph(SPELLED, separator_column=None)
    tokens = read([SPACE, A, B, SPACE, B, SPACE], [2, 5])
    assert word_times._spelled(graph, [1, 2], tokens) == ([(1, 3), (4, 5)], 1)


def test_a_word_that_is_misspelled_is_looked_for_no_further_than_the_next_word():
    graph = word_graph(SPELLED)
    tokens = read([A, A, B, A, B], [1, 3, 5])
    assert word_times._spelled(graph, [2, 2, 1], tokens) == ([(0, 2), (2, 3), (3, 5)], 2)


def test_a_path_that_ends_inside_a_word():
    """The last word may lack its last tokens."""
    tokens = word_times._Tokens([B, A], [0, 3], [1, 4], [0, 3], [0, 1], [1, 2])
    assert word_times._spelled(word_graph(SPELLED), [2, 1], tokens) == ([(0, 1), (3, 4)], 1)


@given(st.lists(st.sampled_from([1, 2]), max_size=40), st.data())
def test_words_with_plain_spellings_are_found_wherever_their_labels_are_written(labels, data):
    """No spelling of a word begins another of that word, so there is one way to read them."""
    spellings = {1: [[A], [B, A]], 2: [[A, B], [B], [A, A]]}
    columns, wanted, starts = [], [], []
    for label in labels:
        columns += [SPACE] * data.draw(st.integers(0, 2))
        spelling = data.draw(st.sampled_from(spellings[label]))
        starts.append(len(columns))
        columns += spelling
        wanted.append((starts[-1], len(columns)))
    written = sorted(data.draw(st.integers(1, len(columns))) for _ in labels)
    graph = word_graph(Pronunciations.from_lists([(w, s) for w, many in spellings.items() for s in many]))
    assert word_times._spelled(graph, labels, read(columns, written))[0] == wanted


@pytest.mark.parametrize(
    ("pieces", "separator", "words"),
    [
        (["▁the", "▁c", "at", "s"], "▁", [("the", 0, 0), ("cats", 1, 3)]),
        (["▁", "a", "▁", "b"], "▁", [("a", 1, 1), ("b", 3, 3)]),
        (["h", "i", "<space>", "<space>", "y", "o"], "<space>", [("hi", 0, 1), ("yo", 4, 5)]),
        (["a", "b"], None, [("ab", 0, 1)]),
        ([], "▁", []),
    ],
)
def test_pieces_make_words(pieces, separator, words):
    assert join_pieces(pieces, separator) == words


def test_a_graph_of_pieces():
    arcs = [(0, 0, BLANK + 1, 0, 0.0)]
    for column in (SPACE, A, B):
        arcs += [(0, column + 1, column + 1, column + 1, 0.0), (column + 1, column + 1, column + 1, 0, 0.0)]
        arcs += [(column + 1, 0, 0, 0, 0.5)]  # dearer than its loop, so that a repeat is a repeat
    graph = Graph.from_arcs(
        arcs, start=0, finals={0: 0.0}, tokens=TOKENS, join="pieces", separator="<space>",
        word_symbols=SymbolTable.from_list(["<eps>", "<space>", "a", "b"]),
    )  # fmt: skip
    (found,) = CtcDecoder(graph, device="cpu", frame_shift=0.02).decode([rows("_aab--_-b")])
    assert found.text == "ab b"
    assert [(w.word, w.start_frame, w.end_frame) for w in found.words] == [("ab", 1, 4), ("b", 8, 9)]


def test_a_self_loop_that_writes_a_word_is_a_new_token():
    graph = Graph.from_arcs([(0, 0, A + 1, 1, 0.0), (0, 0, B + 1, 2, 0.0)], start=0, finals={0: 0.0}, tokens=TOKENS)
    (found,) = CtcDecoder(graph, device="cpu").decode([rows("aab")])
    assert [(w.word, w.start_frame, w.end_frame) for w in found.words] == [("1", 0, 1), ("1", 1, 2), ("2", 2, 3)]


def test_a_word_ends_where_the_next_is_written():
    arcs = [(0, 1, A + 1, 1, 0.0), (1, 1, A + 1, 0, 0.0), (1, 2, A + 1, 2, 0.0), (2, 2, A + 1, 0, 0.0)]
    graph = Graph.from_arcs(arcs, start=0, finals={2: 0.0}, tokens=TOKENS)
    path = np.array([0, 1, 2, 3], np.uint32)
    assert graph.words[path].tolist() == [1, 0, 2, 0]
    assert word_times.spans(graph, path) == [(0, 2), (2, 4)]
    assert word_times._all_written(word_times._Tokens([A], [0], [4], [0, 2], [0, 1], [1, 1])) == [(0, 2), (2, 3)]


def words_of(graph, path, shift=0.5):
    """What the oracle and the rules of pieces make of a path."""
    labels = [str(label) for label in graph.words[path].tolist() if label]
    if graph.word_symbols is not None:
        labels = [graph.word_symbols.get(int(label), f"<{label}>") for label in labels]
    spans = word_times.spans(graph, path)
    joined = [(label, i, i) for i, label in enumerate(labels)]
    if graph.join == "pieces":
        joined = join_pieces(labels, graph.separator)
    seconds = (lambda frame: None) if shift is None else (lambda frame: shift * frame)
    times = [(spans[a][0], spans[b][1]) for _, a, b in joined]
    return [Word(word, a, b, seconds(a), seconds(b)) for (word, _, _), (a, b) in zip(joined, times, strict=True)]


LABELS = SymbolTable.from_ids([1, 2, 4, 7], ["a", "_", "_é", "b_"])
SPELLINGS = Pronunciations.from_lists([(2, [A]), (1, [A, B]), (1, [A]), (7, []), (4, [B, B]), (2, [B])])


@given(
    st.lists(
        st.tuples(*[st.integers(0, 2)] * 2, st.integers(0, 4), st.sampled_from([0, 0, 1, 2, 4, 7])),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.integers(0, 11), max_size=30),
    st.sampled_from([None, LABELS]),
    st.sampled_from([None, SPELLINGS]),
    st.sampled_from([{}, {"join": "pieces"}, {"join": "pieces", "separator": "_"}, {"separator_column": SPACE}]),
)
def test_words_are_those_of_the_oracle(arcs, path, symbols, pronunciations, known):
    """On any sequence of arcs, whether a path or not."""
    arcs = [(a, b if label else a + 1, label, word, 0.0) for a, b, label, word in arcs]
    graph = Graph.from_arcs(
        arcs, start=0, finals={0: 0.0}, num_states=4, tokens=TOKENS, word_symbols=symbols,
        pronunciations=pronunciations, **known,
    )  # fmt: skip
    path = np.array([i % len(arcs) for i in path], np.uint32)
    wanted = words_of(graph, path)
    assert graph.word_reader.words(path, 0.5, Word) == wanted
    assert graph.word_reader.text(path) == " ".join(word.word for word in wanted)


# Every column with every label, and labels without a column: any text can be written by a row of these arcs.
WRITERS = [
    (state, 0, column + 1, word, 0.0) for state in (0, 1) for column in (SPACE, A, B, BLANK) for word in range(5)
]
WRITERS += [(0, 1, 0, word, 0.0) for word in range(1, 5)]
SPELLINGS = Pronunciations.from_lists([(1, [A, B]), (1, [A]), (2, [B]), (2, [B, A]), (3, [A, A, B]), (3, [])])


@given(
    st.lists(st.tuples(st.sampled_from([None, SPACE, A, A, B, B, BLANK]), st.sampled_from([0, 0, 0, 1, 2, 3, 4]))),
    st.sampled_from([None, SPACE]),
)
def test_a_path_that_goes_on_changes_no_settled_word(written, separator):
    """Word 4 has no spelling."""
    graph = Graph.from_arcs(
        WRITERS, start=0, finals={0: 0.0}, tokens=TOKENS, pronunciations=SPELLINGS, separator_column=separator
    )
    columns = [None if column == EPSILON else column for column in graph.columns.tolist()]
    arcs = {pair: arc for arc, pair in reversed(list(enumerate(zip(columns, graph.words.tolist(), strict=True))))}
    path = np.array([arcs[pair] for pair in written if pair in arcs], np.uint32)
    whole = graph.word_reader.words(path, None, Word)
    assert whole == words_of(graph, path, None)
    for end in range(len(path)):
        _, settled = word_times.spans_and_settled(graph, path[:end])
        assert graph.word_reader.words(path[:end], None, Word)[:settled] == whole[:settled]


def test_all_words_but_the_last_are_settled_where_labels_are_written_with_their_tokens():
    graph = word_graph(SPELLED)
    arcs = decoded_arcs(graph, "--aa-bb__-b-_ab__-")
    assert word_times.spans_and_settled(graph, arcs) == ([(2, 7), (10, 11), (13, 15)], 2)
    counts = [word_times.spans_and_settled(graph, arcs[:end])[1] for end in range(len(arcs))]
    frames = np.cumsum(graph.columns[arcs] != EPSILON)
    # Settled by the label of the next word: "b" writes it in frame 10, the second "ab" in frame 14.
    assert [int(frames[counts.index(n) - 1]) for n in (1, 2)] == [11, 15]
