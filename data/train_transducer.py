"""Trains a small RNN-T or TDT over CTC log-probs in a few minutes on a GPU, and prints its word error rates.

    python -m data.train_transducer --data DATA --text books.txt.xz --out rnnt.npz [--tdt] [--minutes 4] [--device cuda]
    python -m data.train_transducer --data DATA --evaluate rnnt.npz [--tdt]

DATA is a folder of sets as `ARCBEAM_DATA` names it (throughput is trained on, ljspeech-200 watched), with the
SentencePiece model tokenizers/librispeech_bpe_256.model unless ``--tokenizer`` names another. Left out of the text are
*Sense and Sensibility*, which the demo's recordings are read from, and lines that share five words in a row with a
transcript of a set that is evaluated. `data.spoken_text` makes log-probs of texts, `data.speech_transducer` is the
network; weights are written as float16, an average over the last steps. Greedy decoding is arcbeam's. On a CPU it takes
hours: five minutes leave all words wrong.

Cross-entropy on nodes of an alignment trains fast, and leaves a network too sure of the frame of each label.
``--loss full-sum --weights rnnt.npz`` goes on from its weights with the sum over all paths:

    python -m data.train_transducer --data DATA --weights rnnt.npz --loss full-sum --rate 3e-4 --out rnnt-full-sum.npz

Two cores of a CPU do for that if the network is small: `--letters 2000 --minutes 10`.
"""

import argparse
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from arcbeam import TransducerDecoder
from data import letter_alignment, make_demo_lm, speech_transducer
from data.lines import runs, text_lines
from data.pieces import train_sentencepiece
from data.speech_transducer import DURATIONS, FRAME_SHIFT, Transducer
from data.spoken_text import Alphabet, Batch, Distortion, Texts, Units, speak
from data.word_errors import word_error_rate
from data.workload import TRAINING_LINES, collapse

EVALUATED = ("test-other-100", "ljspeech-200", "demo")
WATCHED = "ljspeech-200"
OVERLAP = 5  # words
WORDS = (2, 60)  # of a text
REAL_SHARE = 0.2  # of the batches: utterances as they are, but distorted
AVERAGE = 0.999  # of the weights, from step to step
PEAK_RATE, WARM_UP = 2e-3, 300
PIECES = 256  # of a tokenizer that is trained here
TOLD_EVERY = 100_000  # texts
LOSSES = {"alignment": Transducer.loss, "full-sum": Transducer.full_sum_loss}
BEGAN = time.perf_counter()
SIZES: dict[str, dict[str, int]] = {
    "large": {},
    "demo": {"channels": 256, "embedding": 96, "units": 224, "joint": 256},  # decoder weights of 1 MB as float16
    "small": {"channels": 128, "blocks": 3, "inner": 256, "embedding": 64, "units": 128, "joint": 192},
}


def tell(what: str) -> None:
    print(f"{time.perf_counter() - BEGAN:5.0f} s: {what}", flush=True)


@dataclass(frozen=True)
class Set:
    log_probs: list[npt.NDArray[np.floating]]
    references: list[str]


def read_set(folder: Path) -> Set:
    with np.load(folder / "log_probs.npz") as file:
        rows = np.split(file["log_probs"], np.cumsum(file["lengths"])[:-1])
        ids = [str(i) for i in file["ids"]]
    lines = (line.split("\t", 1) for line in (folder / "reference.tsv").read_text(encoding="utf-8").splitlines())
    texts = {key: " ".join(text.split()) for key, text in lines}
    return Set(rows, [texts[i] for i in ids])


def read_tokens(data: Path) -> list[str]:
    return [line.rsplit(None, 1)[0] for line in (data / "tokens.txt").read_text(encoding="utf-8").splitlines()]


def alphabet_of(data: Path, tokenizer: Path | None = None) -> Alphabet:
    model = tokenizer or data / "tokenizers" / "librispeech_bpe_256.model"
    return Alphabet([" ", *read_tokens(data)[1:]], str(model))


