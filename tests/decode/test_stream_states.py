"""Saved streams: restored anywhere, they go on with the bytes of the whole; what is damaged or foreign is refused."""

import json
import random
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, FormatError, Graph, KenLM
from arcbeam.ctc import engines
from arcbeam.ctc.cpu._decode import CpuStream
from arcbeam.ctc.streams import state as stream_state
from arcbeam.files import section_file
from arcbeam.lm._language_model import walk
from tests.decode import graphs, kenlm_files
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.test_new_words import PHRASES, boost_of, open_graphs, with_slot
from tests.decode.test_streams import BATCH, COLUMNS, GRAPH, OPTIONS, WORDS, boost
from tests.files.mutants import MUTANTS, TELLING, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import sealing
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
KINDS = ("plain", "rescoring", "kenlm")

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(scope="module")
def decoders(tmp_path_factory):
    """Makes decoders of a kind, all of the same graph and models."""
    rng = np.random.default_rng(3)
    models = {"rescoring": random_model(rng, WORDS, 3, share=0.2)}
    small = random_model(rng, WORDS, 2, share=0.2)
    graph = over(graphs.random_graph(4, states=120, columns=COLUMNS), small, WORDS)

    def make(kind, **options):
        options = OPTIONS | options
        if kind == "plain":
            return CtcDecoder(GRAPH, **options)
        if kind == "kenlm" and kind not in models:
            kenlm_files.need_kenlm()
            arpa = kenlm_files.random_ngrams(WORDS, 3, 5).write(tmp_path_factory.mktemp("lm") / "lm.arpa")
            models[kind] = KenLM(arpa)
        models_of = {"language_model": models[kind], "graph_language_model": small, "hypotheses_per_state": 3}
        return CtcDecoder(graph, **models_of, **options)

    return make


def with_moves(decoders, batch, rng, boosts=None, most=9):
    """The final results of streams that are saved now and then, and restored by one of the decoders."""
    boosts = boosts or [None] * len(batch)
    finals = []
    for log_probs, one in zip(batch, boosts, strict=True):
        stream, at = decoders[0].stream(boost=one), 0
        while not stream.is_finished:
            if rng.random() < 0.5:
                before, data = stream.partial, stream.save()
                stream = decoders[rng.integers(len(decoders))].restore(data, boost=one)
                assert stream.save() == data
                same([stream.partial], [before])
                assert stream.partial.to_dict() == before.to_dict()
                assert stream.partial.rescoring_score == before.rescoring_score
                assert stream.num_frames == at
            end = at + int(rng.integers(0, most))
            stream.decode_chunk(log_probs[at:end], last=bool(end >= len(log_probs) and rng.random() < 0.7))
            at = min(end, len(log_probs))
        data = stream.save()
        same([decoders[-1].restore(data, boost=one).partial], [stream.partial])
        finals.append(stream.partial)
    return finals


