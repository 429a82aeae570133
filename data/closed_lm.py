"""Makes a language model of any size from a real 3-gram, which KenLM can have, too: for measurements of size.

Every word gets so many more followers, spread over the vocabulary, and every two words that follow one another continue
with those of the second, at what backing off costs. So each n-gram's parts are n-grams, as KenLM's hash tables want it,
and every sentence scores what it did, but for rounding. :func:`write_kenlm` puts the same n-grams into KenLM's file:
its library makes header, words and unigrams, and the two tables of longer n-grams are filled here, on all cores,
for it would read a billion n-grams from text for 8 minutes.

    python -m data.closed_lm 3gram.lm large.lm --ngrams 100000000 --arpa 3gram.arpa.xz --kenlm large.probing
"""

import argparse
import ctypes
import hashlib
import itertools
import lzma
import mmap
import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.lm.kenlm import kenlm_libraries
from data.lm_columns import WIDE, backoff_states, first_arcs, index_of, labels_of, packed

SOURCE = Path(__file__).with_suffix(".cpp")
MULTIPLIER = 1.5  # of KenLM's tables: places for each n-gram
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Pairs:
    """What KenLM's file needs beside the model's columns: n-grams of two words, and the histories of two words."""

    first: Array  # histories' words: labels; 0 is <s>
    second: Array
    cost: Array
    backoff: Array
    is_history: Array
    is_end: Array  # whether a longer n-gram ends with it
    of_state: Array  # [states of two words], the pair
    arc_first: Array  # [states of two words + 1]
    high: Array  # of all arcs, a byte each


def cores() -> int:
    return len(os.sched_getaffinity(0))


def library() -> ctypes.CDLL:
    """The loops in C++, compiled on first use."""
    shared = SOURCE.parents[1] / "cuda"
    made = hashlib.sha256(SOURCE.read_bytes() + (shared / "shared" / "lm_view.hpp").read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f"closed_lm-{os.getuid()}-{made}.so")
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        flags = ["-std=c++17", "-O3", "-shared", "-fPIC", "-pthread", f"-I{shared}"]
        subprocess.run([os.environ.get("CXX", "g++"), *flags, SOURCE, "-o", partial], check=True)
        partial.replace(path)
    return ctypes.CDLL(str(path))


def call(function: str, *arguments: int | Array) -> None:
    """Calls a function of :func:`library`; of arrays it gets the addresses."""
    given: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            given.append(ctypes.c_void_p(argument.ctypes.data))
        else:
            given.append(ctypes.c_uint64(argument))
    getattr(library(), function)(*given)


def most_followers(words: int, pairs: int, ngrams: int) -> int:
    """How many followers each of so many words gets, so that there are about so many n-grams."""
    low, high = 1, words // 2
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (pairs + words * middle) * (middle + 1) <= ngrams else (low, middle - 1)
    return low


