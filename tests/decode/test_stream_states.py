"""Saved streams: restored anywhere, they go on with the bytes of the whole; what is damaged or foreign is refused."""

import functools
import json
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from arcbeam import Boost, CtcDecoder, Endpoint, EndpointRule, FormatError, Graph, KenLM
from arcbeam.ctc import engines
from arcbeam.ctc.cpu._decode import CpuStream
from arcbeam.ctc.streams import state as stream_state
from arcbeam.files import section_file
from arcbeam.lm._language_model import walk
from tests.decode import graphs, kenlm_files
from tests.decode.equality import same
from tests.decode.language_models import over, random_model
from tests.decode.moving import beside, one_state
from tests.decode.test_streams import BATCH, COLUMNS, DECODERS, GRAPH, OPTIONS, WORDS, boost
from tests.decode.wholes import check
from tests.files.mutants import MUTANTS, TELLING, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import sealing
from tests.hypothesis_examples import examples

slow = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
KINDS = ("plain", "rescoring", "kenlm")

pytestmark = pytest.mark.filterwarnings("ignore:boost. :UserWarning")


@pytest.fixture(scope="module")
def decoders(tmp_path_factory):
    """Makes decoders of a kind, all of the same graph and models."""

    @functools.cache
    def kenlm():
        kenlm_files.need_kenlm()
        return KenLM(kenlm_files.random_ngrams(WORDS, 3, 5).write(tmp_path_factory.mktemp("lm") / "lm.arpa"))

    def make(kind, **options):
        if kind == "kenlm":
            return DECODERS["rescoring"](language_model=kenlm(), **options)
        return DECODERS[kind](**options)

    return make


def with_moves(decoders, batch, rng, boosts=None, most=9):
    """The final results of streams that are saved now and then, and restored by one of the decoders."""
    return [finals[-1] for finals in beside(decoders, batch, rng, boosts, most, requested=[{}])[0]]


def test_a_stream_over_a_graph_without_columns():
    """One of epsilon arcs alone, which no frame can be decoded with."""
    decoder = CtcDecoder(Graph.from_arcs([(0, 1, 0, 1, 0.5)], finals={1: 0.25}), device="cpu", threads=1)
    end = decoder.restore(decoder.stream().save()).finish()
    assert (end.word_ids.tolist(), end.score, end.reached_final) == ([1], -0.75, True)


@pytest.mark.parametrize("requested", [{}, {"nbest": 4, "confidence": True, "lattice": True, "mbr": True}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_depend_on_the_frames_alone(monkeypatch, decoders, kind, requested):
    """Not on chunks, threads, company, or on when logs are collected, or pruned."""
    one = decoders(kind)
    monkeypatch.setattr(engines, "COLLECT_ABOVE", 32)
    both = one, decoders(kind, threads=1)
    log_probs = np.concatenate([BATCH[5], BATCH[0]])
    one_state(both, log_probs, BATCH[3], (0, 1, 17, 100), (1, 3, 100), (boost(0), None), **requested)


def test_tokens_are_sorted_by_their_keys(decoders):
    """By graph state, large state and small state; these follow from the words of the paths."""
    decoder = decoders("rescoring", beam=12.0)
    rescoring = decoder._search.rescoring
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


@pytest.mark.parametrize("requested", [{}, {"nbest": 4, "confidence": True, "lattice": True, "mbr": True}], ids=str)
def test_before_the_first_chunk(device, requested):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    data = decoder.stream(**requested).save()
    stream = decoder.restore(data)
    assert stream.save() == data
    assert (stream.num_frames, stream.partial.text, stream.is_finished, stream.interim_answers) == (0, "", False, False)
    final, whole = [stream.decode_chunk(BATCH[0], last=True)], decoder.decode([BATCH[0]], **requested)
    same(final, whole)
    check(final, whole)


def test_a_restored_stream_that_has_ended_takes_no_chunk(device):
    decoder = CtcDecoder(GRAPH, **OPTIONS | {"device": device})
    stream = begun(decoder)
    final = stream.finish()
    again = decoder.restore(stream.save())
    assert again.is_finished
    same([again.partial], [final])
    with pytest.raises(ValueError, match="after the last"):
        again.finish()


@pytest.mark.parametrize(
    ("name", "value", "requested"),
    [
        ("beam", 7.0, {}), ("max_active", 61, {}), ("acoustic_scale", 0.5, {}), ("blank_penalty", 0.25, {}),
        ("frame_shift", 0.04, {}), ("lattice_beam", 7.0, {"nbest": 2}), ("posterior_scale", 0.5, {"nbest": 2}),
    ],
)  # fmt: skip
def test_another_option_is_refused_by_name(name, value, requested):
    decoder = CtcDecoder(Graph(**GRAPH.fields() | {"blank": 0}), **OPTIONS)
    other = CtcDecoder(decoder.graph, **OPTIONS | {name: value})
    with pytest.raises(ValueError, match=f"expected a stream with {name}={value!r}.*restore it with") as error:
        other.restore(begun(decoder, **requested).save())
    assert not isinstance(error.value, FormatError)
    if requested:
        assert other.restore(begun(decoder).save()).num_frames == 20  # whose results do not depend on it


OF_NUMPY = {
    "beam": np.float32(6.25), "max_active": np.int64(60), "acoustic_scale": np.float32(0.7),
    "blank_penalty": np.float16(0.1), "frame_shift": np.float32(0.02), "lattice_beam": np.float32(8.1),
    "posterior_scale": np.float64(0.3), "threads": np.uint8(1),
}  # fmt: skip


def test_numbers_of_numpy_are_kept_as_those_of_python():
    """In options, in rules, and in outputs: its state can be saved, and restored by either."""
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
    with pytest.raises(FormatError, match="expected the saved state of a CTC stream"):
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


@pytest.mark.parametrize(
    ("requested", "last", "step"), [({}, False, 1), ({"nbest": 2}, False, 7), ({"nbest": 2}, True, 7)]
)
def test_every_damaged_byte_is_noticed(requested, last, step):
    decoder = CtcDecoder(GRAPH, **OPTIONS)
    stream = decoder.stream(**requested)
    stream.decode_chunk(BATCH[5][:3], last=last)
    data = stream.save()
    for at in range(0, len(data), step):
        for damaged in (data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :], data[:at]):
            with pytest.raises(FormatError):
                decoder.restore(damaged)


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
        ({"lm_context": np.ones(1, np.uint32)}, "expected at most 0 words"),
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
