"""Draws docs/plots/lattice.svg: the lattice of a made-up sentence some of whose letters are not clear.

python -m benchmarks.report.lattice_picture
"""

import math
import tempfile
from pathlib import Path

import numpy as np

import arcbeam

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"the": 0.25, "cat": 0.2, "cap": 0.1, "sat": 0.2, "set": 0.1, "at": 0.15, "he": 0.1}  # and their probabilities
TOKENS = ["<blank>", "|", *sorted(set("".join(WORDS)))]
SAID = "the|ca?|s?t"  # a question mark is not clear
UNCLEAR = {
    0: {"t": 0.5, "<blank>": 0.4},
    4: {"c": 0.6, "<blank>": 0.3},
    6: {"t": 0.55, "p": 0.4},
    9: {"a": 0.5, "e": 0.45},
}
FRAME_SHIFT = 0.04
LATTICE_BEAM = 3.0


def log_probs() -> np.ndarray:
    """float32 [frames, columns]: a frame of blank after each letter."""
    rows = []
    for i, letter in enumerate(SAID):
        for posteriors in (UNCLEAR.get(i, {letter: 0.97}), {"<blank>": 0.97}):
            row = np.full(len(TOKENS), 1e-4)
            for token, probability in posteriors.items():
                row[TOKENS.index(token)] = probability
            rows.append(np.log(row / row.sum()))
    return np.array(rows, np.float32)


def graph() -> arcbeam.Graph:
    """The words in any order."""
    with tempfile.TemporaryDirectory() as folder:
        arpa, lexicon = Path(folder, "words.arpa"), Path(folder, "lexicon.txt")
        share = 0.9 / sum(WORDS.values())
        rows = [f"{math.log10(p * share):.5f}\t{word}" for word, p in WORDS.items()]
        body = "\n".join(["-99\t<s>", f"{math.log10(0.1):.5f}\t</s>", *rows])
        arpa.write_text(f"\\data\\\nngram 1={len(rows) + 2}\n\n\\1-grams:\n{body}\n\n\\end\\\n")
        lexicon.write_text("".join(f"{word} {' '.join(word)}\n" for word in WORDS))
        tokens = arcbeam.TokenTable.from_list(TOKENS)
        return arcbeam.Graph.build(tokens, lexicon, arpa, separator="|", progress=False)


def main() -> None:
    """Decodes, draws, and writes the picture."""
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "arcbeam"  # the same bytes in every run
    decoder = arcbeam.CtcDecoder(graph(), frame_shift=FRAME_SHIFT, lattice_beam=LATTICE_BEAM, device="cpu")
    [hypothesis] = decoder.decode([log_probs()], lattice=True)
    ax = hypothesis.lattice.plot()
    ax.figure.savefig(ROOT / "docs" / "plots" / "lattice.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
