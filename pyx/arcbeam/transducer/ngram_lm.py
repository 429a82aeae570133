"""N-gram models over tokens, as the automata that score a transducer's labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from arcbeam.transducer._boosting_tree import ARC
from arcbeam.transducer.boosting_tree import natural_log
from arcbeam.transducer.token_automaton import TokenAutomaton

if TYPE_CHECKING:
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.language_model import LanguageModel

NgramLm: TypeAlias = "str | os.PathLike[str] | LanguageModel | KenLM | TokenAutomaton"

TOKEN_OFFSET = 100  # NeMo's word for token v is the character 100 + v
NO_TOKEN = -1
LARGEST_WEIGHT = 1e6  # sums of them stay finite
UNKNOWN_COST = np.float32(230.2585093)  # kUnknownCost; KenLM gives a model without <unk> the same
MOST_NGRAMS = 2**31 - 1
SHOWN = 5


def token_words(words: Sequence[str | None] | None, tokens: int, blank: int) -> list[str | None]:
    """The word of the model for each token, None for the blank and for tokens that it is to lack."""
    if words is None:
        return [None if token == blank else chr(TOKEN_OFFSET + token) for token in range(tokens)]
    if isinstance(words, (str, bytes)) or not isinstance(words, Sequence):
        raise TypeError(f"ngram_lm_tokens: expected a list with a word for each token, got {type(words).__name__}")
    found = list(words)
    if len(found) == tokens - 1 and blank == tokens - 1:
        found.append(None)
    if len(found) != tokens:
        raise ValueError(f"ngram_lm_tokens: expected {tokens} words, one for each token, got {len(found)}")
    wrong = next((word for word in found if word is not None and not isinstance(word, str)), None)
    if wrong is not None:
        raise TypeError(f"ngram_lm_tokens: expected words that are str or None, got {type(wrong).__name__}")
    found[blank] = None
    return found


def token_automaton(
    model: NgramLm, words: Sequence[str | None] | None, tokens: int, blank: int, name: str = "ngram_lm_model"
) -> TokenAutomaton:
    """The automaton of an n-gram model over a decoder's tokens; `words`: by token, else NeMo's chr(100 + token)."""
    # Tokens that the model lacks share the probability of <unk> evenly, and lead to the empty history, as in NeMo.
    if isinstance(model, TokenAutomaton):
        if model.num_tokens != tokens:
            raise ValueError(f"{name}: expected a model of {tokens} tokens, got one of {model.num_tokens}")
        return model
    from arcbeam.lm.kenlm import KenLM
    from arcbeam.lm.loading import as_large_model

    lm = as_large_model(name, model)
    lm.check_file()
    known = token_words(words, tokens, blank)
    if isinstance(lm, KenLM):
        found = _of_kenlm(lm, known, blank, name)
    else:
        found = _of_language_model(lm, known, blank, name)
    lm.check_file()
    if not max(np.abs(found.arcs["weight"]).max(), np.abs(found.backoffs["weight"]).max()) <= LARGEST_WEIGHT:
        raise ValueError(f"{name}: expected natural logs up to {LARGEST_WEIGHT:g} in size, got larger ones")
    return found


def _of_kenlm(lm: KenLM, words: list[str | None], blank: int, name: str) -> TokenAutomaton:
    from arcbeam.transducer._token_ngrams import TokenNgramReader

    numbers = lm.indices([word or "" for word in words])
    known = np.array([word not in (None, "<s>", "</s>") for word in words])
    known &= (numbers != 0) | np.array([word == "<unk>" and lm.knows_unknown for word in words])
    _check_words(words, {token: int(numbers[token]) for token in np.flatnonzero(known).tolist()}, name)
    there = np.flatnonzero(known).astype(np.uint32)
    reader = TokenNgramReader(lm.model, numbers[there], there, MOST_NGRAMS)
    missing = _share(float(reader.unknown_weight), len(words) - 1 - len(there))
    first_arcs, arc_tokens, arcs, backoffs, start = reader.automaton(len(words), blank, missing)
    return TokenAutomaton(first_arcs, arc_tokens, arcs, backoffs, len(words), start)


def _of_language_model(lm: LanguageModel, words: list[str | None], blank: int, name: str) -> TokenAutomaton:
    from arcbeam.lm._language_model import listed

    tokens = len(words)
    token_of = _tokens_by_label(lm, words, name)
    first, labels, backoff_states = listed(lm.columns, lm.about)
    sources = np.repeat(np.arange(lm.num_states, dtype=np.uint32), np.diff(first))
    token = token_of[labels]
    kept = np.flatnonzero((token != NO_TOKEN) & (sources != 0))
    kept = kept[np.lexsort((token[kept], sources[kept]))]
    root = _root(lm, token_of, first, labels, tokens, blank)
    arcs = np.empty(tokens + len(kept), ARC)
    arcs[:tokens] = root
    arcs["next_state"][tokens:] = lm.columns["arcs"]["next_state"][kept]
    arcs["weight"][tokens:] = -lm.columns["arcs"]["weight"][kept]
    counts = np.bincount(sources[kept], minlength=lm.num_states)
    counts[0] = tokens
    backoffs = np.empty(lm.num_states, ARC)
    backoffs["next_state"], backoffs["weight"] = backoff_states, -lm.columns["backoff.weights"]
    arcs["weight"] += 0.0  # no -0
    backoffs["weight"] += 0.0
    return TokenAutomaton(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32),
        np.concatenate([np.arange(tokens), token[kept]]).astype(np.uint32),
        arcs,
        backoffs,
        tokens,
        lm.start,
    )


def _check_words(words: list[str | None], labels: dict[int, int], name: str) -> None:
    """ValueError if the model has few of the tokens' words, or two tokens have the same one; labels are by token."""
    # A model of words or pieces also has some of the characters that stand for tokens. Tokens without a word count as
    # neither, so a user can name those that a small model lacks.
    token_of: dict[int, int] = {}
    for token, label in labels.items():
        if label in token_of:
            raise ValueError(
                f"ngram_lm_tokens: tokens {token_of[label]} and {token} have the same word {words[token]!r}"
            )
        token_of[label] = token
    wanted = [word for word in words if word is not None]
    if 2 * len(token_of) < len(wanted) or not token_of:
        shown = ", ".join(map(repr, wanted[:SHOWN])) + ", ..." * (len(wanted) > SHOWN)
        raise ValueError(
            f"{name}: expected a model of tokens, got one that has {len(token_of)} of their {len(wanted)} "
            f"words ({shown}); give ngram_lm_tokens= (--ngram-lm-tokens) with the word that the model has for each "
            "token, None for a token that it lacks"
        )


