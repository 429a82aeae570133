"""The gate for regressions, on made-up numbers: it fails on a slower engine and on nothing else."""

import pytest

from benchmarks import check as command
from benchmarks.engine import regression as check
from benchmarks.engine.regression import ENGINE, KERNEL, PEER
from benchmarks.harness import record


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


class Machine:
    """A clock of processor time, and calls that take so many seconds of it, a turn after the other."""

    def __init__(self):
        self.now, self.calls = 0.0, []

    def call(self, name, *seconds):
        def run():
            self.calls.append(name)
            self.now += seconds[min(self.calls.count(name), len(seconds)) - 1]

        return run

    def clock(self):
        return self.now


def test_a_subject_stands_between_two_turns_of_the_reference():
    machine = Machine()
    reference = machine.call("reference", 1.0, 3.0, 5.0)
    found = check.sandwiched(
        reference, {"one": machine.call("one", 0.5), "two": machine.call("two", 8.0)}, machine.clock
    )
    assert found == {"one": 4.0, "two": 0.5}
    assert machine.calls == ["reference", "one", "reference", "two", "reference"]


def test_ratios_are_medians_of_the_turns(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(check.time, "process_time", machine.clock)
    subjects = {"stage x": machine.call("stage x", 1.0), ENGINE: machine.call(ENGINE, 0.5, 50.0, 0.5)}
    references = {KERNEL: machine.call(KERNEL, 2.0), PEER: machine.call(PEER, 4.0)}
    rows = check.ratios(subjects, references, turns=2)
    assert [(r["subject"], r["against"]) for r in rows] == [("stage x", KERNEL), (ENGINE, KERNEL), (ENGINE, PEER)]
    assert [r["ratio"] for r in rows] == [2.0, (4.0 + 4.0) / 2, (4.0 / 50.0 + 8.0) / 2]
    assert machine.calls.count("stage x") == 2 and machine.calls.count(ENGINE) == 4
    second = machine.calls[len(machine.calls) // 2 :]
    assert second.index(ENGINE) < second.index("stage x"), "the other way round in every second turn"


def test_the_spread_is_that_of_the_processes():
    each = [[{"subject": ENGINE, "against": KERNEL, "ratio": ratio}] for ratio in (2.0, 9.0, 0.5)]
    assert check.summary(each) == [{"subject": ENGINE, "against": KERNEL, "ratio": 2.0, "spread": [0.5, 9.0]}]


def test_how_small_a_loss_is_told():
    (verdict,) = check.judge([row(1.0, 1.25)], [row(1.0, 1.25)], margin=0.1)
    assert verdict.told(0.1) == pytest.approx(1 - 0.9 / 1.25)
    told = verdict.told(0.1)
    for loss, kind in ((told - 0.01, check.OK), (told + 0.01, check.SLOWER)):
        slower = row(1.0 - loss, 1.25 * (1 - loss))
        assert check.judge([slower], [row(1.0, 1.25)], margin=0.1)[0].kind == kind
    assert check.judge([row(2.0, 3.0)], [row(9.0, 9.5)], margin=0.1)[0].told(0.1) == 0.0
    assert check.judge([], [row(1.0, 1.2)])[0].told(0.1) is None


def test_the_plain_kernel_gives_the_same_number_again():
    run = check.plain_kernel()
    assert run() == run() > 0


def test_a_turn_is_long_enough_though_one_call_was_disturbed(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(check.time, "process_time", machine.clock)
    run, times = check.repeated(machine.call("call", 5.0, 0.5, check.SECONDS_A_TURN / 20))
    assert times == 20
    machine.calls.clear()
    run()
    assert len(machine.calls) == times


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """``gate(ratio)`` runs the command on a machine whose engine has this ratio."""

    def run(ratio, *options, processor="P"):
        monkeypatch.setattr(check, "measure", lambda processes, turns, step: [row(ratio, 1.1 * ratio)])
        monkeypatch.setattr(record, "processor", lambda: processor)
        return command.main(["--stored", str(tmp_path / "reference.jsonl"), *options])

    return run


def test_the_command(gate, capsys):
    assert gate(1.0) == 2
    assert "nothing is stored" in capsys.readouterr().err
    assert gate(1.0, "--update") == 0
    assert gate(1.0) == 0
    capsys.readouterr()
    assert gate(0.9) == 0
    assert "(a further loss of 9 % would be told)" in capsys.readouterr().out
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
