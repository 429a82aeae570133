"""Stage lookup: what the words of the candidates add, from a trigram and a bigram model of random n-grams."""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from arcbeam import _stages
from arcbeam.ctc.options import DecoderOptions
from arcbeam.ctc.rescoring import Rescoring
from benchmarks.engine.stage_timing import Case, Frame
from benchmarks.harness import seeds

WORDS, BIGRAMS, TRIGRAMS = 999, 50_000, 200_000
SEED, SEED_OF_HISTORIES = 21, 22


def arpa(rng: np.random.Generator, order: int) -> str:
    """A model of random n-grams; their histories are listed."""
    levels = [[(w,) for w in ("<s>", "</s>", *(f"w{i}" for i in range(1, WORDS + 1)))]]
    pairs = np.unique(rng.integers(1, WORDS + 1, (BIGRAMS, 2)), axis=0)
    levels.append([(f"w{a}", f"w{b}") for a, b in pairs])
    more = np.unique(np.column_stack([rng.integers(0, len(pairs), TRIGRAMS), rng.integers(1, WORDS, TRIGRAMS)]), axis=0)
    levels.append([(*levels[1][i], f"w{c}") for i, c in more])
    lines = ["\\data\\", *(f"ngram {k}={len(level)}" for k, level in enumerate(levels[:order], 1))]
    for k, level in enumerate(levels[:order], 1):
        backoff = "\t-0.5" if k < order else ""
        lines += [f"\\{k}-grams:", *(f"{-4 + k - rng.random():.4f}\t{' '.join(n)}{backoff}" for n in level)]
    return "\n".join([*lines, "\\end\\", ""])


@seeds.kept
def rescoring() -> Rescoring:
    """Both models and a graph of these words; the same ones each time."""
    rng = np.random.Generator(np.random.PCG64(seeds.used("language models of the stages", SEED)))
    models = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random n-grams do not sum to one
        for order in (3, 2):
            Path(folder, "arpa").write_text(arpa(rng, order))
            models.append(arcbeam.LanguageModel.build(Path(folder, "arpa"), progress=False))
    words = ["<eps>", *(f"w{i}" for i in range(1, WORDS + 1))]
    graph = arcbeam.Graph.from_arcs(
        [(0, 0, 1, w, 0.0) for w in range(1, WORDS + 1)], finals={0: 0.0}, num_columns=1, word_symbols=words,
        meta={"lm_digest": models[1].digest},
    )  # fmt: skip
    return Rescoring(graph, *models, DecoderOptions())


@seeds.kept
def histories(tokens: int) -> npt.NDArray[np.void]:
    """One for each token."""
    rng = np.random.Generator(np.random.PCG64(seeds.used("histories of the stages", SEED_OF_HISTORIES)))
    found = np.zeros(tokens, _stages.HISTORY)
    found["large"] = rng.integers(0, rescoring().large.num_states, tokens)
    found["small"] = rng.integers(0, rescoring().small.num_states, tokens)
    return found


def looked_up(frame: Frame) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void], dict[str, int]]:
    """The stage's answer."""
    both, of_tokens = rescoring(), histories(len(frame.tokens))
    return _stages.lookup(frame.graph, both, frame.candidates, frame.bound, of_tokens, frame.first_log)


def case(frame: Frame) -> Case:
    looked_up(frame)
    return lambda: looked_up(frame), len(frame.candidates), "candidates"


def check(frame: Frame, result: Any) -> None:
    """Who is looked up, and that one word after one history always adds the same."""
    kept, deviations, work = result
    assert kept.tobytes() == frame.candidates[frame.candidates["cost"] <= frame.bound].tobytes()
    words = frame.graph.words[kept["arc"]]
    assert (deviations["cost"][words == 0] == 0).all() and np.isfinite(deviations["cost"]).all()
    assert work["lookups"] == np.count_nonzero(words)
    history = histories(len(frame.tokens))[kept["source"] - frame.first_log]
    after = np.column_stack([history["large"], history["small"], words])
    _, first, same = np.unique(after, axis=0, return_index=True, return_inverse=True)
    assert deviations.tobytes() == deviations[first][same.reshape(-1)].tobytes()
