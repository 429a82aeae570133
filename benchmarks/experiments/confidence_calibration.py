"""Confidences of words by posterior scale: normalised cross entropy (NCE) and expected calibration error (ECE).

A word of the hypothesis is right or wrong by its alignment with the reference. NCE is 1 for confidences that are always
right, 0 for the share of right words said of every word, and negative for what is worse; a wrong word of confidence 1
counts as 1 - 1e-7. The calibration error is the average of |confidence - share of right words| over bins of equal
width, weighted by their words. The scales are 1, which takes the search's scores as they are; the default, 0.6 / the
acoustic scale; and the one that `arcbeam.calibrate_confidence` fits on `ljspeech-200` alone, for each graph, acoustic
scale and lattice beam. The scale changes neither words nor scores. Rows of pieces are of synthetic log-probs for
sentences of the set's references. `surely wrong` counts the wrong words that have no rival in the lattice: no scale can
tell them from right ones, a larger lattice beam can; 16 is the default.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.ctc.confidence.calibration import normalised_cross_entropy, right_words
from benchmarks.data import datasets, graphs
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from data import workload

ORDER = 32
TITLE = "Confidences by posterior scale"
FITTED_ON = "ljspeech-200"
SETS = (FITTED_ON, "test-other-100", "an4-test")
GRAPHS = {"char-3gram": (1.0, 1.5), "spm512-3gram": (1.0,)}  # and acoustic scales
LATTICE_BEAMS = (8.0, 12.0, 16.0)
BINS = 15
SURE = 1.0 - 1e-7
TAKES = {"graph": f"one of {', '.join(GRAPHS)} alone"}
COLUMNS = [
    Column("graph", "graph"),
    Column("acoustic scale", "acoustic_scale", "{:g}"),
    Column("lattice beam", "lattice_beam", "{:g}"),
    Column("set", "set"),
    Column("words", "words", "{:,}"),
    Column("wrong, %", "wrong", "{:.1f}"),
    Column("surely wrong", "surely_wrong"),
    Column("fitted scale", "scale", "{:.2f}"),
    Column("NCE: scale 1", "nce_one", "{:.3f}"),
    Column("default", "nce_default", "{:.3f}"),
    Column("fitted", "nce", "{:.3f}"),
    Column("ECE, %: scale 1", "ece_one", "{:.2f}"),
    Column("default", "ece_default", "{:.2f}"),
    Column("fitted", "ece", "{:.2f}"),
]


def expected_calibration_error(
    confidences: npt.NDArray[np.float64], right: npt.NDArray[np.bool_], bins: int = BINS
) -> float:
    """How far the confidences of a bin are from the share of its words that are right, averaged over words."""
    bin_of = np.minimum((confidences * bins).astype(np.int64), bins - 1)
    surplus = np.bincount(bin_of, confidences, bins) - np.bincount(bin_of, right, bins)
    return float(np.abs(surplus).sum() / max(len(right), 1))


def speech(graph: str, name: str, utterances: int | None) -> tuple[list[npt.NDArray[np.floating]], Sequence[str]]:
    """The log-probs and references of a set: real ones, or synthetic ones of its sentences in pieces."""
    dataset = datasets.load(name).first(utterances)
    if not graph.startswith("spm"):
        return dataset.utterances, dataset.references
    seed = seeds.used("pieces", workload.WorkloadOptions.seed)
    options = workload.WorkloadOptions(utterances=len(dataset.ids), confusion=1.4, seed=seed)
    model = datasets.sentencepiece_model(int(graph.removeprefix("spm").removesuffix("-3gram")))
    made = workload.generate(dataset.references, model, options)
    return np.split(made.log_probs, np.cumsum(made.lengths)[:-1]), made.references


def confidences(
    decoder: arcbeam.CtcDecoder, utterances: Sequence[npt.NDArray[np.floating]], references: Sequence[str]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Of all words of the hypotheses, and which of the words are right."""
    found = decoder.decode(utterances, confidence=True)
    values = np.array([word.confidence for hypothesis in found for word in hypothesis.words], np.float64)
    labels = [
        right_words(reference.split(), [word.word for word in hypothesis.words])
        for reference, hypothesis in zip(references, found, strict=True)
    ]
    if not all(0.0 <= value <= 1.0 for value in values.tolist()):
        raise AssertionError("a confidence is not in [0, 1]")
    return values, np.concatenate([np.zeros(0, np.bool_), *labels])


def run(context: Context) -> Iterator[Row]:
    only = context.options.get("graph")
    for name, acoustic_scales in GRAPHS.items():
        if only is not None and only != name:
            continue
        graph = graphs.get(name, context.progress).graph
        sets = {each: speech(name, each, context.utterances) for each in SETS}
        for acoustic_scale in acoustic_scales:
            for lattice_beam in LATTICE_BEAMS:
                context.step(f"{name}, acoustic scale {acoustic_scale:g}, lattice beam {lattice_beam:g}")
                yield from rows(name, graph, sets, acoustic_scale, lattice_beam)


def rows(
    name: str,
    graph: arcbeam.Graph,
    sets: dict[str, tuple[list[npt.NDArray[np.floating]], Sequence[str]]],
    acoustic_scale: float,
    lattice_beam: float,
) -> Iterator[Row]:
    """A row for each set, with the scale that fits the first."""

    def decoder(posterior_scale: float | None) -> arcbeam.CtcDecoder:
        return arcbeam.CtcDecoder(
            graph, acoustic_scale=acoustic_scale, lattice_beam=lattice_beam, posterior_scale=posterior_scale,
            threads=1, device="cpu",
        )  # fmt: skip

    utterances, references = sets[FITTED_ON]
    scale = arcbeam.calibrate_confidence(decoder(1.0), utterances, references).posterior_scale
    for of, (utterances, references) in sets.items():
        scales = {"_one": 1.0, "_default": None, "": scale}
        values, right = confidences(decoder(1.0), utterances, references)
        row: Row = {
            "graph": name,
            "acoustic_scale": acoustic_scale,
            "lattice_beam": lattice_beam,
            "set": of,
            "words": len(right),
            "wrong": 100 * float(1 - right.mean()),
            "surely_wrong": int((values[~right] > SURE).sum()),
            "scale": scale,
        }
        for suffix, used in scales.items():
            values, same = confidences(decoder(used), utterances, references)
            if not np.array_equal(right, same):
                raise AssertionError("words depend on the posterior scale")
            row |= {
                f"nce{suffix}": normalised_cross_entropy(values, right),
                f"ece{suffix}": 100 * expected_calibration_error(values, right),
            }
        yield row