def close(model: "arcbeam.LanguageModel", ngrams: int, seed: int = 0) -> tuple["arcbeam.LanguageModel", Pairs]:
    """A model of about so many n-grams, those of the given 3-gram included.

    Raises
    ------
    ValueError
        More n-grams than the layout numbers, 2^31; the model is no 3-gram, or not every n-gram's end is an n-gram.
    """
    if ngrams >= WIDE:
        raise ValueError(f"ngrams: expected less than {WIDE:,}, got {ngrams:,}")
    if model.order != 3:
        raise ValueError(f"expected a 3-gram, got a model of order {model.order}")
    columns, about = model.columns, dict(model.about)
    bits, words = about["high_bits"], about["num_labels"] - 1
    labels = labels_of(columns, bits).astype(np.int64)
    states = model.num_states
    first, backoffs = first_arcs(columns, states + 1), backoff_states(columns, states)
    arcs, bows = columns["arcs"], columns["backoff.weights"]
    one, two = int(columns["lengths"][1]), int(columns["lengths"][2])  # where histories of a word begin, and of two

    # Histories of one word: those there are, then those of all other words but <unk>. `single` is the state of a label.
    follows = np.setdiff1d(np.arange(1, words + 1), [model.unknown_label])
    root = arcs[: words + 1]
    single = np.zeros(words + 2, np.int64)
    single[1 : words + 2] = np.where(root["next_state"] >= one, root["next_state"], 0)
    new = follows[single[follows] == 0]
    single[new] = two + np.arange(len(new))
    ends_of_one = two + len(new)
    word_of = np.zeros(ends_of_one, np.int64)
    word_of[single[follows]] = follows
    bow_of_one = np.zeros(ends_of_one, np.float32)
    bow_of_one[:two] = bows[:two]

    # Pairs: those there are, and for each word `each` followers, one of every stride of the vocabulary.
    base = slice(int(first[one]), int(first[two]))
    base_from = np.repeat(np.arange(one, two), np.diff(first[one : two + 1]))
    each = most_followers(ends_of_one - one, base.stop - base.start, ngrams - len(arcs))
    stride = len(follows) // each
    random = np.random.default_rng((seed, each))
    chosen = random.integers(0, stride, (ends_of_one - one, each)) + stride * np.arange(each)
    chosen = follows[chosen]  # [histories of a word, each], ascending
    shift = int(words + 2).bit_length()
    base_keys = base_from << shift | labels[base]
    chosen_keys = np.arange(one, ends_of_one)[:, None] << shift | chosen
    keys = np.sort(np.concatenate([base_keys, chosen_keys.reshape(-1)]))
    keys = keys[np.r_[True, np.diff(keys) != 0]]
    at_base, at_chosen = np.searchsorted(keys, base_keys), np.searchsorted(keys, chosen_keys)
    before, label = keys >> shift, keys & ((1 << shift) - 1)
    cost = bow_of_one[before] + root["weight"][label - 1]
    cost[at_base] = arcs["weight"][base]
    was = np.zeros(len(keys), np.int64)  # the state of two words that it was
    was[at_base] = np.where(arcs["next_state"][base] >= two, arcs["next_state"][base], 0)

    # Histories of two words, by the second and then the first.
    history = np.flatnonzero(single[label] != 0)
    history = history[np.lexsort((before[history], single[label[history]]))]
    state_of = np.zeros(len(keys), np.int64)
    state_of[history] = ends_of_one + np.arange(len(history))
    backoff = np.zeros(len(keys), np.float32)
    backoff[was > 0] = bows[was[was > 0]]
    given = was[history]
    degree = np.where(given > 0, first[given + 1] - first[given], each)
    row = np.where(given > 0, -1 - given, single[label[history]] - one)

    def led_to(old: Array, source: Array, word: Array) -> Array:
        """The state after a word that followed a history whose last word has the state `source`."""
        key = source << shift | word
        found = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        if not (keys[found] == key).all():
            raise ValueError("expected a model that has the end of each of its n-grams")
        led = state_of[found]
        is_end[found] = True
        return np.where(led != 0, led, np.where(single[word] != 0, single[word], old))

    is_end = np.zeros(len(keys), bool)
    top = slice(int(first[two]), int(first[states]))
    top_arcs = arcs[top].copy()
    top_arcs["next_state"] = led_to(
        top_arcs["next_state"], np.repeat(backoffs[two:states], np.diff(first[two : states + 1])), labels[top]
    )
    is_end[at_chosen[np.flatnonzero(np.bincount(row[row >= 0]))].reshape(-1)] = True
    rows = np.empty(chosen.shape, arcs.dtype)
    rows["next_state"], rows["weight"] = state_of[at_chosen], cost[at_chosen]
    pair_arcs = np.empty(len(keys), arcs.dtype)
    pair_arcs["next_state"] = np.where(state_of != 0, state_of, np.where(label <= words, single[label], 0))
    pair_arcs["weight"] = cost
    new_root = root.copy()
    new_root["next_state"] = single[1 : words + 2]
    low_part = np.concatenate([labels[: words + 1], label]).astype(np.uint32)
    count = len(low_part) + int(degree.sum())
    low, high, all_arcs = np.empty(count, "<u2"), np.empty(count, "u1"), np.empty(count, arcs.dtype)
    low[: len(low_part)], high[: len(low_part)] = low_part, low_part >> np.uint32(16)
    all_arcs[: words + 1], all_arcs[words + 1 : len(low_part)] = new_root, pair_arcs
    arc_first = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64) + len(low_part)
    call(
        "closed_lm_arcs", len(history), arc_first, row.astype(np.int64), each,
        np.ascontiguousarray(chosen, np.uint32), rows, first.astype(np.int64) - top.start,
        labels[top].astype(np.uint32), top_arcs, cores(), low, high, all_arcs,
    )  # fmt: skip
    ends_of_pairs = words + 1 + np.searchsorted(before, np.arange(one, ends_of_one + 1))
    made = dict(columns) | {
        "labels.low": low,
        **index_of(
            np.concatenate([[0], ends_of_pairs, arc_first[1:]]),
            np.concatenate([np.zeros(ends_of_one, np.int64), single[label[history]]]),
        ),
        "arcs": all_arcs,
        "backoff.weights": np.concatenate([bow_of_one, backoff[history]]).astype("<f4"),
        "lengths": np.array([0, one, ends_of_one, ends_of_one + len(history)], "<u4"),
    }
    if bits:
        with ThreadPoolExecutor(cores()) as workers:
            made["labels.high"] = packed(high, bits, workers)
    about |= {
        "ngrams": [about["ngrams"][0], len(keys), int(degree.sum())],
        "notes": [],
        "digest": f"{model.digest}-closed-{ngrams}-{seed}",
    }
    pairs = Pairs(
        word_of[before], label, cost.astype(np.float32), backoff, state_of != 0, is_end, history, arc_first, high
    )
    return arcbeam.LanguageModel(made, about), pairs


