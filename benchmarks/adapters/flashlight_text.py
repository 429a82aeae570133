"""flashlight-text's lexicon and lexicon-free decoders, with KenLM; one core.

Words go into its trie in the lexicon's order with the language model's score at the beginning of a sentence, as its own
recipes do. Its silence index must be a column: a task without silence gets one more column, which is never likely. It
takes one utterance at a time by the address of contiguous float32 values.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flashlight.lib.text.decoder import (
    CriterionType,
    LexiconDecoder,
    LexiconDecoderOptions,
    LexiconFreeDecoder,
    LexiconFreeDecoderOptions,
    SmearingMode,
    Trie,
    ZeroLM,
)
from flashlight.lib.text.decoder.kenlm import KenLM
from flashlight.lib.text.dictionary import Dictionary

from benchmarks.adapters.baseline import SpokenAnswer, Task

NEVER = -1e4  # log-prob of the silence column of a task without silence
SMEARING = {"none": SmearingMode.NONE, "max": SmearingMode.MAX, "logadd": SmearingMode.LOGADD}


class FlashlightText:
    name = "flashlight-text"

    def __init__(self, task: Task) -> None:
        self.task = task
        options, tokens = task.options, len(task.tokens)
        self.adds_silence = task.silence is None
        self.columns = tokens + self.adds_silence
        silence = tokens if task.silence is None else task.silence
        beam_tokens = options.get("beam_size_token") or tokens
        common = {
            "beam_size": options["beam_size"],
            "beam_size_token": beam_tokens,
            "beam_threshold": options["beam_threshold"],
            "lm_weight": options["lm_weight"],
        }
        rest = {
            "sil_score": options.get("sil_score", 0.0),
            "log_add": options.get("log_add", False),
            "criterion_type": CriterionType.CTC,
        }
        blank = task.tokens.blank
        if task.lexicon is None:
            entries = [*task.tokens.tokens, *(["<no silence>"] if self.adds_silence else [])]
            self.labels = Dictionary(entries)
            self.lm = self._language_model()
            self.decoder = LexiconFreeDecoder(LexiconFreeDecoderOptions(**common, **rest), self.lm, silence, blank, [])
            return
        self.labels = Dictionary([*task.lexicon.words, "<unk>"])
        self.lm = self._language_model()
        self.trie = Trie(self.columns, silence)
        start = self.lm.start(False)
        lexicon = task.lexicon
        for i, word in enumerate(lexicon.word_index.tolist()):
            spelling = lexicon.columns[lexicon.offsets[i] : lexicon.offsets[i + 1]].tolist()
            self.trie.insert(spelling, word, self.lm.score(start, word)[1])
        self.trie.smear(SMEARING[options.get("smearing", "max")])
        words = {
            "word_score": options.get("word_score", 0.0),
            "unk_score": options.get("unk_score", -np.inf),
        }
        self.decoder = LexiconDecoder(
            LexiconDecoderOptions(**common, **words, **rest),
            self.trie, self.lm, silence, blank, len(lexicon.words), [], False,
        )  # fmt: skip

    def _language_model(self) -> Any:
        return ZeroLM() if self.task.lm is None else KenLM(str(self.task.lm), self.labels)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        if not self.adds_silence:
            return [np.ascontiguousarray(u, np.float32) for u in utterances]
        return [np.pad(u.astype(np.float32), ((0, 0), (0, 1)), constant_values=NEVER) for u in utterances]

    def decode(self, prepared: Any) -> Any:
        return [self.decoder.decode(u.ctypes.data, len(u), self.columns) for u in prepared]

    def answers(self, decoded: Any, most: int | None = -1) -> list[list[SpokenAnswer]]:
        """At most so many of each utterance: all for None, as the task says for -1."""
        if most == -1:
            most = self.task.options.get("nbest", 1)
        found = []
        for results in decoded:
            answers = []
            for result in results[:most]:
                words = tuple(self.labels.get_entry(w) for w in result.words if w >= 0)
                tokens = tuple(result.tokens[1:-1])
                answers.append(SpokenAnswer(words, tokens, result.score, result.emittingModelScore, result.lmScore))
            found.append(answers)
        return found


ADAPTER = FlashlightText
