"""New words as they are compiled in C++: the oracle's bytes, other threads go on, and memory has a limit."""

import pickle
import signal
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CapacityError, Graph, SymbolTable, TokenTable
from arcbeam.core.pieces import stuck_at
from arcbeam.ctc.boost.spellings import Spellings, pieces_of
from arcbeam.graph._new_words import Pieces, SpelledWords, Tree
from arcbeam.graph.new_words import NewWords
from arcbeam.graph.open_slot import OpenSlot
from tests.decode import graphs
from tests.decode.test_new_words import TOPOLOGIES, arcs_of
from tests.graph.new_words_oracle import by_pieces, new_words
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
LETTERS = ["a", "b", "é", "語", "𝄞"]
ROOMY = 2**40


def an_open_graph(tokens, seed=1, meta=None, slots=1, blank="<blank>"):
    """A random graph over some tokens, whose slot has entrances of any depth, and some exits."""
    rng = np.random.default_rng(seed)
    closed = graphs.random_graph(seed, states=12, columns=len(tokens))
    exits = rng.choice(closed.num_states, slots, replace=False)
    entrances = np.sort(rng.choice(closed.num_states, 2 * slots))
    weights = rng.normal(0.0, 1.0, 2 * slots)
    return Graph.from_arcs(
        arcs_of(closed),
        start=closed.start,
        finals=closed.finals,
        num_states=closed.num_states,
        tokens=TokenTable.from_list(tokens, blank),
        word_symbols=SymbolTable.from_list(["<eps>", *(f"w{i}" for i in range(1, 60))]),
        meta=meta or {},
        open_slot=OpenSlot(entrances.astype("<u4"), weights.astype("<f4"), rng.choice(exits, 2 * slots).astype("<u4")),
    )


def same(found, wanted):
    """Every array and number of new words, in bytes."""
    for name in ("states", "targets", "columns", "words", "finals", "entrances"):
        one, other = getattr(found, name), getattr(wanted, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), name
        assert one.tobytes() == other.tobytes(), name
    for one, other in zip(found.symbols.arrays(), wanted.symbols.arrays(), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    for name in ("words", "offsets", "columns"):
        one, other = getattr(found.pronunciations, name), getattr(wanted.pronunciations, name)
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())
    for name in ("first_state", "first_arc", "first_word"):
        assert getattr(found, name) == getattr(wanted, name)
    assert len(found) == len(wanted.symbols)


def compiled(graph, spellings):
    """New words of lists of spellings, by way of the form in which they come."""
    listed = SpelledWords.from_lists(list(spellings.values()))
    assert len(listed) == len(spellings) and [listed.of(at) for at in range(len(listed))] == list(spellings.values())
    return NewWords(graph, {word: (listed, at) for at, word in enumerate(spellings)}, ROOMY)


COLUMNS = st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple)


@slow
@given(
    spellings=st.dictionaries(st.text("aé語𝄞b", min_size=1, max_size=4), st.lists(COLUMNS, max_size=4), max_size=12),
    seed=st.integers(0, 50),
    slots=st.integers(1, 4),
    meta=TOPOLOGIES | st.just({"topology": "identity"}),
)
def test_the_tree_is_the_oracle_s(spellings, seed, slots, meta):
    """Spellings that begin alike, or are equal, in one word or in several."""
    graph = an_open_graph(["<blank>", *"abcd"], seed, meta, slots)
    same(compiled(graph, spellings), new_words(graph, spellings))


def test_a_graph_without_a_blank_and_one_whose_blank_is_in_the_middle():
    spellings = {"x": [(0, 0, 1), (0, 2)], "y": [(0,), (2, 2, 0), (1, 1)], "z": [(0, 0, 1)]}
    for blank, tokens in ((None, ["a", "b", "c", "d"]), ("c", ["a", "b", "d", "c", "e"])):
        graph = an_open_graph(tokens, 3, {"topology": "normal"}, 2, blank)
        same(compiled(graph, spellings), new_words(graph, spellings))


