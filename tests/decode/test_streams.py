"""Streams of speech: any chunks, in any company, give the bytes of the whole, and a stable word is never taken back."""

import copy
import pickle
import threading
import time
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Graph, InputError, Partial, Stream, SymbolTable
from arcbeam.ctc import engines
from arcbeam.graph._words import GrowingPath
from arcbeam.streams.partials import Partials
from tests.decode import graphs, word_times_oracle
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.moving import rounds
from tests.decode.test_word_times import SPELLINGS, TOKENS, WRITERS
from tests.hypothesis_examples import examples
from tests.processes import in_threads, interrupted, of_a_child

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
WORDS = [f"w{i}" for i in range(1, 50)]
LENGTHS = (40, 0, 7, 1, 23, 64)
COLUMNS = 12
BATCH = [graphs.random_log_probs(seed, frames, COLUMNS) for seed, frames in enumerate(LENGTHS)]

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


def worded(graph):
    return Graph(**graph.fields() | {"word_symbols": SymbolTable.from_list(["<eps>", *WORDS])})


GRAPH = worded(graphs.random_graph(4, states=120, columns=COLUMNS))
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.02, "device": "cpu", "threads": 2}


def boost(seed, phrases=30):
    rng = np.random.default_rng(seed)
    return Boost({" ".join(rng.choice(WORDS, rng.integers(1, 4))): float(rng.normal(1, 2)) for _ in range(phrases)})


def silent(graph):
    """The same graph with silence: a blank, and a column between words."""
    return Graph(**graph.fields() | {"blank": 0, "separator_column": 1})


def unending(graph):
    """The same graph without final states, in which every result is one of an unfinished sentence."""
    fields = graph.fields()
    columns = fields["columns"] | {"finals": np.full_like(fields["columns"]["finals"], np.inf)}
    return Graph(**fields | {"columns": columns})


def plain(of=lambda graph: graph, **options):
    return CtcDecoder(of(GRAPH), **OPTIONS | options)


def rescoring(of=lambda graph: graph, **options):
    rng = np.random.default_rng(3)
    large, small = (random_model(rng, WORDS, order, share=0.2) for order in (3, 2))
    graph = over(graphs.random_graph(4, states=120, columns=COLUMNS), small, WORDS)
    models = {"language_model": large, "graph_language_model": small, "hypotheses_per_state": 3}
    return CtcDecoder(of(graph), **models | OPTIONS | options)


DECODERS = {"plain": plain, "rescoring": rescoring}


def in_chunks(decoder, batch, rng, boosts=None, most=9, **requested):
    """The final results of streams that are decoded in random company, and all partial results on the way."""
    pairs = rounds([decoder], batch, rng, boosts, most, requested=[requested], share=0.0)
    return [pair.finals[-1] for pair in pairs], [pair.partials for pair in pairs]


def test_words_become_stable_before_the_end():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    _, partials = in_chunks(decoder, [BATCH[5]], np.random.default_rng(0))
    counts = [partial.num_stable for partial in partials[0][:-1]]
    assert counts == sorted(counts)
    assert counts[-1] > 3


@slow
@given(st.data(), graphs.graphs(), graphs.log_probs(max_frames=8))
def test_a_partial_result_is_the_best_path_without_final_weights(data, graph, log_probs):
    fields = graph.fields()
    columns = fields["columns"] | {"finals": np.zeros_like(fields["columns"]["finals"])}
    everywhere = Graph(**fields | {"columns": columns})
    frames = data.draw(st.integers(0, len(log_probs)))
    options = {"beam": 3.0, "device": "cpu", "threads": 1}
    partial = CtcDecoder(graph, **options).stream().decode_chunk(log_probs[:frames])
    [wanted] = CtcDecoder(everywhere, **options).decode([log_probs[:frames]])
    assert partial.arcs.tolist() == wanted.arcs.tolist()
    assert partial.score == wanted.score
    assert not partial.reached_final


