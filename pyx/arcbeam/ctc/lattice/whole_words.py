"""A lattice whose links write pieces of words, as one whose links write words: for a comparison with words."""
# A token becomes one token for each beginning of a word that its paths leave open. Beginnings that begin no word of the
# reference are one, because all words that come of them are wrong:
#
#     pieces   0 -▁a> 1 -b> 2 -▁c> 3      words   (0, "") -> (1, "a") -> (2, "ab") -ab> (3, "c") -c> end
#              0 ---▁ab---> 2                     (0, "") ------------> (2, "ab")

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from arcbeam.core.pieces import split_piece

NO_WORD, OTHER_WORD = 0, 0xFFFFFFFF

Open: TypeAlias = str | None  # the beginning of a word, "" for none; None for one that the reference does not have


class WholeWords(NamedTuple):
    """The lattice of words."""

    arrays: dict[str, Any]  # as `Lattices.of_arrays` takes it; all paths end in one token after the last frame
    words: npt.NDArray[np.uint32]  # uint32[links]: the word that each completes; 0xffffffff if not in the reference
    links: npt.NDArray[np.int64]  # int64[links]: the link of the lattice of pieces; -1 for the end
    ids: dict[str, int]  # the words of the reference, from 1 on


def whole_words(
    arrays: Mapping[str, Any],
    labels: npt.NDArray[np.uint32],
    names: Mapping[int, str],
    separator: str | None,
    reference: Iterable[str],
) -> WholeWords:
    """Joins the pieces of a lattice's paths; `labels`: uint32[links], 0 for none; `separator` opens words."""
    ids = {word: number for number, word in enumerate(dict.fromkeys(reference), 1)}
    beginnings = {word[:size] for word in ids for size in range(1, len(word) + 1)}
    pieces = {label: split_piece(name, separator) for label, name in names.items()}

    def ended(before: Open) -> int:
        return NO_WORD if before == "" else OTHER_WORD if before is None else ids.get(before, OTHER_WORD)

    def extended(before: Open, label: int) -> tuple[Open, int]:
        ends, rest = pieces[label]
        word, begun = (ended(before), "") if ends else (NO_WORD, before)
        if not rest:
            return begun, word
        grown = None if begun is None else begun + rest
        return (grown if grown in beginnings else None), word

    sources, targets = arrays["links"]["source"].tolist(), arrays["links"]["target"].tolist()
    written, first_link = labels.tolist(), arrays["first_link"].tolist()
    tokens, first_end = len(arrays["states"]), int(arrays["first_token"][-2])
    places: list[dict[Open, int]] = [{} for _ in range(tokens)]
    places[0][""] = 0
    found: list[tuple[int, int, int, int, int]] = []  # source, its place, target, its place, word
    of_link: list[int] = []
    for token in range(tokens):
        is_end = token >= first_end and np.isfinite(arrays["end_extras"][token - first_end])
        for before, place in places[token].items():
            for link in range(first_link[token], first_link[token + 1]):
                after, word = extended(before, written[link]) if written[link] else (before, NO_WORD)
                there = places[targets[link]]
                found.append((sources[link], place, targets[link], there.setdefault(after, len(there)), word))
                of_link.append(link)
            if is_end:
                found.append((token, place, tokens, 0, ended(before)))
                of_link.append(-1)
    first = np.append(0, np.cumsum([len(one) for one in places]))
    columns = np.array(found, np.int64).reshape(-1, 5).T
    links = np.zeros(len(found), arrays["links"].dtype)
    links["source"], links["target"] = first[columns[0]] + columns[1], first[columns[2]] + columns[3]
    count = int(first[-1]) + 1
    made = {
        "first_token": np.append(first[arrays["first_token"]], count),
        "states": np.zeros(count, np.uint32),
        "costs": np.zeros(count),
        "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(count + 1)),
        "end_extras": np.zeros(1, np.float32),
        "best": np.zeros(0, np.uint32),
        "total_cost": 0.0,
        "reached_final": True,
        "complete": True,
    }
    return WholeWords(made, columns[4].astype(np.uint32), np.array(of_link, np.int64), ids)
