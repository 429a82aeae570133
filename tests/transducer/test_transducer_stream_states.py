"""Saved streams of transducers go on with the bytes of the whole; damaged or foreign ones are refused."""

import io
import json
import random
import struct
import subprocess
import sys

import numpy as np
import pytest

from arcbeam import BoostingTree, ConfidenceMethod, Endpoint, EndpointRule, FormatError, TransducerDecoder
from arcbeam.files import section_file
from arcbeam.transducer.decoder import FrameLoopingDecoder
from arcbeam.transducer.streams import state as stream_state
from tests.decode import test_streams as ctc
from tests.files.mutants import MUTANTS, TELLING, little_memory, mutate  # noqa: F401 - a fixture
from tests.graph import sealing
from tests.transducer.arpas import random_arpa
from tests.transducer.equality import same
from tests.transducer.networks import random_arrays
from tests.transducer.test_transducer_sentences import (
    KINDS,
    RULES,
    SPEECH,
    TREE,
    WANTED,
    WITHOUT_AND_WITH,
    decoder,
    followed,
    same_sentences,
    sentences,
)


def begun(one, frames=20, **options):
    stream = one.stream(**options)
    stream.decode_chunk(SPEECH[:frames])
    return stream


def moving(decoders, rng, tree=None):
    """Saves a stream now and then, and goes on with what another decoder restores."""

    def move(stream):
        if rng.random() < 0.5:
            return stream
        data, before = stream.save(), stream.partial
        other = decoders[int(rng.integers(len(decoders)))].restore(data, boost=tree)
        assert other.save() == data
        assert other.partial.to_dict() == before.to_dict()
        assert (other.num_frames, other.num_waiting) == (stream.num_frames, stream.num_waiting)
        assert (other.is_finished, other.endpoint, other.boost) == (stream.is_finished, RULES, tree)
        if before.num_frames:
            same([other.partial], [before])
        return other

    return move


@pytest.mark.parametrize("kind", KINDS)
def test_restored_streams_give_the_bytes_of_the_whole(kind):
    loop = TransducerDecoder if "beam" in kind else FrameLoopingDecoder
    places = [decoder(kind), decoder(kind, threads=1, loop=loop)]
    for seed, most in ((0, 5), (1, 60)):
        rng = np.random.default_rng(seed)
        found = followed(places[0].stream(endpoint=RULES), SPEECH, rng, most, moving(places, rng))
        same_sentences(found, WANTED[kind], places[0], SPEECH)


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
@WITHOUT_AND_WITH
def test_with_a_tree_and_an_ngram_model(tmp_path, kind):
    random_arpa(tmp_path / "tokens.arpa", range(12))
    one = decoder(kind, ngram_lm_model=tmp_path / "tokens.arpa", ngram_lm_alpha=1.0, boosting_tree_alpha=0.3)
    rng = np.random.default_rng(2)
    found = followed(one.stream(boost=TREE, endpoint=RULES), SPEECH, rng, 9, moving([one], rng, TREE))
    same_sentences(found, sentences(one, SPEECH, TREE), one, SPEECH, TREE)
    with pytest.raises(ValueError, match="expected a stream without n-gram model, got one with some n-gram model"):
        decoder(kind).restore(begun(one).save())


@WITHOUT_AND_WITH
def test_the_bytes_depend_on_the_frames_alone(kind):
    """Not on chunks, threads or company; also while frames wait."""
    for frames in (0, 1, 17, 60):
        states = set()
        for one, chunk in ((decoder(kind), 1), (decoder(kind, threads=1), 7), (decoder(kind), 100)):
            stream, company = one.stream(endpoint=RULES, boost=TREE), one.stream()
            for at in range(0, frames, chunk):
                one.decode_chunks([company, stream], [SPEECH[:3], SPEECH[at : min(at + chunk, frames)]])
            states.add(stream.save())
        assert len(states) == 1


@WITHOUT_AND_WITH
def test_a_restored_stream_that_has_ended_takes_no_chunk(kind):
    one = decoder(kind)
    stream = begun(one)
    final = stream.finish()
    again = one.restore(stream.save())
    assert again.is_finished and again.partial.is_final
    same([again.partial], [final])
    with pytest.raises(ValueError, match="after the last"):
        again.finish()
    assert again.reset().first_frame == 20


