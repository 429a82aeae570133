"""Prunes a 3-gram in ARPA form by weighted differences (Seymore and Rosenfeld 1996), for graphs of a wanted size.

An n-gram goes if P(context) P(word | context) (log P(word | context) - log of what backing off gives) is below a
threshold; contexts of what stays are kept, and back-off weights are made anew so that probabilities sum to one.

    python data/arpa_prune.py books.3gram.arpa.xz pruned.arpa --threshold 1e-7
"""

import argparse
import lzma
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

LN10 = float(np.log(10.0))
NEVER = -99.0  # log10 that some tools write for <s>, others write 0
SENTENCE_START = -1.2  # log10 of how often a token is <s>, with sentences of 15 words


@dataclass
class Ngrams:
    """All n-grams of one order, sorted by their words.

    words : int64 [n, order]
    logp, backoff : float64 [n], log10
    """

    words: npt.NDArray[np.int64]
    logp: npt.NDArray[np.float64]
    backoff: npt.NDArray[np.float64]

    def only(self, kept: npt.NDArray[np.bool_]) -> "Ngrams":
        return Ngrams(self.words[kept], self.logp[kept], self.backoff[kept])


def keys(words: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """One number for each row of at most three word ids; ascending where the rows are sorted."""
    key = np.zeros(len(words), np.int64)
    for column in words.T:
        key = key * size + column
    return key


def find(wanted: npt.NDArray[np.int64], among: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions of keys in a sorted array, -1 where absent."""
    if not len(among):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return np.where(among[at] == wanted, at, -1)


def read(path: str | Path) -> tuple[list[str], list[Ngrams]]:
    """Words and the n-grams of orders 1, 2, 3."""
    opener = lzma.open if str(path).endswith(".xz") else open
    names: list[str] = []
    ids: dict[str, int] = {}
    orders: list[Ngrams] = []
    with opener(path, "rt", encoding="utf-8") as file:
        lines = iter(file)
        for order in (1, 2, 3):
            while f"\\{order}-grams:" not in next(lines):
                pass
            rows, logp, backoff = [], [], []
            for line in lines:
                fields = line.split()
                if not fields:
                    break
                logp.append(float(fields[0]))
                said = fields[1 : order + 1]
                if order == 1:
                    ids[said[0]] = len(names)
                    names.append(said[0])
                rows.append([ids[word] for word in said])
                backoff.append(float(fields[order + 1]) if len(fields) > order + 1 else 0.0)
            words = np.array(rows, np.int64).reshape(-1, order)
            sort = np.argsort(keys(words, len(names)), kind="stable")
            orders.append(Ngrams(words[sort], np.array(logp)[sort], np.array(backoff)[sort]))
    return names, orders


class Model:
    """Look-ups in a 3-gram."""

    def __init__(self, orders: Sequence[Ngrams]) -> None:
        self.orders = list(orders)
        self.size = len(orders[0].words)
        self.keys = [keys(n.words, self.size) for n in orders]

    def logp(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """log10 P(last word | those before), backing off where the n-gram is absent."""
        order = words.shape[1]
        at = find(keys(words, self.size), self.keys[order - 1])
        found = np.zeros(len(words))
        found[at >= 0] = self.orders[order - 1].logp[at[at >= 0]]
        if order == 1:
            return found
        absent = np.flatnonzero(at < 0)
        found[absent] = self.backoff(words[absent, :-1]) + self.logp(words[absent, 1:])
        return found

    def backoff(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """log10 back-off weight of a context; 0 where the context is absent."""
        at = find(keys(words, self.size), self.keys[words.shape[1] - 1])
        found = np.zeros(len(words))
        found[at >= 0] = self.orders[words.shape[1] - 1].backoff[at[at >= 0]]
        return found

    def gains(self, order: int) -> npt.NDArray[np.float64]:
        """What each n-gram of an order is worth: weighted difference to backing off, natural log."""
        grams = self.orders[order - 1]
        first = self.orders[0].logp[grams.words[:, 0]]
        context = np.where((first <= NEVER) | (first >= 0.0), SENTENCE_START, first)
        for end in range(2, order):
            context += self.logp(grams.words[:, :end])
        backed = self.backoff(grams.words[:, :-1]) + self.logp(grams.words[:, 1:])
        return 10.0 ** (context + grams.logp) * (grams.logp - backed) * LN10

    def backed_off(self, order: int) -> npt.NDArray[np.float64]:
        """Probability of the last word of each n-gram, had its context backed off."""
        return 10.0 ** self.logp(self.orders[order - 1].words[:, 1:])

    def contexts(self, order: int, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the contexts of n-grams stand among those of `order` words."""
        return find(keys(words[:, :-1], self.size), self.keys[order - 1])


def prune(orders: Sequence[Ngrams], threshold: float) -> list[Ngrams]:
    """The n-grams that stay, with new back-off weights."""
    full = Model(orders)
    keep3 = full.gains(3) >= threshold
    keep2 = full.gains(2) >= threshold
    keep2[full.contexts(2, orders[2].words[keep3])] = True
    pruned = Model([orders[0].only(np.ones(full.size, bool)), orders[1].only(keep2), orders[2].only(keep3)])
    for order, kept in ((1, keep2), (2, keep3)):
        renew_backoff(full, pruned, order, ~kept)
    return pruned.orders


def renew_backoff(full: Model, pruned: Model, order: int, gone: npt.NDArray[np.bool_]) -> None:
    """Back-off weights of contexts of `order` words: what is left for other words, over what backing off gives them.

    What was left before comes from the old weight: one minus the sum of the rest would be lost in rounding.
    """
    upper, size = full.orders[order], len(full.orders[order - 1].words)
    context = full.contexts(order, upper.words)
    share = 1.0 - np.bincount(context, full.backed_off(order + 1), size)
    left = 10.0 ** full.orders[order - 1].backoff * np.maximum(share, 1e-9)
    left += np.bincount(context[gone], 10.0 ** upper.logp[gone], size)

    lower = pruned.orders[order - 1]
    left = left[find(pruned.keys[order - 1], full.keys[order - 1])]
    context = pruned.contexts(order, pruned.orders[order].words)
    backed = np.bincount(context, pruned.backed_off(order + 1), len(left))
    lower.backoff = np.where(
        np.bincount(context, minlength=len(left)) > 0, np.log10(left / np.maximum(1 - backed, 1e-9)), 0
    )


def lines(names: Sequence[str], orders: Sequence[Ngrams]) -> Iterator[str]:
    yield "\\data\\\n"
    for order, grams in enumerate(orders, 1):
        yield f"ngram {order}={len(grams.words)}\n"
    for order, grams in enumerate(orders, 1):
        yield f"\n\\{order}-grams:\n"
        rows = zip(grams.words.tolist(), grams.logp.tolist(), grams.backoff.tolist(), strict=True)
        for words, logp, backoff in rows:
            tail = "" if order == len(orders) else f"\t{backoff:.6f}"
            yield f"{logp:.6f}\t{' '.join(names[w] for w in words)}{tail}\n"
    yield "\n\\end\\\n"


def prune_file(source: str | Path, target: str | Path, threshold: float) -> list[int]:
    """Prunes an ARPA file; returns the number of n-grams of each order that stay."""
    names, orders = read(source)
    kept = prune(orders, threshold)
    partial = Path(target).with_suffix(f".{os.getpid()}.partial")  # another process may make the same
    with partial.open("w", encoding="utf-8") as file:
        file.writelines(lines(names, kept))
    partial.replace(target)
    return [len(grams.words) for grams in kept]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="3-gram, ARPA, plain or .xz")
    parser.add_argument("target", help="ARPA to write, plain")
    parser.add_argument("--threshold", type=float, default=1e-7, help="smallest gain that stays, natural log (1e-7)")
    args = parser.parse_args(argv)
    print(" / ".join(f"{n:,}" for n in prune_file(args.source, args.target, args.threshold)), "n-grams")


if __name__ == "__main__":
    main()
