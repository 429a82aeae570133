"""What both decoders answer: lists, words and lattices of the hypotheses of a `CtcDecoder`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arcbeam.compat.riva.loading import loaded
from arcbeam.compat.riva.results import MbrWord, NBestResult, mbr_words
from arcbeam.compat.riva.scales import MBR, NBEST
from arcbeam.compat.riva.settings import Settings
from arcbeam.compat.tensors import on_host, taken
from arcbeam.lattices.archives import write_lattices

if TYPE_CHECKING:
    from arcbeam.ctc.hypothesis import Hypothesis
    from arcbeam.ctc.lattice.alternatives import Alternative
    from arcbeam.ctc.lattice.lattice import Lattice
    from arcbeam.lattices.kaldi_lattice import KaldiLattice


class Answers:
    """A decoder, and what is made of its hypotheses."""

    def __init__(
        self,
        settings: Settings,
        wfst_path: str | os.PathLike[str],
        symbol_table_path: str | os.PathLike[str],
        num_tokens_including_blank: int,
        device: str,
    ) -> None:
        self._settings = settings
        self._factor = settings.scales.factor
        scale = 1.0 if self._factor is None else self._factor**MBR
        self.decoder = loaded(settings, wfst_path, symbol_table_path, num_tokens_including_blank, device, scale)

    def taken(self, arrays: Any) -> Any:
        """Log-probs without torch's gradients; those of a GPU on the CPU, if that decodes."""
        if self.decoder.device != "cpu":
            return [taken(one)[0] for one in arrays] if isinstance(arrays, (list, tuple)) else taken(arrays)[0]
        return [on_host(one) for one in arrays] if isinstance(arrays, (list, tuple)) else on_host(arrays)

    def nbest(self, log_probs: Any, lengths: Any) -> list[list[NBestResult]]:
        """N-best lists of a batch."""
        self.check_words()
        count = self._settings.nbest
        if self._factor is None:
            found = self._decoded(log_probs, lengths, lattice=True)
        elif count == 1:
            found = self._decoded(log_probs, lengths)
        else:
            found = self._decoded(log_probs, lengths, nbest=count)
        return [self.entries(hypothesis) for hypothesis in found]

    def entries(self, hypothesis: Hypothesis) -> list[NBestResult]:
        """The n-best list of an utterance, which has what it is made of; empty if the search died."""
        if not hypothesis.complete:
            return []
        shift, count, factor = self._settings.frame_shift, self._settings.nbest, self._factor
        if factor is None:
            scaled = self._settings.scales.of_lattice(_lattice(hypothesis), NBEST)
            return [NBestResult.of_path(path, 0.0 - path.score, shift) for path in scaled.nbest(count)]
        paths: Sequence[Hypothesis | Alternative] = [hypothesis]
        if count > 1:
            paths = hypothesis.nbest or _lattice(hypothesis).nbest(count)
        return [NBestResult.of_path(path, factor**NBEST * (0.0 - path.score), shift) for path in paths]

    def mbr(self, log_probs: Any, lengths: Any) -> list[list[MbrWord]]:
        """Words with times and confidences of a batch."""
        self.check_words()
        if self._factor is None:
            found = self._decoded(log_probs, lengths, lattice=True)
        elif self._settings.minimizes_risk:
            found = self._decoded(log_probs, lengths, mbr=True)
        else:
            found = self._decoded(log_probs, lengths, confidence=True)
        return [self.words(hypothesis) for hypothesis in found]

    def words(self, hypothesis: Hypothesis) -> list[MbrWord]:
        """The words of an utterance, which has what they are made of; none if the search died."""
        if not hypothesis.complete:
            return []
        found = hypothesis.words
        if self._factor is None:
            found = self._settings.scales.of_lattice(_lattice(hypothesis), MBR).mbr.words
        elif self._settings.minimizes_risk:
            assert hypothesis.mbr is not None
            found = hypothesis.mbr.words
        return mbr_words(found, self._settings.frame_shift)

    def write_lattices(self, log_probs: Any, lengths: Any, keys: Sequence[str], wspecifier: str) -> None:
        """Writes the lattices of a batch."""
        if len(keys) != len(lengths):
            raise ValueError(f"keys: expected a name for each of the {len(lengths)} utterances, got {len(keys)}")
        found = self._decoded(log_probs, lengths, lattice=True)
        write_lattices(wspecifier, zip(keys, map(self.kaldi_lattice, found), strict=True))

    def kaldi_lattice(self, hypothesis: Hypothesis) -> KaldiLattice:
        """The lattice of an utterance as it is written."""
        lattice = _lattice(hypothesis).to_kaldi(determinize=self._settings.determinize)
        return self._settings.scales.of_kaldi_lattice(lattice)

    def check_words(self) -> None:
        """ValueError if the options ask for lattices alone."""
        if not self._settings.has_words:
            raise ValueError(
                "use_lattice_postprocessor: expected True for n-best lists and for words with confidences, got False; "
                "decode_write_lattice does without"
            )

    def _decoded(self, log_probs: Any, lengths: Any, **outputs: Any) -> Sequence[Hypothesis]:
        """The hypotheses of a batch."""
        found = self.decoder.decode(log_probs, lengths, **outputs)
        assert isinstance(found, list)
        return found


def _lattice(hypothesis: Hypothesis) -> Lattice:
    """The lattice of a hypothesis that was requested with it."""
    assert hypothesis.lattice is not None
    return hypothesis.lattice
