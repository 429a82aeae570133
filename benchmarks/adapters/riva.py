"""riva-asrlib-decoder: Galvez & Kaldewey's own decoder, on the same OpenFst graph, by ``decode_mbr``.

Its input labels are columns + 1, as those of arcbeam's OpenFst files. It wants float32 log-probs on the GPU; they are
arcbeam's own device memory, read by torch. Its lattices are made and read for the words by threads of the host.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from riva.asrlib.decoder.python_decoder import BatchedMappedDecoderCuda, BatchedMappedDecoderCudaConfig

from arcbeam import KaldiLattice, read_lattices
from arcbeam.files.writing import replacing_text
from benchmarks.adapters import Answer, SearchOptions, Unavailable, gpu
from benchmarks.data import graphs
from benchmarks.data.graphs import GraphFiles


def write_words(words: Sequence[str], path: Path) -> Path:
    """The symbol table that it reads: word, space, label."""
    with graphs.one_at_a_time(path.name), replacing_text(path) as out:
        out.writelines(f"{word} {label}\n" for label, word in enumerate(words))
    return path


def config(
    options: SearchOptions, max_batch_size: int, frames_a_chunk: int, frame_shift: float, tokens: int | None = None,
    nbest: int | None = None,
) -> Any:  # fmt: skip
    made = BatchedMappedDecoderCudaConfig()
    made.n_input_per_chunk = frames_a_chunk
    online = made.online_opts
    online.decoder_opts.default_beam = options.beam
    online.decoder_opts.lattice_beam = options.lattice_beam
    online.decoder_opts.max_active = options.max_active
    if tokens is not None:
        online.decoder_opts.ntokens_pre_allocated = tokens
    if nbest is not None:
        online.lattice_postprocessor_opts.nbest = nbest
    online.determinize_lattice = True
    online.max_batch_size = max_batch_size
    online.num_channels = 2 * max_batch_size
    online.frame_shift_seconds = frame_shift
    online.num_post_processing_worker_threads = len(os.sched_getaffinity(0))
    online.num_decoder_copy_threads = 4
    return made


class Riva:
    """`max_batch_size`: lanes of its engine; `frames_a_chunk`: frames that a lane decodes at a time.

    `tokens`: for how many of an utterance it has room on the host at first; None is its own default. `nbest`: entries
    of the lists of `decode_nbest`, whose length no call can say.
    """

    name = "riva-asrlib-decoder decode_mbr"
    device = "cuda"

    def __init__(
        self, files: GraphFiles, options: SearchOptions, max_batch_size: int = 200, frames_a_chunk: int = 50,
        frame_shift: float = 0.04, tokens: int | None = None, nbest: int | None = None,
    ) -> None:  # fmt: skip
        if not torch.cuda.is_available():
            raise Unavailable("torch sees no CUDA device")
        if options.acoustic_scale != 1.0:
            raise ValueError("riva: the graph is for log-probs as they are; expected acoustic_scale 1")
        words = write_words(files.words(), files.fst.with_suffix(".words.txt"))
        self.batch = options.batch
        self.settings = (
            f"lattice_beam {options.lattice_beam:g}, max_batch_size {max_batch_size}, num_channels "
            f"{2 * max_batch_size}, n_input_per_chunk {frames_a_chunk}, batch {self.batch}"
            + (f", ntokens_pre_allocated {tokens:,}" if tokens is not None else "")
            + (f", nbest {nbest}" if nbest is not None else "")
        )
        made = config(options, max_batch_size, frames_a_chunk, frame_shift, tokens, nbest)
        self.decoder = BatchedMappedDecoderCuda(made, str(files.fst), str(words), files.graph.num_columns)

    def prepare(self, utterances: Sequence[npt.NDArray[np.floating]]) -> Any:
        return self.look_into(gpu.send(utterances))

    def look_into(self, arrays: Sequence[gpu.DeviceArray]) -> Any:
        """Batches of tensors over log-probs that are on the GPU already."""
        tensors = [torch.as_tensor(array, device="cuda") for array in arrays]
        torch.cuda.synchronize()
        parts = [tensors[i : i + self.batch] for i in range(0, len(tensors), self.batch)]
        return [(part, torch.tensor([len(t) for t in part], dtype=torch.int64)) for part in parts]

    def decode(self, prepared: Any) -> Any:
        return self.decode_mbr(prepared)

    def decode_mbr(self, prepared: Any) -> Any:
        """For each utterance its words: (word, begin, end, confidence)."""
        return [said for part, lengths in prepared for said in self.decoder.decode_mbr(part, lengths)]

    def decode_nbest(self, prepared: Any) -> Any:
        """For each utterance its entries: `words` (labels), `score`, times."""
        return [entries for part, lengths in prepared for entries in self.decoder.decode_nbest(part, lengths)]

    def padded(self, prepared: Any) -> Any:
        """The same batches, each as one array, which is all that `lattices` can hand over; also for `decode_mbr`."""
        found = [(torch.nn.utils.rnn.pad_sequence(part, batch_first=True).contiguous(), n) for part, n in prepared]
        torch.cuda.synchronize()
        return found

    def lattices(self, prepared: Any) -> list[KaldiLattice]:
        """For each utterance the lattice that its other answers are read from: an acceptor of words (labels).

        prepared : what `padded` returned
        """
        found: dict[int, KaldiLattice] = {}
        for part, lengths in prepared:
            keys = [str(len(found) + i) for i in range(len(part))]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "lattices.ark")
                self.decoder.decode_write_lattice(part, lengths, keys, f"ark:{path}")
                found |= {int(key): lattice for key, lattice in read_lattices(path)}
        return [found[i] for i in range(len(found))]

    def answers(self, decoded: Any) -> list[Answer]:
        return [Answer(" ".join(word for word, *_ in said), float("nan"), True) for said in decoded]


ADAPTER = Riva
