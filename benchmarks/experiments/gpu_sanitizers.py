"""The sanitizers on a GPU: what compute-sanitizer finds in a few frames of every engine, in every launch shape.

Each run is a command of `make gpu-test PART=sanitizer`, see docs/developing/gpu-tests.md,
and decodes what the twin does, byte for byte.
Lanes begin with room enough ("plain"), or so little that they grow. initcheck has no use for those that grow. Seconds
are those of the whole command. A finding, or other bytes, makes the experiment fail. racecheck is slow, so its commands
take a share of the steps each. What has passed with these kernels and this commit is not run again, and keeps its time.
"""

from collections.abc import Iterator

from benchmarks.harness.registry import Column, Context, Row
from benchmarks.pack import proof

ON_GPU = True
KERNELS = proof.KERNELS
ORDER = 291
TITLE = "Sanitizers on a GPU"
TOOLS = ("memcheck", "synccheck", "initcheck", "racecheck")
BEGINS = ("plain", "grow")
ENGINES = ("sanitized", "sanitized_rescoring", "sanitized_transducers")  # of tests/gpu
SHARES = {"racecheck": 5}  # commands among which a tool's steps are divided, where one is too slow for them
TAKES = {"tools": f"some of {', '.join(TOOLS)} (all)"} | proof.TAKES
COLUMNS = [
    Column("tool", "tool"),
    Column("lanes", "begins"),
    Column("engine", "engine"),
    Column("share", "share"),
    Column("findings", "findings"),
    *proof.ENDS,
]


def parts() -> list[proof.Part]:
    return [
        proof.Part(
            {"tool": tool, "begins": begins, "engine": engine, "share": share},
            {"PART": "sanitizer", "TOOLS": tool, "BEGINS": begins, "SANITIZED": engine, "SHARE": share},
        )
        for tool in TOOLS
        for begins in BEGINS
        if (tool, begins) != ("initcheck", "grow")
        for engine in ENGINES
        for shares in (SHARES.get(tool, 1),)
        for share in (f"{i}of{shares}" for i in range(1, shares + 1))
    ]


def run(context: Context) -> Iterator[Row]:
    wanted = proof.some_of(context, "tools", TOOLS)
    yield from proof.rows(
        "gpu_sanitizers", context, parts(), lambda part: part.what["tool"] in wanted, proof.sanitizer_counts
    )