@pytest.mark.parametrize("boosted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_restored_streams_give_the_bytes_of_the_whole(monkeypatch, decoders, kind, boosted, seed):
    one = decoders(kind)
    monkeypatch.setattr(engines, "COLLECT_ABOVE", 64)
    places = [one, decoders(kind, threads=1), decoders(kind)]
    boosts = [boost(i) if i % 3 else None for i in range(len(BATCH))] if boosted else None
    found = with_moves(places, BATCH, np.random.default_rng(seed), boosts)
    whole = one.decode(BATCH, boost=boosts)
    same(found, whole)
    assert [hypothesis.boosts for hypothesis in found] == [hypothesis.boosts for hypothesis in whole]
    assert [hypothesis.rescoring_score for hypothesis in found] == [hypothesis.rescoring_score for hypothesis in whole]


@pytest.mark.parametrize("asked", [{}, {"nbest": 4, "confidence": True, "lattice": True, "mbr": True}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_depend_on_the_frames_alone(monkeypatch, decoders, kind, asked):
    """Not on chunks, threads, company, or on when logs are collected, or pruned."""
    one = decoders(kind)
    monkeypatch.setattr(engines, "COLLECT_ABOVE", 32)
    other = decoders(kind, threads=1)
    log_probs = np.concatenate([BATCH[5], BATCH[0]])
    for frames in (0, 1, 17, 100):
        states = set()
        for decoder in (one, other):
            for chunk in (1, 3, 100):
                stream, company = decoder.stream(boost=boost(0), **asked), decoder.stream()
                decoder.decode_chunks([stream], [log_probs[:0]])
                for at in range(0, frames, chunk):
                    decoder.decode_chunks([company, stream], [BATCH[3], log_probs[at : min(at + chunk, frames)]])
                states.add(stream.save())
        assert len(states) == 1


def test_tokens_are_sorted_by_their_keys(decoders):
    """By graph state, large state and small state; these follow from the words of the paths."""
    decoder = decoders("rescoring", beam=12.0)
    rescoring = decoder._rescoring
    data = begun(decoder, frames=40).save()
    arrays = {name: state_array(data, name) for name in ("settled", "sources", "arcs", "states", "entries")}
    paths = [arrays["settled"].tolist()]
    for source, arc in zip(arrays["sources"][1:].tolist(), arrays["arcs"][1:].tolist(), strict=True):
        paths.append([*paths[source], arc])
    keys = []
    for state, entry in zip(arrays["states"].tolist(), arrays["entries"].tolist(), strict=True):
        words = decoder.graph.words[np.array(paths[entry], np.int64)]
        words = words[words != 0]
        key = [state]
        for model, labels in ((rescoring.large, rescoring.large_labels), (rescoring.small, rescoring.small_labels)):
            following = walk(model.columns, model.about, model.start, labels[words])[2].tolist()
            key.append(following[-1] if following else model.start)
        keys.append(key)
    assert keys == sorted(keys)
    assert len({state for state, *_ in keys}) < len(keys)  # some state has several tokens


@slow
@given(st.data(), graphs.graphs(), st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_any_graph(data, graph, batch):
    """Graphs with dead ends and ties, and searches that die."""
    beam, most = data.draw(st.sampled_from([0.0, 0.5, 2.0, 30.0])), data.draw(st.sampled_from([1, 3, None]))
    decoder = CtcDecoder(graph, beam=beam, max_active=most, device="cpu", threads=1)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    same(with_moves([decoder], batch, rng, most=4), decoder.decode(batch))


@slow
@given(st.data(), open_graphs(), PHRASES, st.lists(graphs.log_probs(max_frames=8), min_size=1, max_size=3))
def test_new_words(data, graph, phrases, batch):
    own, _, _ = boost_of(graph, phrases)
    decoder = CtcDecoder(graph, beam=data.draw(st.sampled_from([0.5, 17.0])), device="cpu", threads=1)
    boosts = [own if i % 2 == 0 else None for i in range(len(batch))]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    same(with_moves([decoder], batch, rng, boosts, most=4), decoder.decode(batch, boost=boosts))


OTHER_PROCESS = """
import sys, numpy as np, arcbeam
folder = sys.argv[1]
models = {"language_model": folder + "/large", "graph_language_model": folder + "/small"} if sys.argv[2] == "1" else {}
decoder = arcbeam.CtcDecoder(arcbeam.Graph.load(folder + "/graph"), beam=6.0, max_active=60, frame_shift=0.02,
                             device="cpu", threads=3, **models)
stream = decoder.restore(open(folder + "/state", "rb").read(), boost=arcbeam.Boost({"w1": 2.0, "w2 w3": 1.0}))
final = stream.decode_chunk(np.load(folder + "/rest.npy"), last=True)
sys.stdout.buffer.write(final.arcs.tobytes() + np.float64(final.score).tobytes() + final.text.encode())
"""


@pytest.mark.parametrize("rescored", [False, True])
def test_another_process_goes_on(tmp_path, rescored):
    rng = np.random.default_rng(3)
    large, small = (random_model(rng, WORDS, order, share=0.2) for order in (3, 2))
    large.save(tmp_path / "large")
    small.save(tmp_path / "small")
    over(graphs.random_graph(4, states=120, columns=COLUMNS), small, WORDS).save(tmp_path / "graph")
    models = {"language_model": tmp_path / "large", "graph_language_model": tmp_path / "small"} if rescored else {}
    decoder = CtcDecoder(Graph.load(tmp_path / "graph"), **models, **OPTIONS)
    stream = decoder.stream(boost=Boost({"w1": 2.0, "w2 w3": 1.0}))
    stream.decode_chunk(BATCH[5][:31])
    (tmp_path / "state").write_bytes(stream.save())
    np.save(tmp_path / "rest.npy", BATCH[5][31:])
    final = stream.decode_chunk(BATCH[5][31:], last=True)
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), str(int(rescored))]
    done = subprocess.run(command, check=True, capture_output=True)
    assert done.stdout == final.arcs.tobytes() + np.float64(final.score).tobytes() + final.text.encode()


def begun(decoder, one=None, frames=20, **options):
    stream = decoder.stream(boost=one, **options)
    stream.decode_chunk(BATCH[5][:frames])
    return stream


def test_before_the_first_chunk(device):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    stream = decoder.restore(decoder.stream().save())
    assert (stream.num_frames, stream.partial.text, stream.is_finished) == (0, "", False)
    same([stream.decode_chunk(BATCH[0], last=True)], decoder.decode([BATCH[0]]))


def test_a_restored_stream_that_has_ended_takes_no_chunk(device):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    stream = begun(decoder)
    final = stream.finish()
    again = decoder.restore(stream.save())
    assert again.is_finished
    same([again.partial], [final])
    with pytest.raises(ValueError, match="after the last"):
        again.finish()


def other_options():
    changed = {"beam": 7.0, "max_active": 61, "acoustic_scale": 0.5, "blank_penalty": 0.25, "frame_shift": 0.04}
    return list(changed.items())


@pytest.mark.parametrize(("name", "value"), other_options())
def test_another_option_is_refused_by_name(name, value):
    decoder = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), **OPTIONS)
    other = CtcDecoder(decoder.graph, **OPTIONS | {name: value})
    with pytest.raises(ValueError, match=f"expected a stream with {name}={value!r}.*restore it with") as error:
        other.restore(begun(decoder).save())
    assert not isinstance(error.value, FormatError)