def read_text(path: Path, count: int, avoid: Iterable[str]) -> list[str]:
    """So many lines of a text, evenly spread over it, without the demo's novel and what shares OVERLAP words in a row
    with the texts to avoid."""
    known = {run for text in avoid for run in runs(text, OVERLAP)}
    tell(f"reading {path}")
    lines = list(text_lines(path))
    tell(f"{len(lines):,} lines")
    spread = make_demo_lm.spread_lines(lines, count)
    low, high = WORDS
    usual = [line for line in spread if low <= line.count(" ") + 1 <= high]
    kept = [line for line in usual if known.isdisjoint(runs(line, OVERLAP))]
    tell(f"{len(usual):,} of {len(spread):,} lines have {low} to {high} words")
    tell(f"{len(usual) - len(kept):,} of them share {OVERLAP} words in a row with an evaluated transcript: left out")
    return kept


def spell_all(alphabet: Alphabet, texts: Iterable[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Those that can be spelled."""
    found = []
    for number, text in enumerate(texts):
        if number and not number % TOLD_EVERY:
            tell(f"{number:,} texts spelled")
        try:
            found.append(alphabet.spell(text))
        except (KeyError, ValueError):
            continue
    return found


class Source:
    """Batches without end: texts spoken by units, and the utterances themselves."""

    def __init__(
        self, spoken: Set, texts: Sequence[str], alphabet: Alphabet, device: str, letters: int, seed: int
    ) -> None:
        """letters : of a batch."""
        spelled = [alphabet.spell(text) for text in spoken.references]
        begins = letter_alignment.first_frames(spoken.log_probs, [s[1:] for s, _ in spelled], device)
        symbols = [s for s, _ in spelled]
        self.units = Units(spoken.log_probs, symbols, [np.append(0, b) for b in begins], device)
        self.real = Texts(spelled, device, self.units.offsets[:-1])
        self.made = Texts(spell_all(alphabet, texts), device)
        self.letters, self.distortion = letters, Distortion()
        self.rng = np.random.default_rng(seed)

    def draw(self) -> Batch:
        texts = self.real if self.rng.random() < REAL_SHARE else self.made
        return speak(self.units, *texts.draw(self.letters, self.rng), self.distortion)


def train(
    source: Source, model: Transducer, watched: Set, alphabet: Alphabet, seconds: float, most_steps: int,
    checkpoint: Path, loss_of: str, peak_rate: float,
) -> None:  # fmt: skip
    """Until the seconds or steps are over; the learning rate falls to zero by then.

    loss_of : one of LOSSES
    """
    device = next(model.parameters()).device
    options: dict[str, Any] = {"weight_decay": 0.01, "fused": device.type == "cuda"}
    optimizer = torch.optim.AdamW(model.parameters(), peak_rate, (0.9, 0.98), **options)
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    began, told, step, first = time.perf_counter(), 0.0, 0, 0
    losses = torch.zeros((), device=device)
    while True:
        spent = time.perf_counter() - began
        done = max(spent / seconds, step / most_steps)
        if done >= 1:
            break
        rate = peak_rate * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.no_grad():
            batch = source.draw()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = LOSSES[loss_of](model, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        keep = min(AVERAGE, (step + 1) / (step + 10))
        with torch.no_grad():
            values = [value.detach() for value in model.state_dict().values()]
            torch._foreach_lerp_(list(average.values()), values, 1 - keep)
        step += 1
        losses += loss.detach()
        if spent - told > min(30.0, seconds / 8):
            mean = losses.item() / (step - first)
            told, first = spent, step
            losses.zero_()
            report(model, average, watched, alphabet, f"{spent:5.0f} s, step {step}, loss {mean:.4f}")
            speech_transducer.save(checkpoint, model.arrays())
    model.load_state_dict(average)
    speech_transducer.save(checkpoint, model.arrays())
    print(f"{step} steps in {time.perf_counter() - began:.0f} s", flush=True)


def report(model: Transducer, average: Mapping[str, torch.Tensor], watched: Set, alphabet: Alphabet, what: str) -> None:
    """The averaged weights' word error rate on the watched set."""
    latest = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(average)
    model.eval()
    arrays = model.arrays()
    rate = word_error_rate(watched.references, transcribe(arrays, watched, alphabet, model.durations))
    model.load_state_dict(latest)
    model.train()
    print(f"{what}; {WATCHED}: {100 * rate:.2f} % WER", flush=True)


def transcribe(
    arrays: Mapping[str, Any], spoken: Set, alphabet: Alphabet, durations: Sequence[int] | None, **options: Any
) -> list[str]:
    """Texts by arcbeam's greedy decoder, on the CPU unless the options say otherwise; the encoder on the CPU."""
    encoded = speech_transducer.encode(speech_transducer.load_light(arrays), spoken.log_probs)
    decoder = TransducerDecoder.from_arrays(
        speech_transducer.decoder_arrays(arrays), alphabet.blank, activation="relu", durations=durations,
        frame_shift=FRAME_SHIFT, **{"device": "cpu", **options},
    )  # fmt: skip
    return [alphabet.text(found.tokens.tolist()) for found in decoder.decode(encoded)]


def evaluate(arrays: Mapping[str, Any], data: Path, alphabet: Alphabet, durations: Sequence[int] | None) -> None:
    tokens = read_tokens(data)
    for name in EVALUATED:
        spoken = read_set(data / name)
        ours = word_error_rate(spoken.references, transcribe(arrays, spoken, alphabet, durations))
        columns = [" ", *tokens[1:]]
        greedy = word_error_rate(spoken.references, [collapse(u.argmax(1), columns) for u in spoken.log_probs])
        print(f"{name}: {100 * ours:.2f} % WER; the log-probs' own, greedy: {100 * greedy:.2f} %", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("ARCBEAM_DATA"), help="folder of the sets")
    parser.add_argument("--text", type=Path, help="a sentence a line, plain or .xz; default: text/books.txt.xz there")
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the text, at most")
    parser.add_argument("--utterances", type=int, help="of throughput, at most")
    parser.add_argument("--tdt", action="store_true", help="a TDT with durations 0 to 4 instead of an RNN-T")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=1_000_000, help="at most")
    parser.add_argument("--letters", type=int, default=16_000, help="of a batch")
    parser.add_argument("--size", choices=list(SIZES), default="large", help="of the network; small: for a CPU")
    parser.add_argument(
        "--tokenizer", type=Path, help=f"SentencePiece model; one that does not exist is trained, with {PIECES} pieces"
    )
    parser.add_argument("--weights", type=Path, help="of an earlier training with the same sizes, to go on from")
    parser.add_argument("--loss", choices=list(LOSSES), default="alignment", help="full-sum: over all paths")
    parser.add_argument("--rate", type=float, default=PEAK_RATE, help="of learning, at its peak")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", type=Path, help="weights to write")
    action.add_argument("--evaluate", type=Path, help="weights to evaluate")
    args = parser.parse_args(argv)
    if args.data is None:
        parser.error("--data or ARCBEAM_DATA: the folder of the sets is needed")
    durations = DURATIONS if args.tdt else None
    if args.evaluate:
        with np.load(args.evaluate) as arrays:
            evaluate(arrays, args.data, alphabet_of(args.data, args.tokenizer), durations)
        return
    torch.manual_seed(args.seed)
    evaluated = [text for name in EVALUATED for text in read_set(args.data / name).references]
    texts = read_text(args.text or args.data / "text" / "books.txt.xz", args.lines, evaluated)
    if args.tokenizer and not args.tokenizer.exists():
        train_sentencepiece(texts[:: max(1, len(texts) // TRAINING_LINES)], PIECES, args.tokenizer)
        tell(f"{args.tokenizer} trained")
    alphabet = alphabet_of(args.data, args.tokenizer)
    spoken = read_set(args.data / "throughput")
    count = args.utterances or len(spoken.references)
    spoken = Set(spoken.log_probs[:count], spoken.references[:count])
    source = Source(spoken, texts, alphabet, args.device, args.letters, args.seed)
    tell(f"{len(source.units.length):,} units; training begins")
    shape = {"tokens": alphabet.pieces + 1, **SIZES[args.size]}
    model = Transducer(speech_transducer.Sizes(**shape), durations).to(args.device)
    if args.weights:
        with np.load(args.weights) as arrays:
            model.take(arrays)
    train(
        source, model, read_set(args.data / WATCHED), alphabet, 60 * args.minutes, args.steps, args.out, args.loss,
        args.rate,
    )  # fmt: skip
    model.eval()
    evaluate(model.arrays(), args.data, alphabet, durations)


if __name__ == "__main__":
    main()
