"""Streams with a large language model on a GPU: under the emulator, the bytes of the CPU, in every placement."""

import itertools
import tempfile
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, CudaError, CudaOutOfMemoryError, KenLM, UnsupportedError
from arcbeam.ctc.gpu.models import _models
from arcbeam.gpu.tuned import search_plan
from tests.decode import graphs, kenlm_files
from tests.decode.emulated_gpu import TIGHT, Shape, scheduled
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.moving import REQUESTED, beside
from tests.decode.small_search import AS_SHIPPED, ROOMY
from tests.decode.test_endpoints import RULES, SILENCE, SPEECH
from tests.decode.test_rescoring import language_models, with_words
from tests.decode.test_stream_states import with_moves
from tests.decode.test_streams import BATCH, WORDS, boost
from tests.decode.test_streams_emulated import LITTLE, OPTIONS, SMALL_STATES, answers, on_both, seen
from tests.hypothesis_examples import examples
from tests.rescore.answering import NO_THREADS, Answering
from tests.rescore.placed import PLACES
from tests.rescore.placed import REQUESTED as REQUESTING
from tests.simt.build import schedules

RNG = np.random.default_rng(3)
LARGE, SMALL = (random_model(RNG, WORDS, order, share=0.2) for order in (3, 2))
GRAPH = over(SILENCE, SMALL, WORDS)
MODELS = {"language_model": LARGE, "graph_language_model": SMALL, "hypotheses_per_state": 3} | OPTIONS
BOOSTS = [boost(i) if i % 3 else None for i in range(len(BATCH))]
SCHEDULED = ("resident", "bucketed", "arcs requested", "kenlm")
pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")
few = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def gpu(emulated_gpu):
    """Without clusters, of which most blocks only wait, for the emulator's time's sake."""
    emulated_gpu.begin_with(ROOMY)
    emulated_gpu.launch_as(search_plan.WIDE)
    return emulated_gpu


@lru_cache
def kenlm():
    kenlm_files.need_kenlm()
    with tempfile.TemporaryDirectory() as folder:
        return KenLM(kenlm_files.random_ngrams(WORDS, 3, 5).write(Path(folder, "lm.arpa")))


def models_of(place):
    return MODELS | ({"language_model": kenlm()} if place == "kenlm" else {})


def pair(place, **options):
    """Decoders on both devices."""
    given = models_of(place) | options
    return [CtcDecoder(GRAPH, device="cuda", **given | PLACES[place]), CtcDecoder(GRAPH, device="cpu", **given)]


def chunks(place, boosted, seed=1, **options):
    """Rounds in which all streams have a boost, some, or none: each kernel goes on with what another has left."""
    given = models_of(place) | {"graph": GRAPH, "where": PLACES[place]} | options
    return on_both(BATCH, np.random.default_rng(seed), BOOSTS if boosted else None, **given)


def moves(place, boosted, seed=1):
    decoders, boosts = pair(place), BOOSTS if boosted else None
    found = with_moves(decoders, BATCH, np.random.default_rng(seed), boosts)
    wanted = decoders[1].decode(BATCH, boost=boosts)
    same(found, wanted)
    assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]


def lattices_that_move(place, boosted, batch=BATCH, seed=1):
    """The outputs of streams move with them between a GPU and a CPU, in the middle of sentences."""
    boosts = BOOSTS[: len(batch)] if boosted else None
    beside(pair(place, lattice_beam=4.0), batch, np.random.default_rng(seed), boosts)


def lattices_of_sentences_that_move(place, boosted, speech=SPEECH):
    """Behind endpoints, too, where frames wait."""
    rng, boosts = np.random.default_rng(3), [BOOSTS[1] if boosted else None]
    decoders = pair(place, lattice_beam=4.0)
    found, waited, _ = beside(decoders, [speech], rng, boosts, 12, RULES, requested=REQUESTED[:1], share=0.9)
    assert waited > 0 and len(found[0]) > 2


