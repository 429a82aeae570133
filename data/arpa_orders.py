"""Cuts an ARPA file down to its lower orders: a bigram out of a 3-gram, for graphs that know less.

What remains is a model of its own where each order sums to one with its back-offs, as KenLM's estimator makes them.

    python -m data.arpa_orders 3gram.arpa bigram.arpa --order 2
"""

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from arcbeam.files.writing import replacing_text


def lines(source: Iterable[str], order: int) -> Iterator[str]:
    """The lines of an ARPA file without the n-grams of higher orders, and without the back-off weights of the last."""
    section = 0
    for line in source:
        if found := re.fullmatch(r"\\(\d+)-grams:", line.rstrip()):
            section = int(found[1])
        if (count := re.match(r"ngram (\d+)\s*=", line)) and int(count[1]) > order:
            continue
        if section > order:
            if line.startswith("\\end\\"):
                yield line
            continue
        if section == order and line[:1] not in ("\\", "\n", ""):
            fields = line.rstrip("\n").split()
            line = f"{fields[0]}\t{' '.join(fields[1 : order + 1])}\n"
        yield line


def cut_file(source: str | Path, target: str | Path, order: int) -> None:
    """Writes the lower orders of a plain ARPA file. Raises ValueError for an order that is not below the source's."""
    with Path(source).open(encoding="utf-8") as file:
        head = [line for _, line in zip(range(20), file, strict=False) if line.startswith("ngram ")]
    if not 1 <= order < len(head):
        raise ValueError(f"{source} has {len(head)} orders: expected one of 1 to {len(head) - 1}, got {order}")
    with Path(source).open(encoding="utf-8") as file, replacing_text(target) as out:
        out.writelines(lines(file, order))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="ARPA, plain")
    parser.add_argument("target", help="ARPA to write")
    parser.add_argument("--order", type=int, default=2, help="highest order that stays (2)")
    args = parser.parse_args(argv)
    cut_file(args.source, args.target, args.order)


if __name__ == "__main__":
    main()
