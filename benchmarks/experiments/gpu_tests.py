"""The tests on a GPU: the parts of `make gpu-test`, and what each of them counted.

A part is a run of pytest over some of `tests/gpu`, see docs/developing/gpu-tests.md.
Seconds are those of the whole command, in which
the build looks for what has changed. A test that fails makes the experiment fail. What has passed with these kernels
and this commit is not run again, and keeps its time.
"""

from collections.abc import Iterator

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.pack import proof

ON_GPU = True
KERNELS = proof.KERNELS
ORDER = 290
TITLE = "Tests on a GPU"
PARTS = ("driver", "decode", "rescore", "transducer", "ptx", "speech", "large", "riva")
TAKES = {"parts": f"some of {', '.join(PARTS)} (all)"} | proof.TAKES
COLUMNS = [
    Column("part", "part"),
    Column("passed", "passed"),
    Column("failed", "failed"),
    Column("skipped", "skipped"),
    *proof.ENDS,
]


def run(context: Context) -> Iterator[Row]:
    wanted = proof.some_of(context, "parts", PARTS)
    parts = [proof.Part({"part": name}, {"PART": name}) for name in PARTS]
    yield from proof.rows("gpu_tests", context, parts, lambda part: part.what["part"] in wanted, proof.pytest_counts)
