"""Forced alignment as a page of loops: which sequences of columns read a text, and the best of all there are."""

import itertools

import numpy as np

STAR = "<star>"


def spelled_texts(words, spellings, separator):
    """What a text may be spelled as: labels, None for a star, and the numbers of labels before gaps between words."""
    parts = [[(None,)] if word == STAR else [tuple(one) for one in spellings[word]] for word in words]
    for chosen in itertools.product(*parts):
        gaps = {0, *itertools.accumulate(map(len, chosen))} if separator is not None else set()
        yield [column for spelling in chosen for column in spelling], gaps


def reads(columns, text, blank, separator, repeats_need_blank, loops=True):
    """The sets of frames in stars with which frames of these columns read a text of `spelled_texts`."""
    labels, gaps = text
    # States: how many labels are read, the last frame's column if it is of a label, frames in stars.
    now = {(0, None, frozenset())}
    for frame, column in enumerate(columns):
        after = set()
        for done, last, stars in now:
            if column == blank:
                after.add((done, None, stars))
            if loops and column == last:
                after.add((done, last, stars))
            at = done
            while True:
                if column == separator and at in gaps:
                    after.add((at, column, stars))
                if at == len(labels) or labels[at] is not None:
                    break
                after.add((at, None, stars | {frame}))
                at += 1  # a star that takes no more frames
            if at < len(labels) and labels[at] == column and not (repeats_need_blank and column == last):
                after.add((at + 1, column, stars))
        now = after
    return {stars for done, _, stars in now if all(label is None for label in labels[done:])}


def best_score(log_probs, words, spellings, *, separator, star=0.0, **rules):
    """The best score of all column sequences that read the words, in float64; -inf where none does."""
    found = -np.inf
    texts = list(spelled_texts(words, spellings, separator))
    for columns in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        score = float(sum(float(log_probs[t, c]) for t, c in enumerate(columns)))
        for text in texts:
            for stars in reads(columns, text, separator=separator, **rules):
                found = max(found, score - star * len(stars))
    return found
