"""Oracle word error rates (WER): of the first n answers, or of a lattice, counts what is nearest to the reference."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from arcbeam.ctc.lattice import _lattice
from arcbeam.ctc.lattice.compact import as_lattice
from benchmarks.harness.plots import Points, line_plots
from data.word_errors import word_errors

UNKNOWN = 0xFFFFFFFF  # a label that no word has
CURVE = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)


def oracle(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], count: int) -> float:
    """The oracle WER of the first answers, in percent; an utterance without any counts as silence."""
    return _rates(references, answers, [count])[0]


def curve(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> list[float]:
    """The same of the first n answers, for each n of `CURVE`."""
    return _rates(references, answers, CURVE)


def _rates(references: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], counts: Sequence[int]) -> list[float]:
    errors = [0] * len(counts)
    for reference, texts in zip(references, answers, strict=True):
        each = [word_errors(reference, text.split()) for text in (texts[: max(counts)] or [""])]
        least = list(accumulate(each, min))
        errors = [sum_ + least[min(n, len(least)) - 1] for sum_, n in zip(errors, counts, strict=True)]
    return [_rate(sum_, references) for sum_ in errors]


def of_lattices(references: Sequence[Sequence[str]], lattices: Sequence[Any]) -> float:
    """The oracle WER of our lattices, in percent."""
    errors = sum(one.oracle_wer(words).errors for one, words in zip(lattices, references, strict=True))
    return _rate(errors, references)


def of_kaldi_lattices(
    references: Sequence[Sequence[str]], lattices: Sequence[Any], beams: Iterable[float], ids: Mapping[str, int]
) -> list[tuple[float, float]]:
    """The oracle WER of lattices in Kaldi's form, pruned to each beam.

    ids : the label of each word; those of the reference that have none are in no lattice
    """
    made = [as_lattice(lattice.ordered()) if lattice.num_states else None for lattice in lattices]
    found = []
    for beam in beams:
        errors = 0
        for one, reference in zip(made, references, strict=True):
            if one is None:
                errors += len(reference)
                continue
            graph, whole = one
            pruned, _, _ = _lattice.prune(whole, 0, beam)
            wanted = [ids.get(word, UNKNOWN) for word in reference]
            errors += _lattice.oracle(pruned, 0, _lattice.link_words(pruned, 0, graph), wanted).errors
        found.append((beam, _rate(errors, references)))
    return found


def _rate(errors: int, references: Sequence[Sequence[str]]) -> float:
    return 100 * errors / max(1, sum(map(len, references)))


def draw(lists: Mapping[str, Points], beams: Mapping[str, Points], path: Path) -> None:
    """Draws oracle WERs against n, and against the lattice beam where there are lattices."""
    panels = {"answers (n)": lists} | ({"lattice beam": beams} if beams else {})
    line_plots(path, panels, "oracle WER, %", logarithmic=["answers (n)"])
