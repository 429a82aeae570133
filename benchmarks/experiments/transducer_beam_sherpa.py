"""Beam search of transducers on one core: arcbeam's twin and sherpa-onnx's `modified_beam_search`.

The networks are those of `transducer_beam` that were trained with the sum over all paths. Both get the same encoder
output (`benchmarks.adapters.sherpa_transducer`); features and encoders are not timed. Before anything is timed, greedy
search of both has to write the same tokens, but for one utterance in a hundred, whose sums are taken in another order.
Utterance after utterance, in turns, on one core and one thread; seconds are those of the processor, which a busy
machine disturbs less. A search error is a best text whose exact log-prob is more than 0.001 nats below that of the best
text of any search here, an infinite beam with 64 hypotheses among them. sherpa-onnx keeps paths of equal texts apart,
and of the durations of a TDT takes the most likely one.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import adapters
from benchmarks.data import datasets
from benchmarks.experiments import transducer_beam
from benchmarks.experiments.transducer_wer import MODELS, weights
from benchmarks.harness import timing
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ORDER = 51
TITLE = "Beam search of small transducers on one core, and sherpa-onnx"
SET = "test-other-100"
BEAM = 4.0
MOST = (4, 8)
UNLIKE = 0.01  # of the utterances, whose greedy texts may differ
OURS, PEER = "arcbeam", "sherpa-onnx"
COLUMNS = [
    Column("model", "model"),
    Column("decoder", "decoder"),
    Column("beam", "beam", "{:g}"),
    Column("max_hypotheses, max_active_paths", "most"),
    Column("ms an utterance", "milliseconds", "{:.2f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("times sherpa-onnx", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("search errors", "errors"),
    Column("gap, nats", "gap", "{:.4f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("status", "status"),
]


class Ours:
    """arcbeam's search, for one utterance after the other."""

    def __init__(self, task: transducer_beam.Task, most: int | None) -> None:
        options: dict[str, Any] = {} if most is None else {"beam": BEAM, "max_hypotheses": most}
        self.decoder, self.encoded = task.decoder(threads=1, **options), task.encoded

    def prepare(self) -> None:
        """Nothing has to be."""

    def decode(self) -> list[list[int]]:
        return [self.decoder.decode(frames).tokens.tolist() for frames in self.encoded]


class Peer:
    """sherpa-onnx's; a stream is decoded once, so that they are made before each turn."""

    def __init__(self, task: transducer_beam.Task, most: int | None, folder: Path) -> None:
        from benchmarks.adapters.sherpa_transducer import SherpaTransducer

        folder.mkdir()
        self.search = SherpaTransducer(folder, task.arrays, task.encoded, task.blank, most)
        self.streams: list[Any] = []

    def prepare(self) -> None:
        self.streams = self.search.streams()

    def decode(self) -> list[list[int]]:
        self.search.decode(self.streams)
        return self.search.tokens(self.streams)


def run(context: Context) -> Iterator[Row]:
    from benchmarks.tasks.exact_transducer import ExactTransducer
    from data import speech_transducer, train_transducer

    trained = datasets.CACHE / "transducer" / "pieces.model"
    alphabet = train_transducer.alphabet_of(datasets.data_folder(), trained if trained.exists() else None)
    dataset = datasets.load(SET).first(context.utterances)
    cores = os.sched_getaffinity(0)
    for model, kind in MODELS.items():
        context.progress(model)
        arrays = weights(f"{kind}-full-sum")
        durations = speech_transducer.DURATIONS if model == "TDT" else None
        ours = speech_transducer.decoder_arrays(arrays)
        encoded = speech_transducer.encode(speech_transducer.load_light(arrays), dataset.utterances)
        exact = ExactTransducer(ours, alphabet.blank, durations)
        task = transducer_beam.Task(ours, alphabet.blank, durations, encoded, exact)
        os.sched_setaffinity(0, {min(cores)})
        try:
            for row in rows_of(task, dataset, alphabet, context):
                yield {"model": model, **row}
        finally:
            os.sched_setaffinity(0, cores)


def rows_of(task: transducer_beam.Task, dataset: datasets.Dataset, alphabet: Any, context: Context) -> Iterator[Row]:
    """A row of each decoder and size."""
    made: dict[tuple[str, int | None], Ours | Peer] = {}
    with tempfile.TemporaryDirectory() as folder:
        for most in (None, *MOST):
            made[OURS, most] = Ours(task, most)
            try:
                made[PEER, most] = Peer(task, most, Path(folder) / str(most))
            except (ImportError, OSError) as error:
                yield {"decoder": PEER, "most": most, "status": f"sherpa-onnx missing: {adapters.why(error)}"}
        texts = {}
        for key, each in made.items():
            context.step(str(key))
            each.prepare()
            texts[key] = each.decode()
        if (PEER, None) in texts:
            unlike = sum(a != b for a, b in zip(texts[OURS, None], texts[PEER, None], strict=True))
            if unlike > max(1, UNLIKE * len(dataset.references)):
                raise AssertionError(f"greedy texts of {unlike} utterances differ: the exported networks are others")
        taken = timed(made, context)
    widest = task.decoder(beam=transducer_beam.WIDEST[0], max_hypotheses=transducer_beam.WIDEST[1])
    best = [found.tokens.tolist() for found in widest.decode(task.encoded)]
    scores = {key: log_probs(task, each) for key, each in [*texts.items(), ((OURS, -1), best)]}
    highest = np.max(list(scores.values()), axis=0)
    for key, seconds in taken.items():
        decoder, most = key
        each = [s / f for s, f in zip(taken.get((PEER, most), []), seconds, strict=False)]
        gaps, middle = highest - scores[key], statistics.median(seconds)
        yield {
            "decoder": decoder, "most": most, "beam": BEAM if decoder == OURS and most else None,
            "milliseconds": 1e3 * middle / len(dataset.references), "rtfx": dataset.seconds / middle,
            "ratio": statistics.median(each) if each else None,
            "ratio_spread": [min(each), max(each)] if each else None,
            "errors": int((gaps > transducer_beam.NEAR).sum()), "gap": float(gaps.mean()),
            "wer": 100 * word_error_rate(dataset.references, [alphabet.text(tokens) for tokens in texts[key]]),
        }  # fmt: skip


def log_probs(task: transducer_beam.Task, texts: list[list[int]]) -> Any:
    return np.array([task.log_prob(at, tokens) for at, tokens in enumerate(texts)])


def timed(made: dict[tuple[str, int | None], Any], context: Context) -> dict[tuple[str, int | None], list[float]]:
    """Processor seconds of each turn."""
    turns: dict[str, Callable[[], object]] = {str(key): each.decode for key, each in made.items()}
    taken: dict[tuple[str, int | None], list[float]] = {key: [] for key in made}
    for repeat in range(context.repeats):
        for each in made.values():
            each.prepare()
        context.step(f"turn {repeat + 1} of {context.repeats}")
        for key, found in zip(made, timing.interleave(turns, 1, warm_up=False).values(), strict=True):
            taken[key] += found.cpu
    return taken
