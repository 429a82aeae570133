"""Turns an ARPA file into the columns of `arcbeam.LanguageModel`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files.kinds import known_kind
from arcbeam.files.packed_files import PackedFile
from arcbeam.files.reading import reading
from arcbeam.lm import kenlm_file, lm_file
from arcbeam.recipe.progress import Reporter

SECONDS_BETWEEN_LINES = 5.0
UNKNOWN_WORDS = (b"<unk>", b"<UNK>")


def read_text(
    path: str | os.PathLike[str],
    words: list[bytes] | None,
    say: Callable[[str], None],
    reporter: Reporter,
    max_bytes: int | str | None,
) -> tuple[Any, str]:
    """An `ArpaReader` that has read a file, and the digest of its text; `say` reports progress now and then."""
    from arcbeam.lm._arpa import ArpaReader  # type: ignore[import-not-found,import-untyped,unused-ignore]

    digest = hashlib.blake2b(digest_size=16)  # of the text, whatever its compression
    said = reporter.seconds
    with PackedFile(path, max_bytes) as file:
        reader = ArpaReader(words, os.fspath(path), file.most)
        for number, block in enumerate(file.blocks()):
            if number == 0 and block.startswith(kenlm_file.MAGIC):
                raise FormatError(
                    f"{path}: expected an ARPA file, got a KenLM binary: build from the ARPA it came from"
                )
            kind = known_kind(block) if number == 0 else None
            if kind is not None and b"\\data\\" not in block:
                raise FormatError(f"{path}: expected an ARPA file, got {kind}")
            digest.update(block)
            with reading(path, "an ARPA file"):
                reader.feed(block)
            if reporter.seconds - said > SECONDS_BETWEEN_LINES:
                said = reporter.seconds
                say(f"{reader.ngrams_read:,} n-grams")
    with reading(path, "an ARPA file"):
        reader.finish()
    return reader, digest.hexdigest()


def read(
    path: str | os.PathLike[str], reporter: Reporter, max_bytes: int | str | None = None
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Columns of a model, and the facts about it."""
    reporter.begin("read", f"reading {path}")
    reader, digest = read_text(path, None, lambda text: reporter.say("read", text), reporter, max_bytes)
    tally = reader.tally()
    reporter.say("read", " / ".join(f"{n:,}" for n in tally["ngrams"]) + " n-grams")
    if not tally["has_sentence_end"]:
        raise FormatError(f"{path}: expected a unigram </s>, got none: the model cannot end a sentence")
    reporter.begin("lay out", "laying out histories and arcs")
    with reading(path, "an ARPA file"):
        columns, found = reader.language_model()
    del reader
    if not found["has_sentence_start"]:
        raise FormatError(f"{path}: expected a unigram <s>, got none: the model cannot begin a sentence")
    about = {
        "high_bits": found["high_bits"],
        "start": found["start"],
        "num_labels": len(columns["words.ends"]) + 1,
        "ngrams": list(tally["ngrams"]),
        "digest": digest,
        "notes": list(_notes(tally, found, columns)),
    }
    with reading(path, "an ARPA file"):
        lm_file.check(columns, about)
    reporter.say("lay out", f"{len(columns['backoff.weights']):,} histories, {len(columns['arcs']):,} arcs")
    for note in about["notes"]:
        reporter.say("note", note)
    return columns, about


def _notes(tally: dict[str, Any], found: dict[str, Any], columns: dict[str, npt.NDArray[Any]]) -> list[str]:
    notes = []
    text = columns["words.text"].tobytes()
    ends = columns["words.ends"].astype(np.int64)
    begins = ends - np.diff(ends, prepend=0)
    if not any(e - b == 5 and text[b:e] in UNKNOWN_WORDS for b, e in zip(begins, ends, strict=True)):
        notes.append("there is no <unk>: a word that is not in the model has a probability of 1e-100")
    if tally["added_ngrams"]:
        notes.append(
            f"{tally['added_ngrams']:,} histories that are continued are not listed themselves; they were added with "
            "the probability that backing off gives them"
        )
    if tally["misplaced_ngrams"]:
        notes.append(f"{tally['misplaced_ngrams']:,} n-grams have <s> or </s> in a wrong place and were left out")
    if found["unnormalised"]:
        history = repr(found["worst_history"]) if found["worst_history"] else "the empty history"
        notes.append(
            f"after {found['unnormalised']:,} histories the probabilities do not sum to 1 within 1 %: the worst is "
            f"{history} with {found['worst_sum']:.3g}"
        )
    return notes
