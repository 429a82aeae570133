"""One core: forced alignment of real speech, one of an hour in one piece, and torchaudio's `forced_align` where it is.

The texts are those that were said, with some words replaced by others of the set, and those of the next utterances, to
see which confidence a text has that was not said. `forced_align` takes one utterance a call, and its labels have one
separator between words. Before anything is timed its paths are compared with arcbeam's by the same rules: a text is one
word of these labels, and equal labels need a blank between them. The clock stops when there are words with times and
confidences; of torchaudio, when there are the column and the score of each frame.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import arcbeam
from benchmarks.data import datasets
from benchmarks.harness import seeds, timing
from benchmarks.harness.registry import Column, Context, Row

ORDER = 23
TITLE = "Forced alignment on one core"
TAKES: dict[str, str] = {}
SEED = 1
OWN, NEXT, HOUR = "their own", "of the next utterances", "their own, in one piece"
REPLACED = {"one word in ten replaced": 0.1, "one word in five replaced": 0.2}
TORCHAUDIO = "their own, torchaudio"
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
    Column("paths that are arcbeam's", "same", "{:,}"),
]
LogProbs = npt.NDArray[np.float32]
HOUR_SECONDS = 3600.0


def run(context: Context) -> Iterator[Row]:
    for name in ("demo", "ljspeech-200"):
        dataset = datasets.load(name).first(context.utterances)
        context.progress(name)
        graph = arcbeam.Graph.greedy(dataset.tokens)
        decoder = arcbeam.CtcDecoder(graph, device="cpu", threads=1, frame_shift=dataset.frame_shift)
        utterances = [np.ascontiguousarray(one, np.float32) for one in dataset.utterances]
        said = dataset.references
        common = {"set": name, "minutes": dataset.seconds / 60}
        for texts, of in listed(said).items():
            yield common | {"texts": texts} | row(context, decoder, utterances, of, dataset.seconds)
        if (peer := torchaudio(decoder, utterances, said)) is not None:
            align, same = peer
            [mine] = timing.interleave({TORCHAUDIO: align}, context.repeats, step=context.step).values()
            yield common | {"texts": TORCHAUDIO, "rtfx": dataset.seconds / mine.seconds, "same": same}
        if context.utterances is None and name != "demo":
            times = round(HOUR_SECONDS / dataset.seconds)
            whole, text = np.concatenate(utterances * times), " ".join(said * times)
            seconds = times * dataset.seconds
            common["minutes"] = seconds / 60
            yield common | {"texts": HOUR} | row(context, decoder, [whole], [text], seconds)


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


def row(
    context: Context, decoder: arcbeam.CtcDecoder, utterances: Sequence[LogProbs], texts: Sequence[str], seconds: float
) -> Row:
    """What is found, and how fast; AssertionError if alignments depend on the batch."""
    found = [one for one in decoder.align(list(utterances), texts, errors="return") if one.error is None]
    alone = decoder.align(utterances[0], texts[0], errors="return")
    again = decoder.align(list(utterances), texts, errors="return")[0]
    if not isinstance(alone, arcbeam.Alignment) or alone.to_dict() != again.to_dict():
        raise AssertionError("an alignment depends on its batch")

    def align() -> None:
        for one in decoder.align(list(utterances), texts, errors="return"):
            one.words  # noqa: B018 - words are derived when first requested

    [mine] = timing.interleave({"arcbeam": align}, context.repeats, step=context.step).values()
    confidences = [one.confidence for one in found]
    return {
        "fit": len(found),
        "exact": sum(one.exact for one in found),
        "smallest": min(confidences),
        "median": float(np.median(confidences)),
        "largest": max(confidences),
        "doubtful": sum(one.doubtful for one in found),
        "rtfx": seconds / mine.seconds,
    }


def torchaudio(
    decoder: arcbeam.CtcDecoder, utterances: Sequence[LogProbs], said: Sequence[str]
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
    plain = arcbeam.CtcDecoder(arcbeam.Graph.greedy(tokens, separator=None), device="cpu", threads=1)
    words = {f"text{i}": spelling for i, spelling in enumerate(labels)}
    mine = plain.align(list(utterances), list(words), pronunciations=words)
    targets = [torch.tensor([[tokens.column(token) for token in spelling.split()]]) for spelling in labels]
    batch = [torch.from_numpy(one)[None] for one in utterances]
    torch.set_num_threads(1)

    def align() -> list[Any]:
        return [forced_align(one, target, blank=graph.blank) for one, target in zip(batch, targets, strict=True)]

    paths = [path[0].numpy() for path, _ in align()]
    same = sum(np.array_equal(one.tokens, path) for one, path in zip(mine, paths, strict=True))
    return align, same
