"""The folders of tests that concern what differs from the main branch: ``python -m tests.changed`` prints them.

What a file's place tells decides. Where it does not tell, all tests are named; where nothing differs, none.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALL = ("tests",)
ARRAYS = ("bad_input", "batches", "dlpack", "errors_returned", "input_warnings", "tensor_lists", "what_goes_in")
DECODER = tuple(
    f"tests/decode/test_{name}.py"
    for name in (
        "bad_input",
        "batches",
        "boost_lists",
        "cuda_engine",
        "endpoints",
        "engine",
        "pickle",
        "streams",
        "word_times",
    )
)
# Rooms of the decoder, and words in the names of tests that concern them.
CTC_ROOMS = {
    "boost": ("boost", "new_words", "oracles"),
    "lattice": ("lattice", "answers", "oracles", "pruning"),
    "confidence": ("confidence", "calibration"),
    "streams": ("stream", "saved", "sentences", "endpoint", "rounds", "live_posteriors"),
}
# The first pattern that a path begins with decides.
CONCERNS = [
    (r"tests/(\w+)/", (r"tests/\1",)),
    (r"tests/(test_\w+\.py)$", (r"tests/\1",)),
    (
        r"benchmarks/results/|docs/benchmarks\.md|docs/plots/",
        tuple(f"tests/benchmarks/test_{name}.py" for name in ("report", "peers_picture", "guide_figures")),
    ),
    (r"benchmarks/|data/", ("tests/benchmarks",)),
    (r"examples/", ("tests/examples",)),
    (
        r"docs/|mkdocs\.yml$|[A-Z]+\.md$",
        ("tests/package", "tests/test_pages.py", "tests/benchmarks/test_guide_figures.py"),
    ),
    (r"Makefile$|(?:gpu|release)\.mk$", ("tests/package/test_makefile.py", "tests/benchmarks/test_proof.py")),
    (r"build_backend/|CITATION\.cff|MANIFEST\.in|\.gitignore|\.clang-format", ("tests/package",)),
    (r"cuda/decode/", ("tests/decode", "tests/rescore")),
    (r"cuda/rescore/", ("tests/rescore",)),
    (r"(?:cuda|cpu_reference|pyx/arcbeam)/transducer/", ("tests/transducer",)),
    (r"cpu_reference/decode/", ("tests/decode", "tests/baseline")),
    (r"(?:cpu_reference|pyx/arcbeam)/baseline/", ("tests/baseline", "tests/compat")),
    (r"cpu_reference/prefix/|pyx/arcbeam/compat/", ("tests/compat",)),
    (r"cpu_reference/graph/|pyx/arcbeam/graph/_graph/", ("tests/graph",)),
    (r"pyx/arcbeam/lm/_\w+/", ("tests/lm", "tests/recipe")),
    (r"pyx/arcbeam/ctc/gpu/models/_requests/", ("tests/rescore",)),
    (
        r"pyx/arcbeam/(?:ctc/)?gpu/",
        ("tests/cuda_host", "tests/decode/test_cuda_engine*.py", "tests/rescore/test_re*_cuda_engine.py"),
    ),
    (
        r"pyx/arcbeam/arrays/",
        (
            "tests/cuda_host/test_*array*.py",
            *(f"tests/decode/test_{name}.py" for name in ARRAYS),
            "tests/transducer/test_bad_input.py",
        ),
    ),
    *(
        (
            rf"pyx/arcbeam/ctc/{room}/",
            (
                *DECODER,
                *(f"tests/{folder}/test_*{name}*.py" for folder in ("cli", "decode", "lattice") for name in names),
            ),
        )
        for room, names in CTC_ROOMS.items()
    ),
    (r"pyx/arcbeam/(?:front|tokens)/", ("tests/front",)),
    (r"pyx/arcbeam/streams/", DECODER),
    (r"pyx/arcbeam/ctc/", DECODER),
    (r"pyx/arcbeam/batching/", ("tests/batching",)),
    (r"pyx/arcbeam/transcribe/", ("tests/transcribe", "tests/cli/test_transcribe.py")),
    (r"pyx/arcbeam/cli/", ("tests/cli", "tests/jobs")),
    (r"pyx/arcbeam/jobs/", ("tests/jobs", "tests/cli/test_partial_outputs.py")),
    (r"pyx/arcbeam/report/", ("tests/report", "tests/cli")),
    (r"pyx/arcbeam/recipe/", ("tests/recipe",)),
]


def concerned(paths: list[str]) -> list[str]:
    """Folders and files of tests, for pytest, that these changed files concern."""
    found: set[str] = set()
    for path in paths:
        for pattern, places in CONCERNS:
            match = re.match(pattern, path)
            if match:
                found |= {match.expand(place) for place in places}
                break
        else:
            return list(ALL)
    there = {str(path.relative_to(ROOT)) for place in found for path in ROOT.glob(place)}
    within = {place for place in there if any(place.startswith(f"{other}/") for other in there)}
    return sorted(there - within)


def changed(base: str = "main") -> list[str] | None:
    """Files that differ from where this branch left the main one, new ones too; None where git cannot tell."""

    def lines(*command: str) -> list[str]:
        return subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    for branch in (f"origin/{base}", base):
        try:
            start = lines("merge-base", "HEAD", branch)[0]
            return lines("diff", "--name-only", start) + lines("ls-files", "--others", "--exclude-standard")
        except (OSError, subprocess.CalledProcessError):
            continue
    return None


if __name__ == "__main__":
    differs = changed()
    chosen = list(ALL) if differs is None else concerned(differs)
    print(f"tests of what differs from main: {' '.join(chosen) or 'none'}", file=sys.stderr)
    print(" ".join(chosen))
