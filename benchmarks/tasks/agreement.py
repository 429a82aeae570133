"""Do two decoders agree on an utterance, and if not, why? Used by experiments before they time, and by tests.

Two exact decoders may still differ: by a tie, or because one of them pruned what the other kept. Each case is
decided by true costs: the float64 sum along the path that a decoder answered with.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.adapters import Adapter, Answer

TOLERANCE = 1e-3  # of a total cost, natural log
EQUAL, SAME_COST, TIE, BETTER, PRUNED, UNEXPLAINED = (
    "equal",  # same words, same reported cost
    "rounding",  # same words and same true cost; the peer's float32 sum of it is off
    "tie",  # other words, same true cost
    "ours cheaper",  # our path is cheaper in truth, or ends where the peer's does not: the peer pruned it
    "our pruning",  # the peer's path is cheaper, or it alone ends, and with wide beams we find it too
    "unexplained",
)


@dataclass(frozen=True)
class Verdict:
    kind: str
    ours: Answer
    theirs: Answer  # its cost recomputed along its path, where the reported one differed


def path_cost(
    graph: "arcbeam.Graph",
    acoustic: npt.NDArray[np.float32],
    columns: Sequence[int],
    words: Sequence[int],
    final: bool,
) -> float:
    """Smallest cost of a path that reads ``columns``, one a frame, and writes ``words``; inf where there is none.

    acoustic : float32 [frames, columns], scaled log-probs
    final : whether the path must end in a final state, whose weight is added
    """
    words = list(words)

    def relax(front: dict[tuple[int, int], float], key: tuple[int, int], cost: float) -> None:
        """Admits a token and follows epsilon arcs from it, again if it is found cheaper."""
        waiting = [(key, cost)]
        while waiting:
            (state, written), cost = waiting.pop()
            if cost >= front.get((state, written), np.inf):
                continue
            front[state, written] = cost
            record = graph.states[state]
            for arc in range(int(record["first_arc"]), int(record["first_emitting"])):
                step(waiting, arc, written, cost)

    def step(into: list[tuple[tuple[int, int], float]], arc: int, written: int, cost: float) -> None:
        word = int(graph.words[arc])
        if word and (written == len(words) or words[written] != word):
            return
        target = graph.targets[arc]
        into.append(((int(target["next_state"]), written + (word != 0)), cost + float(target["weight"])))

    front: dict[tuple[int, int], float] = {}
    relax(front, (graph.start, 0), 0.0)
    for frame, column in enumerate(columns):
        following: dict[tuple[int, int], float] = {}
        acoustic_cost = -float(acoustic[frame, column])
        for (state, written), cost in front.items():
            begin, end = int(graph.states[state]["first_emitting"]), int(graph.states[state + 1]["first_arc"])
            reads = graph.columns[begin:end]
            reached: list[tuple[tuple[int, int], float]] = []
            for arc in range(*(begin + np.searchsorted(reads, [column, column + 1])).tolist()):
                step(reached, arc, written, cost + acoustic_cost)
            for key, reached_cost in reached:
                relax(following, key, reached_cost)
        front = following
    ends = (c + (float(graph.finals[s]) if final else 0.0) for (s, k), c in front.items() if k == len(words))
    return min(ends, default=float("inf"))


def judge(
    graph: "arcbeam.Graph",
    log_probs: npt.NDArray[np.floating],
    acoustic_scale: float,
    ours: Answer,
    theirs: Answer,
    widened: Callable[[], tuple[Answer, Answer]],
) -> Verdict:
    """Why two answers to one utterance differ. ``widened`` decodes it again with both beams far wider."""
    same_end = ours.reached_final == theirs.reached_final
    if same_end and ours.text == theirs.text and abs(ours.cost - theirs.cost) <= TOLERANCE:
        return Verdict(EQUAL, ours, theirs)
    acoustic = np.asarray(log_probs, np.float32) * np.float32(acoustic_scale)
    theirs = replace(theirs, cost=path_cost(graph, acoustic, theirs.columns, theirs.word_ids, theirs.reached_final))
    ours = replace(ours, cost=path_cost(graph, acoustic, ours.columns, ours.word_ids, ours.reached_final))
    if not (np.isfinite(ours.cost) and np.isfinite(theirs.cost)):
        return Verdict(UNEXPLAINED, ours, theirs)
    if not same_end:  # one of them pruned every path to an end
        wide = widened()
        agree = all(answer.reached_final for answer in wide) and abs(wide[0].cost - wide[1].cost) <= TOLERANCE
        return Verdict((BETTER if ours.reached_final else PRUNED) if agree else UNEXPLAINED, ours, theirs)
    if abs(ours.cost - theirs.cost) <= TOLERANCE:
        return Verdict(SAME_COST if ours.text == theirs.text else TIE, ours, theirs)
    if ours.cost < theirs.cost:
        return Verdict(BETTER, ours, theirs)
    our_wide, their_wide = widened()
    agree = our_wide.text == their_wide.text or abs(our_wide.cost - their_wide.cost) <= TOLERANCE
    return Verdict(PRUNED if agree and our_wide.cost <= theirs.cost + TOLERANCE else UNEXPLAINED, ours, theirs)


def compare(
    graph: "arcbeam.Graph",
    utterances: Sequence[npt.NDArray[np.floating]],
    acoustic_scale: float,
    ours: Sequence[Answer],
    theirs: Sequence[Answer],
    wide: Callable[[], tuple[Adapter, Adapter]],
) -> list[Verdict]:
    """A verdict for every utterance. ``wide`` makes both decoders with wide beams; only called where needed."""
    made: list[tuple[Adapter, Adapter]] = []

    def widened(utterance: npt.NDArray[np.floating]) -> tuple[Answer, Answer]:
        if not made:
            made.append(wide())
        first, second = (a.answers(a.decode(a.prepare([utterance])))[0] for a in made[0])
        return first, second

    return [
        judge(graph, u, acoustic_scale, o, t, lambda u=u: widened(u))  # type: ignore[misc]
        for u, o, t in zip(utterances, ours, theirs, strict=True)
    ]


def tally(verdicts: Sequence[Verdict]) -> dict[str, int]:
    return dict(Counter(v.kind for v in verdicts))
