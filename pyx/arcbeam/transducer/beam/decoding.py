"""Batches decoded with a beam, and what a decoder with a beam does not do yet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.core.checks import check_bool, check_count
from arcbeam.core.errors import UnsupportedError
from arcbeam.transducer.beam.hypothesis import ONLY_GREEDILY, BeamHypothesis, failed
from arcbeam.transducer.fusion import Boosts, fusions_of, trees_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arcbeam.arrays.batches import Inputs
    from arcbeam.ctc.lattice.lattice import Lattice
    from arcbeam.transducer.lattice.lattice_form import LatticeForm
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.transducer.search import GreedySearch


def decode_with_beam(
    search: GreedySearch, inputs: Inputs, boost: Boosts, errors: str, nbest: int | None, lattice: bool
) -> list[BeamHypothesis]:
    """The hypotheses of a batch that has been taken in, as ``TransducerDecoder.decode`` says."""
    batch = len(inputs.table)
    trees = trees_of(boost, batch, search.tokens, search.options.blank_id, search.form.detokenize)
    fusions, _ = fusions_of(trees, search.ngram_lm, [None] * batch)
    form = search.lattice_form if lattice else None
    kept = {"lattice": True} if lattice else {}  # an option of the CPU's engine alone
    results, bad = search.engine.decode(inputs.table, [None] * batch, inputs.on_host, fusions, **kept)
    refused = encoder_output_errors(bad, inputs, errors)
    found = []
    for i, (take, place) in enumerate(results):
        make = None if form is None else partial(_lattice, form, None if i in refused else take, place)
        one = (
            failed(search.form, nbest, refused[i]) if i in refused else BeamHypothesis(take, place, search.form, nbest)
        )
        one._make_lattice = make
        found.append(one)
    return found


def _lattice(form: LatticeForm, take: Any, place: int) -> Lattice:
    """The lattice of a hypothesis, from the lists that it is taken from."""
    return form.lattice(None if take is None else take.__self__.lattice(place))


def check_lattice(options: TransducerOptions, lattice: bool, device: str) -> None:
    """Raises an error unless lattices can be had."""
    check_bool("lattice", lattice)
    if lattice and options.beam is None:
        raise ValueError(
            "lattice: expected a decoder with a beam, got a greedy one, which follows one path; "
            "give beam=4 when the decoder is made"
        )
    if lattice and device != "cpu":
        raise UnsupportedError(
            f'lattice: on a GPU a beam does not keep lattices yet; give device="cpu" when the decoder is made, whose '
            f"device is {device!r}"
        )


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
