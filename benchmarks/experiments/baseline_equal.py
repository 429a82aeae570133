"""The baseline's results compared with those of flashlight-text, utterance by utterance.

Both search with the same lexicon, KenLM model and options. Answers are equal if the words are and the scores differ by
less than 0.001. Where they are not, the utterance is decoded again with the columns and words numbered otherwise, in up
to 50 ways by the baseline and then in up to 20 by flashlight-text. Such numbers mean nothing but an order among equals,
so if one decoder then gives the answer that the other gave, the difference is a tie: float16 log-probs often are equal
to the last bit, and flashlight-text settles such ties by addresses and by what its sorts leave behind. The rows of the
result file name each difference, both scores, and the numbering that shows the tie; what is not shown is unexplained.
`pieces` are synthetic log-probs of the set's own sentences, for a SentencePiece model of 256 or 1 000 pieces, as many
utterances as the set has, or as ``--set pieces=N`` says. ``--set lexicon=letters`` runs one kind only.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.baseline import with_separator
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from benchmarks import adapters
from benchmarks.adapters.baseline import Baseline, SpokenAnswer, Task
from benchmarks.data import datasets, graphs
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks.renumbered import renumbered
from data import workload
from data.pieces import Pieces

ORDER = 60
TITLE = "The baseline's hypotheses compared with flashlight-text's"
TOLERANCE = 1e-3
NUMBERINGS = {"arcbeam baseline": 50, "flashlight-text": 20}
OPTIONS: dict[str, dict[str, Any]] = {
    "best path": {
        "beam_size": 500, "beam_size_token": 29, "beam_threshold": 25.0, "lm_weight": 2.0, "word_score": -0.5,
    },
    "log_add, logadd smearing": {
        "beam_size": 100, "beam_size_token": 10, "beam_threshold": 50.0, "lm_weight": 1.0, "word_score": 1.0,
        "sil_score": -0.2, "smearing": "logadd", "log_add": True,
    },
    "unknown words, no smearing": {
        "beam_size": 200, "beam_size_token": 16, "beam_threshold": 15.0, "lm_weight": 2.5, "unk_score": -6.0,
        "smearing": "none",
    },
}  # fmt: skip
SETS = {"test-other-100": None, "ljspeech-200": None, "an4-test": None, "throughput": 100}
KINDS = ("letters", "pieces 256", "pieces 1000")
TAKES = {"lexicon": f"one of {', '.join(KINDS)} alone", "pieces": "utterances of each set with a lexicon of pieces"}
COLUMNS = [
    Column("set", "set"),
    Column("lexicon", "lexicon"),
    Column("options", "options"),
    Column("utterances", "utterances"),
    Column("equal", "equal"),
    Column("ties", "ties"),
    Column("unexplained", "unexplained"),
    Column("largest difference of equal scores", "off", "{:.1e}"),
]


@dataclass(frozen=True)
class Difference:
    """An utterance, by position, whose answers differ; and who gives the other's when numbered otherwise, and how."""

    utterance: int
    ours: SpokenAnswer
    theirs: SpokenAnswer
    shown_by: str | None
    numbering: int | None

    def row(self, ids: Sequence[str]) -> Row:
        """For a result file."""
        return {
            "id": ids[self.utterance],
            "scores": [self.ours.score, self.theirs.score],
            "same words": self.ours.words == self.theirs.words,
            "shown by": self.shown_by,
            "numbering": self.numbering,
        }


@dataclass(frozen=True)
class Comparison:
    """The utterances whose answers differ, and how much the scores of the others do."""

    ties: list[Difference]
    unexplained: list[Difference]
    off: float


def same(a: SpokenAnswer, b: SpokenAnswer) -> bool:
    return a.words == b.words and abs(a.score - b.score) < TOLERANCE


def best(decoder: Any, utterances: Sequence[npt.NDArray[np.floating]]) -> list[SpokenAnswer]:
    return [answers[0] for answers in decoder.answers(decoder.decode(decoder.prepare(utterances)))]


def compare(utterances: Sequence[npt.NDArray[np.floating]], ours: Any, theirs: Any) -> Comparison:
    """Compares the answers of two adapters of one task: the baseline's, and flashlight-text's."""
    pairs = list(zip(best(ours, utterances), best(theirs, utterances), strict=True))
    found = [
        Difference(i, a, b, *_shown_by(ours, theirs, utterances[i], (a, b)))
        for i, (a, b) in enumerate(pairs)
        if not same(a, b)
    ]
    return Comparison(
        [d for d in found if d.shown_by is not None],
        [d for d in found if d.shown_by is None],
        max((abs(a.score - b.score) for a, b in pairs if same(a, b)), default=0.0),
    )


