"""The rescoring kernel less one barrier: the emulator catches it."""

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from arcbeam import LanguageModel
from tests.decode import graphs
from tests.decode.language_models import WORDS, longer_than_lanes, over, random_model
from tests.decode.search_host import Room, Shape
from tests.rescore import rescore_host
from tests.simt.build import CACHE, ROOT, KernelError, load, schedules

KERNELS = ROOT / "cuda" / "rescore"
FILES = ("rescore.cuh", "closure.cuh", "mail.cuh", "ranking.cuh")


def barriers() -> list[tuple[str, int]]:
    found = []
    for name in FILES:
        lines = (KERNELS / name).read_text().splitlines()
        found += [
            (name, i)
            for i, line in enumerate(lines)
            if re.fullmatch(r" *(simt::block_barrier|Team::barrier)\(\);", line)
        ]
    return found


def without(name: str, number: int) -> Path:
    """A copy of the kernel's folder without the line."""
    lines = (KERNELS / name).read_text().splitlines()
    lines[number] = ""
    return with_other(name, str(number), "\n".join(lines) + "\n")


def with_other(name: str, mark: str, text: str) -> Path:
    """A copy of the kernel's folder with another file, at a place that stays, so that the library is found again."""
    texts = [*(p.read_bytes() for p in sorted(KERNELS.iterdir())), text.encode()]
    digest = hashlib.sha256(b"".join(texts)).hexdigest()[:12]
    folder = CACHE / "mutants" / f"rescore_{name}_{mark}_{digest}"
    shutil.copytree(KERNELS, folder / "rescore", dirs_exist_ok=True)
    (folder / "rescore" / name).write_text(text)
    return folder


def decode_under_schedules():
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=0.2) for order in (3, 2))
    graph = over(graphs.random_graph(4, states=120, columns=12), small)
    room = Room(capacity=512, candidates=2048, table_size=1024, spill_capacity=512, log=4096, paths=4096)
    for schedule in schedules(5):
        rescore_host.check(
            graph, (large, small), [graphs.random_log_probs(0, 5, 12)], beam=5.0, hypotheses_per_state=2, room=room,
            shape=Shape(lanes=1), schedule=schedule,
        )  # fmt: skip
        rescore_host.check(
            graph, (large, small), [graphs.random_log_probs(0, 5, 12)], beam=5.0, hypotheses_per_state=2, room=room,
            shape=Shape(lanes=1), schedule=schedule, asks=rescore_host.ARCS, answers_every=50, wait_cycles=3000,
            mail=32,
        )  # fmt: skip


def use(folder, monkeypatch):
    def load_mutant(source):
        return load(folder / "rescore" / Path(source).name, flags=["-iquote", str(folder)])

    monkeypatch.setattr("tests.decode.search_host.build.load", load_mutant)


@pytest.mark.parametrize(("name", "number"), barriers())
def test_every_barrier_is_missed(name, number, monkeypatch):
    use(without(name, number), monkeypatch)
    with pytest.raises((KernelError, AssertionError)):
        decode_under_schedules()


# Of single arcs: the place that keeps an arc and a state apart, the names, the order of sums, what is entered for the
# time when answers come, and that an unfinished word stays open.
WRONG = [
    ("single_arcs.cuh", " ^ single.label << 31U", ""),
    ("single_arcs.cuh", "weight >> 32U == name && ", ""),
    ("single_arcs.cuh", "weight >> 32U == name && next_state >> 32U == name", "weight >> 32U != 0U && name != 0U"),
    ("lookup.cuh", "together.from(weight, i)", "together.from(weight, most - 1U - i)"),
    ("ask_arcs.cuh", "enter_answer(mail, claimed.place, answer);", ""),
    ("ask_arcs.cuh", "missing = true;", ""),
]


def decode_by_pieces():
    cost = lambda r: float(r.gamma(4.0))  # noqa: E731  sums depend on their order
    rng = np.random.default_rng(4)
    large, small = (random_model(rng, WORDS, order, share=0.2, cost=cost) for order in (4, 2))
    graph = over(graphs.random_graph(4, states=120, columns=12), small)
    room = Room(capacity=512, candidates=2048, table_size=1024, spill_capacity=512, log=4096, paths=4096)
    batch = [graphs.random_log_probs(seed, 6, 12) for seed in range(4)]
    for number, schedule in enumerate(schedules(20)):
        rescore_host.check(
            graph, (large, small), batch, beam=5.0, hypotheses_per_state=2, room=room, schedule=schedule,
            shape=Shape(lanes=4, block=(32, 256)[number % 2]), asks=rescore_host.ARCS, answers_every=50,
            wait_cycles=3000, mail=256, cache=(2, 16, 512)[number % 3],
        )  # fmt: skip
    graph, (exact, small) = longer_than_lanes()
    weights = exact.columns["backoff.weights"] * np.float32(0.37)
    rescore_host.check(
        graph, (LanguageModel(exact.columns | {"backoff.weights": weights}, exact.about), small),
        [graphs.random_log_probs(seed, 20, 3) for seed in range(8)], beam=8.0, hypotheses_per_state=4, room=room,
        asks=rescore_host.ARCS, answers_every=50, wait_cycles=3000, mail=256, shape=Shape(lanes=2, block=256),
    )  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG) + 1))
def test_every_wrong_rule_of_single_arcs_is_seen(number, monkeypatch):
    if number == 0:
        decode_by_pieces()
        return
    name, says, instead = WRONG[number - 1]
    text = (KERNELS / name).read_text()
    assert text.count(says) == 1, f"{name} does not say {says!r} once: follow it here"
    use(with_other(name, f"wrong{number}", text.replace(says, instead)), monkeypatch)
    with pytest.raises((KernelError, AssertionError)):
        decode_by_pieces()


def test_nothing_else_is_wrong():
    assert len(barriers()) == 13
    decode_under_schedules()
