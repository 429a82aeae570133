"""riva-asrlib-decoder's streams, on the same OpenFst graph: the class that its Triton servers use, with partial words.

A stream is a channel of its decoder; all get their chunks in one call, which returns the words of each so far as
labels. Beside it arcbeam has a group of streams and their texts.
"""

from collections.abc import Sequence
from typing import Any

import torch
from riva.asrlib.decoder.python_decoder import BatchedMappedOnlineDecoderCuda

from benchmarks.adapters import Answer, SearchOptions, Unavailable, gpu, riva
from benchmarks.data.graphs import GraphFiles

TOKENS = 100_000  # that a stream has room for on the host at first, instead of a million


class RivaStreams:
    """So many streams at once, each with a lane and two channels."""

    name = "riva-asrlib-decoder, BatchedMappedOnlineDecoderCuda"
    device = "cuda"

    def __init__(self, files: GraphFiles, options: SearchOptions, streams: int, frame_shift: float) -> None:
        if not torch.cuda.is_available():
            raise Unavailable("torch sees no CUDA device")
        self._words = files.words()
        table = riva.write_words(self._words, files.fst.with_suffix(".words.txt"))
        made = riva.config(options, streams, frames_a_chunk=1, frame_shift=frame_shift, tokens=TOKENS).online_opts
        self.settings = (
            f"lattice_beam {options.lattice_beam:g}, max_batch_size {streams}, num_channels {2 * streams}, "
            f"ntokens_pre_allocated {TOKENS:,}"
        )
        self._decoder = BatchedMappedOnlineDecoderCuda(made, str(files.fst), str(table), files.graph.num_columns)
        self._begun = False
        self._streams = list(range(1, streams + 1))
        for stream in self._streams:
            if not self._decoder.try_init_corr_id(stream):
                raise RuntimeError(f"riva has no channel for stream {stream}")

    def prepare(self, chunks: gpu.DeviceArray) -> Sequence[Any]:
        """Tensors [frames, columns] of the streams, over the chunks [streams, frames, columns] on the GPU."""
        tensors = torch.as_tensor(chunks, device="cuda").unbind(0)
        torch.cuda.synchronize()
        return tensors

    def decode(self, prepared: Sequence[Any], last: bool = False) -> list[str]:
        """The words of each stream so far, after its next chunk; `last`: all streams end with it, for good."""
        flags = [[flag] * len(self._streams) for flag in (not self._begun, last)]
        self._begun = True
        _, partial = self._decoder.decode_batch(self._streams, list(prepared), *flags)
        return [" ".join(self._words[label] for label in one.words) for one in partial]

    def answers(self, decoded: Sequence[str]) -> list[Answer]:
        return [Answer(text, float("nan"), True) for text in decoded]


ADAPTER = RivaStreams
