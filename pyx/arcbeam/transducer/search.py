"""The greedy search of one decoder: batches of utterances, each from a state, with its tree and the n-gram model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.arrays.batches import InputSpec, Utterances, as_utterances
from arcbeam.transducer.boosting_tree import BoostingTree
from arcbeam.transducer.fusion import Boosts, fusions_of, trees_of
from arcbeam.transducer.hypothesis import HypothesisForm, TransducerHypothesis, TransducerState
from arcbeam.transducer.states import states_of

if TYPE_CHECKING:
    from arcbeam.transducer.engines import TransducerEngine
    from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.transducer.token_automaton import TokenAutomaton


@dataclass(eq=False)
class GreedySearch:
    """An engine, and what it is given with every batch."""

    engine: TransducerEngine
    options: TransducerOptions
    networks: tuple[LstmPrediction | StatelessPrediction, Joint]
    tokens: int
    spec: InputSpec
    form: HypothesisForm
    ngram_lm: TokenAutomaton | None

    def decode(
        self,
        utterances: Utterances,
        on_host: bool,
        state: Sequence[TransducerState | None] | None,
        boost: Boosts,
        errors: str,
    ) -> list[TransducerHypothesis]:
        """The hypotheses of a batch that has been taken in, as ``TransducerDecoder.decode`` says."""
        batch = len(utterances.table)
        states = states_of(state, batch, self.form.state_shapes, self.tokens)
        trees = trees_of(boost, batch, self.tokens, self.options.blank_id)
        fusions, digests = fusions_of(trees, self.ngram_lm, [None] * batch if state is None else state)
        results, bad = self.engine.decode(utterances.table, states, on_host, fusions)
        errors_found = encoder_output_errors(bad, utterances, errors)
        if errors_found:  # as if they had no frames: then their states are what they were
            empty = utterances.table[list(errors_found)]
            empty[:, 2] = 0
            untouched, _ = self.engine.decode(
                empty,
                [states[i] for i in errors_found],
                on_host,
                None if fusions is None else [fusions[i] for i in errors_found],
            )
            for i, result in zip(errors_found, untouched, strict=True):
                results[i] = result
        return [
            TransducerHypothesis(take, place, self.form, errors_found.get(i), digests[i])
            for i, (take, place) in enumerate(results)
        ]

    def tree(self, boost: BoostingTree | None) -> BoostingTree | None:
        """The tree of a stream, checked."""
        if boost is not None and not isinstance(boost, BoostingTree):
            raise TypeError(f"boost: expected an arcbeam.BoostingTree, got {type(boost).__name__}")
        return trees_of(boost, 1, self.tokens, self.options.blank_id)[0]

    def start(self, tree: BoostingTree | None, frames: int) -> TransducerState:
        """The state at the start of a sentence, after some frames of its stream."""
        nothing = np.empty((1, 0, self.spec.columns), np.float32)
        [start] = self.decode(as_utterances(nothing, None, self.spec), True, None, tree, "raise")
        return replace(start.state, frames=frames)
