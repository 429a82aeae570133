"""What kills mutants of the CPU twin of transducers: the law in Python, beside a twin that may be wrong."""

import tempfile
import warnings
from pathlib import Path

from tests.transducer import beam_oracle
from tests.transducer import test_beam_fusion as beam_fusion
from tests.transducer import test_beam_law as beam_law
from tests.transducer.beam_searches import INF, decode, entries_of, model_of, wanted
from tests.transducer.networks import random_arrays, random_frames


def twin_beam():
    """Of a beam search without models; and lists that are ranked by length."""
    beam_law.test_no_rule_is_wrong(beam_law.searched())
    arrays, frames = random_arrays(2, tokens=5), random_frames(2, 6)
    for power in (0.5, 1.0):
        found = decode(arrays, frames, beam=INF, max_hypotheses=8, max_symbols=2, length_power=power)
        model = model_of(arrays, frames, 0, None, 2)
        assert entries_of(found) == wanted(beam_oracle.search(model, INF, 8, length_power=power), None)


def twin_fused_beam():
    """With n-gram models, boosting trees and the internal language model; and what each has added to a score."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beam_fusion.test_no_rule_is_wrong(beam_fusion.searched(Path(folder)))
    beam_fusion.test_the_weight_of_the_blank(1.0)
    beam_fusion.test_the_internal_language_model_has_no_blank()
