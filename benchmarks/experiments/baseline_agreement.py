"""The lexicon beam search beside the WFST search, with wide beams and the same 3-gram: do they say the same words?

The language model is the demo's (30 000 words of novels; ``--set lm=books``: 211 000), the graph's topology `normal`,
as `compact` lets a doubled letter do without the blank between. The graph has one space or more between words and none
needed at the ends, so the baseline's spellings end with a space that the last word may lack. Acoustics weigh 1.5, or as
``--set acoustic_scale=X`` says; scores are natural logs, so weighed. One thing still differs by nature: the graph's
back-off arcs may be taken where the n-gram is known and dearer.
Each utterance with different words is listed: both answers, aligned again and scored by both models. A search that
scores the other's answer above its own has lost it by pruning; where either prefers its own, the models differ. A dash
means that the model cannot say it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam.baseline import KenLM, LexiconDecoder, with_separator
from arcbeam.build.lexicon import Lexicon, words_of_arpa
from arcbeam.symbols import TokenTable
from benchmarks import agreement, datasets, graphs
from benchmarks.experiments.baseline_equal import plain_arpa
from benchmarks.registry import Column, Context, Row

ORDER = 62
TITLE = "The baseline's answers beside the graph search's"
SETS = ("test-other-100", "ljspeech-200", "an4-test")
BEAM, MAX_ACTIVE = 40.0, 1_000_000
BEAM_SIZE, BEAM_THRESHOLD = 5_000, 50.0
NOVELS = datasets.ROOT / "data" / "demo" / "novels.3gram.arpa.xz"
LN10 = math.log(10.0)
NEAR = 0.01  # scores are sums of thousands of float32 values
TAKES = {"lm": "novels or books", "acoustic_scale": "factor on the log-probs (1.5)"}
COLUMNS = [
    Column("set", "set"),
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


def align(log_probs: npt.NDArray[np.float32], tokens: Sequence[int], blank: int, space: int) -> tuple[float, list[int]]:
    """The best CTC path that reads the tokens, each space any number of times: its score, and each frame's column."""
    states = [blank, *(column for token in tokens for column in (token, blank))]
    count, frames = len(states), len(log_probs)
    emission = log_probs[:, states].astype(np.float64)
    skip = np.array([i > 1 and states[i] != blank and states[i] != states[i - 2] for i in range(count)])
    again = np.array(states) == space
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


class Judge:
    """Scores words under both models."""

    def __init__(self, graph: "arcbeam.Graph", lm: KenLM, tokens: TokenTable, acoustic_scale: float) -> None:
        self.graph, self.lm, self.tokens, self.scale = graph, lm, tokens, np.float32(acoustic_scale)
        self.labels = {word: label for label, word in graph.word_symbols.items()}
        self.space = tokens.column("<space>")

    def scores(self, log_probs: npt.NDArray[np.floating], words: Sequence[str]) -> Scores:
        heard = np.asarray(log_probs, np.float32) * self.scale
        spelled = [self.space]
        for word in words:
            spelled += [*map(self.tokens.column, word), self.space]
        sides = [spelled[first:last] for first in (0, 1) for last in (len(spelled), len(spelled) - 1)]
        found = [align(heard, s, int(self.tokens.blank or 0), self.space) for s in sides if len(heard) >= len(s)]
        by_baseline = max((score for score, _ in found), default=-math.inf) + LN10 * self.lm.score(words)
        labels = [self.labels[word] for word in words]
        costs = [agreement.path_cost(self.graph, heard, columns, labels, True) for _, columns in found]
        return Scores(by_baseline, -min(costs, default=math.inf))


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


def run(context: Context) -> Iterator[Row]:
    data = datasets.data_folder()
    lm_name = context.options.get("lm", "novels")
    arpa = plain_arpa(data / "lm" / "books.3gram.arpa.xz" if lm_name == "books" else NOVELS)
    tokens = TokenTable.read(data / "tokens.txt")
    spelled = Lexicon.spell(words_of_arpa(arpa), tokens)
    graph, lm, lexicon = normal_graph(lm_name, tokens, spelled, arpa), KenLM(arpa), with_separator(spelled)
    scale = float(context.options.get("acoustic_scale", 1.5))
    search = arcbeam.CtcDecoder(graph, device="cpu", beam=BEAM, max_active=MAX_ACTIVE, acoustic_scale=scale, threads=2)
    baseline = LexiconDecoder(
        lexicon, tokens, lm, lm_weight=LN10 / scale, beam_size=BEAM_SIZE, beam_threshold=BEAM_THRESHOLD,
        final_separator=False, threads=2,
    )  # fmt: skip
    judge = Judge(graph, lm, tokens, scale)
    for name in SETS:
        dataset = datasets.load(name).first(context.utterances)
        context.progress(f"{name}: {len(dataset.ids)} utterances")
        theirs, ours = search.decode(dataset.utterances), baseline.decode(dataset.utterances)
        differ = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a.text != b.text]
        same = len(dataset.ids) - len(differ)
        yield {
            "set": name,
            "utterances": len(dataset.ids),
            "same": same,
            "percent": 100 * same / len(dataset.ids),
            "lm": lm_name,
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
                "set": name,
                "utterance": dataset.ids[i],
                "because": reason(mine, peer),
                "baseline": ours[i].text,
                "baseline_by_baseline": finite(mine.baseline),
                "baseline_by_graph": finite(mine.graph),
                "graph": theirs[i].text,
                "graph_by_baseline": finite(peer.baseline),
                "graph_by_graph": finite(peer.graph),
            }
