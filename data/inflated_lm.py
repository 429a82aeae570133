"""Makes a language model of any size from a real one: for measurements, not for better words.

Every n-gram of the given model's highest order becomes a history of its own. It backs off for nothing to what the
n-gram led to before, and continues with so many words spread over the vocabulary, at their unigram's cost. The words
that a search asks for are seldom among these, so it does about what it does with the given model, and looks up in
tables of the wanted size.

    python -m data.inflated_lm 3gram.lm large.lm --ngrams 200000000
"""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam

BLOCK, WIDE, MOST_OFFSET, MOST_STEP = 32, 0x80000000, 255, 3  # of the layout, see cuda/shared/lm_view.hpp
AT_A_TIME = 1 << 22  # n-grams


def labels_of(columns: dict[str, npt.NDArray[Any]], bits: int) -> npt.NDArray[np.uint32]:
    """The label of every arc."""
    low = columns["labels.low"].astype(np.uint32)
    return low if bits == 0 else low | unpack(columns["labels.high"], bits, len(low)) << np.uint32(16)


def unpack(words: npt.NDArray[np.uint32], bits: int, count: int) -> npt.NDArray[np.uint32]:
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return ((words[:, None] >> shifts) & np.uint32((1 << bits) - 1)).reshape(-1)[:count]


