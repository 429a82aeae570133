"""Makes an ARPA file of many more n-grams out of a 3-gram's, which says the same: for KenLM, where size is measured.

For a trigram u v w of the given model, of the trigrams v w x there are, each x makes a 4-gram u v w x with the
probability of v w x, and u v w gets no back-off weight. So every sentence scores what it did, with longer histories and
a file of the wanted size. Each lower part of a 4-gram is there, as KenLM's hash tables want it.

    python -m data.inflated_arpa 3gram.arpa.xz large.arpa --ngrams 20000000
"""

import argparse
import lzma
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

# What follows two words, word and log10 each; set here for the processes that are forked.
_followers: dict[str, list[tuple[str, str]]] = {}


def sections(source: str | Path) -> list[list[str]]:
    """The lines of the n-grams of each order, without line ends."""
    opener = lzma.open if str(source).endswith(".xz") else open
    found: list[list[str]] = []
    is_inside = False
    with opener(source, "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("\\") and line.rstrip().endswith("-grams:"):
                found.append([])
                is_inside = True
            elif not line.strip():
                is_inside = False
            elif is_inside:
                found[-1].append(line.rstrip("\n"))
    return found


def most_for(counts: Sequence[tuple[int, int]], ngrams: int) -> int:
    """How many followers a history may take at most, so that all together make about so many n-grams.

    counts : number of followers, and how many histories have so many
    """
    low, high = 1, max((n for n, _ in counts), default=1)
    while low < high:
        middle = (low + high) // 2
        if sum(min(n, middle) * times for n, times in counts) < ngrams:
            low = middle + 1
        else:
            high = middle
    return low


def _continued(part: tuple[list[str], int]) -> tuple[str, int]:
    """The 4-grams of some trigrams, and how many they are."""
    trigrams, most = part
    lines = []
    for line in trigrams:
        words = line.split("\t")[1]
        for word, log in _followers.get(words.split(" ", 1)[1], ())[:most]:
            lines.append(f"{log}\t{words} {word}\n")
    return "".join(lines), len(lines)


def inflate(source: str | Path, target: str | Path, ngrams: int) -> list[int]:
    """Writes the ARPA file of about so many n-grams, all that there can be at most; returns how many of each order.

    Raises ValueError for a model that is not a 3-gram.
    """
    orders = sections(source)
    if len(orders) != 3:
        raise ValueError(f"{source}: expected a 3-gram, got a model of order {len(orders)}")
    followers: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in orders[2]:
        log, words = line.split("\t")[:2]
        history, _, word = words.rpartition(" ")
        followers[history].append((word, log))
    times: defaultdict[int, int] = defaultdict(int)
    for line in orders[2]:
        times[len(followers.get(line.split("\t")[1].split(" ", 1)[1], ()))] += 1
    most = most_for(list(times.items()), max(0, ngrams - sum(map(len, orders))))
    _followers.clear()
    _followers.update(followers)
    cores = len(os.sched_getaffinity(0))
    size = -(-len(orders[2]) // (8 * cores))
    parts = [(orders[2][at : at + size], most) for at in range(0, len(orders[2]), size)]
    partial = Path(target).with_suffix(".partial")
    with multiprocessing.get_context("fork").Pool(cores) as pool, partial.open("w", encoding="utf-8") as out:
        made = sum(min(n, most) * count for n, count in times.items())
        counts = [*map(len, orders), made]
        out.write("\\data\\\n" + "".join(f"ngram {n}={count}\n" for n, count in enumerate(counts, 1)))
        for order, lines in enumerate(orders, 1):
            out.write(f"\n\\{order}-grams:\n" + "".join(f"{line}\n" if order < 3 else f"{line}\t0\n" for line in lines))
        out.write("\n\\4-grams:\n")
        written = 0
        for text, count in pool.imap(_continued, parts):
            out.write(text)
            written += count
        out.write("\n\\end\\\n")
    _followers.clear()
    if written != made:
        raise AssertionError(f"{written} 4-grams were written, and {made} counted")
    partial.replace(target)
    return counts


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="a 3-gram, ARPA, plain or .xz")
    parser.add_argument("target", help="ARPA to write, plain")
    parser.add_argument("--ngrams", type=int, default=20_000_000, help="about (20 million)")
    args = parser.parse_args(argv)
    print(" / ".join(f"{n:,}" for n in inflate(args.source, args.target, args.ngrams)), "n-grams")


if __name__ == "__main__":
    main()
