"""A lattice as the page draws it: words in rows over time, and lines between them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from arcbeam.report.results import Json

if TYPE_CHECKING:
    from arcbeam.lattices.kaldi_lattice import KaldiLattice

CHARACTER, PADDING, NARROWEST = 7.5, 16.0, 560.0  # pixels
LEAST = 0.01  # posterior of what is drawn besides the best path


def draw(lattice: KaldiLattice, acoustic_scale: float, frame_shift: float | None) -> Json:
    """Boxes [x, row, width, word, posterior, is best, time] and lines [source, target, posterior, is best]."""
    from arcbeam.ctc.lattice.compact import words_over_time
    from arcbeam.lattices.pictures import Box, rows_of
    from arcbeam.lattices.word_graph import MOST_WORDS

    if not lattice.num_states:
        return {"note": "the lattice is empty: the search died"}
    if (count := len(lattice.best_path(acoustic_scale).words)) > MOST_WORDS:
        return {"note": f"not drawn: its best path has {count:,} words, and at most {MOST_WORDS} can be drawn"}
    found = words_over_time(lattice, acoustic_scale, LEAST)
    symbols = lattice.word_symbols
    names = [
        str(symbols.get(node.word, node.word) if symbols else node.word) if node.word else "" for node in found.nodes
    ]
    boxes = [Box(node.frame, name, node.posterior, node.best) for node, name in zip(found.nodes, names, strict=True)]
    wide = [sum(unicodedata.east_asian_width(letter) in "WF" for letter in name) for name in names]
    widths = [CHARACTER * (len(name) + more) + PADDING for name, more in zip(names, wide, strict=True)]
    across = max(sum(width + PADDING for width, box in zip(widths, boxes, strict=True) if box.best), NARROWEST)
    begin, end = boxes[0].time, boxes[-1].time
    middles = [(box.time - begin) * across / ((end - begin) or 1.0) for box in boxes]
    middles[0], middles[-1] = -2 * PADDING, across + 2 * PADDING
    rows, seconds = rows_of(boxes, middles, widths), frame_shift or 1.0
    drawn = [
        [round(x), row, round(width), box.word, round(box.posterior, 3), box.best, round(box.time * seconds, 2)]
        for x, row, width, box in zip(middles, rows, widths, boxes, strict=True)
    ]
    lines = [[line.source, line.target, round(line.posterior, 3), line.best] for line in found.edges]
    return {"unit": "s" if frame_shift else "frames", "boxes": drawn, "lines": lines, "left_out": found.left_out}
