"""A small lexicon, its columns and log-probs, for tests of what a decoder does around the search."""

import numpy as np

TOKENS = ["|", "a", "b", "c", "<blank>"]
LEXICON = {"ab": ["a", "b", "|"], "abc": ["a", "b", "c", "|"], "cab": ["c", "a", "b", "|"], "a": ["a", "|"]}


def saying(text, peak=0.9):
    """Log-probs [frames, 5] in which each character of `text` is likely for a frame; "-" is the blank, "_" silence."""
    names = {**{token: i for i, token in enumerate(TOKENS)}, "-": 4, "_": 0}
    probs = np.full((len(text), len(TOKENS)), (1 - peak) / 4, np.float32)
    for frame, character in enumerate(text):
        probs[frame, names[character]] = peak
    return np.log(probs)
