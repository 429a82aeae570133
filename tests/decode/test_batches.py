"""Batch after batch: the bytes of `decode`, answers beside the next search, and an end that leaves nothing running."""

import gc
import threading

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, GraphError
from arcbeam.ctc import batches as batches_of
from arcbeam.ctc.lattice.answers import AnswerRequest
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.small_search import ROOMY
from tests.decode.test_streams import GRAPH, WORDS
from tests.processes import of_a_child

PATIENCE_S = 60  # for what has to come; no test waits for it to pass
BATCHES = [[random_log_probs(10 * at + i, frames, 12) for i, frames in enumerate((5, 0, 9, 1, 7))] for at in range(4)]
OPTIONS = {"beam": 6.0, "max_active": 60, "frame_shift": 0.04}
WRITTEN = sorted({WORDS[label - 1] for label in GRAPH.words.tolist() if label})
BOOST = Boost({WRITTEN[0]: 2.0, " ".join(WRITTEN[1:3]): 4.0})
REQUESTED = {"nbest": 5, "confidence": True, "mbr": True}


def made(device="cpu", **options):
    return CtcDecoder(GRAPH, device=device, **OPTIONS, **options)


@pytest.fixture
def decoder():
    return made()


@pytest.fixture(params=["cpu", "cuda"])
def make(request):
    """Makes a decoder on a device; the CUDA one is emulated."""
    if request.param == "cuda":
        request.getfixturevalue("emulated_gpu").begin_with(ROOMY)
    return lambda: made(request.param)


def values(hypotheses):
    """All that can be read of them, in a form that == compares by value."""
    lattices = [
        None if h.lattice is None else (h.lattice.links.tobytes(), h.lattice.states.tobytes(), h.lattice.final_scores)
        for h in hypotheses
    ]
    return [h.to_dict() for h in hypotheses], repr(lattices), hypotheses.stats


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith(batches_of.THREAD_NAME)]


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    assert threads() == []


class Gated:
    """An engine, a function of which the test watches: `before` is called with the number of the call, from 0."""

    def __init__(self, engine, function, before):
        self._engine, self._function, self._before, self._calls = engine, function, before, 0

    def __getattr__(self, name):
        found = getattr(self._engine, name)
        if name != self._function:
            return found

        def call(*arguments, **options):
            self._calls += 1
            self._before(self._calls - 1)
            return found(*arguments, **options)

        return call


def watch(decoder, monkeypatch, *, search=lambda number: None, answer=lambda number: None):
    """Calls these before each search and before the answers of each batch."""
    intake = decoder._search.intake
    monkeypatch.setattr(intake, "engine", Gated(intake.engine, "decode", search))
    make = decoder._search.reader.new_engine
    monkeypatch.setattr(decoder._search.reader, "new_engine", lambda: Gated(make(), "answers", answer))


ALL = {**REQUESTED, "lattice": True, "frame_confidence": "entropy"}


@pytest.mark.parametrize(
    "requested",
    [{}, {"nbest": 3}, {"confidence": True}, {"lattice": True}, ALL],
    ids=["best", "nbest", "confidence", "lattice", "all"],
)
def test_batches_have_the_bytes_of_decode(make, requested):
    either = make()
    wanted = [either.decode(batch, boost=BOOST, **requested) for batch in BATCHES]
    found = list(either.decode_batches(BATCHES, boost=BOOST, **requested))
    assert [values(one) for one in found] == [values(one) for one in wanted]
    assert either.stats == wanted[-1].stats


def test_no_batch_and_an_empty_one(decoder):
    assert list(decoder.decode_batches([], nbest=2)) == []
    assert [list(found) for found in decoder.decode_batches([[], []], nbest=2)] == [[], []]


