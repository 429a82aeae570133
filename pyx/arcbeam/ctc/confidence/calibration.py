"""Confidences that are as often right as they say: the `posterior_scale` that fits speech whose words are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from arcbeam.arrays.batches import one_or_many
from arcbeam.core.calls import lists_options
from arcbeam.core.show import shortened
from arcbeam.core.warn import warn
from arcbeam.ctc.decoder import CtcDecoder, search_of
from arcbeam.ctc.hypothesis import Hypothesis
from arcbeam.ctc.results import Outputs

if TYPE_CHECKING:
    from arcbeam.ctc.results import Results
    from arcbeam.ctc.search import BeamSearch

COARSE = tuple(2.0**power for power in range(-3, 4))
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
STEPS = 10  # of the golden section between factors of two, which then gives the scale to 1 %
FEWEST_RIGHT = 0.1  # of the words; with fewer the references are those of other speech
SUREST = 1.0 - 1e-7  # a wrong word of confidence 1 would cost infinitely much

Confidences = npt.NDArray[np.float64]
Rights = npt.NDArray[np.bool_]


class ConfidenceCalibration(NamedTuple):
    """The result of `calibrate_confidence`.

    Attributes
    ----------
    posterior_scale : float
        The option of a decoder with which its confidences fit best.
    cross_entropy : float
        Normalised cross entropy with this scale: 1 for confidences that are always right, 0 for a confidence that is
        the same for all words, negative for worse ones.
    cross_entropy_before : float
        Normalised cross entropy with the `posterior_scale` that the decoder has.
    words : int
        The number of words of the hypotheses.
    """

    posterior_scale: float
    cross_entropy: float
    cross_entropy_before: float
    words: int


@lists_options()
def calibrate_confidence(
    decoder: CtcDecoder, log_probs: Any, references: Sequence[str], lengths: Any = None
) -> ConfidenceCalibration:
    """Finds the `posterior_scale` with which the confidences of words have the largest normalised cross entropy.

    Each word of a hypothesis is right or wrong by an alignment with the reference that has the fewest errors. The
    speech is decoded once. It should not be what the models were trained on, and the more wrong words it has, the
    better the scale is known.

    Parameters
    ----------
    decoder : CtcDecoder
        With the options that will be used, `lattice_beam` above all.
    log_probs : array [batch, frames, columns], or sequence of arrays [frames, columns]
        As `CtcDecoder.decode` takes them.
    references : sequence of str [batch]
        What was said: words with spaces between.
    lengths : sequence or array of int [batch], optional
        Frames of each utterance.

    Returns
    -------
    ConfidenceCalibration
        Its ``posterior_scale``, between 1/16 and 16, is an option of the decoder.

    Raises
    ------
    TypeError
        Something that is not a decoder of CTC models, or references that are not texts.
    ValueError
        References that do not match the batch; a graph without words; hypotheses whose words are all right or all
        wrong, from which nothing can be learnt. And what `CtcDecoder.decode` raises.

    Warns
    -----
    UserWarning
        More than nine words in ten are wrong, as with references in another order than the utterances.

    Notes
    -----
    With N words of which the share p is right, H = -p log p - (1 - p) log(1 - p), and the measure is
    1 + (sum of log c over the right words + sum of log(1 - c) over the wrong ones) / (N H): the normalised cross
    entropy of NIST's evaluations of speech recognition. Confidences count as at most 1 - 1e-7 and at least 1e-7.
    """
    if not isinstance(decoder, CtcDecoder):
        raise TypeError(f"decoder: expected an arcbeam.CtcDecoder, got {type(decoder).__name__}")
    listed = isinstance(references, Iterable) and not isinstance(references, (str, Mapping))
    if not listed or not all(isinstance(reference, str) for reference in references):
        hint = "; give list(references.values())" if isinstance(references, Mapping) else ""
        raise TypeError(f"references: expected a list of str, one an utterance, got {shortened(references, 80)}{hint}")
    if decoder.graph.word_symbols is None:
        raise ValueError("calibrate_confidence: expected a graph with symbols of words; give words= to Graph.load")
    search = search_of(decoder)
    call = search.call(None, Outputs(lattice=True), None, None, "raise", logits=False)
    log_probs, lengths, _ = one_or_many(log_probs, lengths)
    results = search.searched(log_probs, lengths, call)
    found = search.answered(results)
    if len(found) != len(references):
        raise ValueError(f"references: expected one for each utterance, {len(found)}, got {len(references)}")
    labels = [
        right_words(reference.split(), [word.word for word in hypothesis.words])
        for reference, hypothesis in zip(references, found, strict=True)
    ]
    right = np.concatenate([np.zeros(0, np.bool_), *labels])
    if not len(right):
        raise ValueError(
            f"log_probs: expected speech in which the decoder finds words, got {len(found):,} utterances without any; "
            "give a few hundred utterances, and what was said in each as references"
        )
    if right.all() or not right.any():
        raise ValueError(
            f"references: expected hypotheses with right and wrong words, got {len(right):,} words that are all "
            f"{'right' if right.all() else 'wrong'}; give more speech, and references in the order of the utterances, "
            "written as the words of the graph are (capitals?)"
        )
    if right.mean() < FEWEST_RIGHT:
        warn(
            f"references: {np.count_nonzero(~right):,} of {len(right):,} words are wrong: are they in the order of the "
            "utterances, and written as the words of the graph are (capitals?)"
        )

    def measure(scale: float) -> float:
        return normalised_cross_entropy(_confidences(search, results, scale), right)

    scale, present = round(_best(measure), 3), decoder.options.scale
    fitted, before = measure(scale), measure(present)
    if before > fitted:  # by a little, since the search stops at 1 %
        scale, fitted = present, before
    return ConfidenceCalibration(scale, fitted, before, len(right))


def normalised_cross_entropy(confidences: Confidences, right: Rights) -> float:
    """NIST's measure of confidences; nan if all words are right or all are wrong."""
    share = right.mean() if len(right) else 0.0
    if not 0.0 < share < 1.0:
        return math.nan
    sure = np.clip(confidences, 1.0 - SUREST, SUREST)
    most = -(share * math.log(share) + (1.0 - share) * math.log(1.0 - share)) * len(right)
    return float((most + np.log(sure[right]).sum() + np.log(1.0 - sure[~right]).sum()) / most)


