"""Random lattices in the form of cpu_reference/lattice/lattice.hpp: dicts for Lattices.of_arrays, and their words.

Slacks are multiples of 1/64, so that they add exactly and ties are frequent.
"""

import numpy as np

from arcbeam.ctc.lattice._lattices import LINK


def random_lattice(rng, *, steps=4, width=3, epsilon=0.3, degree=2.0, words=3, silent=0.5, tied=0.3, most_slack=200):
    """A lattice and its words by link.

    A token is reached by its winner, of slack 0, and by some others. `epsilon` is the share of tokens that an epsilon
    link reaches, `silent` that of links without a word, `tied` that of losers whose slack is 0.
    """
    first_token, ways = [0], [[]]  # ways: of each token, (source, slack)
    before, here = [], [0]
    for step in range(steps):
        if step:
            before, here = here, []
            first_token.append(len(ways))
        for place in range(int(rng.integers(1 if step else 0, width + 1))):
            token = len(ways)
            within = here if here and (not step or (place and rng.random() < epsilon)) else before
            count = min(1 + rng.poisson(degree - 1.0), 4 * len(within))
            sources = rng.choice(within, count)
            slacks = [0] + [0 if rng.random() < tied else int(rng.integers(0, most_slack)) for _ in sources[1:]]
            ways.append([(int(s), k / 64) for s, k in zip(sources, slacks, strict=True)])
            here.append(token)
    first_token.append(len(ways))
    return finished(rng, first_token, ways, words, silent, most_slack)


def finished(rng, first_token, ways, words, silent, most_slack):
    """Tokens from which nothing leads to an end go; the rest is numbered anew, and every link has an arc of its own."""
    last = range(first_token[-2], len(ways))
    extras = [int(rng.integers(0, most_slack)) / 64 if rng.random() < 0.7 else np.inf for _ in last]
    best_end = int(rng.integers(len(extras)))
    extras = [e - min(extras[best_end], 0) for e in extras]
    extras[best_end] = 0.0
    alive = {token for token, extra in zip(last, extras, strict=True) if extra < np.inf}
    for token in reversed(range(len(ways))):
        if token in alive:
            alive |= {source for source, _ in ways[token]}
    numbers = {token: number for number, token in enumerate(sorted(alive))}
    links = sorted(
        (numbers[source], order, numbers[token], slack)
        for token in alive
        for order, (source, slack) in enumerate(ways[token])
    )
    arrays = np.zeros(len(links), LINK)
    for arc, (source, _, target, slack) in enumerate(links):
        arrays[arc] = (source, target, arc, slack)
    best, at = [], numbers[last[best_end]]
    while at != 0:
        winner = next(i for i in range(len(links)) if arrays[i]["target"] == at and arrays[i]["slack"] == 0)
        best.append(winner)
        at = int(arrays[winner]["source"])
    lattice = {
        "first_token": np.array([sum(token < first for token in alive) for first in first_token], np.uint32),
        "states": np.arange(len(alive), dtype=np.uint32),
        "costs": np.zeros(len(alive)),
        "links": arrays,
        "first_link": np.searchsorted(arrays["source"], np.arange(len(alive) + 1)).astype(np.uint32),
        "end_extras": np.array([extras[t - last[0]] for t in last if t in alive], np.float32),
        "best": np.array(best[::-1], np.uint32),
        "total_cost": 37.25,
        "reached_final": True,
        "complete": True,
    }
    written = np.where(rng.random(len(links)) < silent, 0, rng.integers(1, words + 1, len(links)))
    return lattice, written.astype(np.uint32)


def grid_lattice(rng, *, steps, tokens, degree, words_every=12, vocabulary=2000, spread=8.0):
    """A large lattice like those of speech: each step has the same number of tokens, whose sources lie near.

    In one step of `words_every`, links write words: mostly the same for a token.
    """
    first_token = np.concatenate([[0], 1 + np.arange(steps) * tokens, [1 + steps * tokens]])
    targets = np.repeat(np.arange(1, 1 + steps * tokens), degree)
    place = (targets - 1) % tokens
    step = (targets - 1) // tokens
    source_place = np.clip(place + rng.integers(-2, 3, len(targets)), 0, tokens - 1)
    sources = np.where(step == 0, 0, 1 + (step - 1) * tokens + source_place)
    slack = np.round(rng.exponential(spread / 4, len(targets)) * 64) / 64
    slack[::degree] = 0
    order = np.lexsort((np.arange(len(targets)), sources))
    links = np.zeros(len(targets), LINK)
    links["source"], links["target"], links["slack"] = sources[order], targets[order], slack[order]
    links["arc"] = np.arange(len(targets))
    count = 1 + steps * tokens
    extras = np.full(tokens, 4.0, np.float32)
    extras[0] = 0
    best, at = [], 1 + (steps - 1) * tokens
    by_target = {}
    for i in np.flatnonzero(links["slack"] == 0):
        by_target.setdefault(int(links["target"][i]), int(i))
    while at != 0:
        best.append(by_target[at])
        at = int(links["source"][best[-1]])
    writes = ((links["target"] - 1) // tokens) % words_every == words_every - 1
    spoken = 1 + (links["target"] * 7919 + rng.integers(0, 2, len(links))) % vocabulary
    lattice = {
        "first_token": first_token.astype(np.uint32),
        "states": np.arange(count, dtype=np.uint32),
        "costs": np.zeros(count),
        "links": links,
        "first_link": np.searchsorted(links["source"], np.arange(count + 1)).astype(np.uint32),
        "end_extras": extras,
        "best": np.array(best[::-1], np.uint32),
        "total_cost": 812.5,
        "reached_final": True,
        "complete": True,
    }
    return lattice, np.where(writes, spoken, 0).astype(np.uint32)


def chain(words, *, steps=None, slack=0.0):
    """A lattice of one path, whose links write `words`, one a step."""
    count = len(words) if steps is None else steps
    links = np.zeros(count, LINK)
    links["source"], links["target"], links["arc"] = np.arange(count), np.arange(1, count + 1), np.arange(count)
    links["slack"] = slack
    lattice = {
        "first_token": np.arange(count + 2, dtype=np.uint32),
        "states": np.arange(count + 1, dtype=np.uint32),
        "costs": np.zeros(count + 1),
        "links": links,
        "first_link": np.minimum(np.arange(count + 2), count).astype(np.uint32),
        "end_extras": np.zeros(1, np.float32),
        "best": np.arange(count, dtype=np.uint32),
        "total_cost": 3.5,
        "reached_final": True,
        "complete": True,
    }
    return lattice, np.resize(np.asarray(words, np.uint32), count)
