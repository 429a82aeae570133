"""Beam search of transducers on the CPU: its work, its search errors and its word error rate.

The models are those of `data.train_transducer`, with the loss on nodes of an alignment and with the sum over all paths
(``--loss full-sum``). They lie in the cache as transducer/NAME.npz and NAME-full-sum.npz, with pieces.model if it was
trained, too; the header has the digests of their weights. The search itself counts its work: hypotheses that live on a
frame, runs of the networks in sequence and rows of the joint network, the latter two compared with those of greedy
search without tests ahead.

A search error is a best answer whose exact log-prob (`benchmarks.tasks.exact_transducer`, summed over all paths in
float64) is more than 0.001 nats below that of the best answer of any search here, an infinite beam with 64 hypotheses
among them; the gap is the mean of all utterances. The lists of `nbest` have at most 10 texts. NeMo's is its batched
beam search (`malsd_batch`), with its ranking by score / (labels + 1) and with the score alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam import TransducerDecoder
from benchmarks import adapters
from benchmarks.data import datasets
from benchmarks.experiments.transducer_wer import MODELS, weights
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import oracle
from data.word_errors import word_error_rate

ORDER = 49
TITLE = "Beam search of small transducers"
LOSSES = {"alignment": "", "full-sum": "-full-sum"}
SETS = ("ljspeech-200", "demo")
INF = float("inf")
WIDEST = (INF, 64)
SEARCHES = ((2.0, 8), (3.0, 8), (4.0, 8), (6.0, 8), (8.0, 8), (4.0, 4), (4.0, 16), (INF, 8), WIDEST)
RANKED = (8.0, 8)  # the search for which ways to merge and to rank are compared
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
NEMO_BEAM, NEMO_BATCH = 8, 50
NEAR = 1e-3  # nats
LISTED = 10
COLUMNS = [
    Column("set", "set"),
    Column("model", "model"),
    Column("loss", "loss"),
    Column("search", "search"),
    Column("beam", "beam", "{:g}"),
    Column("max_hypotheses", "most"),
    Column("merge", "merge"),
    Column("length_power", "power", "{:g}"),
    Column("live", "live", "{:.2f}"),
    Column("runs, x greedy", "runs", "{:.2f}"),
    Column("rows, x greedy", "rows", "{:.2f}"),
    Column("utterances", "utterances"),
    Column("search errors", "errors"),
    Column("gap, nats", "gap", "{:.4f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("oracle of 10, %", "oracle", "{:.2f}"),
    Column("status", "status"),
]


@dataclass
class Answers:
    """What a search wrote: token lists of each utterance, the best first; and its part of a row."""

    texts: list[list[list[int]]]
    row: Row
    status: str | None = None


@dataclass
class Task:
    """A model and the encoder output of a set."""

    arrays: dict[str, npt.NDArray[np.float32]]
    blank: int
    durations: Sequence[int] | None
    encoded: list[npt.NDArray[np.float32]]
    exact: Any
    known: dict[tuple[int, tuple[int, ...]], float] = field(default_factory=dict)

    def decoder(self, **options: Any) -> TransducerDecoder:
        return TransducerDecoder.from_arrays(
            self.arrays, self.blank, activation="relu", durations=self.durations, device="cpu", **options
        )

    def log_prob(self, utterance: int, tokens: Sequence[int]) -> float:
        """The exact one of a text."""
        key = utterance, tuple(tokens)
        if key not in self.known:
            self.known[key] = self.exact.log_prob(self.encoded[utterance], tokens)
        return self.known[key]

    def greedy(self) -> Answers:
        texts = [[found.tokens.tolist()] for found in self.decoder().decode(self.encoded)]
        return Answers(texts, {"search": "greedy", "live": 1.0, "runs": 1.0, "rows": 1.0})

    def greedy_rows(self, greedy: Answers) -> int:
        """Rows of the joint network, each of which is a run."""
        each = zip(self.encoded, greedy.texts, strict=True)
        return sum(self.exact.greedy_rows(frames, best) for frames, [best] in each)

    def beam(self, rows: int, beam: float, most: int, merge: str = "sum", power: float = 0.0) -> Answers:
        """rows : of greedy search."""
        decoder = self.decoder(beam=beam, max_hypotheses=most, merge=merge, length_power=power)
        found = decoder.decode(self.encoded, nbest=min(LISTED, most))
        each = decoder._search.engine.work()
        work = {name: sum(one[name] for one in each) for name in ("frames", "live", "runs", "rows")}
        texts = [[one.tokens.tolist() for one in hypothesis.nbest] for hypothesis in found]
        row: Row = {
            "search": "arcbeam", "beam": beam, "most": most, "merge": merge, "power": power,
            "live": work["live"] / work["frames"], "runs": work["runs"] / rows, "rows": work["rows"] / rows,
        }  # fmt: skip
        return Answers(texts, row)

    def nemo(self, normalized: bool) -> Answers:
        row: Row = {"search": "NeMo", "most": NEMO_BEAM, "merge": "sum", "power": float(normalized)}
        try:
            from benchmarks.adapters.nemo_malsd import NemoMalsd

            peer = NemoMalsd(self.arrays, self.blank, self.durations, NEMO_BEAM)
        except (ImportError, OSError) as error:
            return Answers([], row, f"NeMo missing: {adapters.why(error)}")
        return Answers(peer.texts(self.encoded, NEMO_BATCH, normalized=normalized), row)


def searches(task: Task, context: Context) -> Iterator[Answers]:
    greedy = task.greedy()
    yield greedy
    rows = task.greedy_rows(greedy)
    for beam, most in SEARCHES:
        context.step(f"beam {beam:g}, {most} hypotheses")
        yield task.beam(rows, beam, most)
    for merge in ("sum", "max"):
        for power in POWERS:
            if (merge, power) != ("sum", 0.0):
                yield task.beam(rows, *RANKED, merge, power)
    for normalized in (False, True):
        context.step("NeMo")
        yield task.nemo(normalized)


def table(task: Task, references: Sequence[str], alphabet: Any, context: Context) -> Iterator[Row]:
    """A row of each search; all have been made before the first row."""
    found = list(searches(task, context))
    count = len(references)
    scores = [
        [task.log_prob(i, one.texts[i][0] if one.texts[i] else []) for i in range(count)] if not one.status else None
        for one in found
    ]
    best = np.max([one for one in scores if one is not None], axis=0)
    words = [reference.split() for reference in references]
    for one, log_probs in zip(found, scores, strict=True):
        row: Row = {"utterances": count, "status": one.status, **one.row}
        if log_probs is not None:
            gaps = best - np.array(log_probs)
            written = [[alphabet.text(tokens) for tokens in texts[:LISTED]] or [""] for texts in one.texts]
            row |= {
                "errors": int((gaps > NEAR).sum()),
                "gap": float(gaps.mean()),
                "wer": 100 * word_error_rate(references, [texts[0] for texts in written]),
                "oracle": oracle.oracle(words, written, LISTED),
            }
        yield row


def run(context: Context) -> Iterator[Row]:
    from benchmarks.tasks.exact_transducer import ExactTransducer
    from data import speech_transducer, train_transducer

    folder, there = datasets.CACHE / "transducer", False
    trained = folder / "pieces.model"
    alphabet = train_transducer.alphabet_of(datasets.data_folder(), trained if trained.exists() else None)
    for model, kind in MODELS.items():
        durations = speech_transducer.DURATIONS if model == "TDT" else None
        for loss, ending in LOSSES.items():
            if not (folder / f"{kind}{ending}.npz").exists():
                continue
            there, arrays = True, weights(f"{kind}{ending}")
            light, ours = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
            exact = ExactTransducer(ours, alphabet.blank, durations)
            for name in SETS:
                context.progress(f"{model}, {loss}, {name}")
                dataset = datasets.load(name).first(context.utterances)
                encoded = speech_transducer.encode(light, dataset.utterances)
                task = Task(ours, alphabet.blank, durations, encoded, exact)
                for row in table(task, dataset.references, alphabet, context):
                    yield {"set": name, "model": model, "loss": loss, **row}
    if not there:
        raise datasets.DataMissing(f"there are no weights in {folder}; data/train_transducer.py makes them")
