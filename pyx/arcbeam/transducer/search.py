"""The search of one decoder: batches of utterances, each from a state, with its tree and the n-gram models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.arrays.bad_values import encoder_output_errors
from arcbeam.arrays.batches import Inputs, InputSpec, as_inputs
from arcbeam.transducer.boosting_tree import BoostingTree
from arcbeam.transducer.fusion import Boosts, fusions_of, trees_of
from arcbeam.transducer.hypothesis import FIELDS, HypothesisForm, TransducerHypothesis, TransducerState
from arcbeam.transducer.states import State, states_of

if TYPE_CHECKING:
    from arcbeam.transducer.engines import TransducerEngine
    from arcbeam.transducer.network import Joint, LstmPrediction, StatelessPrediction
    from arcbeam.transducer.options import TransducerOptions
    from arcbeam.transducer.token_automaton import TokenAutomaton

NO_TOKENS = tuple(np.empty(0, dtype) for dtype in FIELDS.values())


@dataclass(eq=False)
class TransducerSearch:
    """An engine, and what it is given with every batch."""

    engine: TransducerEngine
    options: TransducerOptions
    networks: tuple[LstmPrediction | StatelessPrediction, Joint]
    tokens: int
    spec: InputSpec
    form: HypothesisForm
    ngram_lm: TokenAutomaton | None
    lodr: TokenAutomaton | None = None

    def decode(
        self,
        inputs: Inputs,
        state: Sequence[Any] | None,
        boost: Boosts,
        errors: str,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> Sequence[TransducerHypothesis]:
        """The hypotheses of a batch that has been taken in, each from the state that a chunk before has left."""
        raise NotImplementedError

    def start(self, tree: BoostingTree | None, frames: int, models: Any = None) -> Any:
        """The state at the start of a sentence, after some frames of its stream; n-gram models may go on."""
        raise NotImplementedError

    def no_frames(self) -> Inputs:
        """A chunk without frames."""
        return as_inputs(np.empty((1, 0, self.spec.columns), np.float32), None, self.spec)

    def tree(self, boost: BoostingTree | None) -> BoostingTree | None:
        """The tree of a stream, checked."""
        if boost is not None and not isinstance(boost, BoostingTree):
            raise TypeError(f"boost: expected an arcbeam.BoostingTree, got {type(boost).__name__}")
        return trees_of(boost, 1, self.tokens, self.options.blank_id, self.form.detokenize)[0]


class GreedySearch(TransducerSearch):
    """A search that takes the best token of each step."""

    def decode(
        self,
        inputs: Inputs,
        state: Sequence[TransducerState | None] | None,
        boost: Boosts,
        errors: str,
        nbest: int | None = None,
        confidence: bool = False,
        lattice: bool = False,
    ) -> list[TransducerHypothesis]:
        """The hypotheses of a batch that has been taken in, as ``TransducerDecoder.decode`` says."""
        batch = len(inputs.table)
        states = states_of(state, batch, self.form.state_shapes, self.tokens)
        trees = trees_of(boost, batch, self.tokens, self.options.blank_id, self.form.detokenize)
        fusions, digests = fusions_of(trees, self.ngram_lm, [None] * batch if state is None else state)
        results, bad = self.engine.decode(inputs.table, states, inputs.on_host, fusions, False)
        refused = encoder_output_errors(bad, inputs, errors)
        for i in refused:
            hidden, cell, context, *passed = states[i] or self.fresh
            state_before = hidden.copy(), cell.copy(), np.array(context, np.int32), *passed
            fused = (0, 0) if fusions is None else fusions[i].states
            results[i] = [(*NO_TOKENS, (*state_before, fused))].__getitem__, 0
        return [
            TransducerHypothesis(take, place, self.form, refused.get(i), digests[i])
            for i, (take, place) in enumerate(results)
        ]

    @cached_property
    def fresh(self) -> State:
        """The networks' state before the first frame of a stream."""
        [(take, place)], _ = self.engine.decode(self.no_frames().table, [None], True, None, False)
        *_, (hidden, cell, context, skip, frames, _) = take(place)
        return hidden, cell, context, skip, frames

    def start(self, tree: BoostingTree | None, frames: int, models: tuple[int, str] | None = None) -> TransducerState:
        """The state at the start of a sentence, after some frames of its stream; the n-gram model may go on."""
        [start] = self.decode(self.no_frames(), None, tree, "raise")
        return replace(start.state, frames=frames, ngram_lm=start.state.ngram_lm if models is None else models)
