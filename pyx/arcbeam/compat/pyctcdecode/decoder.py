"""The decoder of pyctcdecode: the same calls and answers, on the prefix search of the baseline."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from arcbeam.baseline._prefix import PrefixEngine
from arcbeam.compat.pyctcdecode.alphabet import Alphabet
from arcbeam.compat.pyctcdecode.beams import OutputBeam, OutputBeamMPSafe, beam_of
from arcbeam.compat.pyctcdecode.language_model import LanguageModel, LMState
from arcbeam.compat.pyctcdecode.logits import tokens_of
from arcbeam.core.checks import (
    LARGEST_FACTOR,
    as_float,
    check_bool,
    check_count,
    check_float32,
    check_real,
    check_threads,
)
from arcbeam.core.errors import FormatError
from arcbeam.core.packages import require
from arcbeam.core.show import few, shown_as
from arcbeam.core.threads import usable_cores
from arcbeam.core.warn import warn

LN10 = 1.0 / math.log10(math.e)  # which is not math.log(10) to the last bit
ALL = 2**31 - 1


class BeamSearchDecoderCTC:
    """Beam search over words of any spelling.

    Parameters
    ----------
    alphabet : Alphabet
        The labels of the columns.
    language_model : LanguageModel, optional
    threads : int or None
        CPU threads, one utterance each; None for one per usable core.

    Raises
    ------
    TypeError, ValueError
        Arguments of other types; a number of threads that is not a positive one.
    """

    _ALPHABET_SERIALIZED_FILENAME = "alphabet.json"
    _LANGUAGE_MODEL_SERIALIZED_DIRECTORY = "language_model"

    def __init__(
        self, alphabet: Alphabet, language_model: LanguageModel | None = None, *, threads: int | None = None
    ) -> None:
        if not isinstance(alphabet, Alphabet):
            raise TypeError(
                f"alphabet: expected an Alphabet, got {type(alphabet).__name__}; Alphabet.build_alphabet makes one"
            )
        if language_model is not None and not isinstance(language_model, LanguageModel):
            raise TypeError(
                f"language_model: expected arcbeam.compat.pyctcdecode.LanguageModel or None, got "
                f"{type(language_model).__name__}; other language models are not supported"
            )
        if threads is not None:
            check_threads(threads)
        self._alphabet, self._language_model, self._threads = alphabet, language_model, threads
        self._engine = PrefixEngine(
            symbols=alphabet.symbols(),
            lm=None if language_model is None else language_model.kenlm.model,
            vocabulary=[] if language_model is None else sorted(word.encode() for word in language_model.unigrams),
            threads=threads or usable_cores(),
        )

    def reset_params(
        self,
        alpha: float | None = None,
        beta: float | None = None,
        unk_score_offset: float | None = None,
        lm_score_boundary: bool | None = None,
    ) -> None:
        """Sets weights of the language model, as :class:`LanguageModel` has them; None leaves one as it is.

        Without a language model it does nothing.
        """
        if self._language_model is not None:
            self._language_model.reset_params(
                alpha=alpha, beta=beta, unk_score_offset=unk_score_offset, score_boundary=lm_score_boundary
            )

    def decode(
        self,
        logits: Any,
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lm_start_state: LMState | None = None,
    ) -> str:
        """The text of the best answer, with ``prune_history=True``; parameters and errors as of `decode_beams`."""
        options = (beam_width, beam_prune_logp, token_min_logp, True, hotwords, hotword_weight)
        return self._decode([logits], *options, lm_start_state, nbest=1)[0][0].text

    def decode_beams(
        self,
        logits: Any,
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        prune_history: bool = False,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lm_start_state: LMState | None = None,
    ) -> list[OutputBeam]:
        """Decodes an utterance.

        Parameters
        ----------
        logits : array [frames, columns]
            Logits, log-probs or probabilities of any float dtype, from numpy or what numpy can read. If the sums of the
            frames are 1 in the mean they are probabilities; otherwise their log-softmax is taken. ``-inf`` means never.
        beam_width : int
            Hypotheses kept after each frame.
        beam_prune_logp : float
            A hypothesis that scores this much more than the best, a negative number, is dropped.
        token_min_logp : float
            Tokens below this log-prob are skipped, unless they are the best of their frame.
        prune_history : bool
            Whether of hypotheses that differ only in words that the language model no longer sees, one is kept.
        hotwords : iterable of str, optional
            Words that are made likelier; a phrase counts as its words.
        hotword_weight : float
            Added for each of them, a natural log; their beginnings have their share of it.
        lm_start_state : LMState, optional
            ``last_lm_state`` of the part of the utterance before.

        Returns
        -------
        list of OutputBeam
            Best first, at most `beam_width`; they differ in their texts.

        Raises
        ------
        TypeError
            Arguments of other types.
        ValueError
            NaN or +inf, a frame of -inf alone, wrong dimensions or width; options outside their range.
        MemoryError
            The search does not fit; the decoder can still be used.
        """
        options = (beam_width, beam_prune_logp, token_min_logp, prune_history, hotwords, hotword_weight)
        return self._decode([logits], *options, lm_start_state)[0]

    def decode_batch(
        self,
        pool: Any,
        logits_list: Iterable[Any],
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
    ) -> list[str]:
        """The texts of the best answers to a batch, on the decoder's threads; `pool` is ignored.

        Other parameters and errors as of `decode_beams`.
        """
        options = (beam_width, beam_prune_logp, token_min_logp, True, hotwords, hotword_weight)
        return [beams[0].text for beams in self._decode(logits_list, *options, nbest=1)]

    def decode_beams_batch(
        self,
        pool: Any,
        logits_list: Iterable[Any],
        beam_width: int = 100,
        beam_prune_logp: float = -10.0,
        token_min_logp: float = -5.0,
        prune_history: bool = False,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
    ) -> list[list[OutputBeamMPSafe]]:
        """The answers to a batch, on the decoder's threads; `pool` is ignored.

        Other parameters and errors as of `decode_beams`.
        """
        options = (beam_width, beam_prune_logp, token_min_logp, prune_history, hotwords, hotword_weight)
        found = self._decode(logits_list, *options)
        return [[OutputBeamMPSafe(beam[0], *beam[2:]) for beam in beams] for beams in found]

    def _decode(
        self,
        batch: Iterable[Any],
        beam_width: int,
        beam_prune_logp: float,
        token_min_logp: float,
        prune_history: bool,
        hotwords: Iterable[str] | None,
        hotword_weight: float,
        lm_start_state: LMState | None = None,
        *,
        nbest: int = ALL,
    ) -> list[list[OutputBeam]]:
        if isinstance(batch, Mapping) or not isinstance(batch, Iterable):
            raise TypeError(f"logits_list: expected a list of arrays [frames, columns], got {type(batch).__name__}")
        check_count("beam_width", beam_width, or_none="")
        if not as_float("beam_prune_logp", beam_prune_logp, "of at most 0") <= 0:
            raise ValueError(f"beam_prune_logp: expected a number of at most 0, got {beam_prune_logp!r}")
        if math.isnan(as_float("token_min_logp", token_min_logp, "that is a log-prob")):
            raise ValueError(f"token_min_logp: expected a number that is a log-prob, got {token_min_logp!r}")
        check_real("hotword_weight", hotword_weight, "that is finite", above=-math.inf)
        check_float32("hotword_weight", hotword_weight, largest=LARGEST_FACTOR)
        check_bool("prune_history", prune_history)
        model, labels = self._language_model, self._alphabet.labels
        if model is not None:
            model.check_weights()
        found = self._engine.decode(
            [tokens_of(logits, len(labels), token_min_logp) for logits in batch],
            alpha=0.0 if model is None else model.alpha,
            beta=0.0 if model is None else model.beta,
            unknown=0.0 if model is None else model.unk_score_offset,
            to_natural=LN10,
            boundary=model is not None and bool(model.score_boundary),
            beam_width=beam_width,
            beam_prune=float(beam_prune_logp),
            prune_history=bool(prune_history),
            nbest=nbest,
            hotwords=_words_of(hotwords, labels),
            hotword_weight=float(hotword_weight),
            start=b"" if model is None or lm_start_state is None else model.bytes_of(lm_start_state),
        )
        return [[beam_of(model, *answer) for answer in answers] for answers in found]

    def cleanup(self) -> None:
        """Ends the threads and frees what they keep; the decoder can still be used. Its models go when it goes."""
        self._engine.release()

    def save_to_dir(self, filepath: str | os.PathLike[str]) -> None:
        """Writes the labels and the language model into a folder, in pyctcdecode's form, for `load_from_dir`."""
        folder = Path(filepath)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self._ALPHABET_SERIALIZED_FILENAME).write_text(self._alphabet.dumps())
        if self._language_model is not None:
            self._language_model.save_to_dir(folder / self._LANGUAGE_MODEL_SERIALIZED_DIRECTORY)

    @classmethod
    def parse_directory_contents(cls, filepath: str | os.PathLike[str]) -> dict[str, str | None]:
        """The paths of a saved decoder, by ``alphabet`` and ``language_model``, which may be None.

        Raises
        ------
        FormatError
            There are no labels, or other files where the language model is expected; FormatError is a ValueError.
        """
        names = {name for name in os.listdir(filepath) if not name.startswith((".", "__"))}
        labels, model = cls._ALPHABET_SERIALIZED_FILENAME, cls._LANGUAGE_MODEL_SERIALIZED_DIRECTORY
        if labels not in names or (len(names) > 1 and model not in names):
            raise FormatError(
                f"{os.fspath(filepath)}: expected {labels}, and {model} if there is more, got "
                f"{', '.join(sorted(names)) or 'an empty folder'}"
            )
        return {
            "alphabet": os.path.join(filepath, labels),
            "language_model": os.path.join(filepath, model) if model in names else None,
        }

    @classmethod
    def load_from_dir(
        cls, filepath: str | os.PathLike[str], unigram_encoding: str | None = None
    ) -> BeamSearchDecoderCTC:
        """A decoder from a folder that `save_to_dir`, pyctcdecode's or this one, has written.

        `unigram_encoding` is that of the list of words, by default UTF-8. Raises FormatError or OSError.
        """
        files = cls.parse_directory_contents(filepath)
        alphabet = Alphabet.loads(Path(str(files["alphabet"])).read_text(encoding="utf-8"))
        folder = files["language_model"]
        return cls(alphabet, None if folder is None else LanguageModel.load_from_dir(folder, unigram_encoding))

    @classmethod
    def load_from_hf_hub(
        cls, model_id: str, cache_dir: str | os.PathLike[str] | None = None, **kwargs: Any
    ) -> BeamSearchDecoderCTC:
        """A decoder from a repository of the Hugging Face Hub, through the package huggingface_hub.

        Parameters
        ----------
        model_id : str
            Such as ``"kensho/5gram-spanish-kenLM"``.
        cache_dir : path, optional
            Where files are kept, by default in pyctcdecode's folder, ``.cache/pyctcdecode`` of the user's home.
        **kwargs
            Further options of ``huggingface_hub.snapshot_download``, such as ``local_files_only`` and
            ``allow_patterns``.

        Raises
        ------
        MissingDependencyError
            The package is missing.
        FormatError, OSError
            The repository has no decoder, or cannot be read.
        """
        hub = require("huggingface_hub", "load_from_hf_hub")
        where = cache_dir or Path.home() / ".cache" / "pyctcdecode"
        return cls.load_from_dir(hub.snapshot_download(model_id, cache_dir=where, **kwargs))

    def __reduce__(self) -> Any:
        make = functools.partial(type(self), threads=self._threads)
        return make, (self._alphabet, self._language_model)

    def __repr__(self) -> str:
        lm = () if self._language_model is None else (f"language_model={self._language_model!r}",)
        return shown_as("BeamSearchDecoderCTC", repr(self._alphabet), *lm)


def _words_of(hotwords: Iterable[str] | None, labels: Sequence[str]) -> list[bytes]:
    """The words of hotwords and phrases, sorted; TypeError. Warns of words that no labels spell."""
    if isinstance(hotwords, (str, bytes)):
        raise TypeError(f"hotwords: expected a list of words, got {type(hotwords).__name__}; write [{hotwords!r}]")
    given = list(hotwords or ())
    for phrase in given:
        if not isinstance(phrase, str):
            raise TypeError(f"hotwords: expected words as str, got {type(phrase).__name__}")
    words = {word for phrase in given for word in phrase.split()}
    letters = set("".join(labels)) if words else set()
    if lost := sorted(word for word in words if not letters.issuperset(word)):
        warn(f"hotwords: the labels cannot spell {few(lost)}; write hotwords in the labels' case")
    return sorted(word.encode() for word in words)
