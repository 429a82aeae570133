"""Batches decoded with a beam, and what a decoder with a beam does not do yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.core.checks import check_count
from arcbeam.core.errors import UnsupportedError
from arcbeam.transducer.beam.hypothesis import ONLY_GREEDILY, BeamHypothesis, failed, hypothesis_of
from arcbeam.transducer.fusion import Boosts, fusions_of, trees_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcbeam.arrays.batches import Inputs
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.transducer.search import GreedySearch


def decode_with_beam(
    search: GreedySearch, inputs: Inputs, boost: Boosts, errors: str, nbest: int | None
) -> list[BeamHypothesis]:
    """The hypotheses of a batch that has been taken in, as ``TransducerDecoder.decode`` says."""
    batch = len(inputs.table)
    trees = trees_of(boost, batch, search.tokens, search.options.blank_id, search.form.detokenize)
    fusions, _ = fusions_of(trees, search.ngram_lm, [None] * batch)
    results, bad = search.engine.decode(inputs.table, [None] * batch, inputs.on_host, fusions)
    refused = encoder_output_errors(bad, inputs, errors)
    return [
        failed(search.form, nbest, refused[i]) if i in refused else hypothesis_of(take(place), search.form, nbest)
        for i, (take, place) in enumerate(results)
    ]


def check_nbest(options: TransducerOptions, nbest: int | None) -> None:
    """Raises an error unless so long a list can be had."""
    if nbest is None:
        return
    check_count("nbest", nbest)
    if options.beam is None:
        raise ValueError(
            f"nbest: expected a decoder with a beam, got a greedy one, which has no list of {nbest}; "
            "give beam=4 when the decoder is made"
        )
    if nbest > options.max_hypotheses:
        raise ValueError(
            f"nbest: expected at most max_hypotheses, which is {options.max_hypotheses}, got {nbest}; "
            f"give max_hypotheses={nbest} when the decoder is made"
        )


def check_greedy(options: TransducerOptions, given: Mapping[str, object]) -> None:
    """Raises an error if a decoder with a beam is given what greedy search alone supports."""
    if options.beam is not None:
        for what, value in given.items():
            if value is not None:
                raise UnsupportedError(f"{what}: this {ONLY_GREEDILY}")
