"""The texts of streams: what is settled is read once, and any result, whenever it is read, has the text of its
arcs."""

import gc
import itertools
import pickle
import threading
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import (
    Boost,
    CtcDecoder,
    Endpoint,
    EndpointRule,
    Graph,
    Partial,
    Partials,
    SymbolTable,
    TokenTable,
)
from arcbeam.graph._words import GrowingPath, WordReader
from arcbeam.graph.pronunciations import Pronunciations
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.test_new_words import PHRASES, boost_of, open_graphs
from tests.decode.test_streams import BATCH, COLUMNS, GRAPH, OPTIONS, boost
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")

SYMBOLS = ["<eps>", "a", "\u2581b", "\u2581", "\u00fc", "\u2581\u4e2d", "cd", "\U0001f600"]


def written(partial):
    """The text of a result's arcs, read from the first one."""
    return partial._graph.word_reader.text(partial.arcs)


def writer(join, separator, symbols):
    """A graph of one state: arc i writes label i."""
    arcs = [(0, 0, 1, label, 0.0) for label in range(len(SYMBOLS))]
    words = SymbolTable.from_list(SYMBOLS) if symbols else None
    return Graph.from_arcs(arcs, start=0, finals={0: 0.0}, word_symbols=words, join=join, separator=separator)


@given(
    st.sampled_from([("words", None), ("pieces", "\u2581"), ("pieces", None)]),
    st.booleans(),
    st.lists(st.lists(st.integers(0, len(SYMBOLS) - 1), max_size=4), max_size=6),
    st.data(),
)
def test_a_growing_path_has_the_text_of_all_its_arcs(form, symbols, parts, data):
    """Whatever was read before, of how many arcs, and with what after them."""
    graph = writer(*form, symbols)
    arcs = np.argsort(graph.words).astype(np.uint32)[: len(SYMBOLS)]
    all_arcs = arcs[list(itertools.chain(*parts))]
    path = GrowingPath(lambda: graph.word_reader, all_arcs)
    assert len(path) == len(all_arcs)
    for _ in range(data.draw(st.integers(1, 8))):
        count = data.draw(st.integers(0, len(all_arcs)))
        rest = arcs[data.draw(st.lists(st.integers(0, len(SYMBOLS) - 1), max_size=4))]
        whole = np.concatenate((all_arcs[:count], rest))
        assert path.arcs(count, rest).tolist() == whole.tolist()
        assert path.text(count, rest) == graph.word_reader.text(whole)
        assert path.text(count, rest) == graph.word_reader.text(whole)
        stable = GrowingPath(lambda: graph.word_reader, all_arcs[:count]).stable(count)
        assert path.stable(count) == stable and stable[0] == graph.word_reader.num_stable(all_arcs[:count])
        assert graph.word_reader.text(all_arcs[:count]).startswith(stable[1])


def test_a_text_that_has_not_changed_is_not_made_anew():
    graph = writer("pieces", "\u2581", True)
    assert isinstance(graph.word_reader, WordReader)
    [b, c, u] = (np.flatnonzero(graph.words == label).astype(np.uint32) for label in (2, 6, 4))
    path = GrowingPath(lambda: graph.word_reader, np.concatenate((b, c, b, u)))
    text = path.text(1, np.concatenate((c, b)))
    assert text == "bcd b"
    assert path.text(2, b) is text  # an arc was settled
    assert path.text(3, b[:0]) is text
    assert path.text(4, b[:0]) == "bcd b\u00fc"
    assert path.text(3, b[:0]) == text  # an old question


