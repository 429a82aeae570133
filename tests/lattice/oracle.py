"""What lattices answer, stated by enumerating their paths, and minimum Bayes risk by dictionaries."""

import math
from collections import defaultdict
from itertools import pairwise


class Paths:
    """All paths of a small lattice.

    Attributes
    ----------
    paths : list of (tuple of links, excess)
    by_words : dict
        Word sequence -> indices of paths.
    """

    def __init__(self, lattice, words):
        self.lattice, self.words = lattice, words.tolist()
        self.links = [tuple(link.tolist()) for link in lattice["links"]]  # source, target, arc, slack
        self.first_end = int(lattice["first_token"][-2])
        self.tokens = len(lattice["states"])
        self.leaving = defaultdict(list)
        for number, link in enumerate(self.links):
            self.leaving[link[0]].append(number)
        self.paths = [(path, self.excess(path)) for path in self._from(0)]
        self.by_words = defaultdict(list)
        for index, (path, _) in enumerate(self.paths):
            self.by_words[self.spoken(path)].append(index)

    def end_extra(self, token):
        return float(self.lattice["end_extras"][token - self.first_end]) if token >= self.first_end else math.inf

    def _from(self, token):
        if self.end_extra(token) < math.inf:
            yield ()
        for number in self.leaving[token]:
            for rest in self._from(self.links[number][1]):
                yield (number, *rest)

    def end(self, path):
        return self.links[path[-1]][1] if path else 0

    def excess(self, path):
        total = self.end_extra(self.end(path))
        for number in reversed(path):
            total = self.links[number][3] + total
        return total

    def spoken(self, path):
        return tuple(self.words[number] for number in path if self.words[number])

    def weight(self, index, scale):
        return math.exp(-scale * self.paths[index][1])

    def total(self, scale):
        return math.fsum(self.weight(i, scale) for i in range(len(self.paths)))

    def link_posteriors(self, scale):
        found = [[] for _ in self.links]
        for index, (path, _) in enumerate(self.paths):
            for number in path:
                found[number].append(self.weight(index, scale))
        return [math.fsum(weights) / self.total(scale) for weights in found]

    def nbest(self, n, scale):
        """Entries (words, cost, links of the best alignment, posterior)."""
        hypothesis = tuple(self.lattice["best"].tolist())
        entries = []
        for words, indices in self.by_words.items():
            excess, path = min((self.paths[i][1], self.paths[i][0]) for i in indices)
            posterior = math.fsum(self.weight(i, scale) for i in indices) / self.total(scale)
            if words == self.spoken(hypothesis):
                path, excess = hypothesis, self.excess(hypothesis)
            entries.append((words != self.spoken(hypothesis), excess, words, path, posterior))
        return [(w, self.lattice["total_cost"] + e, p, q) for _, e, w, p, q in sorted(entries)[:n]]

    def oracle(self, reference):
        return min(edit_distance(words, tuple(reference)) for words in self.by_words)

    def pinches(self):
        """Tokens that all paths pass through, the first among them, and the place after all ends."""
        through = set(range(self.tokens))
        for path, _ in self.paths:
            through &= {0} | {self.links[number][1] for number in path}
        return [*sorted(through), self.tokens]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for x in a:
        new = [row[0] + 1]
        for j, y in enumerate(b):
            new.append(min(row[j] + (x != y), row[j + 1] + 1, new[j] + 1))
        row = new
    return row[-1]


