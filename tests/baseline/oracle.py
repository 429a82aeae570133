"""The baseline's search as dictionaries and loops: no bounds, no arenas, every candidate compared.

Scores are Python floats; those of the language model and of the trie are float32, as KenLM's are. A hypothesis is
(history, node, token): the labels said so far, the columns read since the last word, the column of the last frame.
"""

import math
from dataclasses import dataclass, field

import numpy as np

INF = math.inf


@dataclass
class Options:
    blank: int
    silence: int | None = None
    separator: int | None = None  # that ends spellings
    beam_size: int = 500
    beam_size_token: int | None = None
    beam_threshold: float = 50.0
    lm_weight: float = 2.0
    word_score: float = 0.0
    unk_score: float = -INF
    sil_score: float = 0.0
    log_add: bool = False
    smearing: str = "max"
    repeat_last_token: bool = False
    final_separator: bool = True
    unknown: int = -1  # label of unknown words


class NoLm:
    """Every label scores nothing."""

    def first(self, label):
        return 0.0

    def score(self, history, label):
        return 0.0

    def finish(self, history):
        return 0.0


@dataclass
class Trie:
    """Nodes by the columns that lead to them."""

    labels: dict = field(default_factory=dict)  # columns -> labels
    ahead: dict = field(default_factory=dict)  # columns -> look-ahead score

    @classmethod
    def of(cls, spellings, lm, smearing):
        """`spellings`: (columns, label) pairs."""
        trie = cls()
        scores: dict = {}
        for columns, label in spellings:
            for n in range(len(columns) + 1):
                trie.labels.setdefault(columns[:n], [])
            trie.labels[columns].append(label)
            scores.setdefault(columns, []).append(lm.first(label))
        for node in sorted(trie.labels, key=len, reverse=True):
            if smearing == "none":
                trie.ahead[node] = 0.0
                continue
            ahead = -INF
            for score in scores.get(node, []):
                ahead = added(ahead, score)
            for child in sorted(trie.children(node)):
                below = trie.ahead[child]
                ahead = added(ahead, below) if smearing == "logadd" else max(ahead, below)
            trie.ahead[node] = ahead
        trie.ahead[()] = 0.0
        return trie

    def children(self, node):
        return [child for child in self.labels if len(child) == len(node) + 1 and child[: len(node)] == node]


def added(a, b):
    """Sum of two probabilities by their logs, in float32."""
    return b if a == -INF else float(np.float32(log_sum([a, b])))


def less(score, ahead):
    return float(np.float32(score) - np.float32(ahead))


def log_sum(values):
    total, *rest = sorted(values, reverse=True)
    for value in rest:
        total += math.log1p(math.exp(value - total))
    return total


def order(hypothesis):
    """Equal scores go by this: fewer labels, then the labels from the last, then the node, then the token."""
    history, node, token = hypothesis
    return (len(history), history[::-1], len(node), node, -1 if token is None else token)


def best_tokens(frame, most):
    ranked = sorted(range(len(frame)), key=lambda column: (-frame[column], column))
    return set(ranked[: most or len(frame)])


def survivors(candidates, options):
    """`candidates`: (score, hypothesis, source, path) each; merged, cut to threshold and beam."""
    alive = [c for c in candidates if c[0] > -INF]
    if not alive:
        return {}
    bound = max(score for score, *_ in alive) - options.beam_threshold
    groups: dict = {}
    for score, hypothesis, source, path in alive:
        if score >= bound:
            groups.setdefault(hypothesis, []).append((score, source, path))
    merged = []
    for hypothesis, group in groups.items():
        score, _, path = min(group, key=lambda c: (-c[0], order(c[1])))
        merged.append((log_sum([c[0] for c in group]) if options.log_add else score, hypothesis, path))
    merged.sort(key=lambda c: (-c[0], order(c[1])))
    return {hypothesis: (score, path) for score, hypothesis, path in merged[: options.beam_size]}


def step(beam, frame, trie, lm, options):
    """Candidates of a frame, with a lexicon. A path is (column, label or None) a frame."""
    allowed = best_tokens(frame, options.beam_size_token)
    for source, (score, path) in beam.items():
        history, node, token = source

        def read(column, score=score):
            return score + frame[column] + (options.sil_score if column == options.silence else 0.0)

        def stay(column, source=source, history=history, node=node, path=path, read=read):
            return read(column), (history, node, column), source, [*path, (column, None)]

        yield stay(options.blank)
        if node and token != options.blank:
            yield stay(token)
        if not node and options.silence is not None:
            yield stay(options.silence)
        if not node and options.repeat_last_token and token not in (options.blank, options.silence, None):
            yield stay(token)
        for child in trie.children(node):
            column = child[-1]
            if column not in allowed:
                continue
            gained = read(column)
            doubled = column == token
            if trie.children(child) and not doubled:
                ahead = less(trie.ahead[child], trie.ahead[node])
                yield gained + options.lm_weight * ahead, (history, child, column), source, [*path, (column, None)]
            words = [(label, options.word_score) for label in trie.labels[child]]
            if not words and options.unk_score > -INF:
                words = [(options.unknown, options.unk_score)]
            if doubled and (options.repeat_last_token or (trie.labels[child] and not node)):
                words = []
            for label, extra in words:
                said = less(lm.score(history, label), trie.ahead[node])
                total = gained + options.lm_weight * said + extra
                yield total, ((*history, label), (), column), source, [*path, (column, label)]


def step_free(beam, frame, lm, options):
    """Candidates of a frame, without a lexicon."""
    for source, (score, path) in beam.items():
        history, _, token = source
        for column in best_tokens(frame, options.beam_size_token):
            total = score + frame[column] + (options.sil_score if column == options.silence else 0.0)
            if column in (options.blank, token):
                yield total, (history, (), column), source, [*path, (column, None)]
            else:
                total += options.lm_weight * lm.score(history, column)
                yield total, ((*history, column), (), column), source, [*path, (column, column)]


def decode(log_probs, spellings, lm, options):
    """Answers, best first: (score, labels, columns); and whether they end with a whole word.

    `spellings`: (columns, label) pairs, or None to decode without a lexicon.
    """
    trie = None if spellings is None else Trie.of(spellings, lm, options.smearing)
    beam = {((), (), options.silence): (0.0, [])}
    alive = True
    for frame in log_probs:
        made = step_free(beam, frame, lm, options) if trie is None else step(beam, frame, trie, lm, options)
        following = survivors(made, options)
        alive = bool(following)
        if not alive:
            break
        beam = following

    endings = []
    if trie is not None and not options.final_separator and options.separator is not None:
        for source, (score, path) in beam.items():
            history, node, _ = source
            for label in trie.labels.get((*node, options.separator), []) if node else []:
                said = less(lm.score(history, label), trie.ahead[node])
                total = score + options.lm_weight * said + options.word_score
                endings.append((total, ((*history, label), (), 0), source, (path, label)))
    whole = bool(endings) or any(not node for _, node, _ in beam)
    for source, (score, path) in beam.items():
        if not whole or not source[1]:
            endings.append((score, (source[0], source[1], 0), source, (path, None)))
    endings = [
        (score + options.lm_weight * lm.finish(hypothesis[0]), hypothesis, source, path)
        for score, hypothesis, source, path in endings
    ]
    answers, said = [], set()
    for (history, _, _), (score, (path, _)) in survivors(endings, options).items():
        if history not in said:
            said.add(history)
            answers.append((score, history, [column for column, _ in path]))
    return answers, alive and whole
