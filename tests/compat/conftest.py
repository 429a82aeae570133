"""The files that riva's callers have: a graph of the demo's words as OpenFst writes it, and its words."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import arcbeam


class Speech(NamedTuple):
    """Recordings of the demo, and a graph of the words in them, as its file has it."""

    fst: Path
    words: Path
    graph: arcbeam.Graph
    utterances: list
    lengths: np.ndarray
    said: list

    @property
    def columns(self):
        return self.graph.num_columns

    @property
    def padded(self):
        """float32[utterances, frames, columns], and beyond the ends what nobody may read."""
        batch = np.full((len(self.utterances), self.lengths.max(), self.columns), np.nan, np.float32)
        for row, one in zip(batch, self.utterances, strict=True):
            row[: len(one)] = one
        return batch


@pytest.fixture(scope="package")
def spoken(demo_data, tmp_path_factory):
    kaldifst = pytest.importorskip("kaldifst", reason="kaldifst is not installed: .[build]")
    folder = tmp_path_factory.mktemp("spoken")
    archive = np.load(demo_data / "log_probs.npz")
    ends = np.cumsum(archive["lengths"])[:-1]
    utterances = [one.astype(np.float32) for one in np.split(archive["log_probs"], ends)]
    said = dict(line.split("\t") for line in (demo_data / "reference.tsv").read_text().splitlines())
    said = [said[name] for name in archive["ids"].tolist()]
    words = sorted({word for text in said for word in text.split()})
    (folder / "lexicon.txt").write_text("".join(f"{word} {' '.join(word)}\n" for word in words))
    cost = -math.log10(len(words) + 1)
    unigrams = "".join(f"{cost:.6f}\t{word}\n" for word in [*words, "</s>", "<unk>"])
    count = len(words) + 3
    (folder / "lm.arpa").write_text(f"\\data\\\nngram 1={count}\n\n\\1-grams:\n-99\t<s>\n{unigrams}\n\\end\\\n")
    built = arcbeam.Graph.build(
        demo_data / "tokens.txt", folder / "lexicon.txt", folder / "lm.arpa", separator="<space>", progress=False,
        openfst=folder / "TLG.fst",
    )  # fmt: skip
    built.word_symbols.write(folder / "words.txt")
    fst = kaldifst.StdVectorFst.read(str(folder / "TLG.fst"))
    tokens = ["<eps>", *built.tokens.tokens, "#0"]  # NeMo counts those before #0
    (folder / "isymbols.txt").write_text("".join(f"{name} {label}\n" for label, name in enumerate(tokens)))
    fst.input_symbols = kaldifst.SymbolTable.read_text(str(folder / "isymbols.txt"))
    fst.output_symbols = kaldifst.SymbolTable.read_text(str(folder / "words.txt"))
    fst.write(str(folder / "with_tables.fst"))
    graph = arcbeam.Graph.load(folder / "TLG.fst", words=folder / "words.txt", num_columns=built.num_columns)
    return Speech(
        folder / "TLG.fst", folder / "words.txt", graph, utterances, np.array(list(map(len, utterances))), said
    )
