"""Saved streams that keep lattices: restored anywhere, they go on with what they were asked for."""

import json
import random
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Endpoint, FormatError, Graph
from arcbeam.ctc import engines
from tests.decode import graphs, test_endpoints
from tests.decode.endpoint_oracle import sentences
from tests.decode.moving import ASKED, beside
from tests.decode.test_endpoints import RULES, SPEECH
from tests.decode.test_new_words import PHRASES, boost_of, open_graphs, with_slot
from tests.decode.test_stream_lattices import check
from tests.decode.test_stream_states import KINDS, MUTANTS, changed, decoders, state_array  # noqa: F401 - a fixture
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS, WORDS, boost
from tests.decode.test_streams_emulated import answers
from tests.files.mutants import TELLING, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import sealing
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
ALL = {name: value for name, value in ASKED[0].items() if name != "interim_answers"}

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_restored_streams_give_the_bytes_of_the_whole(monkeypatch, decoders, kind, boosted, seed):  # noqa: F811
    one = decoders(kind)
    monkeypatch.setattr(engines, "COLLECT_ABOVE", 64)
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    rng = np.random.default_rng(seed)
    found, _, _ = beside([one, decoders(kind, threads=1), decoders(kind)], BATCH, rng, boosts, asked=ASKED[:1])
    check([finals[-1] for finals in found], one.decode(BATCH, boost=boosts, **ALL))


@slow
@given(st.data(), graphs.graphs(), st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_any_graph(data, graph, batch):
    """Graphs with dead ends and ties, searches that die, lattice beams of nothing and of everything."""
    beam, most = data.draw(st.sampled_from([0.0, 0.5, 2.0, 30.0])), data.draw(st.sampled_from([1, 3, None]))
    lattice_beam = data.draw(st.sampled_from([0.0, 2.0, 99.0, float("inf")]))
    options = {"beam": beam, "lattice_beam": lattice_beam, "max_active": most, "frame_shift": 0.25}
    decoder = CtcDecoder(graph, device="cpu", threads=1, **options)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    found, _, _ = beside([decoder], batch, rng, most=4, asked=ASKED[:1])
    check([finals[-1] for finals in found], decoder.decode(batch, **ALL))


@slow
@given(st.data(), open_graphs(), PHRASES, st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_new_words(data, graph, phrases, batch):
    own, _, _ = boost_of(graph, phrases)
    beam = data.draw(st.sampled_from([0.5, 17.0]))
    decoder = CtcDecoder(graph, beam=beam, device="cpu", threads=1, frame_shift=0.25)
    boosts = [own if i % 2 == 0 else None for i in range(len(batch))]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    found, _, _ = beside([decoder], batch, rng, boosts, most=4, asked=ASKED[:1])
    check([finals[-1] for finals in found], decoder.decode(batch, boost=boosts, **ALL))


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", test_endpoints.DECODERS)
def test_sentences(kind, boosted):
    """Streams move within sentences, and behind endpoints with frames that wait."""
    decoder, other = test_endpoints.DECODERS[kind](), test_endpoints.DECODERS[kind]()
    one = boost(1) if boosted else None
    wanted = sentences(decoder, SPEECH, RULES, one)
    wholes = decoder.decode([SPEECH[first:end] for first, end, _ in wanted], boost=one, **ALL)
    rng, moved_with_frames = np.random.default_rng(0), 0
    for most in (2, 9, 200):
        [found], waited, _ = beside([decoder, other], [SPEECH], rng, [one], most, RULES, asked=ASKED[:1])
        check(found[: len(wanted)], wholes, [first for first, _, _ in wanted])
        moved_with_frames += waited
    assert moved_with_frames > 3


def test_searches_that_have_died():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    silent = np.full((4, BATCH[5].shape[1]), -np.inf, np.float32)
    speech = np.concatenate([BATCH[5][:12], silent, BATCH[5][12:]])
    found, _, died = beside([decoder], [speech] * 4, np.random.default_rng(1), endpoint=None)
    assert died > 3
    for finals, asked in zip(found, ASKED, strict=True):
        assert not finals[-1].complete and (finals[-1].nbest is None) == ("nbest" not in asked)


def of_kind(kind, decoders):  # noqa: F811
    """A decoder, a boost, log-probs and rules."""
    if kind == "new words":
        slots = [(0, 0.0, 1), (2, 0.5, 0)]
        graph = with_slot(graphs.random_graph(4, states=30, columns=4), slots, words=WORDS)
        decoder = CtcDecoder(graph, device="cpu", threads=1, frame_shift=0.1)
        return decoder, Boost({"xy": 3.0, "zzy x": 1.0}), graphs.random_log_probs(1, 40, 4), None
    decoder = decoders(kind, threads=1, lattice_beam=3.0)
    if kind == "plain":
        decoder = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), lattice_beam=3.0, **OPTIONS)
    return decoder, None, BATCH[5], Endpoint() if kind == "plain" else None


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, "new words"])
def test_forged_states_are_refused_or_harmless(decoders, kind, ended):  # noqa: F811
    """Checksums are made to fit; what gets through is decoded with."""
    decoder, one, log_probs, endpoint = of_kind(kind, decoders)
    stream = decoder.stream(boost=one, endpoint=endpoint, **ASKED[0])
    stream.decode_chunk(log_probs[:12], last=ended)
    data = stream.save()
    rng, accepted = random.Random(kind), 0
    places = {name: place for name, place in sealing.sections(data).items() if place[1] > 3 and name != "about"}
    for i in range(MUTANTS // 2):
        if rng.random() < 0.3:
            mutant = sealing.reseal(mutate(rng, data))
        else:
            mutant = data
            for _ in range(rng.choice((1, 1, 2, 3))):
                offset, size = places[rng.choice(list(places))]
                at = offset + rng.randrange(0, size - 3, 4)
                float32 = struct.unpack("<I", struct.pack("<f", rng.choice((0.0, 0.25, 2.9, 3.1, 50.0))))[0]
                number = rng.choice((rng.randrange(40), rng.choice(TELLING) & 0xFFFFFFFF, float32))
                mutant = sealing.poke(mutant, at, struct.pack("<I", number))
            mutant = sealing.reseal(mutant)
        try:
            restored = decoder.restore(mutant, boost=one)
        except ValueError as error:
            assert "stream state: " in str(error), i
        else:
            accepted += 1
            assert answers(restored.partial)[1] is not None
            if not ended:
                restored.decode_chunk(log_probs[12:20])
                assert isinstance(restored.save(), bytes)
                restored.finish()
            final = restored.partial
            assert isinstance(final.to_dict(), dict) and isinstance(final.lattice.scores.sum(), float)
            assert isinstance(restored.save(), bytes)
    assert 0 < accepted < MUTANTS // 2


def test_every_damaged_byte_is_noticed():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    for last in (False, True):
        stream = decoder.stream(nbest=2)
        stream.decode_chunk(BATCH[5][:3], last=last)
        data = stream.save()
        for at in range(0, len(data), 7):
            with pytest.raises(FormatError):
                decoder.restore(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])