def _tokens_by_label(lm: LanguageModel, words: list[str | None], name: str) -> np.ndarray:
    """int64[labels + 1]: the token of each label of the model, NO_TOKEN for none."""
    labels = {
        token: label for token, word in enumerate(words) if word is not None and (label := lm.label(word)) is not None
    }
    _check_words(words, labels, name)
    token_of = np.full(lm.end_label + 1, NO_TOKEN, np.int64)
    token_of[list(labels.values())] = list(labels)
    return token_of


def _root(
    lm: LanguageModel, token_of: np.ndarray, first: np.ndarray, labels: np.ndarray, tokens: int, blank: int
) -> np.ndarray:
    """An arc for every token from the empty history; the blank's is never read."""
    arcs = lm.columns["arcs"][: first[1]]
    unknown = lm.unknown_label
    cost = float(arcs["weight"][unknown - 1]) if unknown else float(UNKNOWN_COST)
    known = token_of[labels[: first[1]]]
    missing = tokens - 1 - int((known != NO_TOKEN).sum())
    root = np.zeros(tokens, ARC)
    root["weight"] = _share(-cost, missing)
    root["weight"][blank] = 0.0
    there = known != NO_TOKEN
    root["next_state"][known[there]] = arcs["next_state"][there]
    root["weight"][known[there]] = -arcs["weight"][there]
    return root


def _share(weight: float, missing: int) -> float:
    """The weight of each of the tokens that share that of the unknown word; the arrays round it to float32."""
    return weight - (natural_log(missing) if missing > 1 else 0.0)
