"""The experiment on calibrated boosts: its measure by hand, its rows on tiny sets, and a broken promise."""

import numpy as np
import pytest

import arcbeam
from benchmarks.data import datasets
from benchmarks.experiments import boost_calibration
from benchmarks.harness.registry import Context
from benchmarks.tasks import boosting
from tests.benchmarks.test_confidence_tables import tiny  # noqa: F401
from tests.decode.test_boost_calibration import two_words

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected natural logs:UserWarning")


@pytest.fixture
def all_rare(tiny, monkeypatch):  # noqa: F811
    monkeypatch.setattr(boosting, "frequent_words", frozenset)
    monkeypatch.setattr(boost_calibration, "COUNTS", (12,))
    monkeypatch.setattr(boost_calibration, "SHARES", (0.1, 0.6))
    monkeypatch.setattr(boost_calibration, "BEAM", 16.0)


def test_false_alarms_by_hand():
    graph, speech = two_words(2.3, 4.1, 6.2, 9.0)
    decoder = arcbeam.CtcDecoder(graph, device="cpu")
    frames = np.concatenate(speech)
    dataset = datasets.Dataset("four", frames, np.ones(4, np.int64), list("abcd"), ["one"] * 4, 0.02, [])
    for score, wanted in ((2.0, 0.0), (3.0, 0.25), (5.0, 0.5), (8.0, 0.75)):
        assert boost_calibration.alarms(decoder, dataset, arcbeam.Boost(["other", "one"], score)) == 0.0
        assert boost_calibration.alarms(decoder, dataset, arcbeam.Boost(["other"], score)) == wanted


def test_rows(all_rare):
    rows = list(boost_calibration.run(Context(utterances=12)))
    assert len(rows) == 2 * 2  # sets, shares
    assert [row["calibrated"] for row in rows] == ["ljspeech-200"] * 2 + ["test-other-100"] * 2
    for row in rows:
        assert row["count"] == 12 and 0 < row["score"] <= 8.0 and row["there"] <= row["accepted"]
        assert row["false_alarms"] == row["there"]  # both sets are the same one here
        assert row["recall"] >= row["recall_without"]
    assert rows[0]["score"] < rows[1]["score"]


def test_scores_that_break_the_promise_are_refused(all_rare, monkeypatch):
    monkeypatch.setattr(arcbeam.Boost, "calibrate", lambda self, *_, **__: arcbeam.Boost(list(self.phrases), 30.0))
    with pytest.raises(AssertionError, match=r"of the utterances have a false alarm, 0\.1 were accepted"):
        list(boost_calibration.run(Context(utterances=12)))