@pytest.mark.parametrize("requested", [{}, REQUESTED, {"frame_confidence": "entropy", "nbest": 2}])
def test_pairs_whose_buffer_is_written_again(decoder, requested):
    buffer, lengths = np.empty((5, 9, 12), np.float32), np.array([5, 0, 9, 1, 7])

    def pairs():
        for batch in BATCHES:
            for row, log_probs in zip(buffer, batch, strict=True):
                row[: len(log_probs)], row[len(log_probs) :] = log_probs, np.nan
            yield buffer, lengths

    wanted = [decoder.decode(batch, **requested) for batch in BATCHES]
    assert [values(one) for one in decoder.decode_batches(pairs(), **requested)] == [values(one) for one in wanted]


def test_answers_are_made_while_the_next_batch_is_decoded(make, monkeypatch):
    """Each of the two waits until the other has begun, so one after the other would never end."""
    either = make()
    searches, answers = ([threading.Event() for _ in BATCHES] for _ in range(2))

    def search(number):
        searches[number].set()
        if number:
            assert answers[number - 1].wait(PATIENCE_S), "the answers wait for the next batch to be decoded"

    def answer(number):
        answers[number].set()
        if number + 1 < len(BATCHES):
            assert searches[number + 1].wait(PATIENCE_S), "the next batch waits for the answers"

    wanted = [values(either.decode(batch, **REQUESTED)) for batch in BATCHES]
    with monkeypatch.context() as patched:
        watch(either, patched, search=search, answer=answer)
        assert [values(one) for one in either.decode_batches(BATCHES, **REQUESTED)] == wanted


def test_batches_are_pulled_and_decoded_in_the_callers_thread_one_ahead(decoder, monkeypatch):
    events = []

    def note(what):
        events.append(what if threading.current_thread() is threading.main_thread() else "in another thread")

    def source():
        for number, batch in enumerate(BATCHES[:3]):
            note(f"pull {number}")
            yield batch

    watch(decoder, monkeypatch, search=lambda number: note(f"search {number}"))
    found = decoder.decode_batches(source(), nbest=2)
    note("begin")
    for number, _ in enumerate(found):
        note(f"take {number}")
    assert events == [
        "begin", "pull 0", "search 0", "pull 1", "search 1", "take 0", "pull 2", "search 2", "take 1", "take 2",
    ]  # fmt: skip
    events.clear()
    for number, _ in enumerate(decoder.decode_batches(source(), lattice=True)):
        note(f"take {number}")
    assert events[:6] == ["pull 0", "search 3", "take 0", "pull 1", "search 4", "take 1"]


def test_no_more_than_two_batches_are_kept(decoder):
    """What is dropped when: log-probs once they are decoded, hypotheses when their successors are requested."""

    class Counted(np.ndarray):
        alive = 0

        def __del__(self):
            Counted.alive -= 1

    def source():
        for batch in BATCHES:
            assert Counted.alive == 0
            Counted.alive += 1
            yield np.stack([batch[0]]).view(Counted)

    for hypotheses in decoder.decode_batches(source(), nbest=2):
        assert len(hypotheses) == 1
        del hypotheses


@pytest.mark.parametrize("requested", [{}, REQUESTED])
def test_an_error_comes_in_the_place_of_its_batch_and_ends_the_iteration(decoder, requested):
    bad = [np.full((3, 12), np.nan, np.float32)]
    pulled = []

    def source():
        for batch in (*BATCHES[:2], bad, BATCHES[2], BATCHES[3]):
            pulled.append(batch)
            yield batch

    found = decoder.decode_batches(source(), **requested)
    assert [values(next(found)) for _ in range(2)] == [values(decoder.decode(one, **requested)) for one in BATCHES[:2]]
    with pytest.raises(ValueError, match="got nan in utterance 0"):
        next(found)
    assert len(pulled) == 3 and threads() == []
    assert list(found) == []
    every = list(decoder.decode_batches([BATCHES[0], bad, BATCHES[1]], errors="return", **requested))
    assert [one[0].error is None for one in every] == [True, False, True]