OTHER_PROCESS = """
import sys, numpy as np, arcbeam
folder = sys.argv[1]
arrays = dict(np.load(folder + "/weights.npz"))
decoder = arcbeam.TransducerDecoder.from_arrays(arrays, 12, device="cpu", threads=1, frame_shift=0.08,
                                                confidence="entropy")
final = decoder.restore(open(folder + "/state", "rb").read()).decode_chunk(np.load(folder + "/rest.npy"), last=True)
sys.stdout.buffer.write(final.tokens.tobytes() + final.log_probs.tobytes() + final.state.hidden.tobytes())
"""


def test_another_process_goes_on(tmp_path):
    one = decoder()
    stream = begun(one, 31)
    np.savez(tmp_path / "weights.npz", **random_arrays(4, blank=12, blank_bias=3.0))
    (tmp_path / "state").write_bytes(stream.save())
    np.save(tmp_path / "rest.npy", SPEECH[31:])
    final = stream.decode_chunk(SPEECH[31:], last=True)
    done = subprocess.run([sys.executable, "-c", OTHER_PROCESS, str(tmp_path)], check=True, capture_output=True)
    assert done.stdout == final.tokens.tobytes() + final.log_probs.tobytes() + final.state.hidden.tobytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_symbols", 9), ("precision", "bfloat16"), ("frame_shift", 0.04), ("confidence", None),
        ("confidence", "max_prob"),
    ],
)  # fmt: skip
def test_another_option_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"expected a stream with {name}=.*as this decoder has.*restore it") as error:
        decoder(**{name: value}).restore(begun(decoder()).save())
    assert not isinstance(error.value, FormatError)


def test_numbers_of_numpy_are_kept_as_those_of_python():
    given = {
        "max_symbols": np.int64(9), "frame_shift": np.float32(0.02), "threads": np.uint8(1),
        "confidence": ConfidenceMethod("entropy", alpha=np.float32(0.4)),
        "boosting_tree_alpha": np.float32(0.3),
    }  # fmt: skip
    plain = {name: value.item() for name, value in given.items() if name != "confidence"}
    plain["confidence"] = ConfidenceMethod("entropy", alpha=np.float32(0.4).item())
    of_numpy, of_python = decoder(**given), decoder(**plain)
    data = begun(of_numpy).save()
    assert data == begun(of_python).save() == of_python.restore(data).save()
    assert type(of_numpy.options.frame_shift) is float and type(of_numpy.options.threads) is int


def test_another_network_or_blank_is_refused():
    data = begun(decoder()).save()
    arrays = random_arrays(4, blank=12, blank_bias=3.0)
    options = {"device": "cpu", "frame_shift": 0.08, "confidence": "entropy"}
    assert TransducerDecoder.from_arrays(arrays, 12, **options).restore(data).save() == data
    with pytest.raises(ValueError, match=r"expected a stream with blank_id=3, .* got one with blank_id=12"):
        TransducerDecoder.from_arrays(arrays, 3, **options).restore(data)
    with pytest.raises(ValueError, match=r"expected a stream of this decoder's network .* got one of another"):
        TransducerDecoder.from_arrays(arrays, 12, activation="relu", **options).restore(data)
    arrays["output_bias"][4] += 1e-6
    with pytest.raises(ValueError, match=r"expected a stream of this decoder's network .* got one of another"):
        TransducerDecoder.from_arrays(arrays, 12, **options).restore(data)
    with pytest.raises(ValueError, match=r"expected a stream of this decoder's network"):
        decoder("tdt").restore(data)


