"""Right kernels less one line that orders memory: the emulator catches every one of them."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.simt import test_emulator as right
from tests.simt.build import CACHE, HERE, KernelError, load

ORDERS = re.compile(r"^ *(?:\w*barrier\w*\((?:\w+, 64U)?\)|copy_wait<\d>\(\)|fence<Scope::\w+>\(\));")
CHECKS = {
    "scan": [
        lambda kernels: right.test_prefix_sum(kernels, np.arange(64, dtype=np.uint32), 64),
        lambda kernels: right.test_argmin(kernels, np.arange(1000, dtype=np.uint32) % 77, 32),
    ],
    "tables": [right.test_work_queue_between_blocks, right.test_blocks_that_publish_to_each_other],
    "exchange": [
        lambda kernels: right.test_cluster_exchange(kernels, 2),
        right.test_asynchronous_copies,
        right.test_named_barriers_hand_a_buffer_over,
    ],
}


def mutants() -> list[tuple[str, int]]:
    """Kernel files and the numbers of their lines that order memory and do nothing else."""
    found = []
    for name in CHECKS:
        lines = (HERE / "kernels" / f"{name}.cu").read_text().splitlines()
        found += [(name, number) for number, line in enumerate(lines, 1) if ORDERS.match(line)]
    return found


def without(name: str, number: int) -> Path:
    """That kernel file without the line, at a place that stays, so that the library is found again."""
    lines = (HERE / "kernels" / f"{name}.cu").read_text().splitlines()
    lines[number - 1] = ""
    (CACHE / "mutants").mkdir(parents=True, exist_ok=True)
    path = CACHE / "mutants" / f"{name}_without_{number}.cu"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(("name", "number"), mutants())
def test_every_line_that_orders_memory_is_missed(name, number):
    kernels = load(without(name, number), flags=["-Wno-unused"])
    with pytest.raises(KernelError):
        for check in CHECKS[name]:
            check(kernels)


def test_there_are_mutants():
    assert len(mutants()) >= 18