@slow
@given(
    pieces=st.lists(st.text("abé語", min_size=1, max_size=4), unique=True, max_size=12),
    words=st.lists(st.text("abé語𝄞", min_size=1, max_size=14), max_size=6),
    most=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def test_the_ways_to_cut_words_are_the_oracle_s(pieces, words, most, seed):
    columns = dict(zip(pieces, np.random.default_rng(seed).permutation(len(pieces)).tolist(), strict=True))
    longest = max(map(len, pieces), default=0)
    spelled, stuck = Pieces(columns).spelled(words, most, ROOMY)
    assert len(spelled) == len(words)
    for at, word in enumerate(words):
        try:
            wanted = by_pieces(word, columns, most)
        except ValueError:
            assert spelled.of(at) == [] and stuck[at][:1] == stuck_at(word, columns, longest, None)
            assert word.endswith(stuck[at])
        else:
            assert spelled.of(at) == wanted and at not in stuck


@pytest.mark.parametrize("mark", ["", "▁"])
@pytest.mark.parametrize("segmentations", [1, 8, 64])
def test_a_list_is_compiled_as_by_the_oracle(mark, segmentations):
    """Hundreds of words, in pieces; some are given, some cannot be spelled."""
    rng = np.random.default_rng(segmentations)
    pieces = sorted({"".join(rng.choice(LETTERS[:4], rng.integers(1, 4))) for _ in range(60)} | {*LETTERS[:4]})
    tokens = ["<blank>", *[mark][: len(mark)], *(mark + one for one in pieces[::2]), *pieces]
    graph = an_open_graph(list(dict.fromkeys(tokens)), slots=3)
    graph = Graph(**graph.fields() | {"separator": mark or None})
    words = ["".join(rng.choice(LETTERS, rng.integers(1, 12), p=[0.3, 0.3, 0.2, 0.15, 0.05])) for _ in range(300)]
    pronunciations = {word: [" ".join(rng.choice(pieces, 3)) for _ in range(2)] for word in words[:40]}
    found, reasons = Spellings(pronunciations, segmentations, "1GiB").of(words, graph)
    columns, wanted = pieces_of(graph), {}
    for word in sorted(set(words)):
        if word in pronunciations:
            wanted[word] = list(
                dict.fromkeys(tuple(columns[one] for one in way.split()) for way in pronunciations[word])
            )
            continue
        try:
            wanted[word] = by_pieces(mark + word, columns, segmentations, mark or None)
        except ValueError as error:
            assert reasons[word] == str(error)
    assert found.keys() == wanted.keys() and reasons.keys() == set(words) - found.keys() and reasons
    assert list(reasons) == sorted(reasons)
    same(NewWords(graph, found, ROOMY), new_words(graph, wanted))


def test_long_words():
    graph = an_open_graph(["<blank>", "a", "b", "aa", "ab"])
    words = ["ab" * 500, "a" * 1000, "a" * 999, "b" + "a" * 999]
    found, _ = Spellings(None, 3, "1GiB").of(words, graph)
    wanted = {word: by_pieces(word, pieces_of(graph), 3) for word in words}
    same(NewWords(graph, found, ROOMY), new_words(graph, wanted))
    letters = an_open_graph(["<blank>", "a", "b"], slots=2)
    found, _ = Spellings(None, 3, "1GiB").of(words, letters)
    same(
        NewWords(letters, found, ROOMY), new_words(letters, {one: by_pieces(one, {"a": 1, "b": 2}, 3) for one in words})
    )


def many_words(count, size=1000):
    """Words of so many letters that hardly begin alike."""
    letters = np.random.default_rng(4).choice(np.frombuffer(b"abc", np.uint8), (count, size))
    return [bytes(row).decode() for row in letters]


def test_other_threads_go_on():
    """A megabyte of new words: where the GIL is kept, this thread stands still while they are compiled."""
    graph = an_open_graph(["<blank>", *"abc"])
    boost = Boost(many_words(1000))
    boost.unknown(an_open_graph(["<blank>", *"abc"], 2))  # what is not compiled is ready
    began, ended = threading.Event(), threading.Event()

    def compile_words():
        began.set()
        boost.compiled(graph)
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # Python code gives the GIL away where it waits or releases it, and nowhere else
    thread = threading.Thread(target=compile_words)
    try:
        thread.start()
        assert began.wait(60)
        turns = 0
        while not ended.is_set():
            turns += 1
            ended.wait(1e-4)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert turns > 20, "the compiler has to let other threads work, again and again"
    assert len(boost.compiled(graph).new_words) == 1000


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_control_c_ends_the_spelling():
    columns = {"a" * n: n for n in range(1, 15)}

    def interrupted(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(10**4):
                Pieces(columns).spelled(["a" * 1000] * 1000, 64, ROOMY)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, former)


def test_the_limit_of_bytes():
    graph = an_open_graph(["<blank>", *"abc"], slots=3)
    words = many_words(50, 100)
    found, _ = Spellings(None, 8, ROOMY).of(words, graph)
    made = NewWords(graph, found, ROOMY)
    size = sum(array.nbytes for array in (made.states, made.targets, made.columns, made.words, made.finals))
    needed = size - made.states.itemsize + 2 * len(made.pronunciations.columns) + 8 * len(made.pronunciations.offsets)
    assert len(Boost(words, max_bytes=needed).compiled(graph).new_words) == 50
    for limit, said in (
        (
            needed - 1,
            rf"the new words take {needed:,} bytes for this graph, more than max_bytes={needed - 1:,}; give a ",
        ),
        (
            1000,
            r"take more bytes for their spellings alone, more than max_bytes=1,000; give a larger one, such as Boost",
        ),
    ):
        with pytest.raises(CapacityError, match=said):
            Boost(words, max_bytes=limit).compiled(graph)
    with pytest.raises(CapacityError, match="spellings alone"):
        Boost(words, max_bytes="1kB").unknown(graph)
    with pytest.raises(ValueError, match="max_bytes: expected a number of bytes"):
        Boost(words, max_bytes="much")
    kept = pickle.loads(pickle.dumps(Boost(words, max_bytes=1000)))
    with pytest.raises(CapacityError):
        kept.with_scores(kept.phrases).compiled(graph)


def test_the_limit_names_the_list(tmp_path):
    from arcbeam import CtcDecoder

    graph = an_open_graph(["<blank>", *"abc"])
    decoder, words = CtcDecoder(graph, device="cpu"), many_words(50, 100)
    log_probs = [graphs.random_log_probs(seed, 5, 4) for seed in range(2)]
    with pytest.raises(CapacityError, match="boost: the new words of utterance 1 take"):
        decoder.decode(log_probs, boost=[Boost(words), Boost(words, max_bytes=1000)])
    path = tmp_path / "names.txt"
    path.write_text("\n".join(words))
    with pytest.raises(CapacityError, match=r"the new words of .*names\.txt take"):
        Boost.read(path, max_bytes=1000).compiled(graph)
    decoder.decode(log_probs, boost=Boost(words))


def test_what_is_not_there():
    listed = SpelledWords.from_lists([[(1,)]])
    with pytest.raises(IndexError, match="expected a word below 1, got 1"):
        listed.of(1)
    with pytest.raises(IndexError, match="expected a place below 1, got 3"):
        SpelledWords.gathered([(listed, 3)])
    tree = Tree(listed, 7, None, True, False)
    ones = np.ones(2, np.uint32)
    with pytest.raises(MemoryError, match="new words: 4 states with 6 arcs are more than a graph may have"):
        tree.copies(2**31 - 3, 0, ones, ones, 0)
    with pytest.raises(MemoryError, match="more than a graph may have"):
        tree.copies(0, 2**32 - 8, ones, ones, 2)


def test_a_token_that_is_no_text():
    spelled, stuck = Pieces({"\ud800": 1, "a": 2, "": 3}).spelled(["aa", "ab"], 2, ROOMY)
    assert spelled.of(0) == [(2, 2)] and stuck == {1: "b"}
