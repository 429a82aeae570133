"""All that can be given as the tokens of a model: one table of the formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from arcbeam.core.checks import as_texts
from arcbeam.files.nemo_archive import is_model
from arcbeam.files.reading import check_is_file
from arcbeam.graph.graph import Graph
from arcbeam.graph.token_table import TokenTable
from arcbeam.tokens.json_files import by_id, of_json, read_json, with_named_blank
from arcbeam.tokens.model_tokens import ModelTokens, with_marked_pieces
from arcbeam.tokens.nemo import of_model, read_nemo
from arcbeam.tokens.sentencepiece import pieces_of, read_sentencepiece
from arcbeam.tokens.text_files import read_text

#: By the end of a file's name; any other file is text with a token a line.
FILES: dict[str, Callable[[Any], ModelTokens]] = {
    ".json": read_json,  # Hugging Face, pyctcdecode
    ".model": read_sentencepiece,
    ".nemo": read_nemo,
}
#: By a method that an object has; processors have such objects as ``tokenizer``.
OBJECTS: dict[str, Callable[[Any, str], ModelTokens]] = {
    "serialized_model_proto": lambda model, name: pieces_of(model.serialized_model_proto(), name),  # sentencepiece
    "to_str": lambda tokenizer, name: of_json(tokenizer.to_str().encode(), name),  # tokenizers
    "get_vocab": lambda tokenizer, name: _of_transformers(tokenizer, name),  # transformers
}
WITHIN = ("backend_tokenizer", "tokenizer")  # attributes in which other objects keep a tokenizer


def read_tokens(tokens: Any, blank: str | int | None = None) -> ModelTokens:
    """The tokens of a model, from any of the formats; `blank` is for a text file that needs it to be read.

    Raises
    ------
    TypeError
        Nothing that has tokens.
    FormatError
        A file breaks its format.
    MissingDependencyError
        The package that reads it is missing.
    OSError
        The file cannot be read.
    """
    return with_marked_pieces(_read(tokens, blank))


def _read(tokens: Any, blank: str | int | None) -> ModelTokens:
    if isinstance(tokens, TokenTable):
        return ModelTokens(tokens.tokens, "tokens", tokens.blank)
    if isinstance(tokens, (str, os.PathLike)):
        check_is_file(tokens)
        read = FILES.get(os.path.splitext(os.fsdecode(tokens))[1])
        return read_text(tokens, blank) if read is None else read(tokens)
    if is_model(tokens):
        return of_model(tokens)
    keeper = _tokenizer_in(tokens)
    for method, of in OBJECTS.items():
        if hasattr(keeper, method):
            return of(keeper, type(tokens).__name__)
    if isinstance(tokens, Mapping):
        return ModelTokens(by_id(tokens, "tokens"), "tokens")
    if not isinstance(tokens, Iterable):
        hint = "; with a graph write arcbeam.CtcDecoder(graph)" if isinstance(tokens, Graph) else ""
        raise TypeError(
            "tokens: expected a list of labels, the path of a file of them, a tokenizer or a processor, got "
            f"{type(tokens).__name__}{hint}"
        )
    tokens = as_texts("tokens", tokens, "column")
    if not tokens:
        raise ValueError("tokens: expected the labels of the columns, got none")
    names = TokenTable.from_list(tokens, 0).tokens
    return with_named_blank(names, "tokens")


def _tokenizer_in(tokens: Any) -> Any:
    """The object that has the tokens: itself, or what it keeps."""
    for _ in range(3):
        inner = next((found for name in WITHIN if (found := getattr(tokens, name, None)) is not None), None)
        if inner is None or any(hasattr(tokens, method) for method in ("serialized_model_proto", "to_str")):
            break
        tokens = inner
    return tokens


def _of_transformers(tokenizer: Any, name: str) -> ModelTokens:
    """A tokenizer of transformers that is written in Python: of wav2vec2 and its kin, whose padding is the blank."""
    names = by_id(tokenizer.get_vocab(), name)
    pad, delimiter = getattr(tokenizer, "pad_token", None), getattr(tokenizer, "word_delimiter_token", None)
    return ModelTokens(names, name, pad if pad in names else None, delimiter if delimiter in names else None)