def unigrams_of(arpa: Path, path: Path) -> list[str]:
    """Writes the unigrams of an ARPA, and an n-gram of two words and one of three; returns KenLM's words."""
    opener = lzma.open if arpa.suffix == ".xz" else open
    with opener(arpa, "rt", encoding="utf-8") as file:
        inside = itertools.dropwhile(lambda line: not line.startswith("\\1-grams:"), file)
        lines = [line.rstrip("\n") for line in itertools.takewhile(str.strip, itertools.islice(inside, 1, None))]
    words = [line.split("\t")[1] for line in lines]
    some = next(word for word in words if not word.startswith("<"))
    with path.open("w", encoding="utf-8") as out:
        out.write(f"\\data\\\nngram 1={len(lines)}\nngram 2=1\nngram 3=1\n\n\\1-grams:\n" + "\n".join(lines))
        out.write(f"\n\n\\2-grams:\n-1\t{some} {some}\t0\n\n\\3-grams:\n-1\t{some} {some} {some}\n\n\\end\\\n")
    return ["<unk>", *(word for word in words if word != "<unk>")]


def write_binary(arpa: Path, path: Path) -> None:
    """Has KenLM's library write its file of hash tables, as build_binary does.

    Raises
    ------
    RuntimeError
        The library's options lie elsewhere than in kenlm 0.2 and 0.3.
    """
    kenlm = ctypes.CDLL(kenlm_libraries()[0])
    load = kenlm["_ZN2lm5ngram11LoadVirtualEPKcRKNS0_6ConfigENS0_9ModelTypeE"]
    load.restype, load.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int]
    config = ctypes.create_string_buffer(4096)
    kenlm["_ZN2lm5ngram6ConfigC1Ev"](config)
    words = ctypes.cast(config, ctypes.POINTER(ctypes.c_void_p))
    numbers = ctypes.cast(config, ctypes.POINTER(ctypes.c_int))
    config[0], words[1] = b"\0", None  # no progress, nowhere
    # The name of the file to write is a null pointer before an enumeration of value 1.
    places = [i for i in range(10, 14) if not words[i] and numbers[2 * i + 2] == 1]
    if len(places) != 1:
        raise RuntimeError("this KenLM has its options elsewhere than kenlm 0.2 and 0.3")
    name = ctypes.create_string_buffer(os.fsencode(path))
    words[places[0]] = ctypes.cast(name, ctypes.c_void_p).value
    load(os.fsencode(arpa), config, 0)  # a small model, which is never freed


def places_for(ngrams: int) -> int:
    """Of a table, as KenLM computes it in float32."""
    return max(ngrams + 1, int(np.float32(MULTIPLIER) * np.float32(ngrams)))


