"""Log-probs that are none, a blank that is another column: one warning a decoder and kind, none on good input."""

import re
import warnings

import numpy as np
import pytest

from arcbeam import CtcDecoder, Graph, InputWarning, baseline
from arcbeam.arrays.batches import InputSpec, as_inputs
from arcbeam.arrays.input_warnings import InputWarnings
from tests.decode import graphs
from tests.decode.emulated_gpu import DeviceArray
from tests.decode.equality import same

GRAPH = graphs.random_graph(3, states=60, columns=12)
GOOD = graphs.random_log_probs(0, 12, 12, sharpness=1.0)


def told(run, *arguments, **options):
    """What it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(*arguments, **options)
    assert all(w.category is InputWarning for w in caught)
    assert all(w.filename == __file__ for w in caught), "the line of the user's"
    return [str(w.message) for w in caught]


def make(device="cpu", graph=GRAPH):
    return CtcDecoder(graph, device=device, beam=4.0, max_active=20)


WHERE = r"in utterance [01], frame \d+"
SUM = "log_probs: expected natural logs of probabilities, which sum to 1 in a frame, got a sum of "
ABOVE = "log_probs: expected natural logs of probabilities, got "
BASE_10 = (
    r"are they logs to base 10 \(multiply by 2.302585\), logits \(take their log-softmax, as logits=True \(--logits\) "
    r"does\), or were small ones clipped\?"
)
KINDS = {
    "probabilities": (
        np.exp,
        rf"{ABOVE}0\.\d+ {WHERE}: are they probabilities \(take the log\), or logits \(take their log-softmax, ",
    ),
    "logits": (lambda x: x - x.mean(), rf"{ABOVE}\d\.\d+ {WHERE}: are they probabilities"),
    "logits below 0": (lambda x: x - x.max(), rf"{SUM}\d+\.?\d* {WHERE}: {BASE_10}"),
    "base 10": (lambda x: x / np.log(10), rf"{SUM}\d+\.\d+ {WHERE}: {BASE_10}"),
    "clipped": (lambda x: np.maximum(x, -2), rf"{SUM}\d+\.\d+ {WHERE}: {BASE_10}"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_is_no_log_prob_is_warned_of_once(device, kind, dtype):
    spoil, message = KINDS[kind]
    bad = [spoil(GOOD).astype(dtype)] * 2
    decoder = make(device)
    assert told(decoder.decode, [GOOD, GOOD]) == []
    (first,) = told(decoder.decode, bad)
    with pytest.warns(UserWarning, match=message):
        make(device).decode(bad)
    for _ in range(5):
        assert told(decoder.decode, bad) == []
    assert first.startswith("log_probs: expected natural logs of probabilities")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(decoder.decode(bad), make().decode(bad))


def test_every_kind_is_one_warning_of_its_own():
    decoder = make()
    for spoil in (np.exp, lambda x: x / np.log(10), lambda x: np.maximum(x, -2)):
        told(decoder.decode, [spoil(GOOD).astype(np.float32)])
    assert told(decoder.decode, [np.exp(GOOD), GOOD / np.log(10).astype(np.float32)]) == []
    both = np.concatenate([np.exp(GOOD), GOOD * 0.25] * 200).astype(np.float32)
    (message,) = told(make().decode, [both])
    assert message.startswith(ABOVE), "which explains the sums, too"


def test_values_that_were_scaled():
    """A good frame that lacks something is none of ours, and one in fifty is no accident."""
    batch = [graphs.random_log_probs(seed, 64, 12, sharpness=1.0) for seed in range(8)]
    cut = [np.where(one[:5] < -3, -np.inf, one[:5]).astype(np.float32) for one in batch[:1]]
    assert told(make().decode, batch[1:] + cut) == []
    (message,) = told(make().decode, [one * 2 for one in batch])
    assert message.startswith(SUM + "0.")
    assert message.endswith(
        "are they logits (take their log-softmax, as logits=True (--logits) does), logs to base 2, were they "
        "scaled (use acoustic_scale), or are columns missing?"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_after_an_utterance_are_padding(device, dtype):
    batch = np.stack([GOOD, np.concatenate([GOOD[:4], np.zeros_like(GOOD[4:])])]).astype(dtype)
    decoder = make(device)
    assert told(decoder.decode, batch, [12, 4]) == []
    (message,) = told(decoder.decode, batch)
    assert message.startswith(f"{SUM}12 in utterance 1, frame ")
    assert message.endswith(": all columns are 0. Is it padding (say where utterances end with lengths=)?")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_logits_that_are_probabilities_or_padding(device, dtype):
    """One warning of each; engines see their log-probs alone."""
    logits = (GOOD * 3 + 7).astype(dtype)
    decoder = make(device)
    one_hot = [np.eye(12, dtype=dtype)[:5], logits]
    for good in ([logits, logits[:1]], one_hot, [GOOD], [np.full_like(logits, -np.inf)], [logits[:0]], []):
        assert told(decoder.decode, good, logits=True) == []
    batch = np.stack([logits, np.concatenate([logits[:4], np.zeros_like(logits[4:])])])
    assert told(decoder.decode, batch, [12, 4], logits=True) == []
    (message,) = told(decoder.decode, batch, logits=True)
    assert re.fullmatch(
        r"log_probs: expected logits, got 0 in all columns of utterance 1, frame (6|11): is it padding \(say where "
        r"utterances end with lengths=\)\?",
        message,
    )
    probabilities = np.exp(GOOD).astype(dtype)
    (message,) = told(decoder.decode, [probabilities, np.zeros_like(GOOD)], logits=True)
    assert message == (
        "log_probs: expected logits, got values from 0 to 1, which sum to 1, in utterance 0, frame 0: are they "
        "probabilities (take the log, without logits=True (--logits))?"
    )
    assert told(decoder.decode, [probabilities, np.zeros_like(GOOD)], logits=True) == []


def test_logits_of_a_stream_that_are_probabilities(device):
    decoder = make(device)
    streams = [decoder.stream(), decoder.stream(logits=True)]
    assert told(decoder.decode_chunks, streams, [GOOD, GOOD * 3]) == []
    (message,) = told(decoder.decode_chunks, streams, [GOOD, np.exp(GOOD)])
    assert "which sum to 1, in utterance 1, frame 0: are they probabilities" in message


def random_softmax(rng, frames, columns, sharpness):
    logits = rng.normal(size=(frames, columns)) * sharpness
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def warner(columns, blank=0, is_exact=True):
    return InputWarnings(columns, blank, is_exact, "column {}".format)


def warned(one, batch):
    """What a decoder warns of where it decodes a batch on the CPU."""

    def run():
        one.checks.check(as_inputs(batch, None, InputSpec(1, False)).table)
        if one.checks.has_news:
            one.warn()

    return told(run)


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 32, 500, 5000])
@pytest.mark.parametrize("sharpness", [0.0, 0.1, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_random_input_is_good(columns, sharpness, dtype):
    rng = np.random.default_rng(columns)
    one = warner(columns)
    for frames in rng.integers(0, 40, 60):
        assert warned(one, [random_softmax(rng, frames, columns, sharpness).astype(dtype)]) == []
    many = [random_softmax(rng, 40, columns, sharpness).astype(dtype) for _ in range(8)]
    for _ in range(300):
        assert warned(one, many) == []
        assert warned(one, many[:1]) == []


@pytest.mark.parametrize("frames", [1, 2, 6, 15])
def test_the_same_short_utterance_again_and_again(frames):
    """It may well have a column that is the best of many of its frames, and is not the blank."""
    one = warner(12, blank=11)
    for seed in range(40):
        batch = [graphs.random_log_probs(seed, frames, 12)]
        for _ in range(150):
            assert warned(one, batch) == []


def test_what_is_legal_in_a_frame(device):
    silent = np.full((400, 12), -30.0, np.float32)
    silent[:, GRAPH.blank] = 0.0
    never = np.full((5, 12), -np.inf, np.float32)
    masked = np.full((5, 12), -1e30, np.float32)
    masked[:, 3] = -2000.0
    rounded = GOOD.copy()
    rounded[:, 0] = -np.inf
    rounded[3] = np.log([1.0000002] + [1e-30] * 11)
    decoder = make(device)
    for batch in ([silent], [GOOD, never], [masked], [GOOD[:0]], [], [rounded[3:4]], [silent[:1], GOOD[:1]]):
        for _ in range(3):
            assert told(decoder.decode, batch) == []


@pytest.mark.parametrize("low", [-1e9, -1e30, float(np.finfo(np.float32).min)])
def test_a_frame_in_which_everything_ties(device, low):
    """Padding that is decoded as speech."""
    padded = np.concatenate([GOOD, np.full((9, 12), low, np.float32)])
    decoder = make(device)
    (message,) = told(decoder.decode, [GOOD, padded])
    assert re.fullmatch(
        rf"log_probs: expected the best column of a frame to be near 0, or all to be -inf, got {re.escape(f'{low:g}')} "
        r"for the best in utterance 1, frame (1[2-9]|20): the graph's differences are lost in the rounding of so large "
        r"a cost\. Is it padding \(say where utterances end with lengths=\), or a mask "
        r"\(use np\.maximum\(log_probs, -1e4\)\)\?",
        message,
    )
    assert told(decoder.decode, [padded]) == []
    assert told(make(device).decode, np.stack([padded, padded]), lengths=[12, 12]) == []
    assert told(make(device).decode, [np.maximum(padded, -1e4)]) == []


def peaky(seed, frames, blank, columns=12, share=0.6):
    """As a model of speech has it: the blank is the best of most frames."""
    rng = np.random.default_rng(seed)
    best = np.where(rng.random(frames) < share, blank, rng.integers(0, columns, frames))
    logits = rng.normal(size=(frames, columns))
    logits[np.arange(frames), best] += 8
    return (logits - np.log(np.exp(logits).sum(1, keepdims=True))).astype(np.float32)


def test_a_blank_that_is_another_column():
    batch = [peaky(seed, 1500, blank=4) for seed in range(20)]
    (message,) = told(make().decode, batch)
    assert re.fullmatch(
        r"log_probs: expected the blank, column 11 \('<blank>'\), to be the best column of many frames, got \d+ of \d+ "
        r"checked frames, up to utterance \d+, frame \d+, and \d+ for column 4 \('t4'\): is that the blank \(name it "
        r"with blank=\), or are the columns in another order than the tokens\?",
        message,
    )
    assert told(make().decode, [peaky(seed, 1500, blank=11) for seed in range(20)]) == []
    rolled = [np.roll(peaky(seed, 1500, blank=11), 1, axis=1) for seed in range(20)]
    assert "column 0 ('t0')" in told(make().decode, rolled)[0]


def test_three_short_recordings_are_enough():
    rolled = [np.roll(peaky(seed, frames, blank=11), 1, axis=1) for seed, frames in enumerate((260, 380, 200))]
    assert "column 0 ('t0')" in told(make().decode, rolled)[0]
    one_by_one = make()
    assert len([message for one in rolled for message in told(one_by_one.decode, [one])]) == 1


def test_what_comes_late_is_seen():
    """After an hour of good input, too."""
    decoder = make()
    good = [peaky(seed, 1000, blank=11) for seed in range(50)]
    assert told(decoder.decode, good) == []
    bad = [peaky(seed, 1000, blank=4) for seed in range(50)]
    assert len(told(decoder.decode, bad)) == 1


def test_silence_that_is_another_token_is_no_blank():
    """All frames are of that."""
    silence = [peaky(seed, 1500, blank=4, share=1.0) for seed in range(20)]
    assert told(make().decode, silence) == []


def test_a_graph_that_does_not_know_its_blank():
    graph = Graph.from_arcs([(0, 0, 1, 0, 0.0)], start=0, finals={0: 0.0})
    assert told(make(graph=graph).decode, [peaky(seed, 1500, blank=4) for seed in range(20)]) == []


NARROW = Graph.from_arcs([(0, 0, 1, 0, 0.0), (0, 0, 3, 0, 0.0)], start=0, finals={0: 0.0})


@pytest.mark.parametrize("columns", [12, 3])
def test_columns_that_the_graph_does_not_read(columns):
    """The model's other columns may be there, left out, or anything."""
    batch = [peaky(seed, 200, blank=11)[:, :columns] for seed in range(5)]
    assert told(make(graph=NARROW).decode, batch) == []
    padded = [np.concatenate([one, np.zeros((200, 4), np.float32)], axis=1) for one in batch]
    assert told(make(graph=NARROW).decode, padded) == []
    (message,) = told(make(graph=NARROW).decode, [one * 0.1 for one in batch])
    assert message.startswith(SUM)
    (message,) = told(make(graph=NARROW).decode, [np.exp(one) + 0.5 for one in batch])
    assert message.startswith(ABOVE)


