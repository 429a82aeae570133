"""A picture of the log-probs of an utterance, with the words of its hypothesis over the frames that spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.checks import check_axes
from arcbeam.core.packages import missing_package
from arcbeam.words import Word

LEAST = 0.1  # the probability that a column reaches if it is shown
MOST = 40  # columns that are shown
WORD, BAR = "#c0392b", 0.7  # the colour of words, and the height of their bars in rows
INCHES_A_FRAME, INCHES_A_ROW = 0.05, 0.2


def shown_columns(probabilities: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Columns that reach a probability somewhere in [frames, columns], ascending: the likeliest if they are many."""
    reached = probabilities.max(axis=0, initial=0.0)
    columns = np.flatnonzero(reached >= LEAST)
    if len(columns) > MOST:
        columns = np.sort(columns[np.argsort(-reached[columns], kind="stable")[:MOST]])
    return columns


def plot(
    log_probs: npt.NDArray[Any],
    words: Sequence[Word],
    names: Sequence[str] | None,
    first_frame: int,
    shift: float | None,
    span: tuple[int, int],
    ax: Any,
) -> Any:
    """Draws frames `span` of log-probs that begin with `first_frame` of the stream; returns the axes."""
    check_axes(ax)
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise missing_package("matplotlib", "plot") from None
    begin, end = span
    probabilities = np.exp(np.asarray(log_probs[begin:end], np.float32))
    columns, scale = shown_columns(probabilities), 1.0 if shift is None else shift
    inside = [word for word in words if word.start_frame < first_frame + end and word.end_frame > first_frame + begin]
    if ax is None:
        size = min(max(INCHES_A_FRAME * (end - begin), 6.0), 40.0), 1.5 + INCHES_A_ROW * (len(columns) + 2)
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    left, right = (first_frame + begin) * scale, (first_frame + end) * scale
    ax.imshow(
        probabilities[:, columns].T, aspect="auto", interpolation="nearest", cmap="Greys", vmin=0.0, vmax=1.0,
        extent=(left, right, len(columns) - 0.5, -0.5),
    )  # fmt: skip
    for word in inside:
        start, width = word.start_frame * scale, (word.end_frame - word.start_frame) * scale
        ax.barh(-1.0, width, BAR, start, color=WORD, alpha=0.3, edgecolor=WORD)
        ax.text(start, -1.0 - BAR / 2, word.word.replace("$", r"\$"), color=WORD, va="bottom", rotation=30)
        ax.vlines([start, start + width], -1.0, len(columns) - 0.5, color=WORD, linewidth=0.6, linestyle=":")
    ax.set_xlim(left, right)
    ax.set_ylim(len(columns) - 0.5, -4.0)
    labels = [str(column) if names is None else names[column] for column in columns.tolist()]
    ax.set_yticks(range(len(columns)), [label.replace("$", r"\$") for label in labels])
    ax.set_xlabel("frames" if shift is None else "seconds")
    return ax
