"""The function that makes a decoder of labels and files."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from arcbeam.compat.pyctcdecode.alphabet import Alphabet, check_coverage
from arcbeam.compat.pyctcdecode.decoder import BeamSearchDecoderCTC
from arcbeam.compat.pyctcdecode.language_model import LanguageModel
from arcbeam.core.warn import warn
from arcbeam.lm.kenlm_file import is_binary


def build_ctcdecoder(
    labels: Sequence[str],
    kenlm_model_path: str | os.PathLike[str] | None = None,
    unigrams: Collection[str] | None = None,
    alpha: float = 0.5,
    beta: float = 1.5,
    unk_score_offset: float = -10.0,
    lm_score_boundary: bool = True,
    *,
    threads: int | None = None,
) -> BeamSearchDecoderCTC:
    """A decoder for the labels of a model.

    Parameters
    ----------
    labels : sequence of str
        One a column of the logits; :meth:`Alphabet.build_alphabet` has the rules.
    kenlm_model_path : path, optional
        ARPA, plain or packed, or KenLM's binary format.
    unigrams : collection of str, optional
        The known words; by default those of an ARPA.
    alpha, beta, unk_score_offset : float
        Weights, as :class:`LanguageModel` has them.
    lm_score_boundary : bool
        Whether an utterance begins and ends a sentence.
    threads : int or None
        CPU threads, one utterance each; None for one per usable core.

    Raises
    ------
    MissingDependencyError
        The package kenlm is missing.
    FormatError, OSError
        The file is no model, or cannot be read.
    TypeError, ValueError
        Labels or weights that cannot be used.

    Warns
    -----
    UserWarning
        There is no list of known words, or labels, words and language model do not fit together.
    """
    alphabet = Alphabet.build_alphabet(labels)
    if kenlm_model_path is None:
        return BeamSearchDecoderCTC(alphabet, threads=threads)
    if unigrams is None and os.path.isfile(kenlm_model_path) and not is_binary(Path(kenlm_model_path)):
        from arcbeam.recipe.word_lists import words_of_arpa

        unigrams = words_of_arpa(kenlm_model_path)
    if unigrams is None and os.path.isfile(kenlm_model_path):  # otherwise the model raises the error
        warn(
            "unigrams: expected the known words, because a binary language model does not list them, got none: all "
            "words in progress pay unk_score_offset; give unigrams=, such as the first column of the lexicon"
        )
    model = LanguageModel(kenlm_model_path, unigrams, alpha, beta, unk_score_offset, lm_score_boundary)
    if unigrams is not None:
        check_coverage(alphabet, unigrams)
    return BeamSearchDecoderCTC(alphabet, model, threads=threads)