def test_nan_is_an_error_and_no_warning(device):
    bad = GOOD.copy()
    bad[3, 4] = np.nan
    decoder = make(device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            with pytest.raises(ValueError, match="got nan in utterance 0"):
                decoder.decode([bad])


def on_device(gpu, arrays):
    for array in arrays:
        gpu.fake.lend("memory", array.ctypes.data, array.nbytes)
    return [DeviceArray(array) for array in arrays]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arrays_that_are_on_the_gpu(gpu, dtype):
    good = [graphs.random_log_probs(seed, 9, 12).astype(dtype) for seed in range(3)]
    decoder = make("cuda")
    assert told(decoder.decode, on_device(gpu, good)) == []
    before = len(gpu.fake.journal())
    bad = [np.exp(one).astype(dtype) for one in good]
    (message,) = told(decoder.decode, on_device(gpu, bad))
    assert message.startswith(ABOVE + "0.") and "in utterance " in message
    copies = [line for line in gpu.fake.journal()[before:] if line[0] == "to_host"]
    assert copies.count(["to_host", "pinned"]) == len(copies) <= 8 + 2
    assert told(decoder.decode, on_device(gpu, bad)) == []
    same(decoder.decode(on_device(gpu, good)), make().decode(good))


def test_checks_of_arrays_on_the_gpu_are_few_and_name_the_utterance(gpu):
    """Of a batch that is sorted on its way; the copies lie between the kernel and the mark that the host waits for."""
    good = [graphs.random_log_probs(seed, frames, 12) for seed, frames in enumerate((1, 700, 40))]
    good[2] = np.exp(good[2])
    decoder = make("cuda")
    named = [message for _ in range(12) for message in told(decoder.decode, on_device(gpu, good))]
    (message,) = named
    assert "in utterance 2, frame " in message
    calls = [line[0] for line in gpu.fake.journal()]
    following = calls[len(calls) - calls[::-1].index("launch") :]  # the kernel of the last batch
    marked = following.index("record")
    assert following[:marked].count("to_host") > 1, "the results and the checked frames"
    assert "to_host" not in following[marked:]


def test_a_check_that_fails_costs_nothing(gpu):
    """Copies that the driver refuses, and memory that the system does not pin."""
    decoder = make("cuda")
    bad = [np.exp(GOOD)]
    assert told(decoder.decode, [DeviceArray(one) for one in bad]) == []  # not known to the driver: copies fail
    gpu.fake.refuse("host_allocate")
    pageable = make("cuda")
    with pytest.warns(UserWarning, match="the host does not pin"):
        found = pageable.decode(on_device(gpu, bad))
    with pytest.warns(UserWarning, match=ABOVE):
        same(found, make().decode(bad))
    gpu.fake.allow()


def test_the_demo_is_good(demo_data):
    check_set(demo_data, told_of_blanks=3)


@pytest.mark.parametrize("name", ["test-other-100", "ljspeech-200", "an4-test", "throughput"])
def test_sets_of_speech_are_good(arcbeam_data, name):
    check_set(arcbeam_data / name)


def check_set(folder, told_of_blanks=1):
    """In one batch, and utterance by utterance, in any order; another blank and rolled columns are told."""
    with np.load(folder / "log_probs.npz") as data:
        utterances = np.split(data["log_probs"], np.cumsum(data["lengths"])[:-1])
    blank, one, other = 28, warner(29, 28), warner(29, 28)
    assert warned(one, utterances) == []
    for utterance in utterances[::-1]:
        assert warned(one, [utterance]) == []
        assert warned(other, [utterance.astype(np.float32)]) == []
    for wrong in range(blank):
        mistaken = warner(29, wrong)
        batches = [warned(mistaken, utterances) for _ in range(told_of_blanks * 4)]
        assert sum(map(len, batches)) == 1, wrong
    rolled = warner(29, blank)
    batches = [warned(rolled, [np.roll(one, 1, axis=1) for one in utterances]) for _ in range(told_of_blanks * 4)]
    assert sum(map(len, batches)) == 1
    for spoil in (np.exp, lambda x: x / np.log(10), lambda x: np.maximum(x, -5), lambda x: x + 5):
        spoiled = [spoil(one.astype(np.float32)).astype(np.float32) for one in utterances]
        assert len([m for _ in range(told_of_blanks) for m in warned(warner(29, blank), spoiled)]) >= 1


def test_the_baseline_warns_too():
    tokens = ["|", *"abcdefg", "<blank>"]
    decoder = baseline.LexiconFreeDecoder(tokens, beam_size=2, threads=1)
    good = [peaky(seed, 1500, blank=8, columns=9) for seed in range(20)]
    assert told(decoder.decode, good) == []
    assert told(decoder.decode, [np.exp(good[0])])[0].startswith(ABOVE)
    other = baseline.LexiconFreeDecoder(tokens, beam_size=2, threads=1)
    (message,) = told(other.decode, [np.roll(one, 3, axis=1) for one in good])
    assert "expected the blank, column 8 ('<blank>')" in message
