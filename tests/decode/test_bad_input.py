"""What a user can get wrong when decoding: the right exception, what was expected and got, a decoder that goes on."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from arcbeam import CtcDecoder
from tests.decode import graphs
from tests.decode.equality import same

GOOD = graphs.random_log_probs(0, 12)


def spoiled(value, dtype=np.float32):
    logp = GOOD.astype(dtype)
    logp[5, 3] = value
    return logp


class OnAnotherDevice:
    def __dlpack__(self, **_):
        raise AssertionError("must not be requested")

    def __dlpack_device__(self):
        return (2, 1)


class Output(dict):
    """The output of a model of Transformers: a mapping with attributes."""

    logits = GOOD


INPUTS = {
    "nan": (
        [GOOD, spoiled(np.nan)],
        None,
        ValueError,
        r"finite values or -inf, got nan in utterance 1, frame 5, column 3",
    ),
    "inf": ([spoiled(np.inf)], None, ValueError, r"got inf in utterance 0, frame 5, column 3"),
    "nan in float16": ([spoiled(np.nan, np.float16)], None, ValueError, r"got nan in utterance 0, frame 5, column 3"),
    "inf in float16": ([spoiled(np.inf, np.float16)], None, ValueError, r"got inf in utterance 0, frame 5"),
    "too narrow": ([GOOD[:, :31]], None, ValueError, r"log_probs\[0\]: expected 32 columns, got 31"),
    "too wide": (np.zeros((2, 3, 33), np.float32), None, ValueError, r"log_probs: expected 32 columns, got 33"),
    "negative length": ([GOOD, GOOD], [3, -1], ValueError, r"lengths\[1\]: expected 0 to 12 frames, got -1"),
    "length beyond": (GOOD[None], [13], ValueError, r"lengths\[0\]: expected 0 to 12 frames, got 13"),
    "huge length": (
        GOOD[None],
        np.array([2**63], np.uint64),
        ValueError,
        r"expected 0 to 12 frames, got 9223372036854775808",
    ),
    "lengths missing": ([GOOD, GOOD], [3], ValueError, r"lengths: expected one for each utterance, \[2\], got shape"),
    "lengths nested": (GOOD[None], [[3]], ValueError, r"got shape \(1, 1\)"),
    "lengths ragged": (GOOD[None], [[3], [1, 2]], ValueError, r"lengths: expected integers \[1\], got"),
    "length of 70 bits": (GOOD[None], [2**70], ValueError, r"lengths\[0\]: expected 0 to 12 frames, got 11805"),
    "lengths none": (GOOD[None], [None], TypeError, r"lengths: expected integers, got object"),
    "lengths real": (GOOD[None], [3.0], TypeError, r"lengths: expected integers, got float64"),
    "lengths shares": (
        GOOD[None],
        [0.5],
        TypeError,
        r"got float64 \(are they shares of the longest",
    ),
    "lengths bool": (GOOD[None], [True], TypeError, r"lengths: expected integers, got bool"),
    "lengths a number": (GOOD[None], 3, ValueError, r"got shape \(\)"),
    "lengths a set": ([GOOD, GOOD], {3, 12}, TypeError, r"expected a sequence or array of integers, .* got set"),
    "lengths a dict": ([GOOD, GOOD], {3: 0, 12: 1}, TypeError, r"lengths: expected a sequence .* got dict$"),
    "lengths keys": ([GOOD, GOOD], {3: 0, 12: 1}.keys(), TypeError, r"lengths: expected a sequence .* got dict_keys"),
    "lengths bytes": ([GOOD, GOOD], b"\3\4", TypeError, r"lengths: expected a sequence .* got bytes"),
    "lengths bytearray": ([GOOD, GOOD], bytearray(2), TypeError, r"lengths: expected a sequence .* got bytearray"),
    "lengths text": ([GOOD, GOOD], "34", TypeError, r"lengths: expected a sequence .* got str"),
    "lengths a generator": ([GOOD], (n for n in [3]), TypeError, r"lengths: expected a sequence .* got generator"),
    "lengths for no batch": ([], [3], ValueError, r"lengths: expected one for each utterance, \[0\]"),
    "int32": (
        [GOOD.astype(np.int32)],
        None,
        TypeError,
        r"log_probs\[0\]: expected float32 or float16 log-probs, got int32; give log_probs\[0\].astype\('float32'\)$",
    ),
    "long double": ([GOOD.astype(np.longdouble)], None, TypeError, r"log_probs\[0\]: expected float32 .* got"),
    "one more column": ([np.zeros((3, 33), np.float32)], None, ValueError, r"got 33 \(do the tokens lack one"),
    "mask of other frames": (GOOD[None], np.ones((1, 13)), ValueError, r"mask of the frames, \[1, 12\], got shape"),
    "mask of one": (
        GOOD,
        np.arange(12) < 7,
        ValueError,
        r"got shape \(12,\); is it the mask of one .* as \[1, 12\], as in",
    ),
    "mask of padding in front": (GOOD[None], np.arange(12)[None] > 3, ValueError, r"mask of ones and then zeros"),
    "mask of other values": (GOOD[None], np.full((1, 12), 2), ValueError, r"mask of ones and then zeros"),
    "int": (np.zeros((1, 3, 32), int), None, TypeError, r"got int64"),
    "ragged": (
        np.array([GOOD, GOOD[:5]], object),
        None,
        TypeError,
        r"float16 log-probs, got object; give list\(log_probs\)$",
    ),
    "objects": (GOOD[None].astype(object), None, TypeError, r"got object; give log_probs.astype\('float32'\)$"),
    "masked": ([np.ma.masked_less(GOOD, -5.0)], None, TypeError, r"log_probs\[0\]: expected an array without a mask"),
    "mapping": (
        {"a": None},
        None,
        TypeError,
        r"expected an array .* got dict; give a list, such as list\(arrays.values",
    ),
    "generator": (iter([]), None, TypeError, r"expected an array .* got list_iterator; give a list of arrays$"),
    "values": ({"a": None}.values(), None, TypeError, r"expected an array .* got dict_values; give a list of arrays$"),
    "output of a model": (
        SimpleNamespace(logits=GOOD),
        None,
        TypeError,
        r"got SimpleNamespace; give its logits, with log",
    ),
    "mapping of a model": (Output(), None, TypeError, r"got Output; give its logits, with log"),
    "text": ("log_probs.npy", None, TypeError, r"expected an array .* got str; arcbeam.read_log_probs reads files"),
    "none": (None, None, TypeError, r"expected an array .* got NoneType"),
    "list of lists": ([[0.0]], None, TypeError, r"log_probs\[0\]: expected an array .* got list; numpy.asarray"),
    "one frame": (GOOD[0], None, ValueError, r"got 1 dimension \(32,\) \(one utterance is \[frames, columns\]\)"),
    "length of one utterance": (GOOD, 13, ValueError, r"lengths\[0\]: expected 0 to 12 frames, got 13"),
    "real length of one": (GOOD, 7.0, TypeError, r"lengths: expected integers, got float64$"),
    "real length of NumPy": (GOOD, np.float64(7.5), TypeError, r"lengths: expected integers, got float64$"),
    "share of one": (GOOD, np.array(1.0), TypeError, r"lengths: .* got float64 \(are they shares of the longest"),
    "bool of one": (GOOD, True, TypeError, r"lengths: expected integers, got bool$"),
    "four dimensions": (GOOD[None, None], None, ValueError, r"got 4 dimensions"),
    "three in a list": ([GOOD[None]], None, ValueError, r"log_probs\[0\]: expected \[frames, columns\], got 3"),
    "another device": (
        [OnAnotherDevice()],
        None,
        TypeError,
        r"expected an array in CPU memory, got DLPack device type 2",
    ),
}


GRAPH = graphs.random_graph(1)


def make(device, graph=GRAPH, **options):
    return CtcDecoder(graph, device=device, **{"beam": 8.0, "threads": 2, **options})


# A GPU takes other arrays than a CPU.
ON_CUDA = {"another device": r"expected an array on cuda:0, where the decoder is, got one on cuda:1"}


@pytest.mark.parametrize("name", INPUTS)
def test_bad_log_probs(device, name):
    log_probs, lengths, error, message = INPUTS[name]
    if device == "cuda":
        message = ON_CUDA.get(name, message)
    decoder = make(device)
    before = decoder.decode([GOOD])[0]
    for errors in ("raise", "return"):  # what is wrong with the call is raised all the same
        if errors == "raise" or not name.startswith(("nan", "inf")):
            with pytest.raises(error, match=message):
                decoder.decode(log_probs, lengths, errors=errors)
    after = decoder.decode([GOOD])[0]
    assert after.arcs.tobytes() == before.arcs.tobytes()
    assert after.score == before.score


def test_all_minus_inf_frame_is_legal(device):
    logp = GOOD.copy()
    logp[4] = -np.inf
    (found,) = make(device).decode([logp])
    assert len(found.tokens) == 4
    assert (found.reached_final, found.complete, found.score) == (False, False, -math.inf)
    assert found.partial_score < 0


def test_values_that_overflow_are_never_admitted(device):
    huge = np.full_like(GOOD, 3e38)
    (found,) = make(device, acoustic_scale=2.0).decode([huge])
    assert len(found.tokens) == 0
    assert (found.reached_final, found.complete) == (False, False)
    assert (found.score, found.partial_score) == (-math.inf, 0.0)


def test_a_search_that_dies_ranks_after_all_others(device):
    """Whatever the place in its batch, and however long the others are; no frames at all are no death."""
    dead = GOOD.copy()
    dead[0] = -np.inf
    batch = [GOOD, dead, GOOD[:0], GOOD[:3], dead[:1]]
    found = make(device).decode(batch)
    assert [h.complete for h in found] == [True, False, True, True, False]
    assert max(found, key=lambda h: h.score) is found[2]
    assert sorted(range(5), key=lambda i: found[i].score)[:2] == [1, 4]
    same(found, make("cpu").decode(batch))


OPTIONS = {
    "beam negative": ({"beam": -1.0}, ValueError, r"beam: expected a number of at least 0, got -1.0"),
    "beam nan": ({"beam": float("nan")}, ValueError, r"beam: .* got nan"),
    "beam text": ({"beam": "17"}, TypeError, r"beam: expected a number of at least 0, got str"),
    "beam bool": ({"beam": True}, TypeError, r"got bool"),
    "max_active 0": (
        {"max_active": 0},
        ValueError,
        r"max_active: expected a whole number of at least 1, or None, got 0",
    ),
    "max_active real": ({"max_active": 5.0}, TypeError, r"max_active: .* got float"),
    "max_active huge": (
        {"max_active": 2**40},
        ValueError,
        r"max_active: expected a whole number of at most 2,147,483,647, or None, got 1099511627776",
    ),
    "scale 0": ({"acoustic_scale": 0.0}, ValueError, r"acoustic_scale: expected a number above 0, got 0.0"),
    "scale inf": ({"acoustic_scale": float("inf")}, ValueError, r"acoustic_scale"),
    "scale beyond float32": (
        {"acoustic_scale": 1e39},
        ValueError,
        r"scale: .* range of float32, .* got 1e\+39",
    ),
    "scale below float32": (
        {"acoustic_scale": 1e-50},
        ValueError,
        r"scale: .* range of float32, .* got 1e-50",
    ),
    "scale whose products are beyond": ({"acoustic_scale": 1e38}, ValueError, r"to 1e\+30, got 1e\+38"),
    "beam of 400 digits": (
        {"beam": 10**400},
        ValueError,
        r"beam: expected a number of at least 0, got an integer of 1,329 bits",
    ),
    "max_active of 5000 digits": ({"max_active": 10**5000}, ValueError, r"max_active: .* an integer of 16,610 bits"),
    "frame shift of 400 digits": ({"frame_shift": 10**400}, ValueError, r"frame_shift: .* an integer of 1,329 bits"),
    "penalty beyond float32": ({"blank_penalty": -1e39}, ValueError, r"blank_penalty: .* range of float32, .* -1e\+39"),
    "penalty nan": ({"blank_penalty": float("nan")}, ValueError, r"blank_penalty"),
    "penalty inf": ({"blank_penalty": float("inf")}, ValueError, r"blank_penalty"),
    "frame shift": ({"frame_shift": 0}, ValueError, r"frame_shift: expected a number of seconds above 0, got 0"),
    "frame shift in ms": ({"frame_shift": 20}, ValueError, r"expected at most 1 second, got 20; write 20"),
    "threads": ({"threads": 0}, ValueError, r"threads: .* got 0"),
    "too many threads": ({"threads": 2**31 - 1}, ValueError, r"threads: expected at most 4,096, got 2147483647"),
    "device": ({"device": "tpu"}, ValueError, r'device: expected "cpu", "cuda", "cuda:N" or "auto", got \'tpu\''),
    "device a number": ({"device": 0}, ValueError, r"device: .* got 0"),
    "device nameless": ({"device": "cuda:"}, ValueError, r"device: .* got 'cuda:'"),
    "memory_limit 0": (
        {"memory_limit": 0},
        ValueError,
        r"memory_limit: expected a number of bytes, at least 1, or a size .* got 0",
    ),
    "memory_limit of a CPU": (
        {"memory_limit": "2KiB", "device": "cpu"},
        ValueError,
        r"memory_limit: expected None with device='cpu', .* GPU, got 2,048 bytes; leave it out, or give device='cuda'$",
    ),
    "memory_limit text": ({"memory_limit": "1 giga"}, ValueError, r"memory_limit: .* got '1 giga'"),
    "unknown": (
        {"baem": 3.0},
        TypeError,
        r"unknown option baem: expected one of graph, language_model, graph_l",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options(name):
    options, error, message = OPTIONS[name]
    with pytest.raises(error, match=message):
        CtcDecoder(GRAPH, **options)


def test_a_size_as_memory_limit():
    assert CtcDecoder(GRAPH, memory_limit="1.5GiB").options.memory_limit == 3 << 29


def test_no_graph():
    with pytest.raises(TypeError, match=r"graph: expected an arcbeam.Graph, got str; arcbeam\.Graph\.load opens"):
        CtcDecoder("TLG.fst")
    with pytest.raises(TypeError, match=r"got NoneType; without one, arcbeam\.ctc_decoder\(tokens\) decodes greedily"):
        CtcDecoder(None)


def test_blank_penalty_without_a_blank():
    graph = graphs.Graph.from_arcs([(0, 0, 1, 0, 0.0)], start=0, finals={0: 0.0})
    with pytest.raises(ValueError, match="the graph has no blank"):
        CtcDecoder(graph, blank_penalty=1.0)


def test_more_columns_than_a_graph_without_tokens_needs(device):
    graph = graphs.Graph.from_arcs([(0, 0, 1, 0, 0.0)], start=0, finals={0: 0.0})
    assert make(device, graph).decode([GOOD])[0].reached_final
    with pytest.raises(ValueError, match=r"expected at least 1 columns, got 0"):
        make(device, graph).decode([GOOD[:, :0]])
