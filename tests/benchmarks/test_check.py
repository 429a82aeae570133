"""The gate for regressions, on made-up numbers: it fails on a slower engine and on nothing else."""

import pytest

from benchmarks import check, record, timing
from benchmarks.check import ENGINE, KERNEL, PEER


def row(low, high, subject=ENGINE, against=KERNEL):
    return {"subject": subject, "against": against, "ratio": (low + high) / 2, "spread": [low, high]}


@pytest.mark.parametrize(
    ("now", "stored", "kind"),
    [
        ((1.0, 1.2), (1.0, 1.2), check.OK),
        ((0.5, 0.89), (1.0, 1.2), check.SLOWER),
        ((0.5, 0.91), (1.0, 1.2), check.OK),  # below, but within the margin
        ((0.5, 1.01), (1.0, 1.2), check.OK),  # the spreads touch
        ((0.1, 9.0), (1.0, 1.2), check.OK),  # noise says nothing
        ((0.5, 0.6), (0.1, 9.0), check.OK),
        ((1.33, 1.5), (1.0, 1.2), check.FASTER),
        ((1.31, 1.5), (1.0, 1.2), check.OK),
    ],
)
def test_only_whole_spreads_count(now, stored, kind):
    (verdict,) = check.judge([row(*now)], [row(*stored)], margin=0.1)
    assert verdict.kind == kind
    assert (verdict.now, verdict.stored) == (list(now), list(stored))


def test_pairs_are_matched_by_name():
    now = [row(1, 2), row(1, 2, against=PEER), row(1, 2, "stage new")]
    stored = [row(1, 2), row(3, 4, against=PEER), row(1, 2, "stage old")]
    kinds = {(v.subject, v.against): v.kind for v in check.judge(now, stored)}
    assert kinds == {
        (ENGINE, KERNEL): check.OK,
        (ENGINE, PEER): check.SLOWER,
        ("stage new", KERNEL): check.NEW,
        ("stage old", KERNEL): check.GONE,
    }


def test_ratios_are_of_processor_time_within_a_turn():
    fake = {
        KERNEL: timing.Timing([9.0, 9.0, 9.0], [1.0, 2.0, 3.0]),
        PEER: timing.Timing([9.0, 9.0, 9.0], [4.0, 4.0, 4.0]),
        ENGINE: timing.Timing([1.0, 1.0, 1.0], [0.5, 0.5, 1.0]),
        "stage x": timing.Timing([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
    }
    rows = check.summary([check.ratios(fake, ["stage x", ENGINE], [KERNEL, PEER])])
    assert [(r["subject"], r["against"], r["ratio"], r["spread"]) for r in rows] == [
        ("stage x", KERNEL, 2.0, [1.0, 3.0]),
        (ENGINE, KERNEL, 3.0, [2.0, 4.0]),
        (ENGINE, PEER, 8.0, [4.0, 8.0]),
    ]


def test_the_spread_is_that_of_all_processes():
    one, two = ([{"subject": ENGINE, "against": KERNEL, "each": each}] for each in ([1.0, 2.0, 3.0], [9.0, 0.5]))
    assert check.summary([one, two]) == [{"subject": ENGINE, "against": KERNEL, "ratio": 2.0, "spread": [0.5, 9.0]}]


def test_a_turn_counts_as_one_call():
    calls = []
    run, times = check.repeated(lambda: calls.append(1))
    assert times > 1
    calls.clear()
    run()
    assert len(calls) == times
    one = check.of_one_call(timing.Timing([4.0], [2.0]), 4)
    assert (one.wall, one.cpu) == ([1.0], [0.5])


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """``gate(ratio)`` runs the command on a machine whose engine has this ratio."""

    def run(ratio, *options, processor="P"):
        monkeypatch.setattr(check, "measure", lambda processes, turns, step: [row(ratio, 1.1 * ratio)])
        monkeypatch.setattr(record, "processor", lambda: processor)
        return check.main(["--stored", str(tmp_path / "reference.jsonl"), *options])

    return run


def test_the_command(gate, capsys):
    assert gate(1.0) == 2
    assert "nothing is stored" in capsys.readouterr().err
    assert gate(1.0, "--update") == 0
    assert gate(1.0) == 0
    assert gate(0.85) == 0
    capsys.readouterr()
    assert gate(0.8) == 1
    shown = capsys.readouterr().out
    assert "SLOWER" in shown and "slower than stored by more than 10 %: engine, one core" in shown
    assert gate(0.8, "--margin", "0.3") == 0
    capsys.readouterr()
    assert gate(0.5, processor="Q") == 0
    assert "not judged: stored on P, this is Q" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        gate(1.0, "--turns", "0")


def test_what_is_stored_can_be_judged():
    if not check.STORED.exists():
        pytest.skip("nothing is stored yet")
    head, rows = record.read(check.STORED)
    assert {(ENGINE, KERNEL), (ENGINE, PEER)} <= {(r["subject"], r["against"]) for r in rows}
    assert head["repeats"] >= 3 and head["processor"]
    assert all(r["spread"][0] <= r["ratio"] <= r["spread"][1] for r in rows)
