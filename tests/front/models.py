"""Tiny models of one language: the words that are said, an ARPA of them, and log-probs of tokens in a row."""

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np

WORDS = ("a", "cab", "bad", "dad", "abba")
CHARACTERS = ("a", "b", "c", "d")


def arpa(words=WORDS) -> str:
    share = -np.log10(len(words) + 2)
    rows = ["-99\t<s>", *(f"{share:.6f}\t{word}" for word in ("</s>", "<unk>", *words))]
    return f"\\data\\\nngram 1={len(rows)}\n\n\\1-grams:\n" + "\n".join(rows) + "\n\n\\end\\\n"


def write_arpa(path: Path, words=WORDS) -> Path:
    data = arpa(words).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def said(tokens, columns, blank: int) -> np.ndarray:
    """float32[frames, columns]: log-probs in which each of `tokens` is clear, with a blank after it."""
    columns = list(columns)
    best = [at for token in tokens for at in (columns.index(token), blank)]
    probabilities = np.full((len(best), len(columns)), 0.1 / (len(columns) - 1))
    probabilities[np.arange(len(best)), best] = 0.9
    return np.log(probabilities).astype(np.float32)


def nemo_archive(path: Path, config: str, **members: bytes) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in {"model_config.yaml": config.encode(), **members}.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def sentencepiece_model(folder: Path, **options) -> bytes:
    """A model of pieces of the words."""
    import pytest

    sentencepiece = pytest.importorskip("sentencepiece")
    text = folder / "text.txt"
    text.write_text("\n".join(f"{one} {other}" for one in WORDS for other in WORDS) + "\n")
    prefix = folder / "trained"
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(prefix),
        vocab_size=14,
        character_coverage=1.0,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return prefix.with_suffix(".model").read_bytes()