def right_words(reference: Sequence[str], hypothesis: Sequence[str]) -> Rights:
    """The words of the hypothesis that a minimum-error alignment matches; ties are broken in favour of late pairs."""
    spoken, given = np.array(reference, object), np.array(hypothesis, object)
    right = np.zeros(len(given), np.bool_)
    places = np.arange(len(given) + 1)
    errors = [places]
    for word in spoken:
        before = errors[-1]
        row = np.concatenate([[before[0] + 1], np.minimum(before[:-1] + (given != word), before[1:] + 1)])
        errors.append(np.minimum.accumulate(row - places) + places)  # insertions
    i, j = len(spoken), len(given)
    while i and j:
        same = bool(spoken[i - 1] == given[j - 1])
        if errors[i][j] == errors[i - 1][j - 1] + (not same):
            i, j = i - 1, j - 1
            right[j] = same
        elif errors[i][j] == errors[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    return right


def _confidences(search: BeamSearch, results: Results, scale: float) -> Confidences:
    """float64 [words of all hypotheses]: with another scale, from the same lattices."""
    outputs = Outputs(confidence=True)
    assert results.paths.lattices is not None
    answers = search.reader.answers(results.paths.lattices, results.boosts, outputs, scale)
    again = replace(results, outputs=outputs, answers=answers)
    hypotheses = [Hypothesis(again, index) for index in range(len(again.paths.begins))]
    return np.array([word.confidence for hypothesis in hypotheses for word in hypothesis.words], np.float64)


def _best(measure: Callable[[float], float]) -> float:
    """The scale of the largest measure: of powers of two first, then between the neighbours of the best of them."""
    values = [measure(scale) for scale in COARSE]
    at = int(np.argmax(values))
    low, high = math.log(COARSE[at]) - math.log(2.0), math.log(COARSE[at]) + math.log(2.0)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    of_left, of_right = measure(math.exp(left)), measure(math.exp(right))
    for _ in range(STEPS):
        if of_left > of_right:
            high, right, of_right = right, left, of_left
            left = high - GOLDEN * (high - low)
            of_left = measure(math.exp(left))
        else:
            low, left, of_left = left, right, of_right
            right = low + GOLDEN * (high - low)
            of_right = measure(math.exp(right))
    return math.exp((low + high) / 2.0)
