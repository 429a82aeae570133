"""What the automata ought to say, defined without automata; and what they do say, by kaldifst's own tools."""

import itertools
import math
from collections import defaultdict

import kaldifst

LN10 = math.log(10.0)


def said(fst, labels):
    """{output labels: lowest cost} of an input, over all paths of the composition of that input with `fst`."""
    linear = kaldifst.make_linear_acceptor(list(labels))
    kaldifst.arcsort(linear, sort_type="olabel")
    paths = kaldifst.compose(linear, fst)
    if paths.num_states == 0:
        return {}
    arcs = {s: [] for s in kaldifst.StateIterator(paths)}
    into = defaultdict(int)
    for s in arcs:
        for arc in kaldifst.ArcIterator(paths, s):
            arcs[s].append((arc.nextstate, arc.olabel, arc.weight.value))
            into[arc.nextstate] += 1
    found = {s: {} for s in arcs}
    found[paths.start][()] = 0.0
    ready = [s for s in arcs if into[s] == 0]
    results = {}
    done = 0
    while ready:  # in topological order: no input is left to read on a loop, and no epsilons form one
        s = ready.pop()
        done += 1
        final = paths.final(s).value
        for output, cost in found[s].items():
            if not math.isinf(final):
                results[output] = min(results.get(output, math.inf), cost + final)
            for target, label, weight in arcs[s]:
                longer = (*output, label) if label else output
                found[target][longer] = min(found[target].get(longer, math.inf), cost + weight)
        for target, _, _ in arcs[s]:
            into[target] -= 1
            if into[target] == 0:
                ready.append(target)
    assert done == len(arcs), "the composition has a cycle"
    return results


def strings(labels, longest):
    for length in range(longest + 1):
        yield from itertools.product(labels, repeat=length)


def readings(name, loops, blank, frames):
    """All token strings that a topology reads from the labels of some frames."""
    if name == "identity":
        return {tuple(f for f in frames if f != blank)}
    if name == "normal":
        runs = [(label, len(list(run))) for label, run in itertools.groupby(frames)]
        if not loops and any(length > 1 for label, length in runs if label != blank):
            return set()
        return {tuple(label for label, _ in runs if label != blank)}
    # compact and eesen: a run of a token is that token once or more often
    result = {()}
    for label, run in itertools.groupby(frames):
        length = len(list(run))
        if label != blank:
            counts = range(1, length + 1) if loops else [length]
            result = {(*before, *[label] * count) for before in result for count in counts}
    return result


class Model:
    """A back-off model as its definition has it: log10 probabilities and back-off weights of word tuples."""

    def __init__(self, probabilities, backoffs, order):
        self.probabilities = probabilities
        self.backoffs = backoffs
        self.order = order

    def log10(self, history, word):
        history = tuple(history)[-(self.order - 1) :] if self.order > 1 else ()
        if (*history, word) in self.probabilities:
            return self.probabilities[(*history, word)]
        if not history:
            return -math.inf
        return self.backoffs.get(history, 0.0) + self.log10(history[1:], word)

    def sentence_cost(self, words, scale=1.0, word_cost=0.0):
        history = ["<s>"]
        total = 0.0
        for word in words:
            total += -LN10 * scale * self.log10(history, word) + word_cost
            history.append(word)
        return total - LN10 * scale * self.log10(history, "</s>")

    def arpa(self):
        """The text of its ARPA file."""
        lines = ["\\data\\"]
        levels = [[n for n in self.probabilities if len(n) == k] for k in range(1, self.order + 1)]
        lines += [f"ngram {k}={len(level)}" for k, level in enumerate(levels, 1)]
        for k, level in enumerate(levels, 1):
            lines += ["", f"\\{k}-grams:"]
            for ngram in level:
                backoff = f"\t{self.backoffs[ngram]!r}" if ngram in self.backoffs and k < self.order else ""
                lines.append(f"{self.probabilities[ngram]!r}\t{' '.join(ngram)}{backoff}")
        return "\n".join([*lines, "", "\\end\\", ""])


def follow(acceptor, backoff_label, labels):
    """Cost of a label string in G when a back-off arc is taken only where no word arc fits; inf if it is refused."""
    arcs = defaultdict(dict)
    for source, target, label, cost in zip(
        acceptor.sources.tolist(), acceptor.targets.tolist(), acceptor.inputs.tolist(), acceptor.costs.tolist(),
        strict=True,
    ):  # fmt: skip
        assert label not in arcs[source]
        arcs[source][label] = (target, cost)
    state, total = acceptor.start, 0.0
    for label in labels:
        while label not in arcs[state]:
            if backoff_label not in arcs[state]:
                return math.inf
            state, cost = arcs[state][backoff_label]
            total += cost
        state, cost = arcs[state][label]
        total += cost
    return total + float(acceptor.finals[state])
