"""Decoders that live until the interpreter ends go silently, whatever of it is gone before them."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

MADE = {
    "graph": """
graph = arcbeam.Graph.from_arcs([(0, 0, 1, 0, 0.0)], finals={0: 0.0}, num_columns=2)
decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=1)
""",
    "baseline": """
from arcbeam import baseline
from tests.baseline.small import TOKENS
decoder = baseline.LexiconFreeDecoder(TOKENS, sil="|", threads=1, lm_weight=0.0)
""",
    "transducer": """
from tests.transducer.networks import random_arrays
decoder = arcbeam.TransducerDecoder.from_arrays(random_arrays(0), 0, threads=1)
""",
}


@pytest.mark.parametrize("kind", MADE)
def test_a_decoder_outlives_its_modules(kind):
    # What hangs on sys, or on the codecs' registry, goes after the contents of the modules.
    script = f"import sys\nimport arcbeam\n{MADE[kind]}\nsys.kept = decoder\n"
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (got.returncode, got.stdout, got.stderr) == (0, "", "")
