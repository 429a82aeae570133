"""Boosting trees and n-gram models over tokens, as plainly as they can be said: dictionaries of histories.

The boosting tree has the scores of NeMo 3.0's (a trie of phrases that backs off to its longest suffix), and beside
them phrases that are suppressed, which NeMo lacks. Sums are float32, from the longest history down.
"""

import gzip
import math

import numpy as np

from tests.transducer import oracle

F = np.float32


class BackOff:
    """weights: float32 by n-gram; backoffs: float32 by history. A history that is no key of `backoffs` is none."""

    def __init__(self, weights, backoffs, unknown, start=()):
        self.weights, self.backoffs, self.unknown, self.start = weights, backoffs, F(unknown), start

    def state(self, history):
        while history and history not in self.backoffs:
            history = history[1:]
        return history

    def score(self, history, token):
        """The score of a token after a state, and the state that follows."""
        total = F(0)
        while (*history, token) not in self.weights:
            if not history:
                return total + self.unknown, ()
            total = total + self.backoffs[history]
            history = self.state(history[1:])
        return total + self.weights[(*history, token)], self.state((*history, token))


def boosting_tree(phrases, depth_scaling=2.0, unk_score=0.0):
    """phrases: context score by tuple of tokens."""
    shares, ends, charges = {}, set(), {}
    for phrase, score in phrases.items():
        if score < 0:
            charges[phrase] = charges.get(phrase, 0.0) + score
            continue
        ends.add(phrase)
        for depth in range(1, len(phrase) + 1):
            share = score if depth == 1 else score * depth_scaling + math.log(depth)
            shares[phrase[:depth]] = max(share, shares.get(phrase[:depth], share))
    histories = {phrase[:n] for phrase in phrases for n in range(1, len(phrase) + 1)}
    tree = BackOff({}, {}, unk_score)
    totals = {(): 0.0}
    for history in sorted(histories, key=lambda h: (len(h), h)):
        parent, fail = history[:-1], history[1:]
        while fail and fail not in histories:
            fail = fail[1:]
        charge = charges.get(history, 0.0)
        if history in shares:
            totals[history] = totals[parent] + shares[history]
            weight, backoff = shares[history] + charge, 0.0 if history in ends else totals[fail] - totals[history]
        else:  # as if the history were not there, but for the charge
            totals[history] = totals[fail]
            weight, backoff = float(tree.score(parent, history[-1])[0]) + charge, 0.0
        tree.weights[history], tree.backoffs[history] = F(weight), F(backoff)
    return tree


def ngram_model(arpa, tokens, blank, word_of=lambda token: chr(100 + token)):
    """The model of an ARPA, read line by line. Tokens that it lacks share <unk> evenly."""
    token_of = {word_of(token): token for token in range(tokens) if token != blank} | {"<s>": "<s>"}
    weights, backoffs, unknown = {}, {}, -230.2585093
    with gzip.open(arpa, "rt") if str(arpa).endswith(".gz") else open(arpa) as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if len(fields) < 2 or fields[0].startswith("ngram"):
                continue
            words = fields[1].split()
            if words == ["<unk>"]:
                unknown = float(fields[0]) * math.log(10)
            if not set(words) <= set(token_of):
                continue
            ngram = tuple(token_of[word] for word in words)
            if ngram[-1] != "<s>":
                weights[ngram] = F(float(fields[0]) * math.log(10))
            backoffs[ngram] = F(float(fields[2]) * math.log(10)) if len(fields) > 2 else None
    continued = {ngram[:-1] for ngram in weights}
    backoffs = {h: F(0) if b is None else b for h, b in backoffs.items() if h in continued or h == ("<s>",)}
    missing = tokens - 1 - sum(len(ngram) == 1 for ngram in weights)
    model = BackOff(weights, backoffs, unknown - (math.log(missing) if missing > 1 else 0.0))
    model.start = ("<s>",)
    return model