class MbrOracle:
    """Xu et al. 2011 as Kaldi's MbrDecode has it, part by part between pinches, with epsilons in the reference."""

    MARGIN = 2.0**-30

    def __init__(self, paths, scale):
        self.paths = paths
        forward = defaultdict(float)
        forward[0] = 1.0
        for source, target, _, slack in paths.links:
            forward[target] += forward[source] * math.exp(-scale * slack)
        self.into = defaultdict(list)  # of each token: (source, word, share)
        for number, (source, target, _, slack) in enumerate(paths.links):
            share = forward[source] * math.exp(-scale * slack) / forward[target]
            self.into[target].append((source, paths.words[number], share))
        ends = [t for t in range(paths.first_end, paths.tokens) if paths.end_extra(t) < math.inf]
        weights = {t: forward[t] * math.exp(-scale * paths.end_extra(t)) for t in ends}
        self.into[paths.tokens] = [(t, 0, weights[t] / sum(weights.values())) for t in ends]

    def parts(self):
        """Begin and end token of each part, and the words that the hypothesis writes there."""
        pinches = self.paths.pinches()
        for begin, end in pairwise(pinches):
            best = self.paths.lattice["best"].tolist()
            inside = [i for i in best if begin <= self.paths.links[i][0] < end]
            yield begin, end, [self.paths.words[i] for i in inside if self.paths.words[i]]

    def statistics(self, begin, end, reference):
        """gamma[slot][word], and the expected number of errors."""
        slots = [None, 0]
        for word in reference:
            slots += [word, 0]
        last = len(slots) - 1

        def loss(a, b):
            return float(a != b)

        distances = {begin: [0.0]}
        for q in range(1, last + 1):
            distances[begin].append(distances[begin][-1] + loss(0, slots[q]))

        def arc(source, word):
            d = distances[source]
            if word == 0:
                return d, None
            found, choices = [d[0] + 1.0], [2]
            for q in range(1, last + 1):
                ways = (d[q - 1] + loss(word, slots[q]), d[q] + 1.0, found[q - 1] + loss(0, slots[q]))
                found.append(min(ways))
                choices.append(next(k for k in (1, 2, 3) if ways[k - 1] <= min(ways) + self.MARGIN))
            return found, choices

        for token in range(begin + 1, end + 1):
            distances[token] = [0.0] * (last + 1)
            for source, word, share in self.into[token]:
                for q, value in enumerate(arc(source, word)[0]):
                    distances[token][q] += share * value
        masses = defaultdict(lambda: [0.0] * (last + 1))
        masses[end][last] = 1.0
        gamma = [defaultdict(float) for _ in slots]
        for token in range(end, begin, -1):
            for source, word, share in self.into[token]:
                choices = arc(source, word)[1]
                along = [share * mass for mass in masses[token]]
                for q in range(last, -1, -1):
                    if word == 0 or q == 0 or choices[q] == 2:
                        masses[source][q] += along[q]
                    elif choices[q] == 1:
                        gamma[q][word] += along[q]
                        masses[source][q - 1] += along[q]
                    else:
                        gamma[q][0] += along[q]
                        along[q - 1] += along[q]
        left = 0.0
        for q in range(last, 0, -1):
            left += masses[begin][q]
            gamma[q][0] += left
        return gamma, distances[end][last]

    def confidences(self):
        found = []
        for begin, end, reference in self.parts():
            gamma, _ = self.statistics(begin, end, reference)
            found += [gamma[2 * i + 2][word] for i, word in enumerate(reference)]
        return found

    def decode(self):
        """Words with confidences, expected errors, and the confusion network."""
        words, errors, sausage = [], 0.0, []
        for begin, end, reference in self.parts():
            for iteration in range(21):
                gamma, risk = self.statistics(begin, end, reference)
                current = [0]
                for word in reference:
                    current += [word, 0]
                best = [
                    max(sorted(slot), key=lambda w, slot=slot, now=now: (slot[w], w == now))
                    for slot, now in zip(gamma[1:], current, strict=True)
                ]
                if iteration == 20 or [w for w in best if w] == reference:
                    break
                reference = [w for w in best if w]
            words += [(word, gamma[2 * i + 2][word]) for i, word in enumerate(reference)]
            errors += risk
            for slot in gamma[1:]:
                rivals = sorted(((w, p) for w, p in slot.items() if p > 0), key=lambda pair: (-pair[1], pair[0]))
                if [w for w, _ in rivals] != [0]:
                    sausage.append(rivals)
        return words, errors, sausage