@pytest.mark.parametrize("requested", [{}, REQUESTED])
def test_an_error_of_the_source_is_raised_as_it_is(decoder, requested):
    class Torn(Exception):
        pass

    torn = Torn("the disk is gone")

    def source():
        yield BATCHES[0]
        raise torn

    found = decoder.decode_batches(source(), **requested)
    assert len(next(found)) == 5
    with pytest.raises(Torn) as caught:
        next(found)
    assert caught.value is torn


def test_an_error_of_the_answers_comes_in_their_place(decoder, monkeypatch):
    def answer(number):
        if number == 1:
            raise MemoryError("no room for answers")

    watch(decoder, monkeypatch, answer=answer)
    found = decoder.decode_batches(BATCHES, **REQUESTED)
    next(found)
    with pytest.raises(MemoryError, match="no room for answers"):
        next(found)
    assert list(found) == []


def test_a_forked_child_is_told(decoder):
    """Before it pulls a batch, which may come from a source that it shares with its parent."""
    pulled = []

    def source():
        for batch in BATCHES:
            pulled.append(batch)
            yield batch

    iteration = decoder.decode_batches(source(), **REQUESTED)
    next(iteration)

    def told():
        with pytest.raises(RuntimeError, match="forked"):
            list(iteration)
        return len(pulled)

    assert of_a_child(told) == 2 < len(BATCHES)
    assert len(list(iteration)) == len(BATCHES) - 1


def test_wrong_options_and_batches(decoder):
    with pytest.raises(TypeError, match="nbest: expected"):
        decoder.decode_batches(BATCHES, nbest="5")
    with pytest.raises(ValueError, match="errors: expected 'raise' or 'return'"):
        decoder.decode_batches(BATCHES, errors="ignore")
    with pytest.raises(TypeError, match=r"boost: expected an arcbeam\.Boost, got list"):
        decoder.decode_batches(BATCHES, boost=[BOOST])
    with pytest.raises(GraphError, match="boost"):
        CtcDecoder(random_graph(4, states=9, columns=12), device="cpu").decode_batches(BATCHES, boost=BOOST)
    with pytest.raises(TypeError, match="batches: expected an iterable of batches, got int"):
        decoder.decode_batches(3)
    log_probs = np.zeros((2, 3, 5), np.float32)
    for one, got in (
        (log_probs, r"an array of shape \[2, 3, 5\]; for one batch write \[log_probs\], or call decode"),
        (log_probs[0], r"an array of shape \[3, 5\]; for one batch"),
        ((log_probs, [2, 3]), r"a pair \(log_probs, lengths\); for one batch write \[\(log_probs, lengths\)\]"),
        ((list(log_probs), np.array([2, 3])), r"a pair \(log_probs, lengths\)"),
        ({"a": log_probs}, "dict"),
    ):
        with pytest.raises(TypeError, match=f"batches: expected an iterable of batches, got {got}"):
            decoder.decode_batches(one)
    assert [list(found) for found in decoder.decode_batches(([], []))] == [[], []]
    with pytest.raises(ValueError, match=r"expected \(log_probs, lengths\), got a tuple of 5; give utterances as a"):
        list(decoder.decode_batches([tuple(BATCHES[0])]))
    for one in (log_probs[0], (log_probs[0], [3])):
        with pytest.raises(ValueError, match=r"got one utterance .*, as in decode_batches\(\[\[log_probs\]\]\)$"):
            list(decoder.decode_batches([one]))
    with pytest.raises(TypeError, match="unknown option lengths: expected one of batches, boost"):
        decoder.decode_batches(BATCHES, lengths=[1])


def test_a_decoder_can_be_used_between_two_batches(decoder):
    for number, found in enumerate(decoder.decode_batches(BATCHES, **REQUESTED)):
        assert values(decoder.decode(BATCHES[number], **REQUESTED)) == values(found)


