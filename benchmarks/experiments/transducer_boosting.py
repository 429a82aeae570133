"""Boosting trees with small transducers: recall of listed words and phrases, false alarms, word errors.

The models are those of `data.train_transducer`; the header has the digests of their weights. Every utterance has a list
of its own: its rare words (those of LibriSpeech's vocabulary outside the 5,000 most frequent of the books), or its
phrases of two words of which one is rare, and 0 to 1,000 others: rare words drawn for it alone, or such phrases of
`throughput` that nobody says in the set. `boosting_tree_alpha` scales the default scores of `arcbeam.BoostingTree`.
Recall is the share of the listed words or phrases that were said and are found, by their counts; a false alarm is one
that was not said. `ljspeech-200` was watched while the models were trained, `test-other-100` was not.

Lists of 100 other words are also decoded by NeMo's label-looping, with NeMo's own trees of the same pieces. Tokens
unlike NeMo's are counted by edit distance; the sums of the networks are taken in another order there.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks import adapters
from benchmarks.data import datasets
from benchmarks.experiments import gpu_ll24
from benchmarks.experiments.transducer_wer import MODELS, weights
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import boosting

ORDER = 48
TITLE = "Boosting trees with small transducers"
SETS = ("ljspeech-200", "test-other-100")
POOL = "throughput"
KINDS = {"words": 1, "phrases of 2 words": 2}
DISTRACTORS = (0, 100, 1_000)
COMPARED = ("words", 100)  # the lists that NeMo has, too
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
    Column("tokens unlike NeMo's, %", "unlike", "{:.3f}"),
    Column("status", "status"),
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


class Nemo:
    """NeMo's label-looping with its own trees of the same pieces, all utterances in one batch.

    trees : one for each utterance
    durations : of a TDT; None for an RNN-T
    """

    def __init__(
        self,
        arrays: dict[str, npt.NDArray[np.float32]],
        durations: Sequence[int] | None,
        trees: Sequence["arcbeam.BoostingTree"],
        encoded: Sequence[npt.NDArray[np.float32]],
    ) -> None:
        from benchmarks.adapters import nemo_transducer, nemo_trees

        blank = trees[0].vocab_size
        theirs = [nemo_trees.tree([first for first, *_ in tree.tokens.values()], blank) for tree in trees]
        self.peer = nemo_transducer.NemoTransducer(arrays, blank, durations, trees=theirs)
        lengths = [len(frames) for frames in encoded]
        padded = np.zeros((len(encoded), max(lengths), encoded[0].shape[1]), np.float32)
        for row, frames in zip(padded, encoded, strict=True):
            row[: len(frames)] = frames
        self.prepared = self.peer.prepare(padded, lengths)

    def unlike(self, found: list[Any], alpha: float) -> float:
        """Percent of NeMo's tokens."""
        self.peer.weigh(alpha)
        return gpu_ll24.wrong(found, self.peer.tokens(self.peer.decode(self.prepared)))


def run(context: Context) -> Iterator[Row]:
    from data import speech_transducer, train_transducer

    alphabet = train_transducer.alphabet_of(datasets.data_folder())
    tokenizer = str(datasets.data_folder() / "tokenizers" / "librispeech_bpe_256.model")
    rare = boosting.RareWords(vocabulary())
    spoken = datasets.load(POOL).references
    pools = {words: rare.phrases(spoken, words) for words in KINDS.values()}
    for model in context.options.get("models", ",".join(MODELS)).split(","):
        arrays = weights(MODELS[model])
        light, ours = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
        durations = speech_transducer.DURATIONS if model == "TDT" else None
        decoders = {
            alpha: arcbeam.TransducerDecoder.from_arrays(
                ours, alphabet.blank, activation="relu", boosting_tree_alpha=alpha, device="cpu",
                durations=durations,
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
                    nemo: Nemo | None = None
                    status: str | None = None
                    if (kind, others) == COMPARED:
                        try:
                            nemo = Nemo(ours, durations, [tree for tree in boosts if tree is not None], encoded)
                        except (ImportError, OSError) as error:
                            status = f"NeMo missing: {adapters.why(error)}"
                    for alpha, decoder in decoders.items():
                        context.step(f"{model}, {name}, {kind}, {others:,} others, alpha {alpha:g}")
                        found = decoder.decode(encoded, boost=boosts)
                        texts = [alphabet.text(h.tokens.tolist()) for h in found]
                        got = boosting.outcome(dataset.references, texts, listed)
                        yield {
                            "model": model, "set": name, "kind": kind, "others": others, "alpha": alpha,
                            "wer": got.wer, "listed": got.listed, "recall": got.recall, "false": got.false_alarms,
                            "unlike": None if nemo is None else nemo.unlike(found, alpha), "status": status,
                        }  # fmt: skip
