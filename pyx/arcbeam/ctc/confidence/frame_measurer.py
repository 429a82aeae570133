"""How sure a model is of the frames of batches and of rounds of chunks: from log-probs anywhere to confidences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from arcbeam.core.confidence import ConfidenceMethod, Measure, measure
from arcbeam.core.errors import Fault
from arcbeam.ctc.confidence._frame_confidence import FrameConfidenceEngine
from arcbeam.ctc.confidence.frame_confidences import ChunkConfidences, Floats, FrameConfidences

if TYPE_CHECKING:
    from arcbeam.arrays.batches import Inputs

NO_FRAMES = np.empty(0, np.float32)


class FrameMeasurer:
    """The frame confidences of one decoder, on CPU threads that start when they are first needed."""

    def __init__(self, threads: int, aggregation: str) -> None:
        self._threads, self._aggregation = threads, aggregation
        self._engine: FrameConfidenceEngine | None = None

    def release(self) -> None:
        """Ends the threads; they begin again when they are needed."""
        if self._engine is not None:
            self._engine.release()

    def of_batch(self, batch: Inputs, refused: Collection[int], method: ConfidenceMethod) -> FrameConfidences:
        """The confidences of all frames but those of the utterances that are refused."""
        batch = batch.without([*refused])
        values = self._measured(batch, measure(method, batch.columns))
        return FrameConfidences(values, np.append(0, np.cumsum(batch.table[:, 2])), self._aggregation)

    def of_chunks(
        self, chunks: Inputs, methods: Mapping[ConfidenceMethod, list[int]], errors: str
    ) -> tuple[ChunkConfidences, dict[int, Fault]]:
        """The confidences of chunks, by one call for each method, and faults by place."""
        # They come before a chunk is decoded: if they fail, all streams are as before.
        values, count = [NO_FRAMES], 0
        begins, refused = np.zeros(len(chunks.table), np.int64), dict[int, Fault]()
        for method, places in methods.items():
            try:
                by = measure(method, chunks.columns)
            except ValueError as error:
                if errors == "raise":
                    raise
                refused |= dict.fromkeys(places, error.with_traceback(None))
                continue
            batch = chunks.at(places)
            begins[places] = count + np.cumsum(batch.table[:, 2]) - batch.table[:, 2]
            values.append(self._measured(batch, by))
            count += len(values[-1])
        return ChunkConfidences(values[1] if len(values) == 2 else np.concatenate(values), begins), refused

    def _measured(self, batch: Inputs, by: Measure) -> Floats:
        """float32[frames]: of all utterances, which are copied to the host's memory unless they lie there."""
        batch = batch.copied_to_host()
        if self._engine is None:
            self._engine = FrameConfidenceEngine(threads=self._threads)
        return self._engine.confidences(batch.table, batch.columns, by)
