"""Endpoints: pauses between sentences that are missed, and sentences that are cut where nobody pauses.

The utterances of a set are joined to one recording with a pause after each, and decoded as one stream of chunks whose
sentences end by the rules of Kaldi or of sherpa, with their defaults. A pause is made of frames of the set's own
utterances in which nobody speaks (before the first word or after the last, the blank or the space the best column),
drawn at random. What an utterance says where is known from decoding it alone: an endpoint after an utterance's last
word and before the next one's first *finds* the pause between them. Pauses without an endpoint are *missed*, of all
pauses. An endpoint within an utterance, between its first and its last word, is *false*; those of the rule for 20 s are
counted apart. Both are in per cent of the utterances, and so are words that are wrong then, of the references, compared
with those of the utterances decoded alone. The delay is the time from the end of an utterance's last word to the
endpoint. Utterances pause within themselves, too: read sentences have commas. Checked: each sentence has the arcs and
the score that a decode of its frames gives.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ORDER = 23
TITLE = "Endpoints of streams: missed pauses and false endpoints"
GRAPH = "char-3gram"
ACOUSTIC_SCALE, BEAM = 1.5, 12.0
SETS = ("ljspeech-200", "test-other-100", "an4-test")
PAUSES = (0.5, 1.0, 1.5, 2.5)  # seconds
CHUNK = 20  # frames
SEED = 0
RULES = {"Kaldi": arcbeam.Endpoint.kaldi(), "sherpa": arcbeam.Endpoint.sherpa()}
COLUMNS = [
    Column("set", "set"),
    Column("rules", "rules"),
    Column("pause, s", "pause", "{:g}"),
    Column("pauses", "pauses"),
    Column("missed, %", "missed", "{:.1f}"),
    Column("false, %", "false", "{:.1f}"),
    Column("at 20 s, %", "long", "{:.1f}"),
    Column("delay, s: half", "delay_median", "{:.2f}"),
    Column("95 %", "delay_p95", "{:.2f}"),
    Column("words wrong, %", "wer", "{:.2f}"),
    Column("alone, %", "wer_alone", "{:.2f}"),
]


@dataclass(frozen=True)
class Recording:
    """Utterances with pauses after them.

    Attributes
    ----------
    log_probs : float32[frames, columns]
    starts : list of int
        The first frame of each utterance.
    spoken : list of (int, int)
        The first frame of the first word of each utterance, and the end of its last word; utterances without words
        have none.
    """

    log_probs: npt.NDArray[np.float32]
    starts: list[int]
    spoken: list[tuple[int, int]]


def joined(
    utterances: Sequence[npt.NDArray[Any]], words: Sequence[Sequence[arcbeam.words.Word]], silent: Sequence[int],
    pause: int, random: np.random.Generator,
) -> Recording:  # fmt: skip
    """The utterances with so many frames of pause after each; `words` are those that each has alone."""
    edges = [
        rows[[i for i in range(len(rows)) if not first <= i < last and rows[i].argmax() in silent]]
        for rows, said in zip(utterances, words, strict=True)
        for first, last in [(said[0].start_frame, said[-1].end_frame) if said else (0, len(rows))]
    ]
    quiet = np.concatenate(edges)
    if not len(quiet):
        raise ValueError("expected frames in which nobody speaks, before the first words or after the last")
    parts, starts, spoken, at = [], [], [], 0
    for rows, said in zip(utterances, words, strict=True):
        if said:
            spoken.append((at + said[0].start_frame, at + said[-1].end_frame))
        starts.append(at)
        parts += [rows, quiet[random.integers(0, len(quiet), pause)]]
        at += len(rows) + pause
    return Recording(np.concatenate(parts).astype(np.float32), starts, spoken)


def texts(starts: Sequence[int], found: Sequence[arcbeam.Partial]) -> list[str]:
    """The words that begin in each utterance and its pause."""
    begun: list[list[str]] = [[] for _ in starts]
    for word in [word for one in found for word in one.words]:
        begun[int(np.searchsorted(starts, word.start_frame, side="right")) - 1].append(word.word)
    return [" ".join(words) for words in begun]


def sentences(
    decoder: arcbeam.CtcDecoder, log_probs: npt.NDArray[np.float32], endpoint: arcbeam.Endpoint, chunk: int = CHUNK
) -> list[arcbeam.Partial]:
    """The final results of the sentences; AssertionError if one is not what its frames give."""
    stream, found = decoder.stream(endpoint=endpoint), []
    for at in range(0, len(log_probs), chunk):
        partial = stream.decode_chunk(log_probs[at : at + chunk])
        while partial.endpoint is not None:
            found.append(partial)
            partial = stream.reset()
    found.append(stream.finish())
    whole = decoder.decode([log_probs[one.first_frame : one.num_frames] for one in found])
    if any(a.arcs.tobytes() != b.arcs.tobytes() or a.score != b.score for a, b in zip(found, whole, strict=True)):
        raise AssertionError("a sentence is not what its frames give")
    return found


def judged(spoken: Sequence[tuple[int, int]], found: Sequence[tuple[int, bool]], shift: float) -> Row:
    """What endpoints, frames and whether they are of the rule for long sentences, do to utterances."""
    hit: dict[int, float] = {}
    false = long = 0
    for frame, is_long in found:
        ended = sum(frame >= end for _, end in spoken) - 1  # the last utterance that has ended
        if ended + 1 < len(spoken) and frame > spoken[ended + 1][0]:
            false, long = false + (not is_long), long + is_long
        elif ended >= 0:
            hit.setdefault(ended, (frame - spoken[ended][1]) * shift)
    delays, count = list(hit.values()), max(len(spoken), 1)
    return {
        "pauses": len(spoken),
        "missed": 100.0 * (len(spoken) - len(hit)) / count,
        "false": 100.0 * false / count,
        "long": 100.0 * long / count,
        "delay_median": float(np.median(delays)) if delays else None,
        "delay_p95": float(np.percentile(delays, 95)) if delays else None,
    }


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(GRAPH, context.progress).graph
    silent = [column for column in (graph.blank, graph.separator_column) if column is not None]
    for name in SETS:
        dataset = datasets.load(name).first(context.utterances)
        utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
        shift = dataset.frame_shift
        decoder = arcbeam.CtcDecoder(graph, beam=BEAM, acoustic_scale=ACOUSTIC_SCALE, frame_shift=shift, device="cpu")
        alone = decoder.decode(utterances)
        wer_alone = 100.0 * word_error_rate(dataset.references, [one.text for one in alone])
        for pause in PAUSES:
            random = np.random.default_rng(seeds.used("pauses", SEED))
            frames = round(pause / shift)
            recording = joined(utterances, [one.words for one in alone], silent, frames, random)
            for rules, endpoint in RULES.items():
                context.step(f"{name}, pauses of {pause:g} s, {rules}")
                found = sentences(decoder, recording.log_probs, endpoint)
                longest = list(endpoint.rules)[-1]
                ends = [(one.num_frames, one.endpoint == longest) for one in found if one.endpoint is not None]
                wer = 100.0 * word_error_rate(dataset.references, texts(recording.starts, found))
                row = {"set": name, "rules": rules, "pause": pause, "wer": wer, "wer_alone": wer_alone}
                yield row | judged(recording.spoken, ends, shift)
