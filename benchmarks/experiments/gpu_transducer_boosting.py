"""What boosting trees and an n-gram model of tokens cost transducers on one GPU: RNN-T and TDT, batches of 1 to 128.

The network and the utterances are those of `gpu_ll24`. `lists`: every utterance has a tree of its own, of 1,000 phrases
of 2 to 9 tokens, at most two of which it says; `6-gram`: one model of all n-grams of the utterances' own labels and of
2,000 texts of 40 labels, so that long histories are met, with the default alpha. The other default scores apply.
First the answers in float32 are compared with the CPU's as bytes, then all take turns by the clock, from the call until
the hypotheses are on the host. `of none` is the share of the RTFx that stays, within each turn; the goal is 90 % with
lists and 85 % with the model.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from arcbeam import BoostingTree, TransducerDecoder
from benchmarks.adapters import gpu
from benchmarks.data.datasets import CACHE
from benchmarks.experiments.gpu_ll24 import FRAME_SHIFT, FRAMES, batches_of, compare, precisions_of
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row
from data import synthetic_transducer as synthetic
from data import token_ngrams

ON_GPU = True
KERNELS = ("transducer", "transducer_fused")
ORDER = 232
TITLE = "Transducers with boosting trees and an n-gram model of tokens"
BATCHES = (1, 32, 128)
PHRASES, SAID = 1_000, 2
LENGTHS = (2, 9)  # tokens of a phrase, the longest included
TEXTS, TEXT_LENGTH, NGRAM_ORDER = 2_000, 40, 6
PLAIN, LISTS, NGRAMS = "none", "lists", "6-gram"
GOALS = {LISTS: 90, NGRAMS: 85}
TAKES = {"batches": "sizes to run, as in 1,32", "precision": "float32 or bfloat16; without it both"}
COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("batch", "batch", "{:,}"),
    Column("fused", "fused"),
    Column("none, ms", "plain_ms", "{:.2f}"),
    Column("ms", "ms", "{:.2f}"),
    Column("RTFx, none", "plain_rtfx", "{:,.0f}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("of none, %", "share", "{:.1f}"),
    Column("spread", "share_spread", "{:.1f}"),
    Column("goal, %", "goal", "{:.0f}"),
    Column("other tokens than none, %", "other", "{:.2f}"),
    Column("status", "status"),
]


def run(context: Context) -> Iterator[Row]:
    for model in ("RNN-T", "TDT"):
        yield from gpu.rows_or_failure({"model": model}, rows_of, context, model)


def phrases_of(text: Sequence[int], number: int, sizes: synthetic.Sizes) -> list[tuple[int, ...]]:
    """The list of the utterance of this number, which says the text."""
    random = np.random.default_rng([seeds.used("phrases", 0), number])
    found: dict[tuple[int, ...], None] = {}
    for length in random.integers(LENGTHS[0], LENGTHS[1] + 1, SAID).tolist():
        begin = int(random.integers(0, max(1, len(text) - length)))
        found[tuple(text[begin : begin + length])] = None
    while len(found) < PHRASES:
        length = int(random.integers(LENGTHS[0], LENGTHS[1] + 1))
        found[tuple(random.integers(0, sizes.blank, length).tolist())] = None
    return [phrase for phrase in found if phrase]


def other_texts(sizes: synthetic.Sizes) -> list[list[int]]:
    """Labels as those of `synthetic.utterances`: no label follows itself."""
    random = np.random.default_rng(seeds.used("texts of the model", 0))
    steps = random.integers(1, sizes.blank, (TEXTS, TEXT_LENGTH))
    return (np.cumsum(steps, axis=1) % sizes.blank).tolist()


def rows_of(context: Context, model: str) -> Iterator[Row]:
    gpu.require()
    sizes = synthetic.Sizes()
    seed = seeds.used("network and utterances", 0)
    durations = synthetic.DURATIONS if model == "TDT" else None
    arrays = synthetic.weights(sizes, tdt=durations is not None, seed=seed)
    batches = batches_of(context, BATCHES)
    frames, texts, _ = synthetic.utterances(max(batches), FRAMES, sizes, seed=seed)
    context.progress(f"{model}: the lists and the model")
    trees = [BoostingTree(phrases_of(text, at, sizes), vocab_size=sizes.tokens) for at, text in enumerate(texts)]
    arpa = CACHE / f"token-6gram-{model}.arpa"
    CACHE.mkdir(parents=True, exist_ok=True)
    token_ngrams.write_arpa(arpa, [*texts, *other_texts(sizes)], NGRAM_ORDER, sizes.blank)
    words = [token_ngrams.word(token) for token in range(sizes.blank)]
    options: dict[str, Any] = {"durations": durations, "activation": "relu"}
    precisions = precisions_of(context)

    def decoder(**more: Any) -> TransducerDecoder:
        return TransducerDecoder.from_arrays(arrays, sizes.blank, **options, **more)

    ngrams = {"ngram_lm_model": arpa, "ngram_lm_tokens": words}
    twins = {PLAIN: decoder(device="cpu"), NGRAMS: decoder(device="cpu", **ngrams)}
    for precision in precisions:
        plain, fused = decoder(precision=precision), decoder(precision=precision, **ngrams)
        for batch in batches:
            context.progress(f"{model}, {precision}, batch {batch}")
            [sent] = gpu.send([frames[:batch]])
            calls: dict[str, Callable[[], Any]] = {
                PLAIN: lambda x=sent, one=plain: one.decode(x),
                LISTS: lambda x=sent, one=plain, n=batch: one.decode(x, boost=trees[:n]),
                NGRAMS: lambda x=sent, one=fused: one.decode(x),
            }
            found = {name: call() for name, call in calls.items()}
            if precision == "float32":
                compare(found[PLAIN], twins[PLAIN].decode(frames[:batch]))
                compare(found[LISTS], twins[PLAIN].decode(frames[:batch], boost=trees[:batch]))
                compare(found[NGRAMS], twins[NGRAMS].decode(frames[:batch]))
            took = timing.interleave(calls, 4 * context.repeats)
            seconds = batch * FRAMES * FRAME_SHIFT
            for name, goal in GOALS.items():
                share, spread = timing.ratio(took[PLAIN], took[name])
                row: Row = {
                    "model": model,
                    "precision": precision,
                    "batch": batch,
                    "fused": name,
                    "plain_rtfx": seconds / took[PLAIN].seconds,
                    "rtfx": seconds / took[name].seconds,
                    "plain_ms": 1e3 * took[PLAIN].seconds,
                    "ms": 1e3 * took[name].seconds,
                    "plain_wall": took[PLAIN].wall,
                    "wall": took[name].wall,
                    "share": 100 * share,
                    "share_spread": [100 * one for one in spread],
                    "goal": goal,
                    "other": 100 * differing(found[name], found[PLAIN]),
                }
                yield row


def differing(found: Sequence[Any], plain: Sequence[Any]) -> float:
    """The share of the utterances' tokens that are others, or at another place, than without fusing."""
    pairs = [(one.tokens.tolist(), other.tokens.tolist()) for one, other in zip(found, plain, strict=True)]
    wrong = sum(sum(a != b for a, b in zip(*pair, strict=False)) + abs(len(pair[0]) - len(pair[1])) for pair in pairs)
    return wrong / max(1, sum(len(other) for _, other in pairs))
