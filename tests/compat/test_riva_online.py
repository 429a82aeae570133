"""riva-asrlib-decoder's decoder of streams on those of CtcDecoder."""

import threading

import numpy as np
import pytest

from arcbeam import CtcDecoder, InputError
from arcbeam.compat import riva
from tests.compat.riva_callers import WeNetOnline
from tests.compat.riva_decoders import config, decoder, post


def online(spoken, **options):
    made = config(**options).online_opts
    return riva.BatchedMappedOnlineDecoderCuda(made, str(spoken.fst), str(spoken.words), spoken.columns, device="cpu")


def streamed(made, utterances, parts, begin=True):
    """The results after each chunk, of streams that are decoded together."""
    ids, found = list(range(len(utterances))), []
    chunks = [np.array_split(one, parts) for one in utterances]
    if begin:
        assert all(made.try_init_corr_id(i) for i in ids)
    for part in range(parts):
        first, last = [part == 0] * len(ids), [part == parts - 1] * len(ids)
        channels, partials = made.decode_batch(ids, [one[part] for one in chunks], first, last)
        assert len(set(channels)) == len(ids)
        found.append(partials)
    return found


@pytest.mark.parametrize("parts", [1, 7])
def test_results_are_those_of_streams(spoken, parts):
    found = streamed(online(spoken), spoken.utterances, parts)
    plain = CtcDecoder(spoken.graph, beam=15.0, device="cpu")
    for i, one in enumerate(spoken.utterances):
        stream = plain.stream()
        for chunk, partials in zip(np.array_split(one, parts), found, strict=True):
            wanted = stream.decode_chunk(chunk)
            assert partials[i] == riva.PartialHypothesisEx(
                -wanted.partial_score,
                (wanted.tokens + 1).tolist(),
                wanted.word_ids.tolist(),
                [word.start_frame for word in wanted.words],
                [word.end_frame for word in wanted.words],
            )
        assert len(partials[i].ilabels) == len(one)


@pytest.mark.parametrize(
    "options",
    [post(nbest=3), post(nbest=3, lm_scale=0.5), post(mbr_opts=riva.MinimumBayesRiskOptions(decode_mbr=False))],
)
def test_callbacks_get_what_the_offline_decoder_returns(spoken, options):
    made, offline, got = online(spoken, **options), decoder(spoken, **options), {}
    for i in range(len(spoken.utterances)):
        made.try_init_corr_id(i)
        made.set_lattice_callback(i, lambda result, i=i: got.setdefault(i, result))
    streamed(made, spoken.utterances, 3, begin=False)
    made.wait_for_lattice_callback()
    lattices, words, lists = zip(*(got[i] for i in range(len(got))), strict=True)
    assert list(words) == offline.decode_mbr(spoken.utterances, spoken.lengths)
    assert list(lists) == offline.decode_nbest(spoken.utterances, spoken.lengths)
    found = CtcDecoder(spoken.graph, beam=15.0, lattice_beam=10.0, device="cpu").decode(spoken.utterances, lattice=True)
    if "lm_scale" not in str(options):
        assert list(lattices) == [hypothesis.lattice.to_kaldi() for hypothesis in found]


def test_callbacks_without_the_postprocessor(spoken):
    made, got = online(spoken, use_lattice_postprocessor=False), []
    made.try_init_corr_id(0)
    made.set_lattice_callback(0, got.append)
    streamed(made, spoken.utterances[:1], 2, begin=False)
    [(lattice, words, entries)] = got
    assert lattice.num_arcs and words is None and entries is None


def test_channels(spoken):
    """There are at least two for each of a batch; an ended stream gives its own back, also to a thread that waits."""
    made = online(spoken, max_batch_size=1, num_channels=1)
    assert [made.try_init_corr_id(i) for i in (10, 11, 12)] == [True, True, False]
    assert made.try_init_corr_id(11) and not made.try_init_corr_id(12, wait_for_us=1000)
    got = []
    waiting = threading.Thread(target=lambda: got.append(made.try_init_corr_id(12, wait_for_us=60_000_000)))
    waiting.start()
    [channel], _ = made.decode_batch([10], spoken.utterances[:1], [True], [True])
    waiting.join()
    assert got == [True]
    assert made.decode_batch([12], spoken.utterances[:1], [True], [False])[0] == [channel]
    assert made.decode_batch([], [], [], []) == ([], [])
    assert made.device == "cpu" and "CtcDecoder of" in repr(made)


def test_a_stream_begins_anew_with_a_first_chunk(spoken):
    made, one = online(spoken), spoken.utterances[0]
    made.try_init_corr_id(3)
    whole = made.decode_batch([3], [one], [True], [False])
    made.decode_batch([3], [one[:50]], [True], [False])
    assert made.decode_batch([3], [one], [True], [True]) == whole


def test_calls_that_are_refused(spoken):
    made, one = online(spoken), spoken.utterances[0]
    with pytest.raises(ValueError, match=r"^corr_id: expected one that try_init_corr_id has returned True for, got 4"):
        made.decode_batch([4], [one], [True], [True])
    with pytest.raises(ValueError, match=r"^corr_id: expected one that"):
        made.set_lattice_callback(4, print)
    for i in (4, 5):
        made.try_init_corr_id(i)
    with pytest.raises(InputError, match="corr_id: 4: expected is_first_chunk=True with the first chunk, got False"):
        made.decode_batch([4], [one], [False], [True])
    with pytest.raises(ValueError, match=r"four sequences of one length, got lengths \[1, 2\]"):
        made.decode_batch([4, 5], [one], [True, True], [True, True])
    with pytest.raises(ValueError, match=r"^corr_ids: expected each stream once"):
        made.decode_batch([4, 4], [one, one], [True, True], [True, True])
    made.decode_batch([4], [one[:40]], [True], [False])
    with pytest.raises(RuntimeError, match=r"^corr_id 4: expected a callback before the first chunk"):
        made.set_lattice_callback(4, print)
    bad = one[40:].copy()
    bad[2, 1] = np.inf
    with pytest.raises(InputError, match="frame 2, column 1"):
        made.decode_batch([4], [bad], [False], [True])
    _, [found] = made.decode_batch([4], [one[40:]], [False], [True])
    _, [whole] = made.decode_batch([5], [one], [True], [True])
    assert found == whole


def test_wenet(spoken):
    caller = WeNetOnline(riva, spoken.columns, spoken.fst, spoken.words)
    ids, padded = list(range(100, 100 + len(spoken.said))), spoken.padded
    assert all(caller.initialize_sequence(i) for i in ids)
    for begin in range(0, padded.shape[1], 60):
        chunk = padded[:, begin : begin + 60]
        lengths = np.clip(spoken.lengths - begin, 0, chunk.shape[1])
        live = [i for i, length in enumerate(lengths) if length]
        last = [bool(spoken.lengths[i] <= begin + 60) for i in live]
        texts = caller.decode_batch(chunk[live], lengths[live], [ids[i] for i in live], [begin == 0] * len(live), last)
        for i, text, is_last in zip(live, texts, last, strict=True):
            if is_last:
                ids[i] = text
    assert sum(text == said for text, said in zip(ids, spoken.said, strict=True)) >= 11