@pytest.mark.parametrize("spelled", [False, True])
def test_stable_words_of_a_long_sentence_are_not_read_from_its_beginning(spelled):
    tokens = TokenTable.from_list(["-", "a", "b"])
    arcs = [(0, 0, 1, 0, 0.0), (0, 0, 2, 1, 0.0), (0, 0, 3, 0, 0.0)]
    spellings = Pronunciations.from_lists([(1, [1, 2])]) if spelled else None
    graph = Graph.from_arcs(arcs, start=0, finals={0: 0.0}, tokens=tokens, pronunciations=spellings)
    path = GrowingPath(lambda: graph.word_reader, np.tile(np.argsort(graph.columns).astype(np.uint32), 1000))
    for end in range(0, 3001, 30):
        count, text = path.stable(end)
        assert text == " ".join(["1"] * count) and (count in (end // 3 - 1, end // 3 - 2) or end == 0)
        assert end - path.stable_from < 10
    assert path.stable(300) == GrowingPath(lambda: graph.word_reader, path.arcs(300)).stable(300)


def read_somehow(rng, partials, streams):
    """Looks at results in any way; all texts are those of the arcs."""
    how = rng.integers(4)
    wanted = None
    if how == 0:
        wanted = partials.texts()
    elif how == 1:
        for at in rng.permutation(len(partials))[: len(partials) // 2].tolist():
            assert partials[at].text == written(partials[at])
        wanted = partials.texts()
    elif how == 2:
        assert [stream.partial.text for stream in streams] == [one.text for one in partials]
    assert wanted is None or wanted == [written(partial) for partial in partials]


def rounds(decoder, streams, batch, rng, most=9):
    """Rounds of random streams and chunks, read or not, with resets: the results of all, by their rounds."""
    found = []
    for _ in range(30):
        chosen = rng.permutation(len(streams))[: rng.integers(1, len(streams) + 1)].tolist()
        for i in chosen:
            if streams[i].is_finished or rng.random() < 0.1:
                streams[i].reset()
        begins = [int(rng.integers(0, len(batch[i]) + 1)) for i in chosen]
        chunks = [batch[i][at : at + int(rng.integers(0, most))] for i, at in zip(chosen, begins, strict=True)]
        last = [bool(rng.random() < 0.1) for _ in chosen]
        some = [streams[i] for i in chosen]
        partials = decoder.decode_chunks(some, chunks, last=last)
        read_somehow(rng, partials, some)
        found.append(partials)
    return found


def check_rounds(rng, found):
    """In any order, however late."""
    for at in rng.permutation(len(found)).tolist():
        if rng.random() < 0.5:
            assert found[at].texts() == [written(partial) for partial in found[at]]
        assert [partial.text for partial in found[at]] == [written(partial) for partial in found[at]]


@pytest.mark.parametrize("seed", range(4))
def test_any_result_read_at_any_time(seed):
    decoder, rng = CtcDecoder(GRAPH, **OPTIONS), np.random.default_rng(seed)
    streams = [decoder.stream(boost=boost(i) if i % 3 == 0 else None) for i in range(len(BATCH))]
    check_rounds(rng, rounds(decoder, streams, BATCH, rng))


@slow
@given(st.data(), open_graphs(), PHRASES, st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_new_words_of_a_boost(data, graph, phrases, batch):
    own, _, _ = boost_of(graph, phrases)
    decoder = CtcDecoder(graph, beam=data.draw(st.sampled_from([0.5, 17.0])), device="cpu", threads=1)
    streams = [decoder.stream(boost=own if i % 2 == 0 else None) for i in range(len(batch))]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    check_rounds(rng, rounds(decoder, streams, batch, rng, most=4))


def test_on_an_emulated_gpu(gpu):
    decoders = [CtcDecoder(GRAPH, **{**OPTIONS, "device": device}) for device in ("cuda", "cpu")]
    boosts = [boost(i) if i % 3 == 0 else None for i in range(3)]
    seen = []
    for decoder in decoders:
        streams = [decoder.stream(boost=one) for one in boosts]
        rng = np.random.default_rng(1)
        found = rounds(decoder, streams, BATCH[:3], rng)
        check_rounds(rng, found)
        seen.append([(one.text, one.num_stable, one.num_frames, one.is_final) for part in found for one in part])
    assert seen[0] == seen[1]
    assert len({text for text, *_ in seen[0]}) > 10


def texts_in_chunks(stream, log_probs, frames=5):
    chunks = [log_probs[at : at + frames] for at in range(0, len(log_probs), frames)]
    return [stream.decode_chunk(chunk, last=chunk is chunks[-1]).text for chunk in chunks]


def test_a_text_goes_with_its_sentence():
    """After a reset, a stream has the texts of one that begins; so has one whose boost knows other words."""
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream()
    first = texts_in_chunks(stream, BATCH[5])
    ended = stream.partial
    assert stream.reset().text == ""
    assert texts_in_chunks(stream, BATCH[0]) == texts_in_chunks(decoder.stream(), BATCH[0])
    stream.reset(boost=boost(3))
    assert texts_in_chunks(stream, BATCH[5]) == texts_in_chunks(decoder.stream(boost=boost(3)), BATCH[5])
    assert stream.boost is not None
    stream.reset(boost=Boost([]))
    assert texts_in_chunks(stream, BATCH[5]) == first
    assert ended.text == first[-1] == written(ended)


@pytest.mark.parametrize("is_read", [False, True])
def test_a_text_goes_on_where_a_stream_has_moved(is_read):
    """Neither another decoder nor the one that saved it takes a text from anywhere but the settled arcs."""
    decoder, other = CtcDecoder(GRAPH, **OPTIONS), CtcDecoder(GRAPH, **OPTIONS)
    log_probs = BATCH[5]
    wanted = texts_in_chunks(decoder.stream(), log_probs)
    stream = decoder.stream()
    moved = [stream]
    for at, text in zip(range(0, len(log_probs), 5), wanted, strict=True):
        last = at + 5 >= len(log_probs)
        data = moved[-1].save()
        partial = moved[-1].decode_chunk(log_probs[at : at + 5], last=last)
        again = (decoder, other)[at % 2].restore(data)
        if is_read and at > 0:
            assert again.partial.text == wanted[at // 5 - 1]
        assert again.decode_chunk(log_probs[at : at + 5], last=last).text == text == partial.text
        moved.append(again)
    # One that goes on elsewhere with other speech has its own text, and does not change the first's.
    stream = decoder.stream()
    before = stream.decode_chunk(log_probs[:30]).text
    branch = decoder.restore(stream.save())
    assert branch.partial.text == before
    assert branch.decode_chunk(BATCH[0], last=True).text == decoder.decode([np.r_[log_probs[:30], BATCH[0]]])[0].text
    assert stream.decode_chunk(log_probs[30:], last=True).text == wanted[-1]


def test_after_an_endpoint():
    rules = Endpoint({"length": EndpointRule(min_utterance_length=0.2, min_trailing_silence=0.0,
                                             must_contain_nonsilence=False)})  # fmt: skip
    graph = Graph(**GRAPH.fields() | {"blank": 0})
    decoder = CtcDecoder(graph, **OPTIONS)
    stream = decoder.stream(endpoint=rules)
    partials = [decoder.decode_chunks([stream], [BATCH[5][at : at + 8]]) for at in range(0, 64, 8)]
    ended = [one for one in partials if one[0].endpoint]
    assert len(ended) > 5
    assert all(one[0] is ended[0][0] for one in ended)
    assert {text for one in ended for text in one.texts()} == {written(ended[0][0])}
    sentences = [stream.partial]
    while sentences[-1].endpoint:
        sentences.append(stream.reset())
        assert sentences[-1].text == written(sentences[-1])
    whole = decoder.decode([BATCH[5][at : at + 10] for at in range(0, 60, 10)])
    assert [one.arcs.tolist() for one in sentences if one.endpoint] == [one.arcs.tolist() for one in whole]


@pytest.mark.parametrize("by_stream", [False, True])
def test_there_is_one_result_for_a_chunk(by_stream):
    """Whether it is first read in the round or in the stream, as long as somebody has it."""
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream()
    empty = stream.partial
    older = decoder.decode_chunks([stream], [BATCH[0][:9]])
    found = decoder.decode_chunks([stream], [BATCH[0][9:20]])
    if by_stream:
        assert stream.partial is found[0]
    else:
        assert found[0] is stream.partial
    assert older[0] is older[0] is not found[0]
    assert stream.partial is found[0] is found[-1]
    assert (empty.num_frames, older[0].num_frames, found[0].num_frames) == (0, 9, 20)
    found[0].remark = "mine"
    assert stream.partial.remark == "mine"


def test_partials_are_a_sequence():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    found = decoder.decode_chunks([decoder.stream() for _ in BATCH], BATCH)
    assert isinstance(found, Partials)
    listed = list(found)
    assert len(found) == len(listed) == len(BATCH)
    assert all(isinstance(one, Partial) for one in found)
    assert found == listed and listed == found and found != listed[1:]
    assert found[1:-1:2] == listed[1:-1:2]
    assert found[-1] is listed[-1] is found[np.int64(5)]
    assert list(reversed(found)) == listed[::-1]
    assert (found.index(listed[3]), listed[2] in found) == (3, True)
    with pytest.raises(IndexError):
        found[len(found)]
    first, *others = found
    assert [first, *others] == listed
    again = pickle.loads(pickle.dumps(found))
    assert again.texts() == found.texts() == [one.text for one in again]
    twice = pickle.loads(pickle.dumps(again))
    assert [one.stable_text for one in twice] == [one.stable_text for one in found]
    assert repr(found) == repr(listed)


def test_texts_that_a_user_has_set_stay():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    found = decoder.decode_chunks([decoder.stream() for _ in range(3)], [BATCH[5], BATCH[0], BATCH[4]])
    found[0].text = "mine"
    found[1].arcs = found[2].arcs
    assert found.texts() == ["mine", found[2].text, found[2].text]


def test_a_chunk_after_the_last_has_no_words():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    done, other = decoder.stream(), decoder.stream()
    done.decode_chunk(BATCH[0], last=True)
    found = decoder.decode_chunks([done, other], [BATCH[5], BATCH[5]], errors="return")
    assert found.texts() == ["", other.partial.text]
    refused = found[0]
    assert (refused.words, refused.arcs.tolist(), refused.complete, refused.num_frames) == ([], [], False, 40)
    assert (refused.score, refused.partial_score) == (-np.inf, -np.inf)
    assert "after the last" in str(refused.error)


def test_what_a_round_keeps():
    """Not its streams; and a stream keeps nothing of rounds before its last."""
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    streams = [decoder.stream() for _ in range(3)]
    first = decoder.decode_chunks(streams, [BATCH[5][:30]] * 3)
    first.texts()
    shared = weakref.ref(first[0]._results)
    assert streams[1].partial is first[1]
    del first
    assert shared() is not None
    last = decoder.decode_chunks(streams, [BATCH[5][30:]] * 3)
    assert shared() is None
    gone = [weakref.ref(stream) for stream in streams]
    del streams
    gc.disable()  # references alone keep them
    try:
        assert [one() for one in gone] == [None] * 3
    finally:
        gc.enable()
    assert len(set(last.texts())) == 1
    assert last[1].text == written(last[1]) != ""


def test_threads_that_look_while_streams_go_on():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    log_probs = graphs.random_log_probs(2, 400, COLUMNS)
    streams = [decoder.stream() for _ in range(8)]
    found, wrong = [], []
    ended = threading.Event()

    def read(seed):
        rng = np.random.default_rng(seed)
        try:
            while not ended.is_set() or rng.random() < 0.9:
                if found:
                    partials = found[int(rng.integers(len(found)))]
                    texts = partials.texts()
                    assert texts == [written(partial) for partial in partials]
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    found.extend(decoder.decode_chunks(streams, [log_probs[at : at + 4]] * 8) for at in range(0, 400, 4))
    ended.set()
    for thread in threads:
        thread.join()
    assert not wrong
    same([stream.finish() for stream in streams[:1]], decoder.decode([log_probs]))
