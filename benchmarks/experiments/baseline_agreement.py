"""The lexicon beam search and the WFST search, with wide beams and the same 3-gram: do they find the same words?

With letters the language model is the demo's (30 000 words of novels; ``--set lm=books``: 211 000), the graph's
topology `normal`, as `compact` lets a doubled letter do without the blank between. The graph has one space or more
between words and none needed at the ends, so the baseline's spellings end with a space that the last word may lack.
Acoustics weigh 1.5, or as ``--set acoustic_scale=X`` says; scores are natural logs, so weighed. `workload-512` has
pieces, the graph `spm512-3gram-normal` and its pruned 3-gram; the baseline goes by its mended rules, by which the last
piece of a word may last several frames, as it may in the graph, and acoustics weigh 1. One thing still differs by
nature: the graph's back-off arcs may be taken where the n-gram is known and dearer.
Each utterance with different words is listed: both answers, aligned again and scored by both models. A search that
scores the other's answer above its own has lost it by pruning; where either prefers its own, the models differ. A dash
means that the model cannot say it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.baseline import KenLM, LexiconDecoder, with_separator
from arcbeam.graph.token_table import TokenTable
from arcbeam.recipe.lexicon import Lexicon
from arcbeam.recipe.word_lists import words_of_arpa
from benchmarks.adapters import SearchOptions, lexicon_task
from benchmarks.adapters.baseline import Baseline
from benchmarks.data import datasets, graphs
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import agreement

ORDER = 62
TITLE = "The baseline's hypotheses compared with the graph search's"
SETS = ("test-other-100", "ljspeech-200", "an4-test")
PIECES, PIECES_GRAPH, UTTERANCES = "workload-512", "spm512-3gram-normal", 100
BEAM, MAX_ACTIVE = 40.0, 1_000_000
BEAM_SIZE, BEAM_THRESHOLD = 5_000, 50.0
NOVELS = datasets.ROOT / "data" / "demo" / "novels.3gram.arpa.xz"
LN10 = math.log(10.0)
NEAR = 0.01  # scores are sums of thousands of float32 values
TAKES = {
    "lm": "of letters: novels or books",
    "acoustic_scale": "factor on the log-probs (1.5 with letters, 1 with pieces)",
    "tokens": "letters or pieces alone",
}
COLUMNS = [
    Column("set", "set"),
    Column("language model", "lm"),
    Column("acoustics weigh", "acoustic_scale", "{:g}"),
    Column("utterance", "utterance"),
    Column("utterances", "utterances"),
    Column("same words", "same"),
    Column("%", "percent", "{:.1f}"),
    Column("because", "because"),
    Column("baseline's answer", "baseline"),
    Column("by the baseline", "baseline_by_baseline", "{:.2f}"),
    Column("by the graph", "baseline_by_graph", "{:.2f}"),
    Column("graph's answer", "graph"),
    Column("by the baseline", "graph_by_baseline", "{:.2f}"),
    Column("by the graph", "graph_by_graph", "{:.2f}"),
]


@dataclass(frozen=True)
class Scores:
    """Natural-log scores of some words under both models; -inf where a model cannot say them."""

    baseline: float
    graph: float


def align(
    log_probs: npt.NDArray[np.float32], tokens: Sequence[int], blank: int, space: int | None
) -> tuple[float, list[int]]:
    """The best CTC path that reads the tokens, each space any number of times: its score, and each frame's column."""
    states = [blank, *(column for token in tokens for column in (token, blank))]
    count, frames = len(states), len(log_probs)
    emission = log_probs[:, states].astype(np.float64)
    skip = np.array([i > 1 and states[i] != blank and states[i] != states[i - 2] for i in range(count)])
    again = np.array([state == space for state in states])
    never = np.full(2, -np.inf)
    score = np.full(count, -np.inf)
    score[:2] = emission[0, :2]
    moves = np.zeros((frames, count), np.int8)
    for frame in range(1, frames):
        padded = np.concatenate((never, score, never))
        options = np.stack(
            (score, padded[1:-3], np.where(skip, padded[:-4], -np.inf), np.where(again, padded[3:-1], -np.inf))
        )
        moves[frame] = np.array((0, 1, 2, -1), np.int8)[options.argmax(axis=0)]
        score = options.max(axis=0) + emission[frame]
    at = count - 1 - int(score[-1] < score[-2]) if count > 1 else 0
    best, columns = float(score[at]), []
    for frame in range(frames - 1, -1, -1):
        columns.append(states[at])
        at -= int(moves[frame, at])
    return best, columns[::-1]


