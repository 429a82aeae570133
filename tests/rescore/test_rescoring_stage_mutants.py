"""The stages of the kernel that rescores with one wrong rule: their comparison with the twin's says which is wrong."""

import ctypes
import hashlib

import numpy as np
import pytest

from tests.decode.language_models import WORDS, all_costs_equal, over, random_model
from tests.decode.random_graphs import random_graph, random_log_probs
from tests.decode.stage_machine import Emulated
from tests.rescore import test_rescoring_stages_emulated as right
from tests.simt.build import CACHE, ROOT, load, schedules

MUTANTS = [
    # file in cuda/, where in a line, what it says there, what a mutant says, the stage that is wrong first
    ("rescore/arc_cache.cuh", "{}", "static_cast<std::uint32_t>(word[1]) != label", "false", "lookup"),
    ("shared/lm_view.hpp", "return {};", "backoffs + weight", "backoffs", "lookup"),
    ("shared/rescoring.hpp", "return {};", "cost + deviation", "cost - deviation", "rescore"),
    ("rescore/rescore.cuh", "if ({})", "candidate != asking", "false", "rescore"),
    ("rescore/hypotheses.cuh", "{};", "admits(bound, packed_cost(candidate[k].packed))",
     "candidate[k].packed != kNoPacked", "recombine"),
    ("rescore/closure.cuh", "{}", "beam_bound(level.bound, params.lookup_margin)", "level.bound", "closure"),
    ("rescore/ranking.cuh", "return {};", "before < n", "before < n + 1U", "closure|prune"),
    ("rescore/order.cuh", "return {};", "a < b", "b < a", "closure|prune"),
    ("rescore/order.cuh", "return {};", "static_cast<std::uint64_t>(history.large) << 32U | history.small",
     "~(static_cast<std::uint64_t>(history.large) << 32U | history.small)", "prune"),
]  # fmt: skip


@pytest.fixture(scope="module")
def mutants():
    """Flags with which all of them are compiled at once; a word of the library says which one runs."""
    texts = {file: (ROOT / "cuda" / file).read_text() for file, *_ in MUTANTS}
    for number, (file, where, says, instead, _) in enumerate(MUTANTS, 1):
        right_line = where.format(says)
        assert texts[file].count(right_line) == 1, f"{file} does not say {right_line!r} once: follow it here"
        either = where.format(f"(arcbeam_mutant == {number} ? {instead} : {says})")
        texts[file] = texts[file].replace(right_line, either)
    texts["mutant.hpp"] = "#pragma once\ninline int arcbeam_mutant = 0;\n"
    digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
    folder = CACHE / "mutants" / f"stages_{digest}"
    for file, text in texts.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return [f"-iquote{folder}", f"-include{folder}/mutant.hpp", "-Wno-unused"]


@pytest.fixture(scope="module")
def tasks():
    """Words on epsilon arcs, lists that are cut, a cache of 16 entries; and a search in which all is tied."""
    rng = np.random.default_rng(4)
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731
    models = tuple(random_model(rng, WORDS, order, share=0.25, cost=cost) for order in (3, 1))
    graph = over(random_graph(4, states=120, columns=12), models[1])
    tied = all_costs_equal(0, arcs=96)
    return [
        (graph, models, random_log_probs(2, 6, 12), right.OPTIONS | {"hypotheses_per_state": 2}),
        (*tied, np.full((4, 3), -1.0, np.float32), {"beam": 2.0, "max_active": 0, "hypotheses_per_state": 2}),
    ]


def check_all(tasks):
    for graph, models, rows, options in tasks:
        for schedule in schedules(3):
            right.check(graph, models, rows, right.ROOMY, schedule=schedule, frames={2, 3, 4, 5}, turns=2, **options)


@pytest.mark.parametrize("number", range(len(MUTANTS) + 1))
def test_every_wrong_rule_is_seen(number, mutants, tasks, monkeypatch):
    monkeypatch.setattr(
        right, "machine", lambda source, kernel, **schedule: Emulated(source, kernel, mutants, **schedule)
    )
    ctypes.c_int.in_dll(load(right.SOURCE, flags=mutants).library, "arcbeam_mutant").value = number
    if number == 0:
        check_all(tasks)  # nothing else is wrong
        return
    with pytest.raises(AssertionError, match=f"^({MUTANTS[number - 1][-1]}): "):
        check_all(tasks)
