"""Answers of pyctcdecode 0.5.0, and the script that wrote ``pyctcdecode_reference.json``.

python -m tests.compat.pyctcdecode_reference, with: pip install --no-deps pyctcdecode pygtrie
"""

import json
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.baseline.ngrams import NGrams

FILE = Path(__file__).with_suffix(".json")
WORDS = ["a", "ab", "abba", "b", "ba", "bbb", "c"]
LABELS = {
    "letters": ["a", "b", "c", "|", "<pad>"],
    "pieces": ["▁a", "▁b", "a", "b", "▁c", "▁⁇▁"],  # and a blank, which is added
    "bert": ["[PAD]", "a", "##a", "b", "##b", "c"],
}
HOTWORDS = (None, ["bbb", "ab c"])
FRAMES = 14


class Case(NamedTuple):
    labels: str
    order: int  # of the language model; 0: none
    unigrams: list[str] | None
    options: dict[str, Any]
    logits: np.ndarray


def cases() -> list[Case]:
    """Searches of every kind; their logits are multiples of 1/8."""
    found = []
    models = ((0, None), (2, WORDS), (4, WORDS[:5]), (3, None))
    for seed, (labels, (order, unigrams), hotwords) in enumerate(product(LABELS, models, HOTWORDS)):
        rng = np.random.default_rng(seed)
        columns = len(LABELS[labels]) + (labels == "pieces")
        logits = rng.integers(-24, 25, (FRAMES, columns)) / 8
        if labels == "pieces":
            logits[:, 5] -= 9  # by an error of its own, pyctcdecode ends some other hypothesis's word after ▁⁇▁
        options = {"beam_width": (3, 100)[seed % 2], "prune_history": seed % 4 > 1, "hotwords": hotwords}
        found.append(Case(labels, order, unigrams, options, logits))
    return found


def decoder_of(module: Any, case: Case, folder: Path) -> Any:
    """The decoder of a case, of pyctcdecode or of what takes its place."""
    alphabet = module.Alphabet.build_alphabet(LABELS[case.labels])
    if not case.order:
        return module.BeamSearchDecoderCTC(alphabet)
    import kenlm

    arpa = NGrams(WORDS, case.order, seed=case.order).write(folder / f"{case.order}.arpa")
    return module.BeamSearchDecoderCTC(alphabet, module.LanguageModel(kenlm.Model(str(arpa)), case.unigrams))


def texts(beams: Any) -> Any:
    """Texts and frames, without scores: their last bits depend on the machine's exponential function."""
    return [[beam[0], [[word, list(frames)] for word, frames in beam[2]]] for beam in beams]


if __name__ == "__main__":
    import tempfile

    import pyctcdecode

    with tempfile.TemporaryDirectory() as folder:
        answers = [
            texts(decoder_of(pyctcdecode, case, Path(folder)).decode_beams(case.logits, **case.options)[:20])
            for case in cases()
        ]
    lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