OF_NUMPY = {
    "beam": np.float32(6.25), "max_active": np.int64(60), "acoustic_scale": np.float32(0.7),
    "blank_penalty": np.float16(0.1), "frame_shift": np.float32(0.02), "lattice_beam": np.float32(8.1),
    "posterior_scale": np.float64(0.3), "threads": np.uint8(1),
}  # fmt: skip


def test_numbers_of_numpy_are_kept_as_those_of_python():
    """In options, in rules, and in what a stream is asked for: its state can be saved, and restored by either."""
    plain = {name: value.item() for name, value in OF_NUMPY.items()}
    rule = EndpointRule(
        must_contain_nonsilence=np.False_, min_trailing_silence=np.float32(0.7), min_utterance_length=np.int16(3)
    )
    states = []
    for options, two, yes in ((OF_NUMPY, np.uint8(2), np.True_), (plain, 2, True)):
        one = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), **OPTIONS | options)
        stream = begun(one, endpoint=Endpoint({"rule": rule}), nbest=two, mbr=yes, interim_answers=yes)
        states.append(stream.save())
        assert stream.interim_answers is True
        assert {name: type(getattr(one.options, name)) for name in plain} == {
            name: type(value) for name, value in plain.items()
        }
    assert states[0] == states[1] == one.restore(states[0]).save()


@pytest.mark.parametrize("kind", [float, np.float64])
def test_a_beam_between_two_numbers_of_float32(kind):
    """Engines compute with its nearest one, to which a link's slack may be equal."""
    data = begun(CtcDecoder(GRAPH, **OPTIONS), lattice=True).save()
    slacks, targets, tokens = (state_array(data, name) for name in ("loser_slacks", "loser_targets", "entries"))
    at_the_end = slacks[np.isin(targets, tokens) & (slacks > 0.1)]  # where nothing is added to them
    assert len(at_the_end) > 4
    for slack in at_the_end:
        decoder = CtcDecoder(GRAPH, **OPTIONS | {"lattice_beam": kind(np.nextafter(np.float64(slack), 0.0))})
        data = begun(decoder, lattice=True).save()
        assert slack in state_array(data, "loser_slacks") and float(slack) > decoder.options.lattice_beam
        assert decoder.restore(data).save() == data


def test_another_graph_is_refused():
    decoder, data = CtcDecoder(GRAPH, **OPTIONS), begun(CtcDecoder(GRAPH, **OPTIONS)).save()
    assert decoder.restore(data).num_frames == 20
    fields = GRAPH.fields()
    finals = fields["columns"]["finals"].copy()
    finals[np.flatnonzero(np.isfinite(finals))[0]] += 0.5
    for changed in ({"columns": fields["columns"] | {"finals": finals}}, {"blank": 1}, {"word_symbols": None}):
        other = CtcDecoder(Graph(**fields | changed), **OPTIONS)
        with pytest.raises(ValueError, match=r"expected a stream of this decoder's graph .* got one of another"):
            other.restore(data)
    same_graph = Graph(**fields | {"meta": {"note": "says nothing"}})
    assert CtcDecoder(same_graph, **OPTIONS).restore(data).save() == data


