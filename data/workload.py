"""Seeded CTC log-probs of any size, made from real text: for speed and memory on SentencePiece graphs.

Sentences of a text file become SentencePiece pieces with durations, pauses and speaking rates like those of read
speech; each frame gets a posterior with a realistic tail, and a heavy-tailed *difficulty* per piece lets pieces that
are spelled alike, the blank or a spurious piece win now and then, so that greedy decoding has a chosen word error
rate. Utterance i depends on the seed and i alone: a larger workload starts with the smaller one.

    python -m data.workload --text books.txt.xz --pieces 512 --utterances 264 --out workload-512

Bytes: equal seeds, options, text and SentencePiece model give equal float16 bytes (sums and one float64 log-sum-exp,
rounded once; float32 output may differ in its last bit between processor families).
"""

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data.lines import text_lines
from data.pieces import WORD_START, Pieces, train_sentencepiece
from data.word_errors import word_error_rate

FRAME_SECONDS = 0.04
TRAINING_LINES = 200_000

# Difficulty scale at which greedy decoding of the default text has about 8 % word error rate.
CALIBRATED_CONFUSION = {512: 1.40, 1024: 1.45}

# Utterance lengths in seconds, log-normal and clipped: (median, sigma, shortest, longest).
DURATIONS = {
    "librispeech-test": (5.9, 0.68, 1.3, 35.0),  # mean 7.4 s, as the test sets
    "librispeech-train": (13.2, 0.28, 1.5, 24.5),  # most of the training set lies between 10 and 16 s
}


@dataclass(frozen=True)
class WorkloadOptions:
    """What to generate. Logits are natural logs; lengths are frames of 40 ms."""

    utterances: int = 264
    seed: int = 0
    confusion: float | None = None  # scale of the difficulty; None: calibrated to a greedy WER of about 8 %
    durations: str = "librispeech-test"  # a key of DURATIONS
    dtype: str = "float16"  # or "float32"
    words_per_second: float = 2.7  # pauses included
    two_frames: float = 0.25  # share of the pieces that last two frames
    tail: float = -16.0  # mean logit of a piece that the frame does not resemble
    tail_spread: float = 1.9  # its standard deviation within a frame; the frames themselves differ by 1.5

    def __post_init__(self) -> None:
        if self.utterances < 1:
            raise ValueError(f"utterances must be at least 1, got {self.utterances}")
        if self.durations not in DURATIONS:
            raise ValueError(f"durations must be one of {sorted(DURATIONS)}, got {self.durations!r}")
        if self.dtype not in ("float16", "float32"):
            raise ValueError(f"dtype must be float16 or float32, got {self.dtype!r}")


