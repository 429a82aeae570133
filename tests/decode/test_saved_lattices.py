"""Saved streams that keep lattices: restored anywhere, they go on with their outputs."""

import json
import random
import struct

import numpy as np
import pytest

from arcbeam import Boost, CtcDecoder, Endpoint, FormatError, Graph
from tests.decode import graphs
from tests.decode.equality import same
from tests.decode.moving import REQUESTED
from tests.decode.test_new_words import with_slot
from tests.decode.test_stream_states import KINDS, MUTANTS, changed, decoders, state_array  # noqa: F401 - a fixture
from tests.decode.test_streams import BATCH, GRAPH, OPTIONS, WORDS
from tests.decode.test_streams_emulated import answers
from tests.files.mutants import TELLING, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import sealing

ALL = {name: value for name, value in REQUESTED[0].items() if name != "interim_answers"}

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


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


def forged(rng, data):
    """The state with other numbers in some places, and checksums that fit."""
    if rng.random() < 0.3:
        return sealing.reseal(mutate(rng, data))
    places = [place for name, place in sealing.sections(data).items() if place[1] > 3 and name != "about"]
    for _ in range(rng.choice((1, 1, 2, 3))):
        offset, size = rng.choice(places)
        float32 = struct.unpack("<I", struct.pack("<f", rng.choice((0.0, 0.25, 2.9, 3.1, 50.0))))[0]
        number = rng.choice((rng.randrange(40), rng.choice(TELLING) & 0xFFFFFFFF, float32))
        data = sealing.poke(data, offset + rng.randrange(0, size - 3, 4), struct.pack("<I", number))
    return sealing.reseal(data)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(("requested", "ended"), [({}, False), (REQUESTED[0], False), (REQUESTED[0], True)])
@pytest.mark.parametrize("kind", [*KINDS, "new words"])
def test_forged_states_are_refused_or_harmless(decoders, kind, requested, ended):  # noqa: F811
    """Checksums are made to fit; what gets through is decoded with."""
    decoder, one, log_probs, endpoint = of_kind(kind, decoders)
    stream = decoder.stream(boost=one, endpoint=endpoint, **requested)
    stream.decode_chunk(log_probs[:12], last=ended)
    data = stream.save()
    rng, accepted, count = random.Random(kind), 0, MUTANTS // 2 if requested else MUTANTS
    for i in range(count):
        mutant = forged(rng, data)
        try:
            restored = decoder.restore(mutant, boost=one)
        except ValueError as error:
            assert "stream state: " in str(error), i
            continue
        accepted += 1
        assert (answers(restored.partial)[1] is not None) == bool(requested)
        if not ended:
            restored.decode_chunk(log_probs[12:20])
            assert isinstance(restored.save(), bytes)
            restored.finish()
        final = restored.partial
        assert isinstance(final.to_dict(), dict) and isinstance(restored.save(), bytes)
        assert not requested or isinstance(final.lattice.scores.sum(), float)
    assert 0 < accepted < count
    if not ended:
        final = [decoder.restore(data, boost=one).decode_chunk(log_probs[12:], last=True)]
        same(final, decoder.decode([log_probs], boost=one, **ALL if requested else {}))


def saved(last, **requested):
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream(**requested or ALL)
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
        (False, {"outputs": {"nbest": 0}}, "the stream's outputs cannot be read: nbest: expected"),
        (False, {"outputs": {"best": 1}}, "the stream's outputs cannot be read"),
        (False, {"outputs": {}}, "expected a stream with some output"),
        (False, {"outputs": None}, r"expected the sections \['arcs', 'costs', 'entries', 'lm_context'"),
        (False, {"last_came": True}, "expected the end of a sentence where the last chunk has come"),
        (True, {"last_came": False}, "expected the end of a sentence where the last chunk has come"),
        (False, {"settled": np.zeros(1, np.uint32)}, "paths? of the graph|of the whole sentence"),
        (False, {"frames": 21}, "expected paths of 21 frames to all tokens"),
        (True, {"frames": 21}, "expected paths of 21 frames to all tokens"),
        (False, {"offset": 1.0}, "the costs of tokens are not those of their entries"),
        (False, {"offsets": np.zeros(3)}, "expected 21 offsets of steps"),
        (False, {"log_costs": np.zeros(3, np.float32)}, "costs of entries, finite and at least 0"),
        (False, {"loser_arcs": np.zeros(0, np.uint32)}, "as many values of each kind for losing links"),
        (False, ("loser_slacks", -1.0), "expected losing links that cost up to 16.0 more"),
        (False, ("loser_slacks", 16.5), "expected losing links that cost up to 16.0 more"),
        (False, ("loser_slacks", np.nan), "expected losing links that cost up to 16.0 more"),
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


def test_the_outputs_of_a_stream_move_with_it():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    for requested in REQUESTED:
        stream = decoder.stream(**requested)
        moved = decoder.restore(stream.save())
        assert moved._sentence.outputs == stream._sentence.outputs and moved.interim_answers == stream.interim_answers
        moved.interim_answers = True
        assert decoder.restore(moved.save()).interim_answers
    of_numpy = decoder.stream(nbest=np.int64(3), interim_answers=True)
    assert decoder.restore(of_numpy.save())._sentence.outputs == of_numpy._sentence.outputs