def test_other_models_are_refused(decoders):
    rescoring = decoders("rescoring")
    data = begun(rescoring).save()
    with pytest.raises(ValueError, match=r"expected a stream without a large language model.* got one rescored"):
        CtcDecoder(rescoring.graph, **OPTIONS).restore(data)
    with pytest.raises(ValueError, match=r"expected a stream rescored with the models .* got one without"):
        rescoring.restore(begun(CtcDecoder(rescoring.graph, **OPTIONS)).save())
    other = decoders("rescoring", lm_scale=0.5)
    with pytest.raises(ValueError, match=r"expected a stream with lm_scale=0\.5.* got one with lm_scale=1\.0"):
        other.restore(data)


def test_another_boost_is_refused(device):
    decoder, ours = CtcDecoder(GRAPH, **OPTIONS | {"device": device}), boost(0)
    data = begun(decoder, ours).save()
    same_list = Boost(ours.phrases)
    assert decoder.restore(data, boost=same_list).save() == data
    with pytest.raises(ValueError, match=f"expected the boost of {len(ours)} phrases .* got none; give it as"):
        decoder.restore(data)
    louder = Boost({phrase: score + 1 for phrase, score in ours.phrases.items()})
    with pytest.raises(ValueError, match="got another one: <Boost of"):
        decoder.restore(data, boost=louder)
    with pytest.raises(ValueError, match="expected boost=None"):
        decoder.restore(begun(decoder).save(), boost=ours)


def test_what_is_no_state_is_refused(device):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    data = begun(decoder).save()
    with pytest.raises(TypeError, match=r"expected the bytes that stream.save\(\) returned, got str"):
        decoder.restore("state")
    with pytest.raises(TypeError, match="Boost"):
        decoder.restore(data, boost=["w1"])
    with pytest.raises(FormatError, match="expected at least 64 bytes, got 0"):
        decoder.restore(b"")
    with pytest.raises(FormatError, match="expected the state of a stream of arcbeam"):
        decoder.restore(b"\x93ARCBEAM" + data[8:])
    with pytest.raises(FormatError, match="expected version 1 of the format, got 2; save the stream"):
        decoder.restore(sealing.reseal(data[:8] + b"\2" + data[9:]))
    with pytest.raises(FormatError, match=f"^stream state: truncated: expected {len(data)} bytes, got {len(data) - 1}"):
        decoder.restore(data[:-1])
    assert decoder.restore(bytearray(data)).save() == data


def test_a_broken_stream_is_not_saved():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = begun(decoder)

    stream._state = CpuStream(None)  # which has not had the chunk that the stream has had
    with pytest.raises(ValueError, match="interrupted in the middle of a chunk"):
        stream.save()