class Fusion:
    """The addends to the logits of the next label; `follow` goes on after one."""

    def __init__(self, tokens, ngram_lm=None, boosting_tree=None, ngram_lm_alpha=0.2, boosting_tree_alpha=1.0):
        self.tokens = tokens
        self.models = [m for m in ((ngram_lm, ngram_lm_alpha), (boosting_tree, boosting_tree_alpha)) if m[0]]
        self.states = [model.start for model, _ in self.models]

    def row(self):
        rows = [
            F(alpha) * np.array([model.score(state, token)[0] for token in range(self.tokens)], F)
            for (model, alpha), state in zip(self.models, self.states, strict=True)
        ]
        return sum(rows, np.zeros(self.tokens, F))

    def follow(self, token):
        self.states = [model.score(s, token)[1] for (model, _), s in zip(self.models, self.states, strict=True)]


class BeamModels:
    """What models make of the scores of tokens in beam search: shares of each history, and the weight of the blank."""

    def __init__(self, networks, blank, ngram_lm=(None, 0.0), tree=(None, 0.0), lodr=(None, 0.0), ilm_scale=0.0):
        self.networks, self.blank, self.ilm_scale = networks, blank, F(ilm_scale)
        self.models = [ngram_lm, tree, lodr]
        self.labels = [token for token in range(networks.tokens) if token != blank]
        alphas = [F(alpha) if model else F(0) for model, alpha in self.models]
        self.weight = ((alphas[0] + alphas[1]) + alphas[2]) - self.ilm_scale
        self.states = {(): [model.start if model else None for model, _ in self.models]}

    def state(self, history):
        if history not in self.states:
            before = self.state(history[:-1])
            self.states[history] = [
                model.score(state, history[-1])[1] if model else None
                for (model, _), state in zip(self.models, before, strict=True)
            ]
        return self.states[history]

    def shares(self, history, token):
        """float32: of the n-gram model, the tree, LODR, and of the internal language model, which is subtracted."""
        found = [
            F(alpha) * model.score(state, token)[0] if model else F(0)
            for (model, alpha), state in zip(self.models, self.state(history), strict=True)
        ]
        return [*found, self.ilm_scale * self._internal(history)[token]]

    def _internal(self, history):
        logits = self.networks.internal(history)
        largest, log_sum = self._of_labels(logits)
        return (logits - largest) - log_sum

    def _of_labels(self, logits):
        """The largest logit of a label, and the log of the sum; the blank's term is 0."""
        largest = logits[self.labels].max()
        terms = oracle.exp(logits - largest)
        terms[self.blank] = 0
        return largest, oracle.log(oracle.tree(oracle.padded_terms(terms)))

    def scores(self, history, frame):
        """float32[tokens], in the order of the law."""
        logits, log_probs, _ = self.networks.row(history, frame)
        found = log_probs.copy()
        if self.labels:
            largest, log_sum = self._of_labels(logits)
            all_labels = log_probs[int(np.flatnonzero(logits == largest)[0])] + log_sum
        for token in self.labels:
            ngram_lm, tree, lodr, ilm = self.shares(history, token)
            found[token] = (log_probs[token] + self.weight * all_labels) + (((ngram_lm + tree) + lodr) - ilm)
        found[self.blank] = (F(1) + self.weight) * log_probs[self.blank]
        return found

    def exact_scores(self, history, frame):
        """float64[tokens], from probabilities."""
        logits = self.networks.row(history, frame)[0].astype(np.float64)
        log_probs = logits - np.logaddexp.reduce(logits)
        alphas = [float(alpha) for model, alpha in self.models if model]
        weight = sum(alphas) - float(self.ilm_scale)
        found = log_probs.copy()
        if self.labels:
            all_labels = np.logaddexp.reduce(log_probs[self.labels])
            internal = self.networks.internal(history).astype(np.float64)
            internal = internal - np.logaddexp.reduce(internal[self.labels])
        for token in self.labels:
            fused = sum(
                float(alpha) * float(model.score(state, token)[0])
                for (model, alpha), state in zip(self.models, self.state(history), strict=True)
                if model
            )
            found[token] += weight * all_labels + fused - float(self.ilm_scale) * internal[token]
        found[self.blank] *= 1 + weight
        return found
