"""An n-gram model of tokens, counted from texts, as an ARPA file.

Half a count is taken off each n-gram, and interpolated with the shorter ones (absolute discounting). Of each n-gram the
history and the end are n-grams, too, as engines expect. While it is counted, an n-gram is one integer whose digits are
its tokens, so that a hundred million of them are sorted in seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arcbeam.files.writing import replacing_text

DISCOUNT = 0.5
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
Grams = npt.NDArray[np.int64]


def word(token: int) -> str:
    return f"t{token}"


def write_arpa(
    path: Path, texts: Iterable[Sequence[int]], order: int, tokens: int, name: Callable[[int], str] = word,
    prune: Sequence[int] = (),
) -> list[int]:  # fmt: skip
    """Writes the model of all n-grams in the texts and returns their numbers, unigrams first.

    tokens : how many there are; the unigrams have all of them
    name : what a token is called
    prune : up to which count n-grams of order 2, 3, ... are left out; a limit is at least the one before, and further
        orders have the last one; default: 0

    Raises ValueError where an integer cannot tell all n-grams apart, where limits fall, or where an order is left with
    no n-grams.
    """
    begin, end, unknown, base = tokens, tokens + 1, tokens + 2, tokens + 3
    limits = [0, *prune, *[prune[-1] if prune else 0] * order][:order]
    if base**order >= 2**63 or limits != sorted(limits):
        raise ValueError(f"expected {base:,} ** order below 2 ** 63 and limits that rise, got {order} and {limits}")
    text = np.concatenate([np.array([begin, *each, end], np.int64) for each in texts])
    counts = np.bincount(text, minlength=base)
    counts[:tokens] += 1
    counts[begin], counts[unknown] = 0, 1
    grams, shares = [np.arange(base)], [counts / counts.sum()]
    left: list[tuple[Grams, npt.NDArray[np.float64]]] = []  # histories, and what each leaves to shorter ones
    key = text
    for n, limit in enumerate(limits[1:], 1):
        goes_on = (key[:-1] >= 0) & (key[:-1] % base != end)
        key = np.where(goes_on, key[:-1] * base + text[n:], -1)
        found, counts = np.unique(key[goes_on], return_counts=True)
        histories, which = np.unique(found // base, return_inverse=True)
        total, kept = np.bincount(which, counts), counts > limit
        taken = np.bincount(which[kept], counts[kept] - DISCOUNT, len(histories))
        left.append((histories, 1 - taken / total))
        found, counts, which = found[kept], counts[kept], which[kept]
        if not len(found):
            raise ValueError(f"no {n + 1}-gram occurs more than {limit} times in the texts")
        shorter = shares[-1][np.searchsorted(grams[-1], found % base**n)]
        shares.append((counts - DISCOUNT) / total[which] + left[-1][1][which] * shorter)
        grams.append(found)
    names = [*map(name, range(tokens)), BEGIN, END, UNKNOWN]
    with replacing_text(path) as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {n}={len(each)}\n" for n, each in enumerate(grams, 1))
        for n, each in enumerate(grams):
            file.write(f"\n\\{n + 1}-grams:\n")
            back = np.full(len(each), np.nan)
            if n < len(left):
                at = np.searchsorted(each, left[n][0]).clip(max=len(each) - 1)
                there = each[at] == left[n][0]
                back[at[there]] = left[n][1][there]
            file.writelines(_lines(each, n + 1, base, names, shares[n], back))
        file.write("\n\\end\\\n")
    return list(map(len, grams))


def _lines(
    grams: Grams, order: int, base: int, names: Sequence[str], shares: npt.NDArray[np.float64],
    back: npt.NDArray[np.float64],
) -> Iterable[str]:  # fmt: skip
    """The lines of a section; a share of 0 is that of <s>, and a back-off of nan is none."""
    columns = [[names[digit] for digit in (grams // base**place % base).tolist()] for place in reversed(range(order))]
    with np.errstate(divide="ignore"):
        logs, backs = np.log10(shares).tolist(), np.log10(back).tolist()
    for *words, log, after in zip(*columns, logs, backs, strict=True):
        line = f"{max(log, -99.0):.6f}\t{' '.join(words)}"
        yield line + (f"\t{after:.6f}\n" if after == after else "\n")