def _shown_by(
    ours: Any, theirs: Any, utterance: npt.NDArray[np.floating], pair: tuple[SpokenAnswer, SpokenAnswer]
) -> tuple[str | None, int | None]:
    """Which decoder gives the other's answer when columns and words are numbered otherwise, and in which way."""
    for decoder, wanted in zip((ours, theirs), reversed(pair), strict=True):
        for seed in range(NUMBERINGS[decoder.name]):
            other, columns = renumbered(decoder.task, seeds.used("numberings", seed))
            if same(best(type(decoder)(other), [utterance[:, columns]])[0], wanted):
                return decoder.name, seed
    return None, None


def compare_on(task: Task, utterances: Sequence[npt.NDArray[np.floating]], threads: int = 1) -> Comparison:
    """Compares both decoders on a task."""
    return compare(utterances, Baseline(task, threads), adapters.make("flashlight_text")(task))


def letters(tokens_file: Path, words: Iterable[str]) -> tuple[TokenTable, Lexicon]:
    """Words spelled letter by letter, each with the space after it."""
    tokens = TokenTable.read(tokens_file)
    return tokens, with_separator(Lexicon.spell(words, tokens))


def pieces(model: Path, words: Iterable[str]) -> tuple[TokenTable, Lexicon]:
    """Words cut into the pieces of a SentencePiece model; there is no silence."""
    tokens = TokenTable.from_list(Pieces(model).tokens(), "<blank>")
    return tokens, Lexicon.sentencepiece(words, model, tokens)


def model_of(kind: str) -> Path | None:
    """The SentencePiece model of a kind of lexicon, None for letters."""
    name = f"librispeech_bpe_{kind.split()[1]}.model" if kind != "letters" else None
    return None if name is None else datasets.data_folder() / "tokenizers" / name


@lru_cache(maxsize=1)
def lexicon_of(kind: str) -> tuple[TokenTable, Lexicon]:
    """The LibriSpeech vocabulary in a kind of lexicon."""
    data, model = datasets.data_folder(), model_of(kind)
    words = (data / "lm" / "words.txt").read_text(encoding="utf-8").split()
    return letters(data / "tokens.txt", words) if model is None else pieces(model, words)


def spoken_pieces(dataset: datasets.Dataset, model: Path) -> list[npt.NDArray[np.floating]]:
    """Synthetic log-probs, as many utterances as the set has, of sentences drawn from its references."""
    seed = seeds.used("pieces", workload.WorkloadOptions.seed)
    options = workload.WorkloadOptions(utterances=len(dataset.ids), confusion=1.4, seed=seed)
    made = workload.generate(dataset.references, model, options)
    return np.split(made.log_probs, np.cumsum(made.lengths)[:-1])


def task_and_utterances(
    kind: str, dataset: datasets.Dataset, options: dict[str, Any]
) -> tuple[Task, list[npt.NDArray[np.floating]]]:
    tokens, lexicon = lexicon_of(kind)
    lm, model = graphs.plain_arpa(datasets.data_folder() / "lm" / "books.3gram.arpa.xz"), model_of(kind)
    task = Task(tokens, lexicon, lm, lexicon.separator_column, options)
    return task, dataset.utterances if model is None else spoken_pieces(dataset, model)


def run(context: Context) -> Iterator[Row]:
    only, most = context.options.get("lexicon"), context.options.get("pieces")
    for kind in KINDS if only is None else (only,):
        for name, count in SETS.items():
            dataset = datasets.load(name).first(context.utterances or count)
            if kind != "letters" and most is not None:
                dataset = dataset.first(int(most))
            for label, options in OPTIONS.items():
                context.progress(f"{kind}, {name}, {label}")
                task, utterances = task_and_utterances(kind, dataset, options)
                found = compare_on(task, utterances)
                yield {
                    "set": name,
                    "lexicon": kind,
                    "options": label,
                    "utterances": len(utterances),
                    "equal": len(utterances) - len(found.ties) - len(found.unexplained),
                    "ties": len(found.ties),
                    "unexplained": len(found.unexplained),
                    "off": found.off,
                    "differences": [d.row(dataset.ids) for d in (*found.ties, *found.unexplained)],
                    "search": options,
                    **({"status": "failed: differences without a reason"} if found.unexplained else {}),
                }
