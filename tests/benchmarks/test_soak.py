"""The experiment of a soak: its rows by hand, and a short run."""

import json

import pytest

from benchmarks.experiments import soak
from benchmarks.harness.registry import Context

FOUND = {
    "happened": {"ctc": {"slow": 3, "vanishes": 2, "waits": 9}, "transducer": {"out of memory": 1, "cancelled": 4}},
    "work": {"ctc": [10, 40], "transducer": [5, 30]},
    "sizes": [[1.0, 50 << 20], [60.0, 53 << 20]],
    "grown": 1 << 19,
}


def test_rows_by_hand():
    ctc, transducer, both = soak.rows(json.loads(json.dumps(FOUND)))
    assert (ctc["decoder"], ctc["rounds"], ctc["chunks"], ctc["slow"], ctc["vanished"]) == ("ctc", 10, 40, 3, 2)
    assert (transducer["cancelled"], transducer["out_of_memory"], transducer["refused"]) == (4, 1, 0)
    assert (both["first_mib"], both["last_mib"], both["growth_mib"], both["minutes"]) == (50.0, 53.0, 0.5, 1.0)
    assert all(column.text(row) for row in (ctc, transducer) for column in soak.COLUMNS[:9])


@pytest.mark.long
def test_a_short_run():
    ctc, transducer, both = soak.run(Context(options={"minutes": "0.5"}))
    assert min(ctc["chunks"], transducer["chunks"]) > 100 and both["growth_mib"] < 1


def test_what_fails_is_shown(monkeypatch):
    monkeypatch.setattr(soak, "ROOT", soak.ROOT / "docs")  # where there is no such module
    with pytest.raises(AssertionError, match=r"(?s)the soak has failed:.*No module named"):
        list(soak.run(Context()))