def sentences(place, boosted):
    """Streams that stop at endpoints, begin the next sentence with a history or without, and move on the way."""
    decoders, rng = pair(place), np.random.default_rng(5)
    boosts = [BOOSTS[i + 1] if boosted else None for i in range(4)]
    speech = [np.roll(SPEECH, 20 * i, axis=0)[:90] for i in range(4)]
    streams = [
        [decoder.stream(boost=one, endpoint=RULES if i else None) for i, one in enumerate(boosts)]
        for decoder in decoders
    ]
    contexts = set()
    for at in range(0, 90, 9):
        parts = [one[at : at + 9] for one in speech]
        found, wanted = (
            decoder.decode_chunks(own, parts, last=at == 81) for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]
        for i, (mine, other) in enumerate(zip(*streams, strict=True)):
            while mine.partial.endpoint and not mine.is_finished and rng.random() < 0.7:
                keep = bool(rng.random() < 0.7)
                assert seen(mine.reset(keep_history=keep)) == seen(other.reset(keep_history=keep))
                assert mine.partial.rescoring_score == other.partial.rescoring_score
                contexts.add(mine._sentence.lm_context)
            data = mine.save()
            assert data == other.save()
            if rng.random() < 0.5:
                streams[0][i], streams[1][i] = (decoder.restore(data, boost=boosts[i]) for decoder in decoders)
                assert streams[0][i].save() == data
    assert len({len(one.words) for one in contexts}) > 1 and len({one.after_start for one in contexts}) == 2


def posteriors(place, boosted):
    """Of words, with and without lattices, in company of streams without any."""
    requested = [{"posteriors": True}, {"posteriors": True, "lattice": True}, {}]
    chunks(place, boosted, requested=requested, lattice_beam=4.0)


STORIES = {
    "posteriors": posteriors, "moves": moves, "lattices that move": lattices_that_move,
    "lattices of sentences that move": lattices_of_sentences_that_move, "sentences": sentences,
}  # fmt: skip
SHORTER = {
    "lattices that move": partial(lattices_that_move, batch=[one[:12] for one in BATCH]),
    "lattices of sentences that move": partial(lattices_of_sentences_that_move, speech=SPEECH[:60]),
}


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("room", [TIGHT, AS_SHIPPED])
@pytest.mark.parametrize("place", PLACES)
def test_chunks(gpu, place, room, boosted):
    gpu.begin_with(room)
    _, streams = chunks(place, boosted)
    assert boosted or sum(stream.num_settled for stream in streams) > 50


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("story", STORIES)
def test_stories(gpu, story, place, boosted):
    gpu.begin_with(TIGHT)
    (STORIES | SHORTER)[story](place, boosted)


@pytest.mark.parametrize("shape", [search_plan.WIDE, search_plan.DENSE, search_plan.CLUSTER])
def test_shapes_and_states_that_grow(gpu, monkeypatch, shape):
    monkeypatch.setattr(search_plan, "STREAM_TOKENS", 1)
    monkeypatch.setattr(search_plan, "STREAM_ENTRIES", 1)
    gpu.begin_with(TIGHT)
    gpu.launch_as(shape)
    chunks("resident", False)


@pytest.mark.parametrize("place", ["resident", "arcs requested", "kenlm"])
def test_windows_and_arrays_of_the_host(gpu, place):
    gpu.begin_with(replace(TIGHT, window_bytes=1))
    gpu.send_in_parts()
    chunks(place, False)


@few
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.5, 2.0, 30.0]),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([name for name in PLACES if name != "kenlm"]),
    st.sampled_from([TIGHT, ROOMY]),
    st.integers(0, 1000),
)
def test_random_graphs(emulated_gpu, graph, models, batch, beam, max_active, n, place, room, seed):
    """Graphs with dead ends and ties, searches that die, chunks of any length, and streams that move."""
    emulated_gpu.begin_with(room)
    given = {"language_model": models[0], "graph_language_model": models[1], "hypotheses_per_state": n}
    given |= {"beam": beam, "max_active": max_active}
    graph, rng = with_words(graph, models[1]), np.random.default_rng(seed)
    on_both(batch, rng, None, graph, 4, PLACES[place], **given)
    places = [CtcDecoder(graph, device=on, **given | (PLACES[place] if on == "cuda" else {})) for on in ("cuda", "cpu")]
    same(with_moves(places, batch, rng, most=4), places[1].decode(batch))


