"""The language model of the decoder: a KenLM of words, the words that it knows, and its weights."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arcbeam.core.checks import LARGEST_FACTOR, check_bool, check_float32, check_real
from arcbeam.core.errors import FormatError
from arcbeam.core.show import shown_as
from arcbeam.core.warn import warn
from arcbeam.lm.kenlm import KenLM, case_hint
from arcbeam.lm.loading import as_kenlm

ATTRIBUTES, UNIGRAMS = "attrs.json", "unigrams.txt"
FEWEST_KNOWN = 0.1  # share of the unigrams that a model must have for no warning
WEIGHTS = ("alpha", "beta", "unk_score_offset", "score_boundary")


@dataclass(frozen=True, slots=True)
class LMState:
    """The state of a language model after some words, for a later call. It can be compared and pickled."""

    _bytes: bytes = field(repr=False)
    _mark: str = field(repr=False)  # of the model's file


class LanguageModel:
    """A KenLM and how it is weighed.

    A word adds ``alpha`` times the natural log of its probability, and ``beta``.

    Parameters
    ----------
    kenlm_model : path, KenLM or kenlm.Model
        A kenlm.Model is loaded again, by its path.
    unigrams : collection of str, optional
        The known words. Words outside, and words in progress that begin none of them, pay `unk_score_offset`; those
        that the model lacks are dropped. None: every word in progress pays it.
    alpha, beta : float
        Weight of the language model; score of each word.
    unk_score_offset : float
        Added to the log10 probability of unknown words.
    score_boundary : bool
        Whether an utterance begins and ends a sentence.

    Attributes
    ----------
    kenlm : arcbeam.KenLM
        The model.

    Raises
    ------
    MissingDependencyError
        The package kenlm is missing.
    FormatError, OSError
        The file is no model, or cannot be read.
    TypeError, ValueError
        Words that are not str, weights that are not finite numbers.

    Warns
    -----
    UserWarning
        The model lacks nine of ten unigrams: usually they are in another case there.
    """

    def __init__(
        self,
        kenlm_model: Any,
        unigrams: Collection[str] | None = None,
        alpha: float = 0.5,
        beta: float = 1.5,
        unk_score_offset: float = -10.0,
        score_boundary: bool = True,
    ) -> None:
        path = getattr(kenlm_model, "path", None)
        if not isinstance(kenlm_model, KenLM) and isinstance(path, bytes):
            kenlm_model = os.fsdecode(path)
        model = as_kenlm("kenlm_model", kenlm_model)
        if model is None:
            raise TypeError("kenlm_model: expected a path, an arcbeam.KenLM or a kenlm.Model, got None")
        self.kenlm = model
        self.unigrams = _known(unigrams, model)
        self.alpha, self.beta = alpha, beta
        self.unk_score_offset, self.score_boundary = unk_score_offset, score_boundary
        self.check_weights()

    @property
    def order(self) -> int:
        """The n of its n-grams."""
        return self.kenlm.order

    def state(self, state: bytes) -> LMState:
        """The engine's state, as answers have it."""
        return LMState(state, self.kenlm.mark)

    def bytes_of(self, state: object) -> bytes:
        """The state of an answer, as the engine takes it: TypeError, or ValueError for that of another model."""
        if not isinstance(state, LMState):
            raise TypeError(f"lm_start_state: expected the last_lm_state of an answer, got {type(state).__name__}")
        if state._mark != self.kenlm.mark:
            raise ValueError("lm_start_state: expected a state of this language model, got that of another one")
        return state._bytes

    def reset_params(self, **params: Any) -> None:
        """Sets ``alpha``, ``beta``, ``unk_score_offset`` and ``score_boundary``; None leaves a value as it is.

        Raises
        ------
        TypeError, ValueError
            Another name; a value that is no finite number, or no bool.
        """
        if unknown := sorted(set(params) - set(WEIGHTS)):
            raise TypeError(f"unknown option {', '.join(unknown)}: expected one of {', '.join(WEIGHTS)}")
        before = {name: getattr(self, name) for name in WEIGHTS}
        vars(self).update((name, value) for name, value in params.items() if value is not None)
        try:
            self.check_weights()
        except (TypeError, ValueError):
            vars(self).update(before)
            raise

    def check_weights(self) -> None:
        """TypeError or ValueError for weights that are no finite numbers: they may have been set by hand."""
        for name in WEIGHTS[:-1]:
            check_real(name, getattr(self, name), "that is finite", above=-math.inf)
            check_float32(name, getattr(self, name), largest=LARGEST_FACTOR)
        check_bool("score_boundary", self.score_boundary)

    def save_to_dir(self, filepath: str | os.PathLike[str], unigram_encoding: str | None = None) -> None:
        """Writes the weights, the unigrams and a copy of the model's file into a folder, for `load_from_dir`."""
        folder = Path(filepath)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ATTRIBUTES).write_text(json.dumps({name: getattr(self, name) for name in WEIGHTS}))
        lines = "".join(f"{word}\n" for word in self.unigrams)
        (folder / UNIGRAMS).write_text(lines, encoding=unigram_encoding or "utf-8")
        shutil.copy2(self.kenlm.path, folder / self.kenlm.path.name)

    @staticmethod
    def parse_directory_contents(filepath: str | os.PathLike[str]) -> dict[str, str]:
        """The paths of the files of a saved model, by ``json_attrs``, ``unigrams`` and ``kenlm``.

        Raises
        ------
        FormatError
            The folder holds other files than these three; FormatError is a ValueError.
        """
        names = sorted(name for name in os.listdir(filepath) if not name.startswith((".", "__")))
        models = [name for name in names if name not in (ATTRIBUTES, UNIGRAMS)]
        if len(names) != 3 or len(models) != 1:
            raise FormatError(
                f"{os.fspath(filepath)}: expected {ATTRIBUTES}, {UNIGRAMS} and the file of one model, got "
                f"{', '.join(names) or 'an empty folder'}"
            )
        files = {"json_attrs": ATTRIBUTES, "unigrams": UNIGRAMS, "kenlm": models[0]}
        return {what: os.path.join(filepath, name) for what, name in files.items()}

    @classmethod
    def load_from_dir(cls, filepath: str | os.PathLike[str], unigram_encoding: str | None = None) -> LanguageModel:
        """A model from a folder that `save_to_dir`, pyctcdecode's or this one, has written; FormatError or OSError."""
        files = cls.parse_directory_contents(filepath)
        try:
            weights = json.loads(Path(files["json_attrs"]).read_bytes())
            words = Path(files["unigrams"]).read_text(encoding=unigram_encoding or "utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise FormatError(
                f"{filepath}: expected text in {error.encoding}, got {error}; give unigram_encoding="
            ) from None
        except ValueError as error:
            raise FormatError(f"{files['json_attrs']}: expected JSON, got {error}") from None
        if not isinstance(weights, dict) or set(weights) != set(WEIGHTS):
            raise FormatError(f"{files['json_attrs']}: expected the keys {', '.join(WEIGHTS)}, got {list(weights)}")
        return cls(files["kenlm"], words, **weights)

    def __repr__(self) -> str:
        weights = [f"{name}={getattr(self, name)!r}" for name in WEIGHTS]
        return shown_as(f"LanguageModel with {len(self.unigrams):,} unigrams", repr(self.kenlm), *weights)


def _known(unigrams: Collection[str] | None, model: KenLM) -> list[str]:
    """The unigrams that the model has, sorted; none for None."""
    if unigrams is None:
        return []
    if isinstance(unigrams, (str, bytes)):
        raise TypeError(f"unigrams: expected a collection of words, got {type(unigrams).__name__}")
    words = sorted(set(unigrams))
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise TypeError(f"unigrams: expected words as str, got {type(wrong[0]).__name__}")
    known = [word for word in words if word in model]
    if len(known) < FEWEST_KNOWN * len(words):
        lacking = [word for word in words if word not in model]
        warn(
            f"unigrams: the language model has {len(known):,} of the {len(words):,} unigrams, and the others count as "
            f"unknown words{case_hint(lacking, model)}"
        )
    return known
