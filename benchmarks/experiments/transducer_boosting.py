"""Boosting trees with small transducers: recall of listed words and phrases, false alarms, word errors.

The models are those of `data.train_transducer`; the header has the digests of their weights. Every utterance has a list
of its own: its rare words (those of LibriSpeech's vocabulary outside the 5,000 most frequent of the books), or its
phrases of two words of which one is rare, and 0 to 1,000 others: rare words drawn for it alone, or such phrases of
`throughput` that nobody says in the set. `boosting_tree_alpha` scales the default scores of `arcbeam.BoostingTree`.
Recall is the share of the listed words or phrases that were said and are found, by their counts; a false alarm is one
that was not said. `ljspeech-200` was watched while the models were trained, `test-other-100` was not.
"""

from collections.abc import Iterator, Sequence

import numpy as np

import arcbeam
from benchmarks.data import datasets
from benchmarks.experiments.gpu_transducer_total import MODELS, weights
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 48
TITLE = "Boosting trees with small transducers"
SETS = ("ljspeech-200", "test-other-100")
POOL = "throughput"
KINDS = {"words": 1, "phrases of 2 words": 2}
DISTRACTORS = (0, 100, 1_000)
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
TAKES = {"models": "RNN-T, TDT or both with a comma between; default: both"}
COLUMNS = [
    Column("model", "model"),
    Column("set", "set"),
    Column("list", "kind"),
    Column("others in a list", "others", "{:,}"),
    Column("boosting_tree_alpha", "alpha", "{:g}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("listed and said", "listed", "{:,}"),
    Column("recall, %", "recall", "{:.1f}"),
    Column("false alarms in 100 utterances", "false", "{:.1f}"),
]


def vocabulary() -> list[str]:
    text = (datasets.data_folder() / "lm" / "words.txt").read_text(encoding="utf-8")
    return [word for word in text.split() if word.replace("'", "").isalpha()]


def lists(
    rare: boosting.RareWords, references: Sequence[str], words: int, pool: Sequence[str], others: int
) -> list[list[str]]:
    """Of each utterance."""
    if words == 1:
        return rare.lists(references, others)
    return rare.phrase_lists(references, words, pool, others)


def trees(listed: Sequence[Sequence[str]], tokenizer: str) -> list["arcbeam.BoostingTree | None"]:
    return [arcbeam.BoostingTree(phrases, tokenizer) if phrases else None for phrases in listed]


def run(context: Context) -> Iterator[Row]:
    from data import speech_transducer, train_transducer

    alphabet = train_transducer.alphabet_of(datasets.data_folder())
    tokenizer = str(datasets.data_folder() / "tokenizers" / "librispeech_bpe_256.model")
    rare = boosting.RareWords(vocabulary())
    spoken = datasets.load(POOL).references
    pools = {words: rare.phrases(spoken, words) for words in KINDS.values()}
    for model in context.options.get("models", ",".join(MODELS)).split(","):
        with np.load(weights(MODELS[model])) as file:
            arrays = {name: file[name] for name in file}
        light, ours = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
        decoders = {
            alpha: arcbeam.TransducerDecoder.from_arrays(
                ours, alphabet.blank, activation="relu", boosting_tree_alpha=alpha, device="cpu",
                durations=speech_transducer.DURATIONS if model == "TDT" else None,
            )
            for alpha in ALPHAS
        }  # fmt: skip
        for name in SETS:
            dataset = datasets.load(name).first(context.utterances)
            encoded = speech_transducer.encode(light, dataset.utterances)
            for kind, words in KINDS.items():
                for others in DISTRACTORS:
                    listed = lists(rare, dataset.references, words, pools[words], others)
                    boosts = trees(listed, tokenizer)
                    for alpha, decoder in decoders.items():
                        context.step(f"{model}, {name}, {kind}, {others:,} others, alpha {alpha:g}")
                        texts = [alphabet.text(h.tokens.tolist()) for h in decoder.decode(encoded, boost=boosts)]
                        got = boosting.outcome(dataset.references, texts, listed)
                        yield {
                            "model": model, "set": name, "kind": kind, "others": others, "alpha": alpha,
                            "wer": got.wer, "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
                        }  # fmt: skip