@few
@given(
    graphs.graphs(blank=3),
    language_models(),
    st.lists(graphs.log_probs(), min_size=2, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from([0.5, 2.0, 17.0]),
    st.sampled_from([name for name in PLACES if name != "kenlm"]),
    st.integers(0, 8),
)
def test_history_goes_on(emulated_gpu, graph, models, speech, keeps, beam, place, middle):
    emulated_gpu.begin_with(ROOMY)
    given = {"language_model": models[0], "graph_language_model": models[1], "beam": beam}
    graph = with_words(graph, models[1])
    places = [CtcDecoder(graph, device=on, **given | (PLACES[place] if on == "cuda" else {})) for on in ("cuda", "cpu")]
    streams = [decoder.stream() for decoder in places]
    for log_probs, keep in zip(speech, keeps, strict=False):
        for part, last in ((log_probs[:middle], False), (log_probs[middle:], True)):
            found, wanted = (stream.decode_chunk(part, last=last) for stream in streams)
            assert (seen(found), found.rescoring_score) == (seen(wanted), wanted.rescoring_score)
            assert streams[0].save() == streams[1].save()
        for stream in streams:
            stream.reset(keep_history=keep)


@pytest.mark.parametrize("place", PLACES)
def test_the_bytes_depend_on_the_frames_alone(gpu, place):
    """Not on the engine, on chunks, or on company: that of boosted streams has other kernels."""
    gpu.begin_with(TIGHT)
    for one in (None, Boost({}), BOOSTS[1]):
        states = set()
        for decoder in pair(place):
            for chunk in (1, 9, 100):
                stream = decoder.stream(boost=one)
                decoder.decode_chunks([stream], [BATCH[5][:0]])
                for at in range(0, 27, chunk):
                    rounds = [decoder.stream(boost=BOOSTS[2] if at // chunk % 2 else None), stream]
                    decoder.decode_chunks(rounds, [BATCH[3], BATCH[5][at : min(at + chunk, 27)]])
                states.add(stream.save())
        assert len(states) == 1


def test_a_failed_batch_leaves_all_streams_as_they_were(gpu):
    for place in PLACES:
        gpu.begin_with(TIGHT)
        decoder, cpu = pair(place)
        streams = [decoder.stream() for _ in BATCH]
        decoder.decode_chunks(streams, [logp[:5] for logp in BATCH])
        before, failures = [stream.save() for stream in streams], 0
        while not all(stream.is_finished for stream in streams):
            for _ in range(8 if failures < 2 else 0):  # all lanes, fewer, and as little as can be; each tried twice
                gpu.fake.fail("allocate", 2, 1 + failures)
            decoder.release()
            try:
                decoder.decode_chunks(streams, [logp[5:] for logp in BATCH], last=True)
            except CudaOutOfMemoryError:
                failures += 1
                assert [stream.save() for stream in streams] == before
            gpu.fake.allow()
        assert failures
        same([stream.partial for stream in streams], cpu.decode(BATCH))


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("first_room", [4, 1 << 10])
def test_numbers_of_kenlm_begin_anew(gpu, monkeypatch, first_room, boosted):
    """Between chunks, as often as can be; streams wait, are saved, and hear words before their first chunk."""
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", first_room)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES_BYTES", 0)
    decoders, rng = pair("kenlm"), np.random.default_rng(2)
    boosts = BOOSTS[:4] if boosted else [None] * 4
    streams = [[decoder.stream(boost=one) for one in boosts] for decoder in decoders]
    numbers, sizes = decoders[0]._search.engine.host_lookups, []
    for number in range(24):
        chosen = rng.permutation(4)[: rng.integers(1, 4)].tolist()
        parts = [SPEECH[7 * (number + i) :][:5] for i in chosen]
        found, wanted = (
            decoder.decode_chunks([own[i] for i in chosen], parts)
            for decoder, own in zip(decoders, streams, strict=True)
        )
        assert list(map(seen, found)) == list(map(seen, wanted))
        assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]
        sizes.append(numbers.histories)
        if number % 5 == 1:
            decoders[0].release()
        if number % 5 == 3:
            for own in streams:
                own[chosen[0]].reset(keep_history=True)
        assert [one.save() for one in streams[0]] == [one.save() for one in streams[1]]
    assert sum(a > b for a, b in itertools.pairwise(sizes)) > 3, "numbers have begun anew"


def test_without_memory_for_more_numbers_of_kenlm(gpu, monkeypatch):
    """A chunk that cannot begin leaves its stream as it was, with histories that have no numbers."""
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES", 4)
    monkeypatch.setattr(search_plan, "REQUEST_HISTORIES_BYTES", 0)
    gpu.begin_with(ROOMY)
    decoder, cpu = pair("kenlm")
    stream, other = decoder.stream(), cpu.stream()
    for one in (stream, other):
        one.decode_chunk(SPEECH[:20])
    decoder.release()  # numbers begin anew, with room for few
    gpu.fake.refuse("host_allocate", "managed_allocate")
    before = stream.save()
    with pytest.raises(CudaOutOfMemoryError):
        stream.decode_chunk(SPEECH[20:30])
    assert stream.save() == before == other.save()
    gpu.fake.allow()
    assert seen(stream.decode_chunk(SPEECH[20:30])) == seen(other.decode_chunk(SPEECH[20:30]))
    assert stream.save() == other.save()


def test_boosts_that_no_kernel_takes(gpu, monkeypatch):
    """Are refused when a stream begins, goes on, or has another list."""
    monkeypatch.setattr(_models, "most_beginnings", lambda *states: 3)
    for place in PLACES:
        decoder, cpu = pair(place)
        data = cpu.stream(boost=BOOSTS[1]).save()
        stream = decoder.stream()
        for call in (
            lambda on=decoder: on.stream(boost=BOOSTS[1]),
            lambda on=decoder, data=data: on.restore(data, boost=BOOSTS[1]),
            lambda one=stream: one.reset(boost=BOOSTS[1]),
        ):
            with pytest.raises(UnsupportedError, match="boost: on a GPU expected phrases with at most 3 different"):
                call()
        assert stream.num_frames == 0


def in_chunks(cut, shape, place="resident", schedule=None, boosts=(None,) * 4, requested=None, frames=17, **options):
    """Chunks under a schedule: the CPU's results.

    Without boosts, sentences of two streams go on with the words of another one. With boosts, streams without one now
    and then have no company with one, and then another kernel.
    """
    figures = SMALL_STATES | NO_THREADS | {"REQUEST_ENTRIES": 16, "REQUEST_HISTORIES": 400, "WAIT_CYCLES": 200}

    def compare(gpu):
        decoders = pair(place, **options)
        if place in REQUESTING:
            Answering(gpu, decoders[0], every=5)
        streams = [[one.stream(boost=boost, **requested or {}) for boost in boosts] for one in decoders]
        batch = [BATCH[0], BATCH[5], BATCH[5][20:], BATCH[4]]
        if any(boosts):
            batch = [SPEECH[40 * i :] for i in range(len(boosts))]
        else:
            for stream, first in ((own[i], (1, 20)[i - 1]) for own in streams for i in (1, 2)):
                stream.decode_chunk(SPEECH[first : 2 * first])
                stream.reset(keep_history=True)
        for number, first in enumerate(range(0, frames, cut)):
            last = first + cut >= frames
            at = [i for i, boost in enumerate(boosts) if boost is None or number % 2 == 0 or last]
            chunks = [batch[i][first : min(first + cut, frames)] for i in at]
            for stream in (own[0] for own in streams if requested):
                stream.interim_answers = number % 2 == 1
            found, wanted = (
                one.decode_chunks([own[i] for i in at], chunks, last=last)
                for one, own in zip(decoders, streams, strict=True)
            )
            assert list(map(seen, found)) == list(map(seen, wanted))
            assert list(map(answers, found)) == list(map(answers, wanted))
            assert [one.rescoring_score for one in found] == [one.rescoring_score for one in wanted]

    with scheduled(schedule, room=LITTLE, shape=shape, **figures) as gpu:
        compare(gpu)


@pytest.mark.parametrize("place", SCHEDULED)
def test_schedules(place):
    for schedule in schedules():
        in_chunks(6, Shape(lanes=3, block=64), place, schedule)
    if place in ("resident", "bucketed"):
        in_chunks(9, Shape("cluster", lanes=2, block=32, cluster=2, team_tokens=4), place)


@pytest.mark.parametrize("beam", [0.0, 1.0])
def test_few_tokens(beam):
    in_chunks(3, Shape(lanes=2, block=32), hypotheses_per_state=None, beam=beam)


def test_schedules_of_company_with_a_boost():
    """Streams without one go from the kernel that shares bits of histories to the one that does not, and back."""
    for schedule in schedules(5):
        in_chunks(3, Shape(lanes=2, block=64), schedule=schedule, boosts=(None, BOOSTS[1], None), frames=36)


def test_a_state_that_cannot_be_read_before_numbers_begin_anew(gpu):
    """The batch fails, the old numbers hold, and the next batch tries again."""
    decoder, cpu = pair("kenlm")
    stream, other = decoder.stream(), cpu.stream()
    for one in (stream, other):
        one.decode_chunk(SPEECH[:20])
    decoder.release()
    gpu.fake.fail("copy_to_host", 400, 1)
    with pytest.raises(CudaError):
        stream.decode_chunk(SPEECH[20:30])
    gpu.fake.allow()
    assert stream.save() == other.save()
    assert seen(stream.decode_chunk(SPEECH[20:30])) == seen(other.decode_chunk(SPEECH[20:30]))
    assert stream.save() == other.save()
