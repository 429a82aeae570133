"""How sure a model is of the frames of batches and of rounds of chunks: from log-probs anywhere to confidences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arcbeam.arrays.on_device import copied_to_host
from arcbeam.core.confidence import ConfidenceMethod, Measure, measure
from arcbeam.core.errors import Fault
from arcbeam.ctc.confidence._frame_confidence import FrameConfidenceEngine
from arcbeam.ctc.confidence.frame_confidences import ChunkConfidences, Floats, FrameConfidences

if TYPE_CHECKING:
    from arcbeam.arrays.batches import Utterances
    from arcbeam.arrays.intake import Chunks, Decoded

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

    def of_batch(self, found: Decoded, method: ConfidenceMethod) -> FrameConfidences:
        """The confidences of all frames but those of utterances with an error."""
        table = found.utterances.table.copy()
        table[list(found.errors), 2] = 0
        batch = replace(found.utterances, table=table)
        values = self._measured(batch, found.on_host, found.reader, measure(method, batch.columns))
        return FrameConfidences(values, np.append(0, np.cumsum(table[:, 2])), self._aggregation)

    def of_chunks(
        self,
        chunks: Chunks,
        reader: Any,
        methods: Mapping[ConfidenceMethod, list[int]],
        errors: str,
    ) -> tuple[ChunkConfidences, dict[int, Fault]]:
        """The confidences of chunks, by one call for each method, and faults by place. `reader` copies from a GPU."""
        # They come before a chunk is decoded: if they fail, all streams are as before.
        batch, values, count = chunks.utterances, [NO_FRAMES], 0
        begins, refused = np.zeros(len(batch.table), np.int64), dict[int, Fault]()
        for method, places in methods.items():
            try:
                by = measure(method, batch.columns)
            except ValueError as error:
                if errors == "raise":
                    raise
                refused |= dict.fromkeys(places, error.with_traceback(None))
                continue
            table = batch.table[places]
            begins[places] = count + np.cumsum(table[:, 2]) - table[:, 2]
            values.append(self._measured(replace(batch, table=table), chunks.on_host, reader, by))
            count += len(values[-1])
        return ChunkConfidences(values[1] if len(values) == 2 else np.concatenate(values), begins), refused

    def _measured(self, batch: Utterances, on_host: bool, reader: Any, by: Measure) -> Floats:
        """float32[frames]: of all utterances, which are copied to the host's memory unless they lie there."""
        if not on_host:
            batch = copied_to_host(batch, reader)
        if self._engine is None:
            self._engine = FrameConfidenceEngine(threads=self._threads)
        return self._engine.confidences(batch.table, batch.columns, by)