@given(
    st.lists(st.tuples(st.sampled_from([None, *range(4)]), st.sampled_from([0, 0, 0, 1, 2, 3, 4])), max_size=30),
    st.sampled_from([None, 0]),
    st.integers(1, 5),
)
def test_settled_words_are_those_of_the_oracle(written, separator, step):
    graph = Graph.from_arcs(
        WRITERS, start=0, finals={0: 0.0}, tokens=TOKENS, pronunciations=SPELLINGS, separator_column=separator
    )
    columns = [None if column == word_times_oracle.EPSILON_COLUMN else column for column in graph.columns.tolist()]
    arcs = {pair: arc for arc, pair in reversed(list(enumerate(zip(columns, graph.words.tolist(), strict=True))))}
    path = np.array([arcs[pair] for pair in written if pair in arcs], np.uint32)
    growing, before, wanted = GrowingPath(lambda: graph.word_reader, path), 0, []
    for end in range(len(path) + 1):
        _, settled = word_times_oracle.spans_and_settled(graph, path[:end])
        assert graph.word_reader.num_stable(path[:end]) == settled
        wanted.append((settled, " ".join(graph.word_reader.text(path[:end]).split()[:settled])))
        if end % step == 0:  # what was read before is not read again
            assert growing.stable(end) == wanted[end]
            assert before <= growing.stable_from <= end
            before = growing.stable_from
    assert growing.stable(len(path) // 2) == wanted[len(path) // 2]  # an old question


def test_what_is_kept_does_not_grow(monkeypatch):
    """The live paths of a stream part late, so the log between two chunks is short; and logs are collected."""
    monkeypatch.setattr(engines, "COLLECT_ABOVE", 64)
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    log_probs = graphs.random_log_probs(9, 3000, COLUMNS)
    stream = decoder.stream()
    for chunk in np.array_split(log_probs, 100):
        partial = stream.decode_chunk(chunk)
        unsettled = len(partial.arcs) - stream.num_settled
        assert unsettled < 200
    same([stream.finish()], decoder.decode([log_probs]))


def test_arrays_and_lengths():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    batch = np.stack([graphs.random_log_probs(seed, 12, COLUMNS) for seed in range(3)])
    lengths = [12, 5, 0]
    streams = [decoder.stream() for _ in lengths]
    found = decoder.decode_chunks(streams, batch, lengths, last=True)
    same(found, decoder.decode(batch, lengths))
    assert found.texts() == [one.text for one in found]
    assert decoder.stats.frames == 17
    assert decoder.decode_chunks([], []) == []
    for partials in (found, Partials(found)):
        assert (partials[-1], partials[0:2]) == (found[2], [found[0], found[1]])
        with pytest.raises(IndexError, match="partials: expected an index below 3, the number of streams, got 99"):
            partials[99]


def test_a_bad_chunk_is_refused_and_the_stream_goes_on():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    streams = [decoder.stream() for _ in range(2)]
    decoder.decode_chunks(streams, [BATCH[0][:10], BATCH[4][:10]])
    bad = BATCH[0][10:].copy()
    bad[3, 2] = np.nan
    before = streams[0].partial
    for errors in ("return", "raise"):
        if errors == "raise":
            with pytest.raises(ValueError, match="got nan in utterance 0, frame 3, column 2"):
                decoder.decode_chunks(streams, [bad, BATCH[4][15:]], last=True)
        else:
            refused, fine = decoder.decode_chunks(streams, [bad, BATCH[4][10:15]], errors="return")
            assert "got nan" in str(refused.error)
            assert (refused.text, refused.words, refused.num_stable, refused.is_final) == ("", [], 0, False)
            assert fine is streams[1].partial
        assert streams[0].partial is before
        assert streams[0].num_frames == 10
    same([streams[0].decode_chunk(BATCH[0][10:], last=True), streams[1].partial], decoder.decode([BATCH[0], BATCH[4]]))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_is_not_copied(copied):
    stream = CtcDecoder(GRAPH, **OPTIONS).stream()
    with pytest.raises(TypeError, match=r"the bytes of stream\.save\(\), from which decoder\.restore\(data\)"):
        copied(stream)


def test_a_chunk_after_the_last_is_refused():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    done, open_ = decoder.stream(), decoder.stream()
    final = done.decode_chunk(BATCH[0], last=True)
    with pytest.raises(ValueError, match="stream 1: expected no chunk after the last"):
        decoder.decode_chunks([open_, done], [BATCH[2], BATCH[2]])
    assert open_.num_frames == 0
    fine, refused = decoder.decode_chunks([open_, done], [BATCH[2], BATCH[2]], errors="return")
    assert fine.num_frames == len(BATCH[2])
    assert "after the last" in str(refused.error)
    assert done.partial is final
    with pytest.raises(ValueError, match=r"^stream: expected no chunk after the last"):
        done.finish()


@pytest.mark.parametrize("links", [False, True])
def test_what_is_wrong_with_some_harms_no_other(links):
    """Streams that cannot be decoded, and arrays that do not fit, are refused one by one if errors are returned."""
    decoder, whole = CtcDecoder(GRAPH, **OPTIONS), BATCH[0]
    fine, twice, kept = (decoder.stream(nbest=2 if links else None) for _ in range(3))
    foreign, done = CtcDecoder(GRAPH, **OPTIONS).stream(nbest=2), decoder.stream()
    done.finish()
    bad = whole.copy()
    bad[3, 2] = np.nan
    streams = [fine, twice, foreign, twice, done, kept, *(decoder.stream() for _ in range(4))]
    chunks = [whole] * 5 + [whole[:, :3], whole.astype(np.int64), whole[0], None, bad]
    last = [True, True, True, True, False, True, True, True, True, True]
    found = decoder.decode_chunks(streams, chunks, [40, 23, *[40] * 8], last=last, errors="return")
    same([found[0], found[1]], decoder.decode([whole, whole[:23]]))
    assert (found[0].nbest is not None) == links
    assert [getattr(one.error, "stream", None) for one in found[2:]] == [2, 3, 4, *[None] * 5]
    arrays = [ValueError, TypeError, ValueError, TypeError]
    assert [type(one.error) for one in found[2:]] == [InputError] * 3 + arrays + [InputError]
    assert (found[9].error.utterance, found[9].error.frame, found[9].error.column) == (9, 3, 2)
    said = [
        "stream 2: expected one of this decoder", "stream 3: expected each stream once, got the same at 1 and 3",
        "stream 4: expected no chunk after the last", "log_probs[5]: expected 12 columns, got 3",
        "log_probs[6]: expected float32 or float16", "log_probs[7]: expected [frames, columns]",
        "log_probs[8]: expected an array", "got nan in utterance 9",
    ]  # fmt: skip
    for one, words in zip(found[2:], said, strict=True):
        assert words in str(one.error) and one.text == ""
    assert [stream.num_frames for stream in streams] == [40, 23, 0, 23, 0, 0, 0, 0, 0, 0]
    same([kept.decode_chunk(whole, last=True)], decoder.decode([whole]))
    with pytest.raises(ValueError, match=r"log_probs\[1\]: expected 12 columns, got 3"):
        decoder.decode_chunks([decoder.stream(), decoder.stream()], [whole, whole[:, :3]])
    nothing = decoder.decode_chunks([decoder.stream()], [whole[:, :3]], errors="return")
    assert "expected 12 columns" in str(nothing[0].error)
    with pytest.raises(ValueError, match="cuda_stream: expected None"):
        decoder.decode_chunks([decoder.stream()], [whole], cuda_stream=7)


def test_widths_that_differ_are_refused_but_for_the_first():
    """Where a graph takes any number of columns after its own."""
    decoder = CtcDecoder(Graph(**GRAPH.fields() | {"width_is_exact": False}), **OPTIONS)
    wide = np.pad(BATCH[0], ((0, 0), (0, 2)))
    found = decoder.decode_chunks([decoder.stream() for _ in range(3)], [wide, BATCH[0], wide], errors="return")
    assert [one.error is None for one in found] == [True, False, True]
    assert "expected 14 columns, as at 0, got 12" in str(found[1].error)


@pytest.mark.parametrize(
    ("streams", "arguments", "error", "said"),
    [
        (lambda d: d.stream(), {}, TypeError, "expected a list of streams, got Stream"),
        (lambda d: 3, {}, TypeError, "expected a list of streams, got int"),
        (lambda d: [None, None], {}, TypeError, "got NoneType at 0"),
        (lambda d: [d.stream()] * 2, {}, ValueError, "the same at 0 and 1"),
        (
            lambda d: [d.stream(), CtcDecoder(GRAPH, **OPTIONS).stream()],
            {},
            ValueError,
            "stream 1: expected one of this",
        ),
        (lambda d: [d.stream()], {}, ValueError, "a chunk for each stream, 1, got 2"),
        (lambda d: [d.stream(), d.stream()], {"last": [True]}, ValueError, "each of 2 streams, got 1"),
        (lambda d: [d.stream(), d.stream()], {"last": "yes"}, TypeError, "expected a bool, or one for each"),
        (lambda d: [d.stream(), d.stream()], {"last": [1, 0]}, TypeError, "expected bool, got int for stream 0"),
        (lambda d: [d.stream(), d.stream()], {"errors": "ignore"}, ValueError, "errors"),
        (lambda d: [d.stream(), d.stream()], {"lengths": [1]}, ValueError, "lengths"),
    ],
)
def test_bad_calls(streams, arguments, error, said):
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    with pytest.raises(error, match=said):
        decoder.decode_chunks(streams(decoder), [BATCH[0], BATCH[2]], **arguments)
    with pytest.raises(ValueError, match="columns"):
        decoder.stream().decode_chunk(BATCH[0][:, :3])
    with pytest.raises(TypeError, match="Boost"):
        decoder.stream(boost=["w1"])
    same([decoder.stream().decode_chunk(BATCH[0], last=True)], decoder.decode([BATCH[0]]))


def test_released_engines_go_on():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream()
    stream.decode_chunk(BATCH[0][:20])
    decoder.release()
    same([stream.decode_chunk(BATCH[0][20:], last=True)], decoder.decode([BATCH[0]]))


def test_ctrl_c_breaks_the_stream_that_it_interrupts_and_no_other():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    broken, other = decoder.stream(), decoder.stream()
    other.decode_chunk(BATCH[0][:10])
    long = np.tile(BATCH[5], (10_000, 1))
    interrupted(lambda: broken.decode_chunk(long))
    with pytest.raises(ValueError, match="stream: it was interrupted in the middle of a chunk"):
        broken.finish()
    same([other.decode_chunk(BATCH[0][10:], last=True)], decoder.decode([BATCH[0]]))


def test_a_child_forked_while_another_thread_decodes_goes_on_with_its_own():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    ours, long = decoder.stream(), decoder.stream()
    ours.decode_chunk(BATCH[0][:10])
    worker = threading.Thread(target=long.decode_chunk, args=(np.tile(BATCH[5], (3000, 1)),))
    worker.start()
    time.sleep(0.1)  # for the parent's thread to be decoding
    try:
        found = of_a_child(lambda: ours.decode_chunk(BATCH[0][10:], last=True))
        same([found], decoder.decode([BATCH[0]]))
    finally:
        worker.join()


def test_threads_with_streams_of_their_own():
    decoder = CtcDecoder(GRAPH, **OPTIONS)

    def run(i):
        return in_chunks(decoder, [BATCH[i]], np.random.default_rng(i))[0][0]

    same(in_threads(*(partial(run, i) for i in range(len(BATCH)))), decoder.decode(BATCH))


def test_partial_results_are_plain_values():
    stream = CtcDecoder(GRAPH, **OPTIONS).stream(boost=boost(0))
    partial = stream.decode_chunk(BATCH[5][:40])
    text, arcs = partial.text, partial.arcs.tolist()
    stream.decode_chunk(BATCH[5][40:])  # what was said before stays
    for one in (partial, pickle.loads(pickle.dumps(partial))):
        assert isinstance(one, Partial)
        assert (one.text, one.arcs.tolist()) == (text, arcs)
        assert one.stable_words == one.words[: one.num_stable]
        assert one.to_dict()["num_stable"] == one.num_stable
        assert one.to_dict()["is_final"] is False
        assert one.text in repr(one)
    assert isinstance(stream, Stream)
    assert "64 frames" in repr(stream)
