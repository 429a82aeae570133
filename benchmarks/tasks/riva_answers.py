"""riva-asrlib-decoder's n-best lists, words and confidences compared with ours."""

import statistics
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple


class Missing(NamedTuple):
    """An entry of riva's whose words are not among ours, and why."""

    utterance: int
    place: int  # in riva's list
    score: float
    words: list[str]
    why: str  # one of REASONS

    def __str__(self) -> str:
        return (
            f"utterance {self.utterance}, riva's entry {self.place} of score {self.score:.3f}, {self.why}: {self.words}"
        )


LATER, IN_LATTICE, NOT_KEPT, REPEATED, LOST = REASONS = (
    "later in our list",  # a score that differs by the rounding of its parts has put it after the last one requested
    "in our lattice",  # after the first SEEN
    "not in our lattice",  # a beam of one of the two has kept other paths
    "with a word twice",  # riva writes a word again for the frames in which its last token is repeated
    "where riva has lost the best path",  # its best entry costs more than our best path, which its graph has, too
)
ROUNDING = 0.05  # of two scores of one path
SEEN = 200


def missing_entries(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Missing]:
    """riva's entries whose words are not among ours.

    ours : hypotheses with n-best lists and lattices
    theirs : what `decode_nbest` returned
    """
    found = []
    lost = lost_best_paths(ours, theirs)
    for number, (hypothesis, entries) in enumerate(zip(ours, theirs, strict=True)):
        known = {tuple(entry.word_ids.tolist()) for entry in hypothesis.nbest}
        said = [tuple(word for word in entry.words if word) for entry in entries]  # 0: its lists have epsilons, too
        if all(words in known for words in said):
            continue
        later = {tuple(entry.word_ids.tolist()) for entry in hypothesis.lattice.nbest(SEEN)}
        names = hypothesis.lattice.word_symbols
        for place, (entry, words) in enumerate(zip(entries, said, strict=True)):
            if words in known:
                continue
            texts = [names.get(word, f"<{word}>") for word in words]
            once = tuple(word for i, word in enumerate(words) if i == 0 or word != words[i - 1])
            if words in later:
                why = LATER
            elif names and hypothesis.lattice.oracle_wer(texts).errors == 0:
                why = IN_LATTICE
            elif once != words and (once in known or once in later):
                why = REPEATED
            elif number in lost:
                why = LOST
            else:
                why = NOT_KEPT
            found.append(Missing(number, place, entry.score, texts, why))
    return found


def lost_best_paths(ours: Sequence[Any], theirs: Sequence[Any]) -> dict[int, float]:
    """Utterances in which riva's best entry costs more than our best path, and by how much.

    Scores of riva's are costs, and may have a constant part that ours have not: the median over the utterances whose
    words are the same is taken off.
    """
    pairs = [(i, h, entries[0]) for i, (h, entries) in enumerate(zip(ours, theirs, strict=True)) if entries]
    more = {i: entry.score + h.score for i, h, entry in pairs}
    same = [more[i] for i, h, entry in pairs if h.word_ids.tolist() == [word for word in entry.words if word]]
    usual = statistics.median(same) if same else 0.0
    return {i: cost - usual for i, cost in more.items() if cost - usual > ROUNDING}


def naming(hypothesis: Any) -> Callable[[int], str]:
    """How the words of a hypothesis with a lattice are written: bare labels where the graph names none."""
    names = hypothesis.lattice.word_symbols
    return (lambda word: names.get(word, f"<{word}>")) if names else str


def texts(ours: Sequence[Any], theirs: Sequence[Any]) -> list[list[str]]:
    """riva's entries as texts.

    ours : hypotheses with lattices
    theirs : what `decode_nbest` returned
    """
    found = []
    for hypothesis, entries in zip(ours, theirs, strict=True):
        name = naming(hypothesis)
        found.append([" ".join(name(word) for word in entry.words if word) for entry in entries])
    return found


def other_words(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """Utterances whose words of minimum Bayes risk differ, a line for each.

    ours : hypotheses with lattices
    theirs : what `decode_mbr` returned: (word, begin, end, confidence) of each word
    """
    said = [([word.word for word in h.mbr.words], [word for word, *_ in w]) for h, w in zip(ours, theirs, strict=True)]
    return [f"utterance {i}: {a!r}, riva: {b!r}" for i, (a, b) in enumerate(said) if a != b]


def confidences(ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[int, list[float]]:
    """How many words of minimum Bayes risk only one of the two says, and by how much the confidence of each differs.

    A word that only one of the two says has the confidence 0 in the other. Arguments are those of `other_words`.
    """
    of_one, differences = 0, []
    for hypothesis, said in zip(ours, theirs, strict=True):
        own = [(word.word, word.confidence) for word in hypothesis.mbr.words]
        other = [(word, confidence) for word, _, _, confidence in said]
        matcher = SequenceMatcher(None, [word for word, _ in own], [word for word, _ in other], autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                differences += [abs(x - y) for (_, x), (_, y) in zip(own[a:b], other[c:d], strict=True)]
            else:
                alone = [confidence for _, confidence in [*own[a:b], *other[c:d]]]
                of_one += len(alone)
                differences += alone
    return of_one, differences
