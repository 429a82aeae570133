"""Training data for a transducer over CTC log-probs of letters: any text, spoken by pieces of real log-probs.

A *unit* is a letter of an aligned utterance: the frames from where it is first said to where the next letter is. Text
is spoken by units that had the same neighbours in their utterance, drawn at random; so are the errors of an acoustic
model: letters that are replaced by those it confuses them with, left out or added, and units that are mixtures of two.
Everything a batch needs is computed on its device.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

FRAMES_TOGETHER = 4  # of log-probs, in a frame of the encoder
START, SYMBOLS = 28, 30  # what comes before the first letter has a unit too; 29 is what follows the last one
LONGEST_UNIT = 75  # frames, of a pause
ENOUGH_UNITS = 3  # with the same neighbours; else those with the same right neighbour, or any, are drawn from
WORD_START = "▁"


@dataclass(frozen=True)
class Distortion:
    """How log-probs are made worse; each utterance draws its own strength, up to these.

    errors : share of letters that are replaced, left out or added, at most; utterances have a third of it on average
    mixtures : share of letters that are mixed with another one, at most
    noise : standard deviation that is added to log-probs
    temperature : they are divided by 1 to so much
    """

    errors: float = 0.09
    mixtures: float = 0.12
    noise: float = 0.7
    temperature: float = 1.5


class Alphabet:
    """Letters as columns of the log-probs, and a SentencePiece model's pieces of words."""

    def __init__(self, tokens: Sequence[str], model: str) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(model_file=model)
        self._columns = {(" " if name == "<space>" else name): i for i, name in enumerate(tokens)}
        self._words: dict[str, tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]] = {}
        self.pieces = int(self._processor.get_piece_size())

    @property
    def blank(self) -> int:
        return self.pieces

    @property
    def names(self) -> list[str]:
        return [str(self._processor.id_to_piece(i)) for i in range(self.pieces)]

    def text(self, pieces: Sequence[int]) -> str:
        names = (self._processor.id_to_piece(int(i)) for i in pieces)
        return "".join(names).replace(WORD_START, " ").strip()

    def spell(self, text: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
        """Symbols, START first, and for each the piece that ends with it, or -1. KeyError for an unknown letter."""
        words = [self._word(word) for word in text.split()]
        symbols = np.concatenate([word[0] for word in words])
        symbols[0] = START
        return symbols, np.concatenate([word[1] for word in words])

    def _word(self, word: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
        if word not in self._words:
            symbols = np.array([self._columns[letter] for letter in " " + word], np.uint8)
            ends = np.full(len(symbols), -1, np.int16)
            at = -1
            for piece in self._processor.encode(word):
                at += len(self._processor.id_to_piece(piece))
                if at > len(word):  # "<unk>", which is longer than what it stands for
                    raise KeyError(word)
                ends[at] = piece
            if at != len(word):
                raise KeyError(word)
            self._words[word] = symbols, ends
        return self._words[word]


class Units:
    """All units of aligned utterances, by neighbours."""

    def __init__(
        self,
        log_probs: Sequence[npt.NDArray[np.floating]],
        symbols: Sequence[npt.NDArray[np.uint8]],
        begins: Sequence[npt.NDArray[np.int64]],
        device: str,
    ) -> None:
        """Symbols with START; begins : first frame of each of them, 0 for START."""
        frames = np.concatenate(log_probs).astype(np.float32)
        after = np.cumsum([0, *map(len, log_probs)])
        ends = [np.append(b[1:], len(u)) for b, u in zip(begins, log_probs, strict=True)]
        begin = np.concatenate([b + a for b, a in zip(begins, after, strict=False)])
        length = np.concatenate([e - b for e, b in zip(ends, begins, strict=True)])
        here = np.concatenate(symbols).astype(np.int64)
        right = np.concatenate([np.append(s[1:], SYMBOLS - 1) for s in symbols]).astype(np.int64)
        left = np.concatenate([np.append(SYMBOLS - 1, s[:-1]) for s in symbols]).astype(np.int64)
        self.blank = frames.shape[1] - 1
        quiet = np.full((1, self.blank + 1), -12.0, np.float32)
        quiet[0, -1] = 0.0
        self.silence = len(frames)
        self.frames = torch.from_numpy(np.concatenate([frames, quiet])).to(device)
        self.begin, self.length = torch.from_numpy(begin).to(device), torch.from_numpy(length).to(device)
        self.offsets = np.cumsum([0, *map(len, symbols)])  # of the utterances' first units
        usable = np.flatnonzero(length <= LONGEST_UNIT)
        order, first, count = self._index(left[usable], here[usable], right[usable])
        self.order = torch.from_numpy(usable[order]).to(device)
        self.first, self.count = torch.from_numpy(first).to(device), torch.from_numpy(count).to(device)
        self.confused = torch.from_numpy(self._confusion(frames, begin, here)).to(device)

    @staticmethod
    def _index(left: np.ndarray, here: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Units in three orders after each other, and for each (left, here, right) where its candidates are."""
        size = SYMBOLS
        every = np.arange(size**3)
        keys = [(here * size + right) * size + left, here * size + right, here]
        wanted = [
            ((every // size % size) * size + every % size) * size + every // size**2,
            (every // size % size) * size + every % size,
            every // size % size,
        ]
        orders, first, count = [], np.zeros(size**3, np.int64), np.zeros(size**3, np.int64)
        for place, (key, want) in enumerate(zip(keys, wanted, strict=True)):
            order = np.argsort(key, kind="stable")
            low, high = (np.searchsorted(key[order], want, side=side) for side in ("left", "right"))
            take = (count < ENOUGH_UNITS) & (high > low)
            first, count = np.where(take, low + place * len(key), first), np.where(take, high - low, count)
            orders.append(order)
        return np.concatenate(orders), first, count

    @staticmethod
    def _confusion(frames: np.ndarray, begin: np.ndarray, here: np.ndarray) -> np.ndarray:
        """[SYMBOLS, letters]: how often the model takes a letter for another one, from its own doubts."""
        letters = frames.shape[1] - 1
        seen = np.zeros((SYMBOLS, letters))
        spoken = here < letters
        np.add.at(seen, here[spoken], np.exp(frames[begin[spoken], :letters]))
        np.fill_diagonal(seen, 0.0)
        seen = seen**0.75 + 1e-9
        return (0.9 * seen / seen.sum(1, keepdims=True) + 0.1 / letters).astype(np.float32)

    def draw(self, left: torch.Tensor, here: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """A unit for each symbol with these neighbours."""
        key = (left * SYMBOLS + here) * SYMBOLS + right
        count = self.count[key]
        place = (torch.rand(key.shape, device=key.device) * count).long().clamp(max=count - 1)
        return self.order[(self.first[key] + place).clamp(min=0)]


@dataclass(frozen=True)
class Batch:
    """log_probs [batch, frames, columns], frames a multiple of FRAMES_TOGETHER; lengths [batch], in such groups;
    pieces [batch, most], due [batch, most]: the group in which each piece is complete; counts [batch]."""

    log_probs: torch.Tensor
    lengths: torch.Tensor
    pieces: torch.Tensor
    due: torch.Tensor
    counts: torch.Tensor


class Texts:
    """Spelled texts on a device, in batches of similar length."""

    def __init__(
        self,
        spelled: Sequence[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]],
        device: str,
        first_units: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """first_units : where the texts are utterances, which are spoken by their own units."""
        self.sizes = np.array([len(symbols) for symbols, _ in spelled])
        self.starts = np.cumsum([0, *self.sizes])[:-1]
        self.by_size = np.argsort(self.sizes, kind="stable")
        self.so_far = np.cumsum(self.sizes[self.by_size])
        self.symbols = torch.from_numpy(np.concatenate([s for s, _ in spelled])).to(device)
        self.ends = torch.from_numpy(np.concatenate([e for _, e in spelled])).to(device)
        self.first_units = first_units
        self.device = device

    def draw(self, letters: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Texts of similar size with so many letters in all: symbols, ends and units [batch, longest].

        Beyond a text symbols are SYMBOLS - 1 and ends -1. Each letter is equally likely to be drawn.
        """
        middle = int(np.searchsorted(self.so_far, rng.random() * self.so_far[-1]).clip(max=len(self.sizes) - 1))
        count = max(1, int(letters / self.sizes[self.by_size[middle]]))
        reach = max(count, len(self.sizes) // 50)
        low, high = max(0, middle - reach // 2), min(len(self.sizes), middle + reach // 2 + 1)
        chosen = self.by_size[rng.choice(np.arange(low, high), min(count, high - low), replace=False)]
        starts = torch.from_numpy(self.starts[chosen]).to(self.device)[:, None]
        sizes = torch.from_numpy(self.sizes[chosen]).to(self.device)[:, None]
        place = torch.arange(int(sizes.max()), device=self.device)[None]
        inside = place < sizes
        at = (starts + place).clamp(max=len(self.symbols) - 1)
        symbols = torch.where(inside, self.symbols[at].long(), SYMBOLS - 1)
        ends = torch.where(inside, self.ends[at].long(), -1)
        if self.first_units is None:
            return symbols, ends, None
        return symbols, ends, torch.from_numpy(self.first_units[chosen]).to(self.device)[:, None] + place


def speak(
    units: Units,
    symbols: torch.Tensor,
    ends: torch.Tensor,
    own: torch.Tensor | None,
    distortion: Distortion | None,
) -> Batch:
    """Log-probs of texts as `Texts.draw` gives them; without a distortion as the units are."""
    device, shape = symbols.device, symbols.shape
    strength = torch.rand(shape[0], 3, 1, device=device)
    inside = symbols < SYMBOLS - 1
    letter = inside & (symbols != START)
    other = torch.multinomial(units.confused[symbols.flatten()], 1).view(shape)
    said, added, left_out = symbols, torch.zeros_like(letter), torch.zeros_like(letter)
    share = torch.zeros(shape, device=device)  # of `other` in a mixture
    if distortion is not None:
        event = torch.rand(shape, device=device) / (distortion.errors * strength[:, 0] ** 2 + 1e-9)
        wrong = letter & (event < 0.6)
        left_out, added = letter & (event >= 0.6) & (event < 0.8), letter & (event >= 0.8) & (event < 1.0)
        mixed = letter & ~wrong & (torch.rand(shape, device=device) < distortion.mixtures * strength[:, 1])
        share = torch.rand(shape, device=device) * torch.where(wrong, 0.55, torch.where(mixed, 0.6, 0.0))
        said = torch.where(wrong, other, symbols)
        other = torch.where(wrong, symbols, other)
    left = torch.nn.functional.pad(said[:, :-1], (1, 0), value=SYMBOLS - 1)
    right = torch.nn.functional.pad(said[:, 1:], (0, 1), value=SYMBOLS - 1)
    unit = units.draw(left, said, right)
    if own is not None:
        unit = torch.where(said == symbols, own.clamp(max=len(units.begin) - 1), unit)
    extra = units.draw(said, torch.where(added, other, said), right)
    second = units.draw(left, torch.where(letter, other, said), right)

    # Two slots a symbol, the second one for what is added.
    slots = torch.stack([unit, extra], 2).flatten(1)
    spoken = torch.stack([inside & ~left_out, added], 2).flatten(1)
    last = torch.where(spoken, units.length[slots], 0).cumsum(1)
    begin = torch.nn.functional.pad(last[:, :-1], (1, 0))
    lengths = last[:, -1]
    frames = -(-int(lengths.max()) // FRAMES_TOGETHER) * FRAMES_TOGETHER
    frame = torch.arange(frames, device=device).expand(shape[0], -1).contiguous()
    slot = torch.searchsorted(last, frame, right=True).clamp(max=last.shape[1] - 1)
    within = frame - begin.gather(1, slot)
    here = slots.gather(1, slot)
    is_there = frame < lengths[:, None]
    source = torch.where(is_there, units.begin[here] + within, units.silence).clamp(max=units.silence)
    log_probs = units.frames[source]
    if distortion is not None:
        there = second.gather(1, slot // 2)
        mate = units.begin[there] + torch.minimum(within, units.length[there] - 1).clamp(min=0)
        weight = torch.where(slot % 2 == 0, share.gather(1, slot // 2), 0.0)[..., None]
        both = torch.logaddexp(log_probs + torch.log1p(-weight), units.frames[mate] + torch.log(weight.clamp(min=1e-9)))
        log_probs = torch.where(weight > 0, both, log_probs)
        noise = torch.randn_like(log_probs) * distortion.noise * strength[:, 1:2]
        warmth = 1 + (distortion.temperature - 1) * strength[:, 2:3] * torch.rand(shape[0], 1, 1, device=device)
        log_probs = torch.where(is_there[..., None], (log_probs / warmth + noise).log_softmax(2), log_probs)

    # Pieces in the order of their ends; what is left out is due where its successor begins.
    counts = (ends >= 0).sum(1)
    most = max(1, int(counts.max()))
    order = (ends < 0).int().argsort(dim=1, stable=True)[:, :most]
    due = begin[:, ::2].gather(1, order) // FRAMES_TOGETHER
    groups = -(-lengths // FRAMES_TOGETHER)
    due = torch.minimum(due, groups[:, None] - 1)
    return Batch(log_probs, groups, ends.gather(1, order), due, counts)
