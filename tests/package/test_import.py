"""``import arcbeam`` is light, whatever else is installed."""

import json
import subprocess
import sys

import arcbeam

HEAVY = ["numpy", "torch", "kaldifst", "kenlm", "sentencepiece", "typer", "rich", "jiwer"]
LIMIT_S = 0.150
IMPORT = """
import json, sys, time
start = time.perf_counter()
import arcbeam
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}))
"""


def import_once() -> dict:
    return json.loads(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True).stdout)


def test_import_loads_nothing_heavy():
    assert [name for name in import_once()["modules"] if name in HEAVY] == []


def test_import_is_quick():
    # The one time that a test measures: it is a promise to users. The best of several, for a busy machine.
    assert min(import_once()["seconds"] for _ in range(7)) < LIMIT_S


def test_every_public_name_is_there():
    missing = [name for name in arcbeam.__all__ if not hasattr(arcbeam, name)]
    assert missing == []
    assert {"DecoderMemory", "TransducerMemory"} <= set(arcbeam.__all__), "what memory() returns"
    assert set(arcbeam.__all__) <= set(dir(arcbeam))


def test_version_is_that_of_the_package():
    assert arcbeam.__version__.count(".") == 2
