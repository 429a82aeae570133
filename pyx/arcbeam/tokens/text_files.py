"""Tokens in text files: of icefall, sherpa-onnx, onnx-asr, torchaudio, and arcbeam's own."""

from __future__ import annotations

import os
from pathlib import Path

from arcbeam.graph.token_table import TokenTable
from arcbeam.tokens.model_tokens import WORD_START, ModelTokens
from arcbeam.tokens.sentencepiece import cutter_of

BESIDE = "bpe.model"  # icefall's name of the model that made the tokens of the same folder


def read_text(path: str | os.PathLike[str], blank: str | int | None) -> ModelTokens:
    """A token a line, with or without its id; with pieces, icefall's ``bpe.model`` of the same folder cuts words."""
    is_column = blank not in (None, 0) and not isinstance(blank, str)  # which may be that after the last token
    table = TokenTable.read(path, 1 if is_column else blank)
    model = Path(os.fsdecode(path)).with_name(BESIDE)
    pieces = any(token.startswith(WORD_START) and token != WORD_START for token in table.tokens)
    cutter = cutter_of(model.read_bytes(), str(model)) if pieces and model.is_file() else None
    return ModelTokens(table.tokens, os.fsdecode(path), table.blank, cutter=cutter)
