"""Forced alignment as a page of loops: which sequences of columns read a text, and the best of all there are."""

import itertools

import numpy as np

STAR = "<star>"


def spelled_texts(words, spellings, separator):
    """All label sequences of a text of at most one separator a gap, with stars as None, and words by label."""
    parts = []
    for word in words:
        parts.append([(None,)] if word == STAR else [tuple(one) for one in spellings[word]])
    for chosen in itertools.product(*parts):
        yield [column for spelling in chosen for column in spelling]


def reads(columns, labels, blank, separator, repeats_need_blank):
    """Whether frames with these columns read these labels; None among them is a star. A set of frames in stars."""
    # States: how many labels are read, whether the last frame is of a label (its column, else None), frames in stars.
    now = {(0, None, frozenset(), False)}
    for frame, column in enumerate(columns):
        after = set()
        for done, last, stars, in_star in now:
            if column == blank or column == last:
                after.add((done, last if column == last else None, stars, False))
            if column == separator:
                after.add((done, column, stars, False))
            at = done
            while at < len(labels) and labels[at] is None:  # a star that takes no more frames
                after.add((at, None, stars | {frame}, True))
                at += 1
            if at < len(labels) and labels[at] == column and not (repeats_need_blank and column == last):
                after.add((at + 1, column, stars, False))
        now = after
    ends = set()
    for done, _, stars, _ in now:
        if all(label is None for label in labels[done:]):
            ends.add(stars)
    return ends


def best_score(log_probs, words, spellings, *, blank, separator, repeats_need_blank, star=0.0):
    """The best score of all column sequences that read the words, in float64; -inf where none does."""
    found = -np.inf
    texts = list(spelled_texts(words, spellings, separator))
    for columns in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        score = float(sum(float(log_probs[t, c]) for t, c in enumerate(columns)))
        for labels in texts:
            for stars in reads(columns, labels, blank, separator, repeats_need_blank):
                found = max(found, score - star * len(stars))
    return found
