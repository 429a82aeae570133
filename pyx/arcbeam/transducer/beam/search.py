"""Beam search of one decoder: whole utterances, and chunks from states."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.core.checks import check_bool
from arcbeam.core.errors import UnsupportedError
from arcbeam.transducer.beam._state import BeamState
from arcbeam.transducer.beam.hypothesis import AS_A_STREAM, BeamHypothesis, failed
from arcbeam.transducer.fusion import Boosts, fusions_of, trees_of
from arcbeam.transducer.hypothesis import Left
from arcbeam.transducer.search import TransducerSearch
from arcbeam.transducer.token_automaton import from_the_start

if TYPE_CHECKING:
    from arcbeam.arrays.batches import Inputs
    from arcbeam.ctc.lattice.lattice import Lattice
    from arcbeam.transducer.boosting_tree import BoostingTree
    from arcbeam.transducer.lattice.lattice_form import LatticeForm
    from arcbeam.transducer.options import TransducerOptions


class BeamSearch(TransducerSearch):
    """A search with a beam."""

    def decode(
        self,
        inputs: Inputs,
        state: Sequence[BeamState | None] | None,
        boost: Boosts,
        errors: str,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> list[BeamHypothesis]:
        """The hypotheses of a batch that has been taken in; of chunks, with `state`, those of the sentences so far.

        These lack the tokens that were settled before, and have what the chunk leaves. None among the states is the
        start of a stream.
        """
        batch = len(inputs.table)
        trees = trees_of(boost, batch, self.tokens, self.options.blank_id, self.form.detokenize)
        fusions, _ = fusions_of(trees, self.ngram_lm, [None] * batch)
        states = [None] * batch if state is None else [
            one or self.start(tree, 0) for one, tree in zip(state, trees, strict=True)
        ]  # fmt: skip
        form = self._lattice_form if lattice else None
        results, bad = self.engine.decode(inputs.table, states, inputs.on_host, fusions, lattice)
        refused = encoder_output_errors(bad, inputs, errors)
        found = []
        for i, (take, place, leaves) in enumerate(results):
            left = None if leaves is None else Left(*leaves)
            made = None if form is None else partial(_lattice, form, None if i in refused else take, place)
            if i in refused:
                found.append(failed(self.form, nbest, refused[i], left, made))
            else:
                found.append(BeamHypothesis(take, place, self.form, nbest, None, left, made, confidence))
        return found

    @cached_property
    def _lattice_form(self) -> LatticeForm:
        """What the lattices of this decoder share."""
        from arcbeam.transducer.lattice.lattice_form import LatticeForm

        return LatticeForm.of(self.tokens, self.options.blank_id, self.form.frame_shift, self.form.detokenize)

    def start(self, tree: BoostingTree | None, frames: int, models: tuple[int, int, int] | None = None) -> BeamState:
        """The state at the start of a sentence, after some frames of its stream; n-gram models may go on."""
        fusion, _ = from_the_start(self.ngram_lm, None if tree is None else tree.automaton)
        of_lm, of_tree = fusion.states
        of_lodr = 0 if self.lodr is None else self.lodr.start
        return BeamState.begun(frames, (of_lm, of_tree, of_lodr) if models is None else (models[0], of_tree, models[2]))


def _lattice(form: LatticeForm, take: Any, place: int) -> Lattice:
    """The lattice of a hypothesis, from the lists that it is taken from; None for one without tokens."""
    return form.lattice(None if take is None else take.__self__.lattice(place))


def check_confidence(options: TransducerOptions, confidence: bool) -> None:
    """Raises an error unless the probabilities of words can be had."""
    check_bool("confidence", confidence)
    if confidence and options.beam is None:
        raise ValueError(
            "confidence: expected a decoder with a beam, got a greedy one, which has no other hypotheses; give beam=4 "
            'when the decoder is made, or confidence="entropy" there for that of tokens'
        )


def check_lattice(options: TransducerOptions, lattice: bool) -> None:
    """Raises an error unless lattices can be had."""
    check_bool("lattice", lattice)
    if lattice and options.beam is None:
        raise ValueError(
            "lattice: expected a decoder with a beam, got a greedy one, which follows one path; "
            "give beam=4 when the decoder is made"
        )


def check_streams(options: TransducerOptions, what: str) -> None:
    """UnsupportedError that names `what`, which needs streams, with `merge_context`."""
    if options.merge_context is not None:
        raise UnsupportedError(
            f"{what}: expected a decoder without merge_context, because the state of a stream does not keep the labels "
            f"that it compares, got merge_context={options.merge_context}; leave it out when the decoder is made, or "
            "give decoder.decode() whole utterances"
        )


def check_state(options: TransducerOptions, state: object) -> None:
    """UnsupportedError if a state is given to a beam, whose chunks are decoded as streams."""
    if options.beam is not None and state is not None:
        raise UnsupportedError(f"state: {AS_A_STREAM}")
