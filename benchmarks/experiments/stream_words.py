"""Streams of speech on one core: how late words become stable, and what a chunk costs.

Every utterance is a stream that is decoded in chunks of equal length, up to the words and the stable words of each
partial result. A word of the final result *becomes stable* with the first chunk whose stable words have it; its delay
is the time from its end to the end of that chunk. Words that the end of the utterance alone makes stable are counted
apart. A partial text is *taken back* if the next one does not begin with it. Checked: the final results are those of
the whole utterances, in arcs and scores, and all stable words are words of the final result, with their times. The
times of chunks are those of one stream alone, up to text and stable words. For the last column 64 streams are decoded
together, each with its next chunk in every round and a new utterance where one ends, up to all texts.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row

ORDER = 23
TITLE = "Streams on one core: when words become stable, and what a chunk costs"
GRAPH = "char-3gram"
ACOUSTIC_SCALE = 1.5
SETS = ("ljspeech-200", "test-other-100", "an4-test")
BEAMS = (12.0, 17.0)
CHUNKS = (5, 20)  # frames
STREAMS = 64
ROUNDS = 200
COLUMNS = [
    Column("set", "set"),
    Column("beam", "beam", "{:g}"),
    Column("chunk, ms", "chunk_ms", "{:.0f}"),
    Column("words", "words"),
    Column("stable before the end, %", "before_end", "{:.1f}"),
    Column("delay, ms: half", "delay_median", "{:,.0f}"),
    Column("95 %", "delay_p95", "{:,.0f}"),
    Column("texts taken back, %", "taken_back", "{:.1f}"),
    Column("ms a chunk: half", "cost_median", "{:.3f}"),
    Column("95 %", "cost_p95", "{:.3f}"),
    Column("64 streams in real time, % of a core", "core", "{:.2f}"),
]


@dataclass
class Followed:
    """What was seen of streams.

    Attributes
    ----------
    delays : list of float
        Seconds from the end of a word to the end of the chunk that made it stable, of those before the last chunk.
    words, taken_back, partials : int
    costs : list of float
        Seconds of each chunk.
    """

    delays: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    words: int = 0
    taken_back: int = 0
    partials: int = 0

    def stream(self, decoder: arcbeam.CtcDecoder, log_probs: npt.NDArray[Any], frames: int, shift: float) -> None:
        """Decodes an utterance in chunks; AssertionError if it is not what the whole gives."""
        stream, ends, before, stable = decoder.stream(), [], "", []
        for first in range(0, len(log_probs), frames):
            start = time.perf_counter()
            partial = stream.decode_chunk(log_probs[first : first + frames])
            text, stable_words = partial.text, partial.stable_words
            self.costs.append(time.perf_counter() - start)
            self.partials += 1
            self.taken_back += not _begins(text.split(), before.split())
            before = text
            ends += [partial.num_frames * shift] * (len(stable_words) - len(ends))
            stable.append(stable_words)
        final, [whole] = stream.finish(), decoder.decode([log_probs])
        if final.arcs.tobytes() != whole.arcs.tobytes() or final.score != whole.score:
            raise AssertionError("a stream is not what the whole utterance gives")
        if any(words != whole.words[: len(words)] for words in stable):
            raise AssertionError("a stable word was taken back")
        self.words += len(whole.words)
        self.delays += [at - word.end for at, word in zip(ends, whole.words, strict=False) if word.end is not None]


def _begins(words: Sequence[str], with_words: Sequence[str]) -> bool:
    return list(words[: len(with_words)]) == list(with_words)


def run(context: Context) -> Iterator[Row]:
    graph = graphs.get(GRAPH, context.progress).graph
    for name in SETS:
        dataset = datasets.load(name).first(context.utterances)
        utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
        for beam in BEAMS:
            decoder = arcbeam.CtcDecoder(
                graph, beam=beam, acoustic_scale=ACOUSTIC_SCALE, frame_shift=dataset.frame_shift, threads=1,
                device="cpu",
            )  # fmt: skip
            for frames in CHUNKS:
                context.step(f"{name}, beam {beam:g}, chunks of {frames} frames")
                followed = Followed()
                for log_probs in utterances:
                    followed.stream(decoder, log_probs, frames, dataset.frame_shift)
                core = 100.0 * STREAMS * seconds_a_frame(decoder, utterances, frames) / dataset.frame_shift
                yield {"set": name, "beam": beam, "core": core} | row(followed, frames * dataset.frame_shift)


def seconds_a_frame(decoder: arcbeam.CtcDecoder, utterances: Sequence[npt.NDArray[Any]], frames: int) -> float:
    """CPU seconds for each frame of some streams that are decoded together, up to the texts of all in each round."""
    waiting = itertools.cycle(utterances)
    streams = [(decoder.stream(), next(waiting), 0) for _ in range(STREAMS)]
    taken, start = 0, time.process_time()
    for _ in range(ROUNDS):
        chunks = [log_probs[at : at + frames] for _, log_probs, at in streams]
        last = [at + frames >= len(log_probs) for _, log_probs, at in streams]
        decoder.decode_chunks([stream for stream, _, _ in streams], chunks, last=last).texts()
        taken += sum(map(len, chunks))
        streams = [
            (decoder.stream(), next(waiting), 0) if ended else (stream, log_probs, at + frames)
            for (stream, log_probs, at), ended in zip(streams, last, strict=True)
        ]
    return (time.process_time() - start) / max(taken, 1)


def row(followed: Followed, chunk_s: float) -> Row:
    delays, costs = 1e3 * np.asarray(followed.delays), 1e3 * np.asarray(followed.costs)
    return {
        "chunk_ms": 1e3 * chunk_s,
        "words": followed.words,
        "before_end": 100.0 * len(delays) / max(followed.words, 1),
        "delay_median": float(np.median(delays)) if len(delays) else None,
        "delay_p95": float(np.percentile(delays, 95)) if len(delays) else None,
        "taken_back": 100.0 * followed.taken_back / max(followed.partials, 1),
        "cost_median": float(np.median(costs)),
        "cost_p95": float(np.percentile(costs, 95)),
    }
