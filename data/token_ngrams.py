"""An n-gram model of tokens, counted from texts, as an ARPA file: for measuring what fusing one costs.

Half a count is taken off each n-gram, and interpolated with the shorter ones (absolute discounting). Of each n-gram the
history and the end are n-grams, too, as engines expect.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

DISCOUNT = 0.5
BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
Ngram = tuple[str, ...]


def word(token: int) -> str:
    return f"t{token}"


def write_arpa(
    path: Path, texts: Iterable[Sequence[int]], order: int, tokens: int, name: Callable[[int], str] = word
) -> list[int]:
    """Writes the model of all n-grams in the texts and returns their numbers, unigrams first.

    tokens : how many there are; the unigrams have all of them
    name : what a token is called
    """
    counts: list[Counter[Ngram]] = [Counter() for _ in range(order)]
    for text in texts:
        words = [BEGIN, *map(name, text), END]
        for n in range(1, order + 1):
            counts[n - 1].update(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    del counts[0][(BEGIN,)]
    counts[0].update((name(token),) for token in range(tokens))
    counts[0][(UNKNOWN,)] = 1
    shares: dict[Ngram, float] = {}  # probabilities
    left: dict[Ngram, float] = {}  # what a history leaves to shorter ones
    for n, table in enumerate(counts):
        after: Counter[Ngram] = Counter()
        kinds: Counter[Ngram] = Counter()
        for ngram, count in table.items():
            after[ngram[:-1]] += count
            kinds[ngram[:-1]] += 1
        left |= {history: DISCOUNT * kinds[history] / total for history, total in after.items() if n}
        for ngram, count in table.items():
            history = ngram[:-1]
            longer = (count - DISCOUNT) / after[history] + left[history] * shares[ngram[1:]] if n else None
            shares[ngram] = count / after[history] if longer is None else longer
    numbers = [len(table) for table in counts]
    numbers[0] += 1
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {n}={number}\n" for n, number in enumerate(numbers, 1))
        for n, table in enumerate(counts):
            file.write(f"\n\\{n + 1}-grams:\n")
            if n == 0:
                file.write(f"-99\t{BEGIN}\t{math.log10(left[(BEGIN,)]):.6f}\n")
            for ngram in sorted(table):
                line = f"{math.log10(shares[ngram]):.6f}\t{' '.join(ngram)}"
                file.write(line + (f"\t{math.log10(left[ngram]):.6f}\n" if ngram in left else "\n"))
        file.write("\n\\end\\\n")
    partial.replace(path)
    return numbers
