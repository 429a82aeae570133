"""States of beam search between chunks (law 12): lists have the bytes of the frames so far, states depend on these."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcbeam import TransducerDecoder
from arcbeam.arrays.batches import as_inputs
from arcbeam.transducer._transducer import available_kernels
from arcbeam.transducer.beam._state import BeamState
from arcbeam.transducer.fusion import fusions_of, trees_of
from arcbeam.transducer.token_automaton import from_the_start
from tests.hypothesis_examples import examples
from tests.transducer import beam_oracle
from tests.transducer.beam_searches import DURATIONS, INF, PREDICTIONS, model_of
from tests.transducer.networks import on_unit, random_arrays, random_frames
from tests.transducer.test_beam_fusion import drawn_models

pytestmark = pytest.mark.filterwarnings("ignore:.*do not sum to 1:UserWarning", "ignore:.*no <unk>:UserWarning")


class Search:
    """The engine of a decoder, which takes chunks and states as streams give them."""

    def __init__(self, decoder, tree=None):
        self.search, self.tree = decoder._search, trees_of(tree, 1, decoder._search.tokens, 0)
        fusion, _ = from_the_start(self.search.ngram_lm, None if tree is None else tree.automaton)
        lodr = 0 if self.search.lodr is None else self.search.lodr.start
        self.fusions, _ = fusions_of(self.tree, self.search.ngram_lm, [None])
        self.begun = BeamState.begun(0, (*fusion.states, lodr))

    def decode(self, rows, state):
        """(entries, what is left to the next chunk)."""
        inputs = as_inputs([rows], None, self.search.spec)
        [(take, place, left)], bad = self.search.engine.decode(inputs.table, [state], True, self.fusions)
        assert not bad
        [entries] = take(place)
        return tuple(entries), left


def joined(parts):
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def entry_bytes(settled, entry):
    """All of an entry of a list, after the labels that have been settled before."""
    labels, *rest = entry
    return [array.tobytes() for array in joined([*settled, labels])], rest


def in_chunks(search, frames, draw, sizes):
    """The states after all chunks; each list is compared with that of the frames so far."""
    at, state, settled, ends = 0, search.begun, [], []
    while not ends or at < len(frames):
        end = min(len(frames), at + draw.choice(sizes))
        entries, (state, count, _) = search.decode(frames[at:end], state)
        whole, left = search.decode(frames[:end], None)
        assert left is None
        assert [entry_bytes(settled, one) for one in entries] == [entry_bytes([], one) for one in whole]
        beginnings = [[array[:count].tobytes() for array in labels] for labels, *_ in entries]
        assert beginnings == beginnings[:1] * len(entries)
        settled.append([array[:count] for array in entries[0][0]])
        at = end
        ends.append(at)
        if draw.random() < 0.5:
            state = BeamState.of_arrays(state.frames, *state.numbers(), state.arrays())
    return state, joined(settled)


def state_bytes(state):
    return state.frames, state.numbers(), {name: array.tobytes() for name, array in state.arrays().items()}


@st.composite
def searches(draw):
    durations = draw(st.sampled_from([*DURATIONS, [0, 7]]))
    seed, tokens = draw(st.integers(0, 2**32 - 1)), draw(st.integers(2, 6))
    shape = {"tokens": tokens, "durations": len(durations or ()), **draw(st.sampled_from(PREDICTIONS))}
    arrays = random_arrays(seed, **shape, blank_bias=draw(st.sampled_from([0.0, 1.0, 3.0])))
    options = {
        "durations": durations,
        "max_symbols": draw(st.sampled_from([1, 2, 10])),
        "beam": draw(st.sampled_from([0.5, 2.0, 6.0, INF])),
        "max_hypotheses": draw(st.sampled_from([1, 2, 4, 8])),
        "merge": draw(st.sampled_from(["sum", "max"])),
        "length_power": draw(st.sampled_from([0.0, 0.5])),
        "settle_frames": draw(st.sampled_from([None, 1, 3, 8])),
        "confidence": draw(st.sampled_from([None, "entropy"])),
        "precision": draw(st.sampled_from(["float32", "bfloat16"])),
    }
    return arrays, options, random_frames(seed, draw(st.integers(0, 30))), seed


@settings(max_examples=examples(60), deadline=None)
@given(case=searches())
def test_chunks_give_the_bytes_of_the_frames_so_far(case):
    arrays, options, frames, seed = case
    search = Search(TransducerDecoder.from_arrays(arrays, 0, device="cpu", threads=1, **options))
    draw = random.Random(seed)
    states = [in_chunks(search, frames, draw, sizes) for sizes in ([1], [0, 1, 2, 5], [3, 100], [100])]
    first, *others = [(state_bytes(state), [array.tobytes() for array in settled]) for state, settled in states]
    assert all(other == first for other in others)


@pytest.mark.parametrize("which", ["n", "t", "l", "i", "ntli"])
def test_with_models(tmp_path, which):
    for seed in range(8):
        draw, durations = random.Random(seed), DURATIONS[seed % len(DURATIONS)]
        shape = {"durations": len(durations or ()), **PREDICTIONS[seed % len(PREDICTIONS)]}
        arrays, frames = random_arrays(seed, tokens=6, **shape), random_frames(seed, 25)
        options, tree, _ = drawn_models(tmp_path, seed, 6, 0, which)
        options |= {"durations": durations, "beam": draw.choice([2.0, INF]), "max_hypotheses": 4, "max_symbols": 2}
        search = Search(TransducerDecoder.from_arrays(arrays, 0, device="cpu", threads=1, **options), tree)
        states = [state_bytes(in_chunks(search, frames, draw, sizes)[0]) for sizes in ([1], [0, 2, 4], [100])]
        assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("shape", PREDICTIONS, ids=str)
def test_states_are_those_of_any_vector_unit(shape):
    arrays, frames = random_arrays(5, tokens=33, units=21, joint=19, durations=5, **shape), random_frames(5, 40)
    found = []
    for kernels in available_kernels():
        with on_unit(kernels):
            search = Search(
                TransducerDecoder.from_arrays(
                    arrays, 0, durations=[0, 1, 2, 3, 4], beam=4.0, ilm_scale=0.2, device="cpu", threads=1
                )
            )
        found.append(state_bytes(in_chunks(search, frames, random.Random(len(found)), [1, 3, 9])[0]))
    assert len(found) > 1 and found == found[:1] * len(found)


@pytest.mark.parametrize("durations", [[0, 1, 2, 3, 4], [0, 2, 5], None], ids=str)
def test_what_passes_the_end_meets_there(durations):
    """As the law says it in Python, of every number of frames."""
    for seed in range(6):
        arrays, frames = random_arrays(seed, tokens=4, durations=len(durations or ())), random_frames(seed, 6)
        options = {"durations": durations, "max_symbols": 2, "beam": 4.0, "max_hypotheses": 4}
        search = Search(TransducerDecoder.from_arrays(arrays, 0, device="cpu", threads=1, **options))
        state, settled = search.begun, []
        for count in range(1, len(frames) + 1):
            entries, (state, ends, _) = search.decode(frames[count - 1 : count], state)
            model = model_of(arrays, frames[:count], 0, durations, 2)
            wanted = beam_oracle.search(model, 4.0, 4)
            found = [(joined([*settled, labels])[:2], score) for labels, score, *_ in entries]
            assert [([*zip(*map(np.ndarray.tolist, of), strict=True)], score) for of, score in found] == [
                ([label[:2] for label in labels], score) for labels, score in wanted
            ]
            settled.append([array[:ends] for array in entries[0][0]])


def test_the_size_of_a_state_is_bounded_where_labels_settle():
    """Over an hour of speech that repeats itself; without the option two hypotheses differ from early on to its end."""
    arrays, speech = random_arrays(3, tokens=20, durations=5, blank_bias=2.0), random_frames(1, 50)
    # A chunk copies all that has not settled.
    for settle_frames, chunks, least, most in ((25, 900, 1_000, 10_000), (None, 90, 1_000_000, 10_000_000)):
        decoder = TransducerDecoder.from_arrays(
            arrays, 0, durations=[0, 1, 2, 3, 4], beam=3.0, settle_frames=settle_frames, device="cpu", threads=1
        )
        search = Search(decoder)
        state, largest = search.begun, 0
        for _ in range(chunks):
            _, (state, _, _) = search.decode(np.tile(speech, (900 // chunks, 1)), state)
            largest = max(largest, len(state.arrays()["histories"]) * 36)
        assert state.frames == 45_000 and least < largest < most


def test_the_size_of_a_state_is_bounded():
    """Over an hour of speech, with frames of 80 ms."""
    arrays = random_arrays(3, tokens=20, durations=5, blank_bias=2.0)
    decoder = TransducerDecoder.from_arrays(
        arrays, 0, durations=[0, 1, 2, 3, 4], beam=6.0, max_hypotheses=8, device="cpu", threads=1
    )
    search, sizes, written = Search(decoder), [], 0
    state = search.begun
    for minute in range(60):
        _, (state, settled, _) = search.decode(random_frames(minute, 750), state)
        written += settled
        sizes.append(state.nbytes)
    assert state.frames == 45_000 and written > 10_000
    # Alternatives may stay open for minutes, as long as nothing that is said tells one from the other.
    assert max(sizes) < 200_000 < 60 * written / 3
    assert np.median(sizes[30:]) < 1.5 * np.median(sizes[:30])