class Stuck:
    """Answers that end when they are cancelled."""

    def __init__(self, decoder, monkeypatch, first):
        self.begun, self.cancelled = threading.Event(), threading.Event()

        def answer(number):
            if number == first:
                self.begun.set()
                assert self.cancelled.wait(PATIENCE_S), "nobody cancels the answers"

        watch(decoder, monkeypatch, answer=answer)
        make = decoder._search.reader.new_engine
        monkeypatch.setattr(decoder._search.reader, "new_engine", lambda: Gated(make(), "cancel", self._cancel))

    def _cancel(self, number):
        self.cancelled.set()


@pytest.mark.parametrize("how", ["close", "break", "drop"])
def test_who_leaves_early_does_not_wait_for_answers(decoder, monkeypatch, how):
    stuck = Stuck(decoder, monkeypatch, first=1)
    found = decoder.decode_batches(BATCHES, **REQUESTED)
    for _ in found:
        assert stuck.begun.wait(PATIENCE_S) and len(threads()) == 1
        break
    if how == "close":
        found.close()
    del found
    assert stuck.cancelled.is_set() and threads() == []


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_iteration_that_the_collector_ends_in_the_thread_of_its_answers(decoder, monkeypatch):
    """A cycle of references keeps it until the collector runs, which may be in any thread."""
    dropped, collected = threading.Event(), threading.Event()

    class Service:
        def __init__(self):
            self.found = decoder.decode_batches(self.batches(), **REQUESTED)

        def batches(self):
            yield from BATCHES

    def answer(number):
        if number == 1:
            assert dropped.wait(PATIENCE_S)
            gc.collect()
            collected.set()

    watch(decoder, monkeypatch, answer=answer)
    gc.disable()
    try:
        service = Service()
        next(service.found)
        [thread] = threads()
        del service
        dropped.set()
        assert collected.wait(PATIENCE_S)
    finally:
        gc.enable()
    thread.join(PATIENCE_S)
    gc.collect()  # says what was ignored


def test_an_interrupt_while_the_answers_are_waited_for(decoder, monkeypatch):
    stuck = Stuck(decoder, monkeypatch, first=0)

    def source():
        yield BATCHES[0]
        assert stuck.begun.wait(PATIENCE_S)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(decoder.decode_batches(source(), **REQUESTED))
    assert stuck.cancelled.is_set() and threads() == []
    assert len(list(made().decode_batches(BATCHES, **REQUESTED))) == len(BATCHES)


def test_answers_that_are_cancelled_end_early(decoder):
    """One thread has many lattices to look at; it is told to stop while it does, and before it begins."""
    [one] = decoder.decode([random_log_probs(3, 60, 12)], lattice=True)
    lattices = type(one._results.lattices.lattices).of_arrays([one._results.lattices.lattices.arrays(0)] * 3000)
    engine = made(threads=1)._search.reader.new_engine()
    request = AnswerRequest(nbest=3, confidence=True)
    assert engine.answers(lattices, request).first_entry[-1] == 3000 * 3
    found = []
    thread = threading.Thread(target=lambda: found.append(engine.answers(lattices, request)))
    thread.start()
    engine.cancel()
    thread.join(PATIENCE_S)
    found.append(engine.answers(lattices, request))
    assert [entries < 3000 * 3 for entries in (one.first_entry[-1] for one in found)] == [True, True]


def test_a_list_that_is_cancelled_ends_early(decoder):
    [one] = decoder.decode([random_log_probs(3, 1000, 12)], lattice=True)
    engine, found = made(threads=1)._search.reader.new_engine(), []
    request = AnswerRequest(nbest=100_000, confidence=True)  # which takes twelve seconds
    thread = threading.Thread(target=lambda: found.append(engine.answers(one._results.lattices.lattices, request)))
    thread.start()
    thread.join(0.2)
    engine.cancel()
    thread.join(PATIENCE_S)
    assert found[0].first_entry[-1] == 0