Spell = Callable[[Sequence[str]], list[list[int]]]  # the columns of words, in every way that they are spelled


class Judge:
    """Scores words under both models.

    space : the column that may be read any number of times, if there is one
    """

    def __init__(
        self, graph: "arcbeam.Graph", lm: KenLM, spell: Spell, blank: int, space: int | None, acoustic_scale: float
    ) -> None:
        self.graph, self.lm, self.spell, self.scale = graph, lm, spell, np.float32(acoustic_scale)
        self.labels = {word: label for label, word in graph.word_symbols.items()}
        self.blank, self.space = blank, space

    def scores(self, log_probs: npt.NDArray[np.floating], words: Sequence[str]) -> Scores:
        acoustic = np.asarray(log_probs, np.float32) * self.scale
        found = [align(acoustic, s, self.blank, self.space) for s in self.spell(words) if len(acoustic) >= len(s)]
        by_baseline = max((score for score, _ in found), default=-math.inf) + LN10 * self.lm.score(words)
        costs = []
        if all(word in self.labels for word in words):
            labels = [self.labels[word] for word in words]
            costs = [agreement.path_cost(self.graph, acoustic, columns, labels, True) for _, columns in found]
        return Scores(by_baseline, -min(costs, default=math.inf))


def spelled_by_letters(tokens: TokenTable) -> Spell:
    """Letters with the space between words, which may stand at either end, too."""
    space = tokens.column("<space>")

    def spell(words: Sequence[str]) -> list[list[int]]:
        spelled = [space]
        for word in words:
            spelled += [*map(tokens.column, word), space]
        return [spelled[first:last] for first in (0, 1) for last in (len(spelled), len(spelled) - 1)]

    return spell


def spelled_by_pieces(entries: Sequence[tuple[str, list[int]]]) -> Spell:
    """The columns of a lexicon that has one spelling a word."""
    columns = dict(entries)
    if len(columns) != len(entries):
        raise ValueError(f"expected one spelling a word, got {len(entries)} of {len(columns)} words")
    return lambda words: [[column for word in words for column in columns[word]]]


def reason(ours: Scores, theirs: Scores) -> str:
    """Why the baseline's answer (`ours`) and the graph's (`theirs`) differ."""
    lost = []
    if theirs.baseline > ours.baseline + NEAR:
        lost.append("baseline pruned")
    if ours.graph > theirs.graph + NEAR:
        lost.append("graph pruned")
    if lost:
        return ", ".join(lost)
    near = abs(ours.baseline - theirs.baseline) <= NEAR and abs(ours.graph - theirs.graph) <= NEAR
    return "tie" if near else "models differ"


def finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def normal_graph(name: str, tokens: TokenTable, lexicon: Lexicon, arpa: Path) -> "arcbeam.Graph":
    """The graph of a language model with the topology `normal`, kept in the cache."""
    file = graphs.FOLDER / f"char-{name}-normal-many.arcbeam"
    with graphs.one_at_a_time(file.stem):
        if not file.exists():
            arcbeam.Graph.build(tokens, lexicon, arpa, topology="normal", separator_rule="many").save(file)
    return arcbeam.Graph.load(file)


@dataclass(frozen=True)
class Contest:
    """Both searches of one kind of tokens: which language model, how much acoustics weigh, and who judges."""

    lm: str
    scale: float
    graph: "arcbeam.Graph"
    baseline: LexiconDecoder
    judge: Judge

    def search(self) -> "arcbeam.CtcDecoder":
        return arcbeam.CtcDecoder(
            self.graph, device="cpu", beam=BEAM, max_active=MAX_ACTIVE, acoustic_scale=self.scale, threads=2
        )


