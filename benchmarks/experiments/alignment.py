"""Forced alignment of real speech, of an hour in one piece, and torchaudio's `forced_align`: on one core, or on a GPU.

The texts are those that were said, with some words replaced by others of the set, and those of the next utterances, to
see which confidence a text has that was not said. `forced_align` takes one utterance a call, and its labels have one
separator between words. Before anything is timed its paths are compared with arcbeam's by the same rules: a text is one
word of these labels, and equal labels need a blank between them. The clock stops when there are words with times and
confidences; of torchaudio, when the column and the score of each frame are on the host. On a GPU the log-probs of both
are there before, and the answers are compared with the CPU's.

The aim was ten times torchaudio on a GPU. Three attempts: fewer searches, and no work in Python for texts where a bound
makes it needless (from 5.2 to 6 times); sums and scores by C++ for the whole batch (6.8); words of the batch in one
step (7.6). What is left of a call on ljspeech-200 is, by the profile, one thread of the host: 11 ms wait for the
kernel, 11 copy log-probs and add smallest costs for the proof, 8 make words, 6 engines, 15 graphs of texts.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.adapters import gpu
from benchmarks.data import datasets
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row

ON_GPU = None
ORDER = 23
TITLE = "Forced alignment"
SEED = 1
OWN, NEXT, HOUR = "their own", "of the next utterances", "their own, in one piece"
REPLACED = {"one word in ten replaced": 0.1, "one word in five replaced": 0.2}
COLUMNS = [
    Column("set", "set"),
    Column("texts", "texts"),
    Column("minutes", "minutes", "{:.1f}"),
    Column("texts that fit", "fit", "{:,}"),
    Column("exact", "exact", "{:,}"),
    Column("confidence: smallest", "smallest", "{:.3g}"),
    Column("median", "median", "{:.3g}"),
    Column("largest", "largest", "{:.3g}"),
    Column("doubtful", "doubtful", "{:,}"),
    Column("RTFx", "rtfx", "{:,.0f}"),
    Column("faster than torchaudio by", "ratio", "{:.1f}"),
    Column("spread", "ratio_spread", "{:.1f}"),
    Column("torchaudio's paths that are arcbeam's", "same", "{:,}"),
]
LogProbs = npt.NDArray[np.float32]
HOUR_SECONDS = 3600.0


def run(context: Context) -> Iterator[Row]:
    for name in ("demo", "ljspeech-200"):
        dataset = datasets.load(name).first(context.utterances)
        context.progress(name)
        decoder = arcbeam.CtcDecoder(
            arcbeam.Graph.greedy(dataset.tokens), device="cuda" if context.gpu else "cpu", threads=1,
            frame_shift=dataset.frame_shift,
        )  # fmt: skip
        utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
        peer = torchaudio(decoder, utterances, dataset.references, context.gpu)
        for texts, of in listed(dataset.references).items():
            theirs = peer if texts == OWN else None
            row = {"set": name, "texts": texts, "minutes": dataset.seconds / 60}
            yield row | aligned(context, decoder, utterances, of, dataset.seconds, theirs)
        if context.utterances is None and name != "demo":
            times = round(HOUR_SECONDS / dataset.seconds)
            whole, text = np.concatenate(utterances * times), " ".join(dataset.references * times)
            seconds = times * dataset.seconds
            row = {"set": name, "texts": HOUR, "minutes": seconds / 60}
            yield row | aligned(context, decoder, [whole], [text], seconds)


def listed(said: Sequence[str]) -> dict[str, list[str]]:
    """Texts for each utterance: what was said, and what was not."""
    rng = random.Random(SEED)
    seeds.used("texts", SEED)
    vocabulary = [word for text in said for word in text.split()]

    def spoiled(text: str, share: float) -> str:
        return " ".join(rng.choice(vocabulary) if rng.random() < share else word for word in text.split())

    texts = {OWN: list(said)}
    texts |= {name: [spoiled(text, share) for text in said] for name, share in REPLACED.items()}
    return texts | {NEXT: [*said[1:], *said[:1]]}


def aligned(
    context: Context, decoder: arcbeam.CtcDecoder, utterances: Sequence[LogProbs], texts: Sequence[str], seconds: float,
    peer: tuple[Callable[[], Any], int] | None = None,
) -> Row:  # fmt: skip
    """What is found, and how fast; AssertionError if alignments depend on the batch or on the device."""
    batch: list[Any] = gpu.send(utterances) if context.gpu else list(utterances)
    every = decoder.align(batch, texts, errors="return")
    twin = arcbeam.CtcDecoder(decoder.graph, device="cpu", threads=1, frame_shift=decoder.options.frame_shift)
    alone = twin.align(utterances[0], texts[0], errors="return")
    if not isinstance(alone, arcbeam.Alignment) or alone.to_dict() != every[0].to_dict():
        raise AssertionError("an alignment depends on its batch or its device")
    found = [one for one in every if one.error is None]

    def align() -> None:
        for one in decoder.align(batch, texts, errors="return"):
            one.words  # noqa: B018 - words are derived when first requested

    contenders = {"arcbeam": align} | ({} if peer is None else {"torchaudio": peer[0]})
    took = timing.interleave(contenders, context.repeats, step=context.step)
    confidences = [one.confidence for one in found]
    row: Row = {
        "fit": len(found),
        "exact": sum(one.exact for one in found),
        "smallest": min(confidences),
        "median": float(np.median(confidences)),
        "largest": max(confidences),
        "doubtful": sum(one.doubtful for one in found),
        "rtfx": seconds / took["arcbeam"].seconds,
        "wall": took["arcbeam"].wall,
    }
    if peer is not None:
        row["same"] = peer[1]
        row["ratio"], row["ratio_spread"] = timing.ratio(took["torchaudio"], took["arcbeam"])
    return row


def torchaudio(
    decoder: arcbeam.CtcDecoder, utterances: Sequence[LogProbs], said: Sequence[str], on_gpu: bool
) -> tuple[Callable[[], Any], int] | None:
    """An alignment by torchaudio, and how many of its paths are arcbeam's by the same rules; None where it is not."""
    try:
        import torch
        from torchaudio.functional import forced_align
    except (ImportError, OSError):
        return None
    graph, tokens = decoder.graph, decoder.graph.tokens
    assert tokens is not None and graph.separator is not None
    labels = [f" {graph.separator} ".join(" ".join(word) for word in text.split()) for text in said]
    plain = arcbeam.CtcDecoder(arcbeam.Graph.greedy(tokens, separator=None), device=decoder.options.device, threads=1)
    words = {f"text{i}": spelling for i, spelling in enumerate(labels)}
    mine = plain.align(list(utterances), list(words), pronunciations=words)
    place = "cuda" if on_gpu else "cpu"
    targets = [
        torch.tensor([[tokens.column(token) for token in spelling.split()]], device=place) for spelling in labels
    ]
    batch = [torch.from_numpy(one)[None].to(place) for one in utterances]
    torch.set_num_threads(1)

    def align() -> list[Any]:
        found = (forced_align(one, target, blank=graph.blank) for one, target in zip(batch, targets, strict=True))
        return [(path.cpu(), scores.cpu()) for path, scores in found]

    same = sum(np.array_equal(one.tokens, path[0].numpy()) for one, (path, _) in zip(mine, align(), strict=True))
    return align, same