@dataclass(frozen=True)
class Workload:
    """Log-probs of consecutive utterances, packed.

    log_probs : float16 or float32 [all frames, columns], natural logs; the blank is the last column
    lengths : int32 [utterances], frames
    references : the words of each utterance, joined by a space
    tokens : names of the columns, ending in ``<blank>``
    """

    log_probs: npt.NDArray[np.floating]
    lengths: npt.NDArray[np.int32]
    references: list[str]
    tokens: list[str]
    ids: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return float(self.lengths.sum()) * FRAME_SECONDS

    @cached_property
    def utterances(self) -> list[npt.NDArray[np.floating]]:
        """One view [frames, columns] an utterance."""
        return np.split(self.log_probs, np.cumsum(self.lengths)[:-1])

    def padded(self) -> npt.NDArray[np.floating]:
        """[utterances, longest, columns]; frames beyond an utterance's length are all blank."""
        longest, columns = int(self.lengths.max()), self.log_probs.shape[1]
        batch = np.full((len(self.lengths), longest, columns), -np.inf, self.log_probs.dtype)
        batch[:, :, -1] = 0.0
        for row, utterance in zip(batch, self.utterances, strict=True):
            row[: len(utterance)] = utterance
        return batch

    def greedy(self) -> list[str]:
        """Transcripts of the best column of each frame, repeats and blanks removed."""
        return [collapse(u.argmax(axis=1), self.tokens) for u in self.utterances]

    def greedy_wer(self) -> float:
        return word_error_rate(self.references, self.greedy())

    def save(self, folder: str | Path, **provenance: object) -> None:
        """Writes log_probs.npz (log_probs, lengths, ids), reference.tsv, tokens.txt and options.json."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "log_probs.npz", log_probs=self.log_probs, lengths=self.lengths, ids=np.array(self.ids))
        lines = (f"{i}\t{r}\n" for i, r in zip(self.ids, self.references, strict=True))
        (folder / "reference.tsv").write_text("".join(lines))
        (folder / "tokens.txt").write_text("".join(f"{t} {i}\n" for i, t in enumerate(self.tokens)))
        (folder / "options.json").write_text(json.dumps(provenance, indent=1) + "\n")


# --- text


def read_lines(path: str | Path, limit: int | None = None) -> list[str]:
    """The first ``limit`` lines of a text file, plain or .xz."""
    return list(text_lines(path, 0, limit))


class KeptLines(Sequence[str]):
    """A long text of which only some lines are at hand: those that a workload draws.

    It takes the place of the whole text in :func:`generate`, which gives the same bytes; another line is a KeyError.
    """

    def __init__(self, count: int, lines: dict[int, str]) -> None:
        self.count = count
        self.lines = lines

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.lines[index]

    def text(self) -> str:
        """The number of lines of the text, then a number and a line each; :meth:`read` reads a file of it."""
        rows = (f"{i}\t{line}\n" for i, line in sorted(self.lines.items()))
        return f"{self.count}\n{''.join(rows)}"

    @classmethod
    def read(cls, path: Path) -> "KeptLines":
        count, *rows = path.read_text(encoding="utf-8").splitlines()
        pairs = (row.split("\t", 1) for row in rows)
        return cls(int(count), {int(i): line for i, line in pairs})

    @classmethod
    def of(cls, lines: Sequence[str], pieces: "Pieces", options: "WorkloadOptions") -> "KeptLines":
        """The lines that the workload of these options draws, and so those of a smaller one."""
        kept = _Watched(len(lines := [line for line in lines if line]), {})
        kept.source = lines
        for i in range(options.utterances):
            speak(np.random.Generator(np.random.PCG64([options.seed, i])), kept, pieces, options)
        return cls(kept.count, kept.lines)


class _Watched(KeptLines):
    source: Sequence[str] = ()

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.lines.setdefault(index, self.source[index])


# --- one utterance


@dataclass(frozen=True)
class Utterance:
    """Which piece is spoken when, before any confusion."""

    words: list[str]
    pieces: npt.NDArray[np.int64]  # [n]
    word_of_piece: npt.NDArray[np.int64]  # [n]
    starts: npt.NDArray[np.int64]  # [n], first frame
    frames_of_piece: npt.NDArray[np.int64]  # [n], 1 or 2
    frames: int


def speak(rng: np.random.Generator, lines: Sequence[str], pieces: Pieces, options: WorkloadOptions) -> Utterance:
    """Cuts a stretch of the text and lays its pieces out in time."""
    median, sigma, shortest, longest = DURATIONS[options.durations]
    seconds = float(np.clip(median * math.exp(sigma * rng.standard_normal()), shortest, longest))
    pace = math.exp(0.12 * rng.standard_normal()) * 2.7 / options.words_per_second
    lead, trail = 0.2 + 0.2 * rng.random(2)
    words, found, word_of_piece, onsets = [], [], [], []
    now, line = float(lead), int(rng.integers(len(lines)))
    while not words or now < seconds - trail:
        for word in lines[line % len(lines)].split():
            ids = pieces.encode(word)
            length = pace * (0.068 + 0.057 * len(word)) * math.exp(0.2 * rng.standard_normal())
            letters = pieces.letters[ids]
            onsets.extend(now + length * (np.cumsum(letters) - 0.6 * letters) / letters.sum())
            found.extend(ids)
            word_of_piece.extend([len(words)] * len(ids))
            words.append(word)
            now += length
            if now >= seconds - trail:
                break
        now += 0.25 + 0.35 * rng.random()
        line += 1
    lasting = 1 + (rng.random(len(found)) < options.two_frames)
    ids = np.array(found)
    # Pieces keep their order and do not overlap, and a repeated piece needs a blank before it.
    taken = np.concatenate([[0], np.cumsum(lasting[:-1] + (ids[1:] == ids[:-1]))])
    wanted = np.floor(np.array(onsets) / FRAME_SECONDS).astype(np.int64)
    starts = taken + np.maximum.accumulate(wanted - taken)
    frames = max(round(seconds / FRAME_SECONDS), int(starts[-1] + lasting[-1]) + 3)
    return Utterance(words, ids, np.array(word_of_piece), starts, lasting, frames)


def posteriors(
    rng: np.random.Generator, said: Utterance, pieces: Pieces, options: WorkloadOptions, confusion: float
) -> npt.NDArray[np.float64]:
    """Log-probs [frames, columns] of an utterance; the blank is the last column."""
    count, n = len(pieces), len(said.pieces)
    logits = options.tail + options.tail_spread * rng.standard_normal((said.frames, count + 1), dtype=np.float32)
    logits += 1.5 * rng.standard_normal((said.frames, 1), dtype=np.float32)
    logits[:, :count][:, ~pieces.spoken] = options.tail - 6.0
    logits[:, count] = 0.0

    # How hard a piece is to hear: exponential, with scales of the utterance and of the word, so errors come in groups.
    scale = confusion * math.exp(0.35 * rng.standard_normal())
    scale_of_word = scale * np.exp(0.5 * rng.standard_normal(len(said.words)))
    difficulty = scale_of_word[said.word_of_piece] * rng.standard_exponential(n)
    rivals = -8.0 - 4.0 * pieces.distances[said.pieces] + 2.0 * rng.standard_normal((n, count), dtype=np.float32)
    rivals[:, ~pieces.spoken] = -99.0
    # Most pieces stand out from the blank; a faint one may be taken for it.
    blank = np.where(rng.random(n) < 0.1, -6.0, -15.0) + 2.0 * rng.standard_normal(n)
    leak = rng.standard_exponential((4, n))
    for offset in (0, 1):
        here = np.flatnonzero(said.frames_of_piece > offset)
        at = said.starts[here] + offset
        jitter = 0.3 * rng.standard_normal((len(here), count), dtype=np.float32)
        logits[at, :count] = np.maximum(logits[at, :count], rivals[here] + jitter)
        logits[at, said.pieces[here]] = -difficulty[here]
        logits[at, count] = blank[here]

    # The frames around a piece already, or still, hear some of it.
    spoken = np.zeros(said.frames, bool)
    for offset in (0, 1):
        spoken[said.starts[said.frames_of_piece > offset] + offset] = True
    ends = said.starts + said.frames_of_piece - 1
    for at, depth, share in (
        (said.starts - 1, 2.5, leak[0]),
        (ends + 1, 2.5, leak[1]),
        (said.starts - 2, 6.0, leak[2]),
        (ends + 2, 6.0, leak[3]),
    ):
        quiet = (at >= 0) & (at < said.frames)
        quiet[quiet] = ~spoken[at[quiet]]
        np.maximum.at(logits, (at[quiet], said.pieces[quiet]), (-depth - 3.0 * share[quiet]).astype(np.float32))

    # Now and then a piece is heard where none was said.
    heard = np.flatnonzero(~spoken & (rng.random(said.frames) < 0.04))
    ghosts = said.pieces[rng.integers(n, size=len(heard))]
    like = np.argpartition(pieces.distances[ghosts], 8, axis=1)[:, :8]
    ghosts = like[np.arange(len(heard)), rng.integers(8, size=len(heard))]
    strength = -7.0 + 1.1 * scale * rng.standard_exponential(len(heard))
    np.maximum.at(logits, (heard, ghosts), strength.astype(np.float32))

    exact = logits.astype(np.float64)
    return exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))


def generate(lines: Sequence[str], model: str | Path | Pieces, options: WorkloadOptions | None = None) -> Workload:
    """Makes the workload of ``options`` from lines of text and a SentencePiece model (a path, or :class:`Pieces`)."""
    options = options or WorkloadOptions()
    pieces = model if isinstance(model, Pieces) else Pieces(model)
    if not isinstance(lines, KeptLines):
        lines = [line for line in lines if line]
    if not lines:
        raise ValueError("the text holds no words")
    confusion = options.confusion
    if confusion is None:
        confusion = CALIBRATED_CONFUSION[min(CALIBRATED_CONFUSION, key=lambda size: abs(size - len(pieces)))]
    parts, references = [], []
    for i in range(options.utterances):
        rng = np.random.Generator(np.random.PCG64([options.seed, i]))
        said = speak(rng, lines, pieces, options)
        parts.append(posteriors(rng, said, pieces, options, confusion).astype(options.dtype))
        references.append(" ".join(said.words))
    lengths = np.array([len(part) for part in parts], np.int32)
    ids = [f"w{options.seed}-{i:05d}" for i in range(options.utterances)]
    return Workload(np.concatenate(parts), lengths, references, pieces.tokens(), ids)


# --- word error rate


def collapse(columns: npt.NDArray[np.intp], tokens: Sequence[str]) -> str:
    """Words of a CTC alignment whose blank is the last column."""
    kept = columns[np.concatenate([[True], columns[1:] != columns[:-1]])]
    return "".join(tokens[c] for c in kept if c != len(tokens) - 1).replace(WORD_START, " ").strip()


def calibrate(lines: Sequence[str], pieces: Pieces, target: float, options: WorkloadOptions) -> float:
    """The confusion at which greedy decoding has the word error rate ``target``, by bisection on 400 utterances."""
    low, high = 0.05, 8.0
    for _ in range(12):
        middle = math.sqrt(low * high)
        pilot = WorkloadOptions(**{**asdict(options), "utterances": 400, "confusion": middle})
        low, high = (middle, high) if generate(lines, pieces, pilot).greedy_wer() < target else (low, middle)
    return math.sqrt(low * high)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", required=True, help="text, one sentence a line, plain or .xz")
    parser.add_argument("--text-lines", type=int, default=400_000, help="lines of it to draw from (400 000)")
    parser.add_argument("--pieces", type=int, default=512, help="SentencePiece pieces, <unk> included (512)")
    parser.add_argument("--model", help="SentencePiece model to use; trained into OUT where it does not exist")
    parser.add_argument("--out", required=True, help="folder for log_probs.npz, reference.tsv, tokens.txt")
    parser.add_argument("--utterances", type=int, default=264)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--durations", choices=sorted(DURATIONS), default="librispeech-test")
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float16")
    parser.add_argument("--confusion", type=float, help="scale of the difficulty (default: greedy WER of about 8 %%)")
    parser.add_argument("--greedy-wer", type=float, help="calibrate the confusion to this word error rate, e.g. 0.05")
    return parser.parse_args(argv)


def report(workload: Workload) -> Iterator[str]:
    words = sum(len(r.split()) for r in workload.references)
    yield f"{len(workload.lengths)} utterances, {workload.seconds / 60:.1f} minutes, {words} words"
    yield f"{words / workload.seconds:.2f} words/s, greedy WER {100 * workload.greedy_wer():.2f} %"


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments(argv)
    lines = read_lines(args.text, args.text_lines)
    model = Path(args.model or Path(args.out) / f"spm{args.pieces}.model")
    if not model.exists():
        train_sentencepiece(lines[:TRAINING_LINES], args.pieces, model)
    pieces = Pieces(model)
    options = WorkloadOptions(args.utterances, args.seed, args.confusion, args.durations, args.dtype)
    if args.greedy_wer is not None:
        confusion = calibrate(lines, pieces, args.greedy_wer, options)
        options = WorkloadOptions(**{**asdict(options), "confusion": confusion})
        print(f"confusion {confusion:.4f}")
    workload = generate(lines, pieces, options)
    workload.save(args.out, text=str(args.text), model=str(model), **asdict(options))
    print("\n".join(report(workload)))


if __name__ == "__main__":
    main()
