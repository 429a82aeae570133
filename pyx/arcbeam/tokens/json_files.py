"""Tokens in JSON: Hugging Face's ``vocab.json`` and ``tokenizer.json``, and pyctcdecode's ``alphabet.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.files.lines import read_text
from arcbeam.files.reading import reading
from arcbeam.tokens.model_tokens import NAMED_BLANK, Cut, Cutter, ModelTokens, digest_of, longest_pieces

EXPECTED = (
    "vocab.json (an object of tokens and their ids) or tokenizer.json of Hugging Face, or alphabet.json of pyctcdecode"
)


def read_json(path: str | os.PathLike[str]) -> ModelTokens:
    """The tokens of a file, which its keys tell apart."""
    return of_json(read_text(path), os.fsdecode(path))


def of_json(content: bytes, name: str) -> ModelTokens:
    """The same, of its content; messages call it `name`."""
    with reading(name, EXPECTED):
        value = json.loads(content)
    if isinstance(value, dict) and isinstance(value.get("labels"), list):
        if not all(type(label) is str for label in value["labels"]):
            raise FormatError(f"{name}: expected labels that are text")
        return with_named_blank(value["labels"], name)
    if isinstance(value, dict) and isinstance(value.get("model"), dict):
        return _tokenizer(value, content, name)
    if isinstance(value, dict):
        return ModelTokens(by_id(value, name), name)
    raise FormatError(f"{name}: expected {EXPECTED}, got a JSON {type(value).__name__}")


def by_id(vocabulary: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    """Tokens by their ids, which are 0, 1, ... without a gap."""
    tokens: dict[int, str] = {}
    for token, number in vocabulary.items():
        if type(token) is not str or type(number) is not int:
            raise FormatError(f"{name}: expected tokens and their ids, got {str(token)[:60]!r}: {str(number)[:60]}")
        if tokens.setdefault(number, token) != token:
            raise FormatError(f"{name}: {tokens[number]!r} and {token!r} both have the id {number}")
    missing = next((i for i in range(len(tokens)) if i not in tokens), None)
    if not tokens or missing is not None:
        got = "none" if not tokens else f"none for {missing}"
        raise FormatError(f"{name}: expected a token for each id from 0 to {max(len(tokens) - 1, 0)}, got {got}")
    return tuple(tokens[i] for i in range(len(tokens)))


def with_named_blank(labels: Sequence[str], name: str) -> ModelTokens:
    """Labels among which "" may be the blank, as pyctcdecode has them."""
    if "" not in labels:
        return ModelTokens(tuple(labels), name)
    if NAMED_BLANK in labels:
        raise ValueError(
            f"{name}: expected one blank, got '' (column {labels.index('')}) and {NAMED_BLANK!r} (column "
            f"{labels.index(NAMED_BLANK)}); a label that is no blank has a text"
        )
    return ModelTokens(tuple(label or NAMED_BLANK for label in labels), name, NAMED_BLANK)


def _tokenizer(value: Mapping[str, Any], content: bytes, name: str) -> ModelTokens:
    """A tokenizer of the package tokenizers; what it adds to its vocabulary has ids, too."""
    model, added = value["model"], value.get("added_tokens") or []
    vocabulary = model.get("vocab")
    with reading(name, EXPECTED):
        if isinstance(vocabulary, list):  # pieces and their scores
            ids = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        else:
            ids = dict(vocabulary)
        ids.update((token["content"], token["id"]) for token in added)
    names = by_id(ids, name)
    kind = model.get("type")
    if kind == "WordPiece":
        known, mark = frozenset(names), str(model.get("continuing_subword_prefix", "##"))
        return ModelTokens(names, name, cutter=Cutter(lambda word: longest_pieces(word, known, "", mark), mark))
    if kind in ("BPE", "Unigram"):
        return ModelTokens(names, name, cutter=Cutter(_by_package(content, name), digest_of(content)))
    return ModelTokens(names, name)


def _by_package(content: bytes, name: str) -> Cut:
    """Cuts words as the package tokenizers does; it is needed at the first word."""
    made: list[Any] = []

    def cut(word: str) -> list[str]:
        if not made:
            tokenizers = require("tokenizers", f"cutting words into the pieces of {name}")
            with reading(name, "a tokenizer.json"):
                made.append(tokenizers.Tokenizer.from_str(content.decode()))
        return list(made[0].encode(word, add_special_tokens=False).tokens)

    return cut
