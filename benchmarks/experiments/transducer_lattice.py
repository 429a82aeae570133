"""Lattices of transducers' beam search on the CPU: word errors of lists and lattices, with contexts merged or not.

The networks are those of `transducer_beam`, trained with the sum over all paths. Without ``merge_context`` a lattice
has the texts of the list of `max_hypotheses`, so its oracle is that of a list. The best path is that of the lattice;
the oracle of ten that of its ten best texts. The rescored word error rate is that of the best path in whole words with
the 3-gram of the books, at each factor. Links are those of a second of speech. Seconds are of one core, the smallest of
the repeats: the search without and with lattices (made, too), and whole words with their rescoring at one factor.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from arcbeam import LanguageModel, TransducerDecoder
from benchmarks.data import datasets
from benchmarks.experiments.transducer_beam import LISTED
from benchmarks.experiments.transducer_wer import MODELS, weights
from benchmarks.harness.registry import Column, Context, Row
from benchmarks.tasks import oracle
from data.word_errors import word_error_rate

ORDER = 50
TITLE = "Lattices of small transducers"
SETS = ("ljspeech-200", "test-other-100", "demo")
BEAMS = (4.0, 8.0)
CONTEXTS = (None, 2, 3, 4)
MOST = 8
SCALES = (0.1, 0.2, 0.4)
COLUMNS = [
    Column("set", "set"),
    Column("model", "model"),
    Column("beam", "beam", "{:g}"),
    Column("merge_context", "context"),
    Column("live", "live", "{:.2f}"),
    Column("links/s", "links", "{:.0f}"),
    Column("WER, %", "wer", "{:.2f}"),
    Column("best path, %", "path", "{:.2f}"),
    Column("MBR, %", "mbr", "{:.2f}"),
    Column("oracle of the list, %", "list", "{:.2f}"),
    Column("oracle of ten, %", "ten", "{:.2f}"),
    Column("oracle of the lattice, %", "lattice", "{:.2f}"),
    *(Column(f"rescored, {scale:g}, %", f"rescored {scale:g}", "{:.2f}") for scale in SCALES),
    Column("search, s", "plain", "{:.2f}"),
    Column("with lattices, s", "with", "{:.2f}"),
    Column("rescoring, s", "rescoring", "{:.2f}"),
]


def words_model() -> LanguageModel:
    """The 3-gram of the books; made on first use."""
    path = datasets.CACHE / "transducer" / "books.3gram.lm"
    if not path.exists():
        LanguageModel.build(datasets.data_folder() / "lm" / "books.3gram.arpa.xz", progress=False).save(path)
    return LanguageModel.load(path)


def timed(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    """What it returns, and the smallest seconds of this process's core."""
    least = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        found = work()
        least = min(least, time.process_time() - begin)
    return found, least


def measured(
    make: Callable[..., TransducerDecoder],
    encoded: Sequence[Any],
    references: Sequence[str],
    model: LanguageModel,
    repeats: int,
) -> Row:
    """The row of a decoder, but for its options."""
    decoder = make()
    words = [reference.split() for reference in references]
    listed, plain = timed(lambda: decoder.decode(encoded, nbest=MOST), repeats)
    work = decoder._search.engine.work()

    def search() -> list[Any]:
        return [found.lattice for found in decoder.decode(encoded, lattice=True)]

    def rescored(scale: float) -> list[Any]:
        whole = [lattice.whole_words() for lattice in lattices]
        return [one.rescore(model, lm_scale=scale, unknown_words="unk") for one in whole]

    lattices, with_lattices = timed(search, repeats)
    _, rescoring = timed(lambda: rescored(SCALES[0]), repeats)
    texts = [[entry.text for entry in found.nbest] for found in listed]
    ten = [[entry.text for entry in lattice.nbest(LISTED)] for lattice in lattices]
    row: Row = {
        "live": sum(one["live"] for one in work) / sum(one["frames"] for one in work),
        "links": sum(one.num_links for one in lattices) / sum(one.num_frames * one.frame_shift for one in lattices),
        "wer": 100 * word_error_rate(references, [found.text for found in listed]),
        "path": 100 * word_error_rate(references, [lattice.text for lattice in lattices]),
        "mbr": 100 * word_error_rate(references, [lattice.whole_words().mbr.text for lattice in lattices]),
        "list": oracle.oracle(words, texts, MOST),
        "ten": oracle.oracle(words, ten, LISTED),
        "lattice": oracle.of_lattices(words, lattices),
        "plain": plain, "with": with_lattices, "rescoring": rescoring,
    }  # fmt: skip
    for scale in SCALES:
        row[f"rescored {scale:g}"] = 100 * word_error_rate(references, [one.text for one in rescored(scale)])
    return row


def run(context: Context) -> Iterator[Row]:
    from data import speech_transducer, train_transducer

    trained = datasets.CACHE / "transducer" / "pieces.model"
    alphabet = train_transducer.alphabet_of(datasets.data_folder(), trained if trained.exists() else None)
    language_model = words_model()
    for model, kind in MODELS.items():
        arrays = weights(f"{kind}-full-sum")
        light, ours = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
        for name in SETS:
            dataset = datasets.load(name).first(context.utterances)
            encoded = speech_transducer.encode(light, dataset.utterances)
            for beam in BEAMS:
                for labels in CONTEXTS:
                    context.progress(f"{model}, {name}, beam {beam:g}, context {labels}")
                    make = functools.partial(
                        TransducerDecoder.from_arrays,
                        ours,
                        alphabet.blank,
                        activation="relu",
                        durations=speech_transducer.DURATIONS if model == "TDT" else None,
                        tokenizer=alphabet.names,
                        frame_shift=speech_transducer.FRAME_SHIFT,
                        device="cpu",
                        threads=1,
                        beam=beam,
                        max_hypotheses=MOST,
                        merge_context=labels,
                    )
                    row = measured(make, encoded, dataset.references, language_model, context.repeats)
                    yield {"set": name, "model": model, "beam": beam, "context": labels or "none", **row}