def saved(last, **asked):
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream(**asked or ALL)
    stream.decode_chunk(BATCH[5][:20], last=last)
    return decoder, stream.save()


def first_changed(data, name, value):
    """The array of a state with another first value."""
    array = state_array(data, name).copy()
    array[0] = value
    return {name: array}


def about_of(data):
    return json.loads(state_array(data, "about").tobytes())


@pytest.mark.parametrize(
    ("last", "facts", "said"),
    [
        (False, {"asked": {"nbest": 0}}, "the stream's outputs cannot be read: nbest: expected"),
        (False, {"asked": {"best": 1}}, "the stream's outputs cannot be read"),
        (False, {"asked": {}}, "expected a stream with some output"),
        (False, {"asked": None}, r"expected the sections \['arcs', 'costs', 'entries', 'heard'"),
        (False, {"last_came": True}, "expected the end of a sentence where the last chunk has come"),
        (True, {"last_came": False}, "expected the end of a sentence where the last chunk has come"),
        (False, {"settled": np.zeros(1, np.uint32)}, "paths? of the graph|of the whole sentence"),
        (False, {"frames": 21}, "expected paths of 21 frames to all tokens"),
        (True, {"frames": 21}, "expected paths of 21 frames to all tokens"),
        (False, {"offset": 1.0}, "the costs of tokens are not those of their entries"),
        (False, {"offsets": np.zeros(3)}, "expected 21 offsets of steps"),
        (False, {"log_costs": np.zeros(3, np.float32)}, "costs of entries, finite and at least 0"),
        (False, {"loser_arcs": np.zeros(0, np.uint32)}, "as many values of each kind for losing links"),
        (False, ("loser_slacks", -1.0), "expected losing links that cost up to 8.0 more"),
        (False, ("loser_slacks", 8.5), "expected losing links that cost up to 8.0 more"),
        (False, ("loser_slacks", np.nan), "expected losing links that cost up to 8.0 more"),
        (False, ("loser_sources", 2**31), "expected losing links between [0-9]+ entries"),
        (False, ("loser_targets", 0), "do not lead from their source to their target|into their own step"),
        (True, {"end": {}}, "expected the end of a sentence as"),
        (True, {"token_costs": np.zeros(3)}, "costs of tokens that are finite"),
        (True, {"end_extras": np.zeros(0, np.float32)}, "ends of paths that cost at least 0"),
        (True, {"states": np.zeros(1, np.uint32)}, "expected no tokens, because the sentence has ended"),
        (True, ("settled", 1), "the settled arcs are not the first of the best path"),
    ],
)
def test_states_that_do_not_fit_say_why(last, facts, said):
    decoder, data = saved(last)
    assert changed(data) == data
    if isinstance(facts, tuple):
        facts = first_changed(data, *facts)
    with pytest.raises(FormatError, match=said):
        decoder.restore(changed(data, **facts))


