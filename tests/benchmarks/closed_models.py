"""ARPAs of random 3-grams of which every part is there."""

import random


def write_closed_arpa(path, words):
    """Some pairs of words, and some of those that continue them; probabilities do not sum to 1."""
    pick = random.Random(0)
    names = ["<unk>", "<s>", "</s>", *words]
    pairs = sorted({(a, b) for a in ["<s>", *words] for b in pick.sample([*words, "</s>"], pick.randint(0, 4))})
    triples = [(a, b, c) for a, b in pairs for x, c in pairs if x == b and pick.random() < 0.4]

    def line(*gram):
        longer = pairs if len(gram) == 1 else triples if len(gram) == 2 else []
        continued = any(other[: len(gram)] == gram for other in longer)
        log = -99 if gram == ("<s>",) else -pick.randint(1, 200) / 64
        return f"{log}\t{' '.join(gram)}" + (f"\t{-pick.randint(0, 60) / 64}" if continued else "") + "\n"

    grams = [[(name,) for name in names], pairs, triples]
    text = "\\data\\\n" + "".join(f"ngram {n}={len(some)}\n" for n, some in enumerate(grams, 1))
    for n, some in enumerate(grams, 1):
        text += f"\n\\{n}-grams:\n" + "".join(line(*gram) for gram in some)
    path.write_text(text + "\n\\end\\\n")
    return path