@WITHOUT_AND_WITH
def test_another_tree_is_refused(kind):
    one = decoder(kind)
    data, without = begun(one, boost=TREE).save(), begun(one).save()
    assert one.restore(data, boost=BoostingTree({(1, 2): 9.0, (6,): 3.0}, vocab_size=12)).save() == data
    with pytest.raises(ValueError, match=r"without tree, got one with some tree; give the same as decoder\.restore"):
        one.restore(data)
    with pytest.raises(ValueError, match="with this tree, got one with another tree"):
        one.restore(data, boost=BoostingTree({(1, 2): 8.0}, vocab_size=12))
    with pytest.raises(ValueError, match="with this tree, got one without tree"):
        one.restore(without, boost=TREE)
    with pytest.raises(ValueError, match=r"boosting_tree_alpha=2\.0, as this decoder has, got one .*=1\.0"):
        decoder(kind, boosting_tree_alpha=2.0).restore(data, boost=TREE)
    assert decoder(kind, boosting_tree_alpha=2.0).restore(without).save() == without
    with pytest.raises(TypeError, match=r"boost: expected an arcbeam\.BoostingTree, got list"):
        one.restore(data, boost=[TREE])


@pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning")
def test_another_beam_is_refused(tmp_path):
    one, kind = decoder("tdt with a beam"), "tdt with a beam"
    data = begun(one).save()
    for name, value in (
        ("beam", 4.0), ("max_hypotheses", 8), ("merge", "max"), ("length_power", 0.5), ("ilm_scale", 0.1),
        ("settle_frames", 9),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"expected a stream with {name}=.*as this decoder has.*restore it"):
            decoder(kind, **{name: value}).restore(data)
    lodr = random_arpa(tmp_path / "lodr.arpa", range(12), 2)
    with pytest.raises(ValueError, match="expected a stream with this n-gram model for LODR, got one without n-gram"):
        decoder(kind, lodr_model=lodr).restore(data)
    with pytest.raises(FormatError, match=r"stream with a beam, got the saved state .* takes without a beam"):
        one.restore(begun(decoder("tdt")).save())
    with pytest.raises(FormatError, match=r"a transducer's stream, got the saved state .* takes with a beam"):
        decoder("tdt").restore(data)


def test_what_is_no_state_is_refused():
    one = decoder()
    data = begun(one).save()
    with pytest.raises(TypeError, match=r"expected the bytes that stream.save\(\) returned, got str"):
        one.restore("state")
    with pytest.raises(FormatError, match="expected at least 64 bytes, got 0"):
        one.restore(b"")
    other = ctc.CtcDecoder(ctc.GRAPH, **ctc.OPTIONS)
    with pytest.raises(FormatError, match="a transducer's stream, got the saved state of a CTC stream, which Ctc"):
        one.restore(other.stream().save())
    with pytest.raises(FormatError, match=r"of a CTC stream, got .* which TransducerDecoder.restore takes"):
        other.restore(data)
    with pytest.raises(FormatError, match="expected version 1 of the format, got 2; save the stream"):
        one.restore(sealing.reseal(data[:8] + b"\2" + data[9:]))
    assert one.restore(bytearray(data)).save() == data


