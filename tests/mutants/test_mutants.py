"""Every mutant is killed: all of them with ``--long``, else a tenth, another one with every commit."""

import re
import subprocess

import pytest

from tests.mutants import apart, catalogue
from tests.mutants.apart import WrongError
from tests.mutants.catalogue import Mutant
from tests.mutants.switch import Switched, with_all
from tests.simt import build
from tests.simt.build import HERE, ROOT, load

MUTANTS, REMOVED = catalogue.read()
SHARES = 10


def commits() -> int:
    """How many the history has; 0 where there is none."""
    try:
        counted = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(counted.stdout)


def share(numbers: list[int], turn: int) -> list[int]:
    """A tenth of them, neighbours, which are likely to be compiled together; ten turns see all."""
    turn %= SHARES
    return numbers[len(numbers) * turn // SHARES : len(numbers) * (turn + 1) // SHARES]


CHOSEN = sorted(MUTANTS) if build.LONG else share(sorted(MUTANTS), commits())


@pytest.fixture(scope="module")
def switched():
    return Switched(MUTANTS)


@pytest.mark.parametrize("number", CHOSEN, ids=lambda number: MUTANTS[number].id)
def test_it_is_killed(number):
    mutant = MUTANTS[number]
    with pytest.raises(WrongError, match=f"^{mutant.says}"):
        apart.run(mutant.killer, number)


@pytest.mark.parametrize("killer", sorted({MUTANTS[number].killer for number in CHOSEN}))
def test_nothing_else_is_wrong(killer):
    apart.run(killer, 0)


def test_no_number_is_missing():
    """One that goes leaves its number and a reason."""
    assert sorted([*MUTANTS, *REMOVED]) == list(range(1, len(MUTANTS) + len(REMOVED) + 1))
    assert len(MUTANTS) + len(REMOVED) >= 66
    assert all(len(reason.split()) >= 3 for reason in REMOVED.values())


def test_ten_commits_see_all():
    numbers = sorted(MUTANTS)
    assert sorted(number for turn in range(7, 17) for number in share(numbers, turn)) == numbers


def test_each_text_is_found_and_each_switch_can_be_written():
    made = with_all(MUTANTS)
    switches = [int(found) for text in made.values() for found in re.findall(r"arcbeam_mutant == (\d+)\b", text)]
    assert sorted(switches) == sorted(MUTANTS)


def test_a_text_is_found_whatever_its_lines_and_remarks(tmp_path):
    path = tmp_path / "a.cuh"
    text = "f(\n    a,  // the first\n    b);\ng(a, b);\n"
    found = catalogue.find(Mutant(1, "f(a, [[b]]);", ""), {path: catalogue.squeezed(text)})
    assert text[found.begin : found.end] == "b" and text[: found.begin].endswith("\n    ")
    for wrong in ("f(a, [[c]]);", "(a, [[b]]);"):
        with pytest.raises(LookupError, match="expected its text once in the sources"):
            catalogue.find(Mutant(1, wrong, ""), {ROOT / "a.cuh": catalogue.squeezed(text)})


def test_libraries_have_switches_of_their_own(switched):
    source = HERE / "kernels" / "scan.cu"
    with switched.running(1):
        changed = load(source)
    right = load(source)
    assert not hasattr(right.library, "arcbeam_mutant") and changed.library.arcbeam_mutant is not None
    with switched.running(0):
        assert load(source) is changed
