"""The arrays of a beam's state (``cpu_reference/transducer/beam/state.hpp``), checked before an engine reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.streams.saved import NAME
from arcbeam.transducer.beam._state import DTYPES, BeamState

if TYPE_CHECKING:
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.search import TransducerSearch

__all__ = ["DTYPES", "checked"]

Arrays = dict[str, npt.NDArray[Any]]
NO_LABEL = 2**32 - 1
MOST_LABELS = 2**31
FLOATS = (
    ("arrivals", "score"), ("arrivals", "path"), ("histories", "shares"), ("histories", "ilm_share"),
    ("log", "log_prob"), ("log", "confidence"),
)  # fmt: skip


def checked(
    arrays: Arrays, about: dict[str, Any], settled: int, search: TransducerSearch, boost: BoostingTree | None
) -> BeamState:
    """The state with these arrays and facts, of a sentence with so many settled tokens; FormatError: none."""
    _check_values(arrays, about, settled)
    _check_histories(arrays["histories"], search, boost)
    _check_labels(arrays["log"], about, search)
    _check_arrivals(arrays, max([1, *(search.options.durations or ())]))
    _check_predictions(arrays, search)
    return BeamState.of_arrays(about["frames"], about["offset"], about["labels"], arrays)


def _expect(holds: Any, what: str) -> None:
    """FormatError unless all of it holds."""
    if not np.all(holds):
        raise FormatError(f"{NAME}: expected {what}, got others")


def _check_values(arrays: Arrays, about: dict[str, Any], settled: int) -> None:
    """All numbers are finite, and the counts fit the sentence."""
    for name in ("hidden", "cell", "shares"):
        _expect(np.isfinite(arrays[name]), f"finite {name}")
    for name, field in FLOATS:
        _expect(np.isfinite(arrays[name][field]), f"finite values as {field} of {name}")
    _expect(np.isfinite(about["offset"]), "a finite offset")
    _expect(len(arrays["shares"]) == 4, "4 shares")
    _expect(0 <= about["labels"] < MOST_LABELS and about["labels"] == settled, "as many settled labels as tokens")


def _check_histories(histories: npt.NDArray[Any], search: TransducerSearch, boost: BoostingTree | None) -> None:
    """They are a tree, whose parents come first, with states that the automata have."""
    parents, tokens, count = histories["parent"], histories["token"], len(histories)
    _expect(count > 0 and parents[0] == 0 and tokens[0] == 0, "a first history, its own parent")
    _expect(parents[1:] < np.arange(1, count), "parents before their histories")
    _expect((tokens[1:] < search.tokens) & (tokens[1:] != search.options.blank_id), f"labels below {search.tokens}")
    pairs = np.stack([parents[1:], tokens[1:]], axis=1)
    _expect(len(np.unique(pairs, axis=0)) == count - 1, "each history once")
    for i, automaton in enumerate((search.ngram_lm, None if boost is None else boost.automaton, search.lodr)):
        states = 1 if automaton is None else automaton.num_states
        _expect(histories["states"][:, i] < states, f"states of models below {states}")


def _check_labels(log: npt.NDArray[Any], about: dict[str, Any], search: TransducerSearch) -> None:
    """Each follows one before it, on a frame of the sentence."""
    before, frames = log["before"], log["frame"]
    _expect((before < np.arange(len(log))) | (before == NO_LABEL), "labels after those that they follow")
    _expect((log["token"] < search.tokens) & (log["token"] != search.options.blank_id), f"labels below {search.tokens}")
    _expect((frames >= about["first_frame"]) & (frames < about["frames"]), "labels on frames of the sentence")
    _expect(about["frames"] - frames < MOST_LABELS, f"labels of the last {MOST_LABELS} frames")
    follows = before != NO_LABEL
    _expect(frames[before[follows]] <= frames[follows], "labels in the order of their frames")
    _expect(log["duration"] < MOST_LABELS, "durations of frames")


def _check_arrivals(arrays: Arrays, longest: int) -> None:
    """They are in the order of their frames, which durations reach, and on each of which a history is once."""
    arrivals = arrays["arrivals"]
    frames, nodes, logs = arrivals["frame"], arrivals["node"], arrivals["log"]
    _expect(len(arrivals) > 0, "a hypothesis")
    _expect((frames >= 0) & (np.diff(frames, prepend=frames[:1]) >= 0), "frames in order")
    _expect(frames < longest, f"hypotheses on frames below {longest}, the longest duration")
    _expect(nodes < len(arrays["histories"]), "histories that are there")
    _expect((logs < len(arrays["log"])) | (logs == NO_LABEL), "labels that are there")
    places = np.stack([frames, nodes.astype(np.int64)], axis=1)
    _expect(len(np.unique(places, axis=0)) == len(places), "each history once on a frame")


def _check_predictions(arrays: Arrays, search: TransducerSearch) -> None:
    """Each hypothesis has a prediction, or its parent has one; or it is that of no label."""
    shapes, predicted = search.form.state_shapes, arrays["predicted"]
    sizes = {"hidden": shapes["hidden"], "cell": shapes["cell"], "contexts": shapes["context"]}
    for name, shape in sizes.items():
        expected = len(predicted) * int(np.prod(shape, dtype=np.int64))
        _expect(len(arrays[name]) == expected, f"{name} of {len(predicted)} predictions")
    _expect(
        (arrays["contexts"] >= -1) & (arrays["contexts"] < search.tokens), f"contexts of tokens below {search.tokens}"
    )
    histories = arrays["histories"]
    _expect(predicted < len(histories), "predictions of histories that are there")
    _expect(len(np.unique(predicted)) == len(predicted), "one prediction of a history")
    has = np.zeros(len(histories), bool)
    has[predicted] = True
    nodes = arrays["arrivals"]["node"]
    is_start = (nodes == 0) & (not len(predicted))
    _expect(has[nodes] | has[histories["parent"][nodes]] & (nodes > 0) | is_start, "a prediction of each hypothesis")
