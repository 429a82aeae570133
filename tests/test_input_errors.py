"""Errors and warnings of input: their fields, and the texts that are made of them when they are shown."""

import copy
import pickle
import warnings

import numpy as np
import pytest

from arcbeam import ArcbeamError, CtcDecoder, InputError, InputWarning
from arcbeam.core.errors import without_place
from tests.decode.small_search import BATCH, GRAPH, OPTIONS

NAN = InputError("log_probs", "expected finite values or -inf, got nan", utterance=3, frame=5, column=2)
LARGE = InputError("encoder_output", "the network's output is not finite", "too large", utterance=0, frame=0)
STREAM = InputError("stream", "expected no chunk after the last", stream=4)
ERRORS = {
    "log_probs: expected finite values or -inf, got nan in utterance 3, frame 5, column 2": NAN,
    "encoder_output: the network's output is not finite in utterance 0, frame 0: too large": LARGE,
    "encoder_output: got inf in frame 7, feature 3": InputError("encoder_output", "got inf", frame=7, feature=3),
    "stream 4: expected no chunk after the last": STREAM,
    "stream: it cannot go on": InputError("stream", "it cannot go on"),
    "log_probs: {frame} in utterance 1, frame 0": InputError("log_probs", "{frame}", utterance=1, frame=0),
}


@pytest.mark.parametrize("text", ERRORS)
def test_what_is_shown(text):
    error = ERRORS[text]
    assert str(error) == text and repr(error) == f"InputError({text!r})"
    assert isinstance(error, ValueError) and isinstance(error, ArcbeamError)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_and_pickles_have_the_fields(again):
    warning = InputWarning("got 3 in", ": why?", utterance=1, frame=2)
    for one in (*ERRORS.values(), warning, warning.at(utterance="two")):
        other = again(one)
        assert type(other) is type(one) and vars(other) == vars(one)
        assert str(other) == str(one) and other.args == one.args


def test_another_place_is_another_field():
    assert str(NAN.at()) == "log_probs: expected finite values or -inf, got nan in frame 5, column 2"
    assert str(NAN.at(utterance="a/b")).endswith("got nan in utterance 'a/b', frame 5, column 2")
    assert str(STREAM.at()) == "stream: expected no chunk after the last"
    assert (NAN.utterance, STREAM.stream) == (3, 4), "the error itself is as it was"
    warning = InputWarning("utterance 9, frame 9: got 3 in", ": why?", utterance=1, frame=2)
    assert str(warning) == "utterance 9, frame 9: got 3 in utterance 1, frame 2: why?"
    assert str(warning.at(utterance="two")) == "utterance 9, frame 9: got 3 in utterance 'two', frame 2: why?"


def test_other_errors_have_no_place_to_leave_out():
    for error in (TypeError("log_probs[3]: expected an array"), ValueError("in utterance 3, frame 5")):
        assert without_place(error) is error
    assert without_place(NAN).utterance is None and without_place(NAN).frame == 5


def test_results_are_pickled_with_the_fields_of_their_errors():
    bad = BATCH[2].copy()
    bad[4, 6] = np.nan
    found = CtcDecoder(GRAPH, device="cpu", **OPTIONS).decode([BATCH[0], bad], errors="return")
    error = pickle.loads(pickle.dumps(found))[1].error
    assert (error.argument, error.reason) == ("log_probs", "expected finite values or -inf, got nan")
    assert (error.utterance, error.stream, error.frame, error.column) == (1, None, 4, 6)


def test_a_warning_has_the_fields():
    decoder = CtcDecoder(GRAPH, device="cpu", **OPTIONS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(20):  # some frames of a batch are checked
            decoder.decode([BATCH[0], np.exp(BATCH[2])])
    [warning] = [one.message for one in caught]
    assert type(warning) is InputWarning and warning.utterance == 1
    assert f" in utterance 1, frame {warning.frame}: are they probabilities" in str(warning)