def test_a_stream_is_saved_while_another_thread_decodes_it():
    decoder, other = CtcDecoder(GRAPH, **OPTIONS), CtcDecoder(GRAPH, **OPTIONS)
    log_probs = np.tile(BATCH[5], (20, 1))
    [whole] = decoder.decode([log_probs])
    stream, saved = decoder.stream(), []

    def save():
        while not stream.is_finished:
            saved.append(stream.save())

    saver = threading.Thread(target=save)
    saver.start()
    for at in range(0, len(log_probs), 16):
        stream.decode_chunk(log_probs[at : at + 16])
    stream.finish()
    saver.join()
    for data in saved[:: max(1, len(saved) // 20)]:
        restored = other.restore(data)
        assert restored.num_frames % 16 == 0 or restored.num_frames == len(log_probs)
        if not restored.is_finished:
            restored.decode_chunk(log_probs[restored.num_frames :], last=True)
        same([restored.partial], [whole])


def test_every_damaged_byte_is_noticed():
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    data = begun(decoder, frames=3).save()
    for at in range(len(data)):
        with pytest.raises(FormatError):
            decoder.restore(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(FormatError):
            decoder.restore(data[:at])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("kind", ["plain", "rescoring", "kenlm", "new words"])
def test_forged_states_are_refused_or_harmless(decoders, kind):
    """Checksums are made to fit; what gets through is decoded with."""
    one = None
    if kind == "new words":
        slots = [(0, 0.0, 1), (2, 0.5, 0)]
        graph = with_slot(graphs.random_graph(4, states=30, columns=4), slots, words=WORDS)
        one = Boost({"xy": 3.0, "zzy x": 1.0})
        decoder = CtcDecoder(graph, device="cpu", threads=1, frame_shift=0.1)
        log_probs = graphs.random_log_probs(1, 40, 4)
    else:
        decoder, log_probs = decoders(kind, threads=1), BATCH[5]
        if kind == "plain":
            decoder = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), **OPTIONS)
    endpoint = None if decoder.graph.blank is None else Endpoint()
    stream = decoder.stream(boost=one, endpoint=endpoint)
    stream.decode_chunk(log_probs[:12])
    data = stream.save()
    rng, accepted = random.Random(kind), 0
    targets = [(at, size) for name, (at, size) in sealing.sections(data).items() if size > 3 and name != "about"]
    for i in range(MUTANTS):
        if rng.random() < 0.3:
            mutant = sealing.reseal(mutate(rng, data))
        else:
            mutant = data
            for _ in range(rng.choice((1, 2, 3))):
                offset, size = rng.choice(targets)
                at = offset + rng.randrange(0, size - 3, 4)
                number = rng.choice((rng.randrange(40), rng.choice(TELLING) & 0xFFFFFFFF))
                mutant = sealing.poke(mutant, at, struct.pack("<I", number))
            mutant = sealing.reseal(mutant)
        try:
            restored = decoder.restore(mutant, boost=one)
        except ValueError as error:
            assert "stream state: " in str(error), i
        else:
            accepted += 1
            restored.decode_chunk(log_probs[12:20])
            assert isinstance(restored.finish().text, str)
            assert isinstance(restored.save(), bytes)
    assert 0 < accepted < MUTANTS
    same(
        [decoder.restore(data, boost=one).decode_chunk(log_probs[12:], last=True)],
        decoder.decode([log_probs], boost=one),
    )


def state_array(data, name):
    offset, size = sealing.sections(data)[name]
    return np.frombuffer(data, np.uint8, size, offset).view(stream_state.KIND.sections[name])


def changed(data, **facts):
    """The state with other facts in it."""
    arrays = {name: state_array(data, name) for name in sealing.sections(data)}
    about = json.loads(arrays["about"].tobytes())
    arrays |= {name: facts.pop(name) for name in list(facts) if name in arrays}
    arrays["about"] = section_file.as_section(about | facts)
    from io import BytesIO

    out = BytesIO()
    section_file.write_sections(out, stream_state.KIND, arrays)
    return out.getvalue()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"frames": -1}, "expected a number of frames as frames, got -1"),
        ({"first_frame": 2**60}, "expected a number of frames as first_frame"),
        ({"frames": 21}, "expected paths of 21 frames to all tokens"),
        ({"frames": 19}, "expected paths of 19 frames to all tokens"),
        ({"fired": 1}, "expected the number of a rule, got 1"),
        ({"columns": 3}, "expected waiting frames of 12 columns, got 3"),
        (
            {"waiting": np.full(12, np.nan, np.float32)},
            "expected waiting frames of finite values or -inf, got others",
        ),
        (
            {"waiting": np.full(12, np.inf, np.float32)},
            "expected waiting frames of finite values or -inf, got others",
        ),
        ({"waiting": np.zeros(12, np.float32)}, "expected no frame to wait where no sentence has ended"),
        ({"heard": np.ones(1, np.uint32)}, "expected at most 0 words"),
        ({"endpoint": [["rule1", True]]}, "its endpoint cannot be read"),
        ({"endpoint": [["rule1", True, -1.0, 0.0, 0.0]]}, "its endpoint cannot be read: min_trailing_silence"),
        ({"endpoint": [1]}, "its endpoint cannot be read"),
        ({"offset": float("nan")}, "expected costs of tokens that are finite"),
        ({"states": np.empty(0, np.uint32)}, "expected tokens, because the stream has begun, got none"),
        ({"costs": np.empty(0, np.float32)}, "expected as many states, costs and entries"),
        ({"sources": np.zeros(1, np.uint32)}, "expected a source for each arc of its log"),
        ({"settled": np.zeros(1, np.uint32)}, "are not a? ?paths? of the graph"),
        ({"settled": np.full(1, 2**31, np.uint32)}, "expected arcs below"),
    ],
)
def test_states_that_do_not_fit_say_why(facts, said):
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    data = begun(decoder).save()
    assert changed(data) == data
    with pytest.raises(FormatError, match=said):
        decoder.restore(changed(data, **facts))
