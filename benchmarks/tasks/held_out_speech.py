"""Held-out sentences as speech: spoken by units of `throughput` and distorted, as the small transducers were trained.

Factors of models are tuned on these, because every set of real speech is evaluated.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.data import datasets
from benchmarks.harness import seeds
from data import letter_alignment
from data.spoken_text import FRAMES_TOGETHER, Alphabet, Distortion, Units, speak

SEED = 0


def spoken(texts: Sequence[str], alphabet: Alphabet) -> list[npt.NDArray[np.float32]]:
    """Log-probs [frames, columns] of each text, all of which can be spelled."""
    voices = datasets.load("throughput")
    spelled = [alphabet.spell(text)[0] for text in voices.references]
    begins = letter_alignment.first_frames(voices.utterances, [symbols[1:] for symbols in spelled])
    units = Units(voices.utterances, spelled, [np.append(0, begin) for begin in begins], "cpu")
    torch.manual_seed(seeds.used("held-out speech", SEED))
    found = []
    for text in texts:
        symbols, ends = (torch.from_numpy(each.astype(np.int64))[None] for each in alphabet.spell(text))
        batch = speak(units, symbols, ends, None, Distortion())
        found.append(batch.log_probs[0, : FRAMES_TOGETHER * int(batch.lengths[0])].numpy())
    return found