def test_the_end_of_the_best_path_is_one_of_no_more_cost():
    decoder, data = saved(True)
    end = about_of(data)["end"]
    for token in (0, end["token"] + 1000):
        with pytest.raises(FormatError, match="expected an end of the best path of"):
            decoder.restore(changed(data, end=end | {"token": token}))
    with pytest.raises(FormatError, match="expected the end of a sentence"):
        decoder.restore(changed(data, end=end | {"total_cost": float("inf")}))
    extras = state_array(data, "end_extras").copy()
    with pytest.raises(FormatError, match=r"expected (an end of the best path|links of paths to an end within)"):
        decoder.restore(changed(data, end_extras=np.full_like(extras, 99.0)))


@pytest.mark.parametrize(("name", "value"), [("lattice_beam", 7.0), ("posterior_scale", 0.5)])
def test_another_option_is_refused_by_name(name, value):
    decoder, data = saved(False)
    other = CtcDecoder(decoder.graph, **OPTIONS | {name: value})
    with pytest.raises(ValueError, match=f"expected a stream with {name}={value!r}.*restore it with") as error:
        other.restore(data)
    assert not isinstance(error.value, FormatError)
    plain = decoder.stream()
    plain.decode_chunk(BATCH[5][:20])
    assert other.restore(plain.save()).num_frames == 20  # answers of which do not depend on it


def test_before_the_first_chunk(device):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    stream = decoder.stream(**ALL)
    data = stream.save()
    moved = decoder.restore(data)
    assert moved.save() == data and (moved.num_frames, moved.interim_answers) == (0, False)
    check([moved.decode_chunk(BATCH[2], last=True)], decoder.decode([BATCH[2]], **ALL))


def test_what_a_stream_is_asked_for_moves_with_it():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    for asked in ASKED:
        stream = decoder.stream(**asked)
        moved = decoder.restore(stream.save())
        assert moved._sentence.outputs == stream._sentence.outputs and moved.interim_answers == stream.interim_answers
        moved.interim_answers = True
        assert decoder.restore(moved.save()).interim_answers
    of_numpy = decoder.stream(nbest=np.int64(3), interim_answers=True)
    assert decoder.restore(of_numpy.save())._sentence.outputs == of_numpy._sentence.outputs


def test_posteriors_of_streams_that_keep_lattices():
    """They are those of what is alive, whether the lattice has moved or not."""
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stays, plain = decoder.stream(posteriors=True, lattice=True), decoder.stream(posteriors=True)
    moves = stays
    for at in range(0, 60, 12):
        chunk = BATCH[5][at : at + 12]
        wanted = plain.decode_chunk(chunk).posteriors.tobytes()
        found = [stream.decode_chunk(chunk) for stream in {id(one): one for one in (stays, moves)}.values()]
        assert [one.posteriors.tobytes() for one in found] == [wanted] * len(found)
        moves = decoder.restore(moves.save(), posteriors=True)
        assert moves.partial.posteriors.tobytes() == wanted
