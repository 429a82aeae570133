"""Random back-off models: written as ARPA files, and scored by a dictionary."""

import random


class NGrams:
    """A model over `words`, with <unk>, <s> and </s>; all values are multiples of 1/64, so that sums are exact.

    `labels` gives the word of a label, None for a label that the model does not know.
    """

    def __init__(self, words, order, seed, positive_backoff=False):
        pick = random.Random(seed)
        top = 64 if positive_backoff else 0
        self.words = list(words)
        self.order = order
        self.prob: dict = {}
        self.backoff: dict = {}
        for word in ["<unk>", "<s>", "</s>", *self.words]:
            self._add((word,), pick, top)
        self.prob["<s>",] = -99.0
        for n in range(2, order + 1):
            shorter = [g for g in self.prob if len(g) == n - 1]
            for left in shorter:
                for word in ["</s>", *self.words]:
                    gram = (*left, word)
                    if left[-1] == "</s>" or "<unk>" in gram or gram[1:] not in self.prob:
                        continue
                    if pick.random() < 0.5 or gram == ("<s>", "</s>"):  # KenLM wants at least one bigram
                        self._add(gram, pick, top)
        longest = max(map(len, self.prob))
        self.backoff = {g: b for g, b in self.backoff.items() if len(g) < longest and g[-1] != "</s>"}

    def _add(self, gram, pick, top):
        self.prob[gram] = -pick.randrange(1, 256) / 64
        self.backoff[gram] = pick.randrange(-64, top + 1) / 64

    def write(self, path):
        with open(path, "w", encoding="utf-8") as out:
            sizes = {n: [g for g in self.prob if len(g) == n] for n in range(1, self.order + 1)}
            sizes = {n: grams for n, grams in sizes.items() if grams}
            out.write("\\data\\\n" + "".join(f"ngram {n}={len(grams)}\n" for n, grams in sizes.items()))
            for n, grams in sizes.items():
                out.write(f"\n\\{n}-grams:\n")
                for gram in grams:
                    backoff = f"\t{self.backoff[gram]}" if gram in self.backoff else ""
                    out.write(f"{self.prob[gram]}\t{' '.join(gram)}{backoff}\n")
            out.write("\n\\end\\\n")
        return path

    def word_score(self, context, word):
        """log10 p(word | context), context the words before, <s> included."""
        known = word if (word,) in self.prob else "<unk>"
        context = tuple(w if (w,) in self.prob else "<unk>" for w in context)
        context = context[max(0, len(context) - self.order + 1) :]
        total = 0.0
        while (*context, known) not in self.prob:
            total += self.backoff.get(context, 0.0)
            context = context[1:]
        return total + self.prob[(*context, known)]


class Labelled:
    """An n-gram model by labels, as the oracle takes it; `names[label]` is the label's word."""

    def __init__(self, model, names):
        self.model = model
        self.names = names

    def _context(self, history):
        return ("<s>", *(self.names[label] for label in history))

    def first(self, label):
        return self.score((), label)

    def score(self, history, label):
        return self.model.word_score(self._context(history), self.names[label])

    def finish(self, history):
        return self.model.word_score(self._context(history), "</s>")
