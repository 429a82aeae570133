"""Random n-gram models over tokens: as ARPA files, and as the oracle takes them."""

import gzip

import numpy as np

from arcbeam.transducer._boosting_tree import walk


def random_arpa(path, tokens, order=3, per_history=4, seed=0, word_of=lambda token: chr(100 + token), unknown=True):
    """Writes an ARPA whose n-grams continue n-grams of the order below; only those that are continued back off."""
    rng = np.random.default_rng(seed)
    levels = [{(word_of(token),) for token in tokens} | {("<s>",), ("</s>",)} | ({("<unk>",)} if unknown else set())]
    for _ in range(order - 1):
        histories = sorted(h for h in levels[-1] if h[-1] not in ("</s>", "<unk>"))
        level = set()
        for history in histories:
            for token in rng.choice(tokens, min(per_history, len(tokens)), replace=False):
                if (*history[1:], word_of(token)) in levels[-1] and rng.random() < 0.7:
                    level.add((*history, word_of(token)))
        levels.append(level)
    lines = ["\\data\\"] + [f"ngram {n}={len(level)}" for n, level in enumerate(levels, 1)] + [""]
    for n, level in enumerate(levels, 1):
        lines.append(f"\\{n}-grams:")
        continued = {ngram[:-1] for ngram in levels[n]} if n < len(levels) else set()
        for ngram in sorted(level):
            weight = -99.0 if ngram == ("<s>",) else -4.0 * rng.random()
            backs_off = n < order and (ngram in continued or ngram == ("<s>",))
            backoff = [f"{-2.0 * rng.random():.6f}"] if backs_off else []
            lines.append("\t".join([f"{weight:.6f}", " ".join(ngram), *backoff]))
        lines.append("")
    text = "\n".join([*lines, "\\end\\", ""])
    with gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w") as file:
        file.write(text)
    return path


def lm_of(automaton):
    """The same scores as the automaton's, for the oracle, whose file reader rounds in another order."""

    class Walked:
        start = automaton.start

        def score(self, state, token):
            scores, states = walk(automaton, state, np.array([token], np.uint32))
            return scores[0], int(states[0])

    return Walked()
