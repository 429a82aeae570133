"""FasterDecoder of the package kaldi-decoder: one core, cost in double precision, OpenFst graph.

Its ``DecodableCtc`` reads column ``label - 1`` by itself, and its bound of the next frame is lowered while the frame's
arcs are read, so it admits more than it needs; the total cost of a path is summed in float32. ``min_active`` is 0
because arcbeam has no such option.
"""

from collections.abc import Sequence
from typing import Any

import kaldi_decoder
import kaldifst
import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Answer, SearchOptions
from benchmarks.data.graphs import GraphFiles


class KaldiFasterDecoder:
    name = "kaldi-decoder FasterDecoder"
    device = "cpu"

    def __init__(self, files: GraphFiles, options: SearchOptions, fst_type: str = "vector") -> None:
        self.settings = f"{options}, min_active 0"
        self.fst = kaldifst.StdVectorFst.read(str(files.fst))
        if fst_type == "const":
            self.fst = kaldifst.StdConstFst(self.fst)
        self.words = files.words()
        self.scale = np.float32(options.acoustic_scale)
        self.options = kaldi_decoder.FasterDecoderOptions(
            beam=options.beam, max_active=options.max_active, min_active=0
        )

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> list[npt.NDArray[np.float32]]:
        return [np.ascontiguousarray(u, np.float32) * self.scale for u in utterances]

    def decode(self, prepared: Any) -> Any:
        found = []
        for log_probs in prepared:
            decoder = kaldi_decoder.FasterDecoder(self.fst, self.options)
            decoder.decode(kaldi_decoder.DecodableCtc(log_probs))
            ok, path = decoder.get_best_path()
            labels, words, weight = kaldifst.get_linear_symbol_sequence(path)[1:] if ok else ([], [], None)
            found.append((labels, words, weight, decoder.reached_final()))
        return found

    def answers(self, decoded: Any) -> list[Answer]:
        found = []
        for labels, words, weight, final in decoded:
            cost = float("inf") if weight is None else weight.value1 + weight.value2
            text = " ".join(self.words[w] for w in words)
            found.append(Answer(text, cost, final, [label - 1 for label in labels], words))
        return found


ADAPTER = KaldiFasterDecoder