def of_letters(lm_name: str, scale: float) -> Contest:
    data = datasets.data_folder()
    arpa = graphs.plain_arpa(data / "lm" / "books.3gram.arpa.xz" if lm_name == "books" else NOVELS)
    tokens = TokenTable.read(data / "tokens.txt")
    spelled = Lexicon.spell(words_of_arpa(arpa), tokens)
    graph, lm, lexicon = normal_graph(lm_name, tokens, spelled, arpa), KenLM(arpa), with_separator(spelled)
    baseline = LexiconDecoder(
        lexicon, tokens, lm, lm_weight=LN10 / scale, beam_size=BEAM_SIZE, beam_threshold=BEAM_THRESHOLD,
        final_separator=False, threads=2,
    )  # fmt: skip
    blank = int(tokens.blank or 0)
    judge = Judge(graph, lm, spelled_by_letters(tokens), blank, tokens.column("<space>"), scale)
    return Contest(lm_name, scale, graph, baseline, judge)


def of_pieces(scale: float, progress: Callable[[str], None]) -> Contest:
    files = graphs.get(PIECES_GRAPH, progress)
    options = SearchOptions(beam_size=BEAM_SIZE, beam_threshold=BEAM_THRESHOLD, lm_weight=1 / scale)
    task = lexicon_task.task_of(files, options, mended=True)
    decoder: Any = Baseline(task, threads=2).decoder
    spell, blank = spelled_by_pieces(files.lexicon()), int(files.tokens.blank or 0)
    return Contest(
        f"of {PIECES_GRAPH}",
        scale,
        files.graph,
        decoder,
        Judge(files.graph, KenLM(files.arpa()), spell, blank, None, scale),
    )


def run(context: Context) -> Iterator[Row]:
    only, weight = context.options.get("tokens"), context.options.get("acoustic_scale")
    if only in (None, "letters"):
        letters = of_letters(context.options.get("lm", "novels"), float(weight or 1.5))
        for name in SETS:
            yield from compared(context, letters, datasets.load(name).first(context.utterances))
    if only in (None, "pieces"):
        pieces = of_pieces(float(weight or 1.0), context.progress)
        yield from compared(context, pieces, datasets.load(PIECES, context.utterances or UTTERANCES))


def compared(context: Context, contest: Contest, dataset: datasets.Dataset) -> Iterator[Row]:
    """A row of the set, and one of each utterance with other words."""
    context.progress(f"{dataset.name}: {len(dataset.ids)} utterances")
    scale, judge = contest.scale, contest.judge
    theirs, ours = contest.search().decode(dataset.utterances), contest.baseline.decode(dataset.utterances)
    differ = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.text != b.text]
    same = len(dataset.ids) - len(differ)
    yield {
        "set": dataset.name,
        "utterances": len(dataset.ids),
        "same": same,
        "percent": 100 * same / len(dataset.ids),
        "lm": contest.lm,
        "acoustic_scale": scale,
        "beams": [BEAM, MAX_ACTIVE, BEAM_SIZE, BEAM_THRESHOLD],
    }
    for i in differ:
        utterance = dataset.utterances[i]
        mine = judge.scores(utterance, ours[i].text.split())
        peer = judge.scores(utterance, theirs[i].text.split())
        # A search may have found a path that is better still than the one aligned.
        mine = replace(mine, baseline=max(mine.baseline, scale * ours[i].score))
        peer = replace(peer, graph=max(peer.graph, theirs[i].score))
        yield {
            "set": dataset.name,
            "utterance": dataset.ids[i],
            "because": reason(mine, peer),
            "baseline": ours[i].text,
            "baseline_by_baseline": finite(mine.baseline),
            "baseline_by_graph": finite(mine.graph),
            "graph": theirs[i].text,
            "graph_by_baseline": finite(peer.baseline),
            "graph_by_graph": finite(peer.graph),
        }