def pack(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    each = 32 // bits
    padded = np.zeros(-(-len(values) // each) * each, np.uint32)
    padded[: len(values)] = values
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1).astype(np.uint32)


def blocks_of(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[blocks, BLOCK], the last one filled up with its last number."""
    missing = -len(numbers) % BLOCK
    return np.append(numbers, np.repeat(numbers[-1:], missing)).reshape(-1, BLOCK)


def put(blocks: npt.NDArray[np.int64], is_wide: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The bases of blocks, and the table of those that are wide."""
    bases = blocks[:, 0].copy()
    bases[is_wide] = WIDE | BLOCK * np.arange(int(is_wide.sum()))
    return bases.astype("<u4"), blocks[is_wide].reshape(-1).astype("<u4")


def numbers_of(bases: npt.NDArray[Any], wide: npt.NDArray[Any], within: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What `put` has put away: [blocks, BLOCK], from what each number adds to the base of its block."""
    is_wide = (bases & WIDE) != 0
    numbers = within + bases.astype(np.int64)[:, None]
    numbers[is_wide] = wide.reshape(-1, BLOCK)
    return numbers


def first_arcs(columns: dict[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.int64]:
    within = blocks_of(columns["first.offsets"].astype(np.int64))
    return numbers_of(columns["first.bases"], columns["first.wide"], within).reshape(-1)[:count]


def backoff_states(columns: dict[str, npt.NDArray[Any]], count: int) -> npt.NDArray[np.int64]:
    steps = columns["backoff.steps"][:, None] >> np.arange(0, 2 * BLOCK, 2, dtype=np.uint64) & np.uint64(MOST_STEP)
    within = np.cumsum(steps.astype(np.int64), axis=1)
    return numbers_of(columns["backoff.bases"], columns["backoff.wide"], within).reshape(-1)[:count]


def index_of(first: npt.NDArray[np.int64], backoffs: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """The columns of first arcs, the end included, and of back-off states."""
    blocks = blocks_of(first)
    is_wide = blocks[:, -1] - blocks[:, 0] > MOST_OFFSET
    offsets = np.where(is_wide[:, None], 0, blocks - blocks[:, :1]).reshape(-1)[: len(first)]
    bases, wide = put(blocks, is_wide)
    columns = {"first.offsets": offsets.astype("u1"), "first.bases": bases, "first.wide": wide}
    blocks = blocks_of(backoffs)
    steps = np.diff(blocks, axis=1, prepend=blocks[:, :1])
    is_wide = ((steps < 0) | (steps > MOST_STEP)).any(axis=1)
    steps[is_wide] = 0
    packed = np.bitwise_or.reduce(steps.astype(np.uint64) << np.arange(0, 2 * BLOCK, 2, dtype=np.uint64), axis=1)
    bases, wide = put(blocks, is_wide)
    return columns | {"backoff.steps": packed.astype("<u8"), "backoff.bases": bases, "backoff.wide": wide}


def packed(values: npt.NDArray[Any], bits: int, workers: ThreadPoolExecutor) -> npt.NDArray[np.uint32]:
    """What `pack` makes of bytes, by several threads."""
    each = 32 // bits
    words = np.empty(-(-len(values) // each), "<u4")

    def one(begin: int) -> None:
        part = pack(values[begin : begin + AT_A_TIME].astype(np.uint32), bits)
        words[begin // each : begin // each + len(part)] = part

    list(workers.map(one, range(0, len(values), AT_A_TIME)))
    return words


def inflate(model: "arcbeam.LanguageModel", ngrams: int, seed: int = 0) -> "arcbeam.LanguageModel":
    """A model of about so many n-grams, those of the given model included, which is of order 2 at least.

    All cores fill it, in 3 seconds of processor time for 100 million; it takes 11.25 bytes an n-gram while it is made.

    Raises
    ------
    ValueError
        More n-grams than the layout numbers, 2^31.
    """
    if ngrams >= WIDE:
        raise ValueError(f"ngrams: expected less than {WIDE:,}, got {ngrams:,}")
    columns, about = model.columns, dict(model.about)
    bits, words = about["high_bits"], about["num_labels"] - 1
    labels = labels_of(columns, bits)
    states, arcs = model.num_states, columns["arcs"].copy()
    first, backoffs = first_arcs(columns, states + 1), backoff_states(columns, states)
    top = np.arange(first[int(columns["lengths"][-2])], first[states])  # arcs of the longest histories
    top = top[labels[top] <= words]  # but for the end of a sentence
    top = top[np.argsort(arcs["next_state"][top], kind="stable")]
    each = max(1, min((ngrams - len(arcs)) // len(top), words // 2))
    behind = arcs["next_state"][top].astype(np.int64)
    arcs["next_state"][top] = states + np.arange(len(top), dtype=np.uint32)
    count = each * len(top)
    low, all_arcs = np.empty(len(arcs) + count, "<u2"), np.empty(len(arcs) + count, arcs.dtype)
    high = np.empty(len(low) if bits else 0, "u1" if bits <= 8 else "<u2")
    low[: len(arcs)], all_arcs[: len(arcs)] = columns["labels.low"], arcs
    if bits:
        high[: len(arcs)] = labels >> np.uint32(16)
    stride = words // each
    steps = np.arange(each, dtype=np.uint32) * np.uint32(stride)
    root = arcs[: words + 1].view("<u8").copy()  # state 0 has an arc for every label, from 1 on
    targets, histories = all_arcs.view("<u8"), max(1, AT_A_TIME // each)

    def fill(begin: int) -> None:
        some = min(histories, len(top) - begin)
        random = np.random.default_rng((seed, begin))
        chosen = (random.integers(0, stride, (some, each), dtype=np.uint32) + steps).reshape(-1)  # label - 1
        into = slice(len(arcs) + begin * each, len(arcs) + (begin + some) * each)
        np.take(root, chosen, out=targets[into], mode="clip")
        chosen += np.uint32(1)
        low[into] = chosen.astype("<u2")
        if bits:
            high[into] = chosen >> np.uint32(16)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        list(workers.map(fill, range(0, len(top), histories)))
        planes = packed(high, bits, workers) if bits else columns["labels.high"]
    ends = first[-1] + each * np.arange(1, len(top) + 1, dtype=np.int64)
    made = dict(columns) | {
        "labels.low": low,
        "labels.high": planes,
        **index_of(np.concatenate([first, ends]), np.concatenate([backoffs, behind])),
        "arcs": all_arcs,
        "backoff.weights": np.concatenate([columns["backoff.weights"], np.zeros(len(top), "<f4")]),
        "lengths": np.append(columns["lengths"], states + len(top)).astype("<u4"),
    }
    about |= {"ngrams": [*about["ngrams"], count], "notes": [], "digest": f"{model.digest}-{ngrams}-{seed}"}
    return arcbeam.LanguageModel(made, about)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="a model of arcbeam build-lm")
    parser.add_argument("target")
    parser.add_argument("--ngrams", type=int, default=200_000_000, help="about (200 million)")
    args = parser.parse_args(argv)
    made = inflate(arcbeam.LanguageModel.load(args.source), args.ngrams)
    made.save(args.target)
    print(made.info())


if __name__ == "__main__":
    main()