@WITHOUT_AND_WITH
def test_every_damaged_byte_is_noticed(kind):
    one = decoder(kind)
    data = begun(one, 3).save()
    for at in range(0, len(data), 3):
        with pytest.raises(FormatError):
            one.restore(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(FormatError):
            one.restore(data[:at])


def changed(data, facts, arrays):
    """The state with other facts in it, and other arrays: functions of those that it has, or None to leave one out."""
    kind = next(kind for kind in (stream_state.KIND, stream_state.BEAM_KIND) if kind.begins(data))
    kinds = kind.sections
    made = {
        name: np.frombuffer(data, np.uint8, size, offset).view(kinds[name])
        for name, (offset, size) in sealing.sections(data).items()
    }
    about = json.loads(made["about"].tobytes())
    made["about"] = section_file.as_section(about | facts)
    for name, change in arrays.items():
        array = made.pop(name)
        if change is not None:
            made[name] = change(array.copy())
    out = io.BytesIO()
    section_file.write_sections(out, kind, made)
    return out.getvalue()


def filled(value):
    return lambda array: np.full_like(array, value)


@pytest.mark.parametrize(
    ("facts", "arrays", "said"),
    [
        ({"frames": -1}, {}, "expected frames of a sentence, got 0 to -1"),
        ({"first_frame": 2**60}, {}, "expected frames of a sentence"),
        ({"skip": -1}, {}, "expected frames of a sentence, got 0 to 8, skip -1"),
        ({"skip": 10**30}, {}, "expected frames of at least 0"),
        ({"fired": 4}, {}, "expected the number of a rule, got 4"),
        ({"fired": 0}, {}, "expected no frame to wait where no sentence has ended"),
        ({}, {"waiting": lambda array: array[:-1]}, "expected waiting frames of 7 columns"),
        ({}, {"waiting": filled(np.nan)}, "expected waiting frames of finite features"),
        ({"endpoint": [["rule1", True]]}, {}, "its endpoint cannot be read"),
        ({"endpoint": [["rule1", True, -1.0, 0.0, 0.0]]}, {}, "its endpoint cannot be read: min_trailing_silence"),
        ({"endpoint": [1]}, {}, "its endpoint cannot be read"),
        ({"endpoint": [["rule1", True, 1.0, 2.0, 0.0]]}, {}, "its endpoint cannot be read: .*max_relative_cost"),
        ({}, {"tokens": None}, "expected the sections"),
        ({}, {"durations": lambda array: array[:-1]}, "expected as many values of each kind as tokens"),
        ({}, {"durations": filled(-1)}, "expected finite log-probs and durations of at least 0"),
        ({}, {"frames": lambda array: array - 8}, "expected tokens on frames from 0 to 8"),
        ({}, {"frames": lambda array: array + 8}, "expected tokens on frames from 0 to 8"),
        ({}, {"tokens": filled(12)}, "expected tokens below 13 but the blank, 12"),
        ({}, {"tokens": filled(-1)}, "expected tokens below 13 but the blank, 12"),
        ({}, {"log_probs": filled(np.inf)}, "expected finite log-probs"),
        ({}, {"confidence": filled(np.nan)}, "expected finite confidences"),
        ({}, {"confidence": filled(-np.inf)}, "expected finite confidences"),
        ({}, {"hidden": lambda array: array[:3]}, "expected hidden of shape"),
        ({}, {"cell": filled(np.nan)}, "expected finite values, got NaN"),
        ({"in_tree": 1}, {}, "expected in_tree to be 0"),
    ],
)
def test_states_that_do_not_fit_say_why(facts, arrays, said):
    one = decoder("tdt")
    data = begun(one, endpoint=RULES).save()
    assert one.restore(changed(data, {}, {})).num_waiting == 12
    with pytest.raises(FormatError, match=f"stream state: .*{said}"):
        one.restore(changed(data, facts, arrays))


def with_field(name, change):
    def changed(array):
        array[name] = change(array[name].copy())
        return array

    return changed


def a_cycle(parents):
    parents[1] = 1
    return parents


@pytest.mark.parametrize(
    ("facts", "arrays", "said"),
    [
        ({"offset": float("inf")}, {}, "expected a finite offset"),
        ({"labels": 10**6}, {}, "expected as many settled labels as tokens"),
        ({"nbest": 5}, {}, "expected nbest up to 4, got 5"),
        ({"frames": 7}, {}, "expected labels on frames of the sentence"),
        ({"frames": 2**32}, {}, "expected labels of the last 2147483648 frames"),
        ({}, {"hidden": filled(np.nan)}, "expected finite hidden"),
        ({}, {"hidden": lambda array: array[:-1]}, r"expected hidden of \d+ predictions"),
        ({}, {"shares": lambda array: array[:-1]}, "expected 4 shares"),
        ({}, {"arrivals": lambda array: array[:0]}, "expected a hypothesis"),
        ({}, {"arrivals": with_field("score", lambda a: a * np.nan)}, "expected finite values as score of arrivals"),
        ({}, {"arrivals": with_field("frame", lambda a: a - 1)}, "expected frames in order"),
        ({}, {"arrivals": with_field("frame", lambda a: a[::-1])}, "expected frames in order"),
        ({}, {"arrivals": with_field("frame", lambda a: a + 4)}, "expected hypotheses on frames below 4"),
        ({}, {"arrivals": with_field("node", lambda a: a + 10**6)}, "expected histories that are there"),
        ({}, {"arrivals": with_field("node", lambda a: a * 0)}, "expected each history once on a frame"),
        ({}, {"arrivals": with_field("log", lambda a: a * 0 + 10**6)}, "expected labels that are there"),
        ({}, {"histories": with_field("parent", a_cycle)}, "expected parents before their histories"),
        ({}, {"histories": with_field("token", lambda a: a + 50)}, "expected a first history"),
        ({}, {"histories": with_field("states", lambda a: a + 1)}, "expected states of models below 1"),
        (
            {},
            {"histories": with_field("shares", lambda a: a + np.inf)},
            "expected finite values as shares of histories",
        ),
        ({}, {"log": with_field("confidence", lambda a: a * np.nan)}, "expected finite values as confidence of log"),
        ({}, {"log": with_field("before", lambda a: a * 0 + 10**6)}, "expected labels after those that they follow"),
        ({}, {"log": with_field("token", lambda a: a * 0 + 12)}, "expected labels below 13"),
        ({}, {"predicted": lambda a: a + 10**6}, "expected predictions of histories that are there"),
        ({}, {"predicted": lambda a: a * 0}, "expected one prediction of a history"),
    ],
)
def test_states_of_a_beam_that_do_not_fit_say_why(facts, arrays, said):
    one = decoder("tdt with a beam", threads=1)
    data = begun(one, 21, nbest=3).save()
    assert one.restore(changed(data, {}, {})).save() == data
    with pytest.raises(FormatError, match=f"stream state: .*{said}"):
        one.restore(changed(data, facts, arrays))


@WITHOUT_AND_WITH
def test_confidences_below_0_are_restored(kind):
    """As those of some methods are."""
    method = ConfidenceMethod("entropy", entropy_type="gibbs", entropy_norm="lin", alpha=0.1)
    one = decoder(kind, confidence=method)
    stream = begun(one)
    data = stream.save()
    assert stream.partial.confidence.min() < -0.1
    assert one.restore(data).save() == data


@pytest.mark.usefixtures("little_memory")
@WITHOUT_AND_WITH
def test_forged_states_are_refused_or_harmless(kind):
    """Checksums are made to fit; what gets through is decoded with."""
    one = decoder(kind, threads=1)
    data = begun(one, 12, endpoint=Endpoint({"pause": EndpointRule(min_trailing_silence=0.24)}), boost=TREE).save()
    rng, accepted = random.Random(7), 0
    targets = [(at, size) for name, (at, size) in sealing.sections(data).items() if size > 3 and name != "about"]
    for i in range(MUTANTS):
        if rng.random() < 0.3:
            mutant = sealing.reseal(mutate(rng, data))
        else:
            mutant = data
            for _ in range(rng.choice((1, 2))):
                offset, size = rng.choice(targets)
                number = rng.choice((rng.randrange(12), rng.choice(TELLING) & 0xFFFFFFFF))
                mutant = sealing.poke(mutant, offset + rng.randrange(0, size - 3, 4), struct.pack("<I", number))
            mutant = sealing.reseal(mutant)
        try:
            restored = one.restore(mutant, boost=TREE)
        except ValueError as error:
            assert "stream state: " in str(error), i
            continue
        accepted += 1
        try:
            if not restored._last_came:
                restored.decode_chunk(SPEECH[12:20], last=True)
            restored.reset()
        except ValueError as error:  # values that are finite, but too large
            assert "output is not finite" in str(error)
        assert isinstance(restored.save(), bytes)
    assert 0 < accepted < MUTANTS


@pytest.mark.parametrize("kind", ["tdt", "tdt with a beam"])
def test_on_an_emulated_gpu(gpu, kind):
    """Streams move between a CPU and a GPU, also while frames wait, and the bytes stay the same."""
    cpu, rng, speech = decoder(kind), np.random.default_rng(0), SPEECH[:40]
    places = [decoder(kind, device="cuda"), cpu]
    found = followed(places[0].stream(endpoint=RULES), speech, rng, 25, moving(places, rng))
    same_sentences(found, sentences(cpu, speech), cpu, speech)
