"""What tests of the experiments on a GPU share: a peer that is a stub, and the rows of an experiment."""

import ctypes
from typing import NamedTuple

import numpy as np

from benchmarks.adapters import Answer, gpu
from benchmarks.harness import registry
from benchmarks.harness.registry import Context


def host_array(array):
    """float32 of the emulated device, as it lies there."""
    at = array.__cuda_array_interface__["data"][0]
    return np.ctypeslib.as_array((ctypes.c_float * int(np.prod(array.shape))).from_address(at)).reshape(array.shape)


class Entry(NamedTuple):
    """Of riva's n-best lists."""

    words: list[int]
    score: float


class Peer:
    """Says what arcbeam's CPU engine says; of riva and of NeMo."""

    device, settings = "cuda", "a stub"

    def __init__(self, files, options, **more):
        self.more = more
        self.decoder = gpu.decoder(files.graph, options, device="cpu", lattice_beam=options.lattice_beam)

    def prepare(self, utterances):
        return utterances

    def look_into(self, arrays):
        return [host_array(array) for array in arrays]

    def search(self, prepared):
        self.decoder.decode(prepared)

    def decode(self, prepared):
        return self.decoder.decode(prepared)

    def decode_nbest(self, prepared):
        return [[Entry(a.word_ids.tolist(), a.score) for a in h.nbest] for h in self._all(prepared)]

    def decode_mbr(self, prepared):
        return [[(w.word, 0.0, 0.0, w.confidence) for w in h.mbr.words] for h in self._all(prepared)]

    def padded(self, prepared):
        return prepared

    def lattices(self, prepared):
        return [h.lattice.to_kaldi() for h in self._all(prepared)]

    def _all(self, prepared):
        return self.decoder.decode(prepared, nbest=self.more["nbest"], lattice=True)

    def answers(self, decoded):
        return [Answer(h.text, -h.score, h.reached_final) for h in decoded]


class StreamPeer:
    """riva's streams, which say what arcbeam's CPU engine says."""

    device, settings = "cuda", "a stub"

    def __init__(self, files, options, streams, frame_shift):
        decoder = gpu.decoder(files.graph, options, device="cpu", frame_shift=frame_shift)
        self.decoder, self.group = decoder, decoder.group([decoder.stream() for _ in range(streams)])

    def prepare(self, chunks):
        return host_array(chunks)

    def decode(self, prepared, last=False):
        return self.decoder.decode_chunks(self.group, list(prepared)).texts()


PEERS = {"riva": Peer, "riva_streams": StreamPeer, "nemo": Peer}


def missing(name):
    """In the place of `adapters.make`."""
    raise ImportError(f"No module named {name!r}")


def in_this_process(what, function, *arguments):
    """In the place of `gpu.rows_or_failure`."""
    try:
        yield from function(*arguments)
    except (MemoryError, RuntimeError) as error:
        yield what | {"status": f"failed: {error}"}


def rows_of(name, repeats=1, utterances=6, **options):
    experiment = registry.load(name)
    rows = list(experiment.run(Context(repeats, utterances, options)))
    keys = {column.key for column in experiment.COLUMNS} - {"status"}
    for row in rows:
        assert "status" not in row, row
        assert all(isinstance(row.get(c.key, ""), object) and c.text(row) is not None for c in experiment.COLUMNS)
    assert keys <= set().union(*rows), f"no row fills {keys - set().union(*rows)}"
    return rows


def has_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True
