"""G: the back-off automaton of an ARPA language model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files.reading import reading
from arcbeam.recipe import files
from arcbeam.recipe.arrays import ArcArrays
from arcbeam.recipe.backoff_model import UNKNOWN_WORDS, read_text
from arcbeam.recipe.progress import Reporter


@dataclass(frozen=True)
class LanguageModel:
    """An ARPA model that has been read."""

    acceptor: ArcArrays  # G: labels are positions of words + 1, costs are scaled
    words_in_lm: npt.NDArray[np.bool_]  # [words]
    tally: dict[str, Any]
    digest: str  # of the text, as in `arcbeam.LanguageModel`


def read_language_model(
    path: str | os.PathLike[str],
    words: Sequence[str],
    *,
    scale: float = 1.0,
    word_insertion_penalty: float = 0.0,
    backoff_label: int,
    reporter: Reporter | None = None,
    max_bytes: int | str | None = None,
) -> LanguageModel:
    """Reads an ARPA file; n-grams with other words are left out and counted. The penalty is a natural log."""
    clock = reporter or Reporter(False)
    clock.begin("lm", f"reading {path}")
    known = [w.encode() for w in words]
    reader, digest = read_text(path, known, lambda text: clock.say("lm", f"{text} read"), clock, max_bytes)
    tally = reader.tally()
    with reading(path, "an ARPA file"):
        offsets, targets, labels, costs, finals, start = reader.automaton(scale, word_insertion_penalty, backoff_label)
    del reader
    inputs = labels.view(np.int32)
    is_backoff = inputs == backoff_label
    acceptor = ArcArrays(
        sources=np.repeat(np.arange(len(finals), dtype=np.int32), np.diff(offsets)),
        targets=targets.view(np.int32),
        inputs=inputs,
        outputs=np.where(is_backoff, 0, inputs),
        costs=costs,
        finals=finals,
        start=start,
    )
    words_in_lm = np.zeros(len(words) + 2, bool)
    of_root = inputs[offsets[0] : offsets[1]]
    words_in_lm[of_root[of_root != backoff_label]] = True
    return LanguageModel(acceptor, words_in_lm[1 : len(words) + 1], tally, digest)


def with_unknown_word(acceptor: ArcArrays, label: int, cost: float) -> ArcArrays:
    """G with an unknown word: a unigram, after which histories begin anew."""
    arcs = (acceptor.sources, acceptor.targets, acceptor.inputs, acceptor.outputs, acceptor.costs)
    finals = dict(enumerate(acceptor.finals.tolist()))
    return ArcArrays.join([arcs, (0, 0, label, label, cost)], finals, acceptor.start)


def unknown_word_score(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> float:
    """The natural log of the probability of the unigram ``<unk>`` in an ARPA file; ValueError if there is none."""
    inside = False
    names = [name.decode() for name in UNKNOWN_WORDS]
    for number, line in files.lines(path, max_bytes):
        if line.startswith("\\"):
            if inside:
                break
            inside = line.strip() == "\\1-grams:"
        parts = files.fields(line)
        if inside and len(parts) > 1 and parts[1] in names:
            try:
                return float(np.float64(parts[0]) * np.log(10.0))
            except ValueError:
                raise FormatError(f"{path}, line {number}: expected a log probability, got {parts[0]!r}") from None
    raise ValueError(
        f"{path}: expected a unigram <unk>, whose score new words get, got none; give open_slot_score= "
        "(--open-slot-score), a natural log such as -10"
    )
