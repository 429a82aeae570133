"""The rescoring kernel less one barrier: the emulator catches it."""

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.decode import graphs
from tests.decode.language_models import WORDS, over, random_model
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
    """A copy of the kernel's folder without the line, at a place that stays, so that the library is found again."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(KERNELS.iterdir()))).hexdigest()[:12]
    folder = CACHE / "mutants" / f"rescore_{name}_{number}_{digest}"
    shutil.copytree(KERNELS, folder / "rescore", dirs_exist_ok=True)
    lines = (KERNELS / name).read_text().splitlines()
    lines[number] = ""
    (folder / "rescore" / name).write_text("\n".join(lines) + "\n")
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


@pytest.mark.parametrize(("name", "number"), barriers())
def test_every_barrier_is_missed(name, number, monkeypatch):
    folder = without(name, number)

    def load_mutant(source):
        return load(folder / "rescore" / Path(source).name, flags=["-iquote", str(folder)])

    monkeypatch.setattr("tests.decode.search_host.build.load", load_mutant)
    with pytest.raises((KernelError, AssertionError)):
        decode_under_schedules()


def test_nothing_else_is_wrong():
    assert len(barriers()) == 13
    decode_under_schedules()
