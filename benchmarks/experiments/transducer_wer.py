"""Word error rate of the transducers that `data.train_transducer` trains, by arcbeam's greedy decoder, on the CPU.

Their encoder is a light network over QuartzNet's log-probs, so greedy decoding of these stands beside them. They were
trained on `throughput` and on novels, and `ljspeech-200` was watched meanwhile; the others were not. `an4-test` is of
spelled letters and digits, which are rare there. The novels hold the book that `demo` is taken from, but no five words
in a row of what is evaluated. In bfloat16 the encoder's output is the same, and tokens unlike those in float32 are
counted by edit distance. The weights lie in the cache as transducer/rnnt.npz and tdt.npz.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from arcbeam import TransducerDecoder
from benchmarks.data import datasets
from benchmarks.experiments import gpu_ll24, wer
from benchmarks.harness import seeds
from benchmarks.harness.registry import Column, Context, Row
from data.word_errors import word_error_rate

ORDER = 47
TITLE = "Word error rate of small transducers"
MODELS = {"RNN-T": "rnnt", "TDT": "tdt"}
SETS = ("test-other-100", "ljspeech-200", "an4-test", "demo")
COLUMNS = [
    Column("set", "set"),
    Column("words", "words", "{:,}"),
    Column("CTC greedy, %", "greedy", "{:.2f}"),
    Column("model", "model"),
    Column("float32, %", "float32", "{:.2f}"),
    Column("bfloat16, %", "bfloat16", "{:.2f}"),
    Column("tokens", "tokens", "{:,}"),
    Column("unlike in bfloat16, %", "unlike", "{:.3f}"),
]


def weights(kind: str) -> dict[str, npt.NDArray[np.float32]]:
    """Of a trained model; their digest is noted. Raises DataMissing with the remedy."""
    path = datasets.CACHE / "transducer" / f"{kind}.npz"
    if not path.exists():
        loss = " --loss full-sum" if kind.endswith("-full-sum") else ""
        raise datasets.DataMissing(f"there is no {path}; data/train_transducer.py{loss} makes it")
    with np.load(seeds.weights(path)) as file:
        return {name: file[name] for name in file}


def run(context: Context) -> Iterator[Row]:
    from data import speech_transducer, train_transducer

    alphabet = train_transducer.alphabet_of(datasets.data_folder())
    for model, kind in MODELS.items():
        arrays = weights(kind)
        light, ours = speech_transducer.load_light(arrays), speech_transducer.decoder_arrays(arrays)
        durations = speech_transducer.DURATIONS if model == "TDT" else None
        decoders = {
            precision: TransducerDecoder.from_arrays(
                ours, alphabet.blank, activation="relu", durations=durations, precision=precision, device="cpu"
            )
            for precision in gpu_ll24.PRECISIONS
        }
        for name in SETS:
            context.progress(f"{model}, {name}")
            dataset = datasets.load(name).first(context.utterances)
            encoded = speech_transducer.encode(light, dataset.utterances)
            found = {precision: decoder.decode(encoded) for precision, decoder in decoders.items()}
            said = [h.tokens.tolist() for h in found["float32"]]
            row: Row = {
                "set": name,
                "words": sum(len(r.split()) for r in dataset.references),
                "greedy": 100 * word_error_rate(dataset.references, wer.greedy(dataset)),
                "model": model,
                "tokens": sum(map(len, said)),
                "unlike": gpu_ll24.wrong(found["bfloat16"], said),
            }
            for precision, hypotheses in found.items():
                texts = [alphabet.text(h.tokens.tolist()) for h in hypotheses]
                row[precision] = 100 * word_error_rate(dataset.references, texts)
            yield row
