"""What the labels of a batch are scored with besides the network, checked and taken apart for the engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from arcbeam.transducer.boosting_tree import BoostingTree
from arcbeam.transducer.hypothesis import TransducerState
from arcbeam.transducer.ngram_lm import NgramLm, token_automaton
from arcbeam.transducer.options import TransducerOptions
from arcbeam.transducer.token_automaton import Digests, Fusion, Fusions, TokenAutomaton, from_the_start

Boosts: TypeAlias = BoostingTree | Sequence[BoostingTree | None] | None
"""Of all utterances, or of each."""


def models_of(
    options: TransducerOptions,
    ngram_lm_model: NgramLm | None,
    lodr_model: NgramLm | None,
    words: Sequence[str | None] | None,
    tokens: int,
) -> tuple[TokenAutomaton | None, TokenAutomaton | None]:
    """The automata of a decoder's n-gram models, the second one for LODR, and checks of the options that go with them.

    `words` are the ``ngram_lm_tokens``.
    """
    if ngram_lm_model is None and options.ngram_lm_alpha != TransducerOptions.ngram_lm_alpha:
        raise ValueError("ngram_lm_alpha: expected ngram_lm_model, too, the model that it is for; or leave it out")
    if lodr_model is None and options.lodr_scale != TransducerOptions.lodr_scale:
        raise ValueError("lodr_scale: expected lodr_model, too, the model that it is for; or leave it out")
    if lodr_model is not None and options.beam is None:
        raise ValueError("lodr_model: expected a beam, too, such as beam=4; without one, decoding is greedy")
    if words is not None and ngram_lm_model is None and lodr_model is None:
        raise ValueError("ngram_lm_tokens: expected ngram_lm_model, too, the model that it is for; or leave it out")
    of_lm, of_lodr = (
        None if model is None else token_automaton(model, words, tokens, options.blank_id, name)
        for name, model in (("ngram_lm_model", ngram_lm_model), ("lodr_model", lodr_model))
    )
    if options.beam is not None:
        factors = {
            "ngram_lm_alpha": 0.0 if of_lm is None else options.ngram_lm_alpha,
            "boosting_tree_alpha": min(options.boosting_tree_alpha, 0.0),
            "lodr_scale": 0.0 if of_lodr is None else options.lodr_scale,
            "-ilm_scale": -options.ilm_scale,
        }
        if not sum(factors.values()) > -1.0:
            given = ", ".join(f"{name} {value:g}" for name, value in factors.items() if value)
            raise ValueError(
                f"{next(name for name, value in factors.items() if value < 0).lstrip('-')}: expected factors that add "
                f"up to more than -1, because blanks are weighted with 1 + their sum, got {given}"
            )
    return of_lm, of_lodr


def trees_of(boost: Boosts, batch: int, tokens: int, blank: int, detokenize: Any = None) -> list[BoostingTree | None]:
    """The boosting tree of each utterance; None for one without phrases, too. `detokenize` is the decoder's."""
    if boost is None or isinstance(boost, BoostingTree):
        trees: list[BoostingTree | None] = [boost] * batch
    elif isinstance(boost, (str, bytes)) or not isinstance(boost, Sequence):
        hint = "; a Boost is for a CtcDecoder" if type(boost).__name__ == "Boost" else ""
        raise TypeError(f"boost: expected an arcbeam.BoostingTree, or a list of them, got {type(boost).__name__}{hint}")
    else:
        trees = list(boost)
        if len(trees) != batch:
            raise ValueError(f"boost: expected a tree or None for each of {batch} utterances, got {len(trees)}")
    for i, tree in enumerate(trees):
        if tree is None:
            continue
        if not isinstance(tree, BoostingTree):
            raise TypeError(f"boost[{i}]: expected an arcbeam.BoostingTree or None, got {type(tree).__name__}")
        tree.check_fits(f"boost[{i}]", tokens, blank, detokenize)
        if not len(tree):
            trees[i] = None
    return trees


def fusions_of(
    trees: list[BoostingTree | None], ngram_lm: TokenAutomaton | None, states: Sequence[TransducerState | None]
) -> tuple[Fusions, list[Digests]]:
    """What the engine takes for each utterance, and the digests that the next states get: of the model, of the tree."""
    without_tree = from_the_start(ngram_lm, None)
    if ngram_lm is None and {*trees, *states} <= {None}:  # nothing to fuse: no object for each utterance
        return None, [without_tree[1]] * len(trees)
    fused = [
        without_tree if tree is None else tree.alone if ngram_lm is None else from_the_start(ngram_lm, tree.automaton)
        for tree in trees
    ]
    fusions, digests = [fusion for fusion, _ in fused], [digest for _, digest in fused]
    for i, state in enumerate(states):
        if state is not None:
            model, tree, _ = fusions[i]
            starts = (
                _goes_on(i, "n-gram model", "ngram_lm_model", state.ngram_lm, model),
                _goes_on(i, "boosting tree", "boost", state.boosting_tree, tree),
            )
            fusions[i] = Fusion(model, tree, starts)
    is_plain = ngram_lm is None and all(tree is None for tree in trees)
    return None if is_plain else fusions, digests


def _goes_on(i: int, what: str, option: str, state: tuple[int, str], automaton: TokenAutomaton | None) -> int:
    place, digest = state
    if digest != ("" if automaton is None else automaton.digest):
        made = f"was made with another {what} than" if digest and automaton else (
            f"was made with a {what}, but there is none in" if digest else f"was made without the {what} of"
        )  # fmt: skip
        raise ValueError(f"state[{i}]: it {made} {option}=; a stream keeps what it began with")
    if automaton is not None and not 0 <= place < automaton.num_states:
        raise ValueError(f"state[{i}]: expected a state of the {what} below {automaton.num_states}, got {place}")
    return place