def write_kenlm(model: "arcbeam.LanguageModel", pairs: Pairs, arpa: Path, path: Path) -> None:
    """KenLM's file of hash tables of a model of :func:`close`, whose first 3-gram the ARPA has.

    Raises
    ------
    RuntimeError
        KenLM's library or its file is not as expected.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = unigrams_of(arpa, Path(folder, "unigrams.arpa"))
        write_binary(Path(folder, "unigrams.arpa"), Path(folder, "unigrams.probing"))
        template = Path(folder, "unigrams.probing").read_bytes()
    number = {word: i for i, word in enumerate(words)}
    names = ["<s>", *model.words, "</s>"]
    kenlms = np.array([number.get(name, 0) for name in names], np.uint32)
    text = sum(len(word.encode()) + 1 for word in words)
    counted = int.from_bytes(template[template.find(b"\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0") - 8 :][:8], "little")
    begin_counts = template.find(np.array([counted, 1, 1], "<u8").tobytes())
    begin_text = len(template) - text
    begin_middle = begin_text - 12 * places_for(1) - 16 * places_for(1)
    begin_unigrams = begin_middle - 8 * (counted + 1)
    if begin_counts < 0 or begin_counts > 200 or template[begin_text : begin_text + 6] != b"<unk>\0":
        raise RuntimeError("KenLM's file is laid out otherwise than that of kenlm 0.2 and 0.3")
    ngrams = [counted, len(pairs.cost), len(model.columns["arcs"]) - int(pairs.arc_first[0])]
    middle, longest = places_for(ngrams[1]), places_for(ngrams[2])
    unigrams = np.frombuffer(template[begin_unigrams:begin_middle], "<f4").reshape(-1, 2).copy()
    ends = kenlms[np.flatnonzero(np.bincount(pairs.second))]
    unigrams[ends, 0] = np.abs(unigrams[ends, 0])
    continued = kenlms[np.flatnonzero(np.bincount(pairs.first))]
    unigrams[continued, 1] += np.float32(0)  # -0 becomes 0
    size = begin_middle + 16 * middle + 12 * longest + text
    with path.open("wb+") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size) as memory:
            view = np.frombuffer(memory, np.uint8)
            view[:begin_unigrams] = np.frombuffer(template[:begin_unigrams], np.uint8)
            view[begin_counts : begin_counts + 24] = np.array(ngrams, "<u8").view(np.uint8)
            view[begin_unigrams:begin_middle] = unigrams.view(np.uint8).reshape(-1)
            view[size - text :] = np.frombuffer(template[begin_text:], np.uint8)
            first, second = kenlms[pairs.first], kenlms[pairs.second]
            call(
                "closed_lm_middle", len(pairs.cost), first, second, pairs.cost, pairs.is_end.view(np.uint8),
                pairs.backoff, pairs.is_history.view(np.uint8), cores(), middle,
                view[begin_middle : begin_middle + 16 * middle],
            )  # fmt: skip
            of_state = pairs.of_state
            call(
                "closed_lm_longest", len(of_state), pairs.arc_first, first[of_state], second[of_state],
                model.columns["labels.low"], pairs.high, model.columns["arcs"], kenlms, cores(), longest,
                view[begin_middle + 16 * middle : size - text],
            )  # fmt: skip
            del view


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("source", help="a 3-gram of arcbeam build-lm")
    parser.add_argument("target")
    parser.add_argument("--ngrams", type=int, default=200_000_000, help="about (200 million)")
    parser.add_argument("--arpa", type=Path, help="what the source was built from, for --kenlm")
    parser.add_argument("--kenlm", type=Path, help="KenLM's file to write, too")
    args = parser.parse_args(argv)
    if (args.arpa is None) != (args.kenlm is None):
        parser.error("--arpa and --kenlm belong together")
    made, pairs = close(arcbeam.LanguageModel.load(args.source), args.ngrams)
    if args.kenlm is not None:
        write_kenlm(made, pairs, args.arpa, args.kenlm)
    made.save(args.target)
    print(made.info())


if __name__ == "__main__":
    main()
