"""SentencePiece models of a generated workload: how they are trained, and which of their pieces sound alike."""

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

WORD_START = "▁"


def train_sentencepiece(lines: Sequence[str], pieces: int, model: str | Path) -> Path:
    """Trains a SentencePiece model of ``pieces`` pieces (``<unk>`` included), without random steps, into ``model``."""
    import sentencepiece

    model = Path(model)
    model.parent.mkdir(parents=True, exist_ok=True)
    partial = model.with_suffix(f".{os.getpid()}.partial")  # another process may make the same
    with partial.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=file, vocab_size=pieces, model_type="bpe",
            character_coverage=1.0, bos_id=-1, eos_id=-1, unk_id=0, num_threads=1, shuffle_input_sentence=False,
            minloglevel=2,
        )  # fmt: skip
    partial.replace(model)
    return model


class Pieces:
    """A SentencePiece model as the generator needs it: word to pieces, names of the columns, look-alikes."""

    def __init__(self, model: str | Path) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        self._words: dict[str, list[int]] = {}
        self.names = [self._processor.id_to_piece(i) for i in range(self._processor.get_piece_size())]
        self.spoken = np.array([not self._processor.is_unknown(i) for i in range(len(self.names))])
        self.letters = np.array([max(1, len(n.replace(WORD_START, ""))) for n in self.names])

    def __len__(self) -> int:
        return len(self.names)

    def tokens(self) -> list[str]:
        return [*self.names, "<blank>"]

    def encode(self, word: str) -> list[int]:
        found = self._words.get(word)
        if found is None:
            found = self._words[word] = self._processor.encode(word)
        return found

    @cached_property
    def distances(self) -> npt.NDArray[np.float32]:
        """[pieces, pieces]: how unlike two pieces sound, judged by spelling; 0 on the diagonal."""
        return spelling_distances([n if s else "?" * 9 for n, s in zip(self.names, self.spoken, strict=True)])


ALIKE = ("aeiouy", "bp", "dt", "gk", "ckq", "sz", "fv", "mn", "sc", "wu", "jg", "lr", "xs", "td'")


def spelling_distances(names: Sequence[str]) -> npt.NDArray[np.float32]:
    """Weighted edit distances of all pairs at once: swapping letters that sound alike, or a word start, is cheap."""
    letters = sorted({letter for name in names for letter in name} | {" "})
    code = {letter: i for i, letter in enumerate(letters)}
    swap = np.ones((len(letters), len(letters)), np.float32)
    for group in ALIKE:
        members = [code[letter] for letter in group if letter in code]
        swap[np.ix_(members, members)] = 0.45
    np.fill_diagonal(swap, 0.0)
    drop = np.array([0.5 if letter == WORD_START else 0.8 for letter in letters], np.float32)

    width = max(map(len, names))
    codes = np.array([[code[letter] for letter in name.ljust(width)] for name in names])
    # A blank that pads the shorter name costs nothing to drop, so the corner of the table is the distance.
    gone = np.where(codes == code[" "], np.float32(0), drop[codes])
    swap[code[" "], :] = swap[:, code[" "]] = 4.0
    swap[code[" "], code[" "]] = 0.0
    above = [np.zeros((len(names), len(names)), np.float32)]
    for j in range(width):
        above.append(above[-1] + gone[None, :, j])
    for i in range(width):
        row = [above[0] + gone[:, i, None]]
        for j in range(width):
            swapped = above[j] + swap[codes[:, i, None], codes[None, :, j]]
            row.append(np.minimum(np.minimum(above[j + 1] + gone[:, i, None], row[j] + gone[None, :, j]), swapped))
        above = row
    return above[-1]
