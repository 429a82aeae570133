"""How fast greedy decoding of a transducer could be on a GPU at best: the time that nothing here goes below.

Two things that neither overlap nor can be left out, each taken as the machine's peak has it:

* waits: all multiprocessors hold a share of the weights, so each label of the longest utterance takes layers + 2
  exchanges between all of them (hidden states, predictions, the best token), each at least a store to L2 and a load
  from there;
* products: every frame's projection, the prediction network after every label, the output layer on every frame that
  the algorithm visits, at the rate of float32 units or of tensor cores; or the reading of all weights from shared
  memory once a label of the longest utterance, if that takes longer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness.registry import Column, Row

CLOCK = 1.98e9  # Hz: the boost clock of an H200
EXCHANGE_S = 1.0e-6  # a store to L2 and a load from it, some 500 ns each
PRODUCTS_A_CLOCK = {"float32": 128, "bfloat16": 2048}  # multiply-adds of a multiprocessor
SHARED_BYTES_A_CLOCK = 128  # of a multiprocessor
VALUE_BYTES = {"float32": 4, "bfloat16": 2}


# Of every row about our kernels for transducers.
COLUMNS = (Column("floor, ms", "floor_ms", "{:.2f}"), Column("floor, % of it", "floor_share", "{:.0f}"))


def share(floor: float, seconds: float) -> Row:
    """What ``COLUMNS`` shows of a decode."""
    return {"floor_ms": 1e3 * floor, "floor_share": 100 * floor / seconds}


def visits(places: Sequence[int], frames: int, durations: Sequence[int] | None) -> int:
    """Tests of frames that an utterance takes, with its labels on these frames: each blank and each label one.

    With durations (those from 0 on, without gaps) blanks and labels pass over frames as far as they can.
    """
    if durations is None:
        return frames + len(places)
    tests = t = 0
    ends = [*sorted(places), frames]
    for i, place in enumerate(ends):
        while t < place:
            t += min(place - t, max(durations))
            tests += 1
        if i < len(places):
            t += min(ends[i + 1] - t, max(durations))
            tests += 1
    return tests


def floor_s(
    arrays: Mapping[str, Any],
    places: Sequence[Sequence[int]],
    frames: int,
    durations: Sequence[int] | None,
    precision: str,
    multiprocessors: int,
) -> float:
    """Seconds for utterances of `frames` frames with labels on `places`, and the weights of `from_arrays`."""
    layers = sum(name.startswith("weight_hh") for name in arrays)
    predict = sum(
        arrays[name].size for name in arrays if name.startswith(("weight_hh", "weight_ih_l1", "weight_ih_l2"))
    )
    predict += arrays["prediction_weight"].size
    products = sum(
        frames * arrays["encoder_weight"].size
        + len(one) * predict
        + visits(one, frames, durations) * arrays["output_weight"].size
        for one in places
    )
    longest = max(map(len, places))
    weights = VALUE_BYTES[precision] * (predict + arrays["output_weight"].size)
    computing = products / (multiprocessors * PRODUCTS_A_CLOCK[precision] * CLOCK)
    reading = longest * weights / (multiprocessors * SHARED_BYTES_A_CLOCK * CLOCK)
    return longest * (layers + 2) * EXCHANGE_S + max(computing, reading)
