"""What a limit of hypotheses a state loses, on sets that `rescoring_wer` does not test on: to choose it by.

Models, graph and scales are those of `rescoring_wer`. A path is lost where the score found is below that of no limit at
the same beam: that is the search's own error, which the words' errors only show by chance. The last row has a
wider beam. Processor time is one thread's.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.data import datasets
from benchmarks.experiments.rescoring_wer import BEAM, LIMITS, WIDE_BEAM
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import lm_task
from data.workload import word_error_rate

ORDER = 32
TITLE = "Rescoring: what a limit of hypotheses a state loses"
SETS = ("an4-test", "ljspeech-200", "throughput")
COLUMNS = [
    Column("beam", "beam", "{:g}"),
    Column("hypotheses a state", "hypotheses"),
    *(Column(f"{name}, paths lost", f"lost_{name}") for name in SETS),
    *(Column(f"{name}, word errors", f"errors_{name}") for name in SETS),
    Column("tokens a frame", "tokens", "{:.1f}"),
    Column("processor time, s", "cpu", "{:.2f}"),
]
TAKES = {"folder": "of the models and graphs (large-lm of the cache)"}
ROUNDING = 1e-3  # of a sum of float32, far below what another word changes


def lost(scores: Sequence[float], wanted: Sequence[float]) -> int:
    """Utterances whose path scores less than the one wanted."""
    return sum(score < best - ROUNDING for score, best in zip(scores, wanted, strict=True))


def run(context: Context) -> Iterator[Row]:
    folder = Path(context.options.get("folder", datasets.CACHE / "large-lm"))
    task = lm_task.load(Context(options={"folder": str(folder)}, shown=context.shown), kenlm=False)
    sets = [datasets.load(name).first(context.utterances) for name in SETS]
    rows: list[Row] = []
    scores: dict[tuple[int, str], list[float]] = {}
    runs = [*((BEAM, n) for n in LIMITS), (WIDE_BEAM, None)]
    for at, (beam, n) in enumerate(runs):
        decoder = lm_task.decoder(task, lm_task.Contender("", hypotheses=n), beam)
        row: Row = {"beam": beam, "hypotheses": n or "no limit"}
        frames, tokens, seconds = 0, 0, 0.0
        for dataset in sets:
            began = time.process_time()
            found = decoder.decode(dataset.utterances)
            seconds += time.process_time() - began
            scores[at, dataset.name] = [h.score for h in found]
            words = sum(len(r.split()) for r in dataset.references)
            rate = word_error_rate(dataset.references, [h.text for h in found])
            row[f"errors_{dataset.name}"] = round(rate * words)
            frames, tokens = frames + decoder.stats.frames, tokens + decoder.stats.tokens
        rows.append(row | {"tokens": tokens / frames, "cpu": seconds})
    unlimited = runs.index((BEAM, None))
    for at, row in enumerate(rows):
        yield row | {f"lost_{name}": lost(scores[at, name], scores[unlimited, name]) for name in SETS}
