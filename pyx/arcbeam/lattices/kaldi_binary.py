"""Compact lattices in Kaldi's binary form: an OpenFst vector file with the arc type ``compactlattice44``.

Little-endian; every length is checked against the bytes that are left before anything is read or made.
"""
# header    magic, "vector", arc type, version 2, flags, properties, start, states, arcs (which Kaldi leaves 0)
# a state   its final weight, int64 arcs, and for each arc: int32 label, int32 label, weight, int32 target
# a weight  float32 graph cost, float32 acoustic cost, int32 length, int32 labels

from __future__ import annotations

import struct
from typing import BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.graph.openfst import FST_MAGIC, VECTOR_PROPERTIES, VECTOR_VERSION
from arcbeam.lattices.compact_lattice import ARC, FINAL
from arcbeam.lattices.kaldi_lattice import KaldiLattice

MAGIC = struct.pack("<i", FST_MAGIC)
ARC_TYPE = b"compactlattice44"
LONGEST_NAME = 64
HAS_SYMBOLS = 3
STATE_BYTES = 20  # of a state without arcs or labels
ARC_BYTES = 24


def encode(lattice: KaldiLattice) -> bytes:
    """The bytes of a lattice."""
    header = MAGIC + b"".join(struct.pack("<i", len(name)) + name for name in (b"vector", ARC_TYPE))
    header += struct.pack(
        "<iiQqqq", VECTOR_VERSION, 0, VECTOR_PROPERTIES, lattice.start, lattice.num_states, lattice.num_arcs
    )
    return header + _body(lattice).tobytes()


def _body(lattice: KaldiLattice) -> npt.NDArray[np.uint32]:
    """States with their arcs, in units of four bytes: places first, then everything is scattered to its place."""
    arcs, finals = lattice.arcs, lattice.finals
    arc_labels, final_labels = np.diff(lattice.label_begins), np.diff(lattice.final_label_begins)
    first_arcs = lattice.first_arcs
    arc_ends = np.concatenate([[0], np.cumsum(arc_labels + ARC_BYTES // 4)]).astype(np.int64)
    state_ends = np.concatenate([[0], np.cumsum(final_labels + STATE_BYTES // 4)]).astype(np.int64)
    states = state_ends[:-1] + arc_ends[first_arcs[:-1]]  # the place of each state
    places = state_ends[arcs["source"].astype(np.int64) + 1] + arc_ends[:-1]  # the place of each arc
    body = np.zeros(int(state_ends[-1] + arc_ends[-1]), "<u4")
    counts = np.diff(first_arcs)
    for at, values in (
        (states, finals["graph_cost"].view("<u4")),
        (states + 1, finals["acoustic_cost"].view("<u4")),
        (states + 2, final_labels),
        (_spread(states + 3, final_labels), lattice.final_labels.view("<u4")),
        (states + 3 + final_labels, counts),
        (places, arcs["word"]),
        (places + 1, arcs["word"]),
        (places + 2, arcs["graph_cost"].view("<u4")),
        (places + 3, arcs["acoustic_cost"].view("<u4")),
        (places + 4, arc_labels),
        (_spread(places + 5, arc_labels), lattice.labels.view("<u4")),
        (places + 5 + arc_labels, arcs["target"]),
    ):
        body[at] = values  # the upper half of a count of arcs stays 0
    return body


def _spread(places: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The places of the elements of runs that begin at `places`."""
    begins = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(places - begins, lengths)


class Decoder:
    """Reads lattices from a file of `size` bytes; messages begin with `where`."""

    def __init__(self, file: BinaryIO, size: int, where: str) -> None:
        self.file = file
        self.left = size - file.tell()
        self.size = size
        self.where = where

    def lattice(self) -> KaldiLattice:
        """The lattice that begins here; FormatError if there is none in order."""
        start, num_states = self._header()
        counts, words, targets, costs = [], [], [], []
        finals, labels, label_counts, final_labels, final_counts = [], [], [], [], []
        for _ in range(num_states):
            graph_cost, acoustic_cost, length = self._unpack("<ffi")
            is_final = _is_finite(graph_cost) and _is_finite(acoustic_cost)
            if not (is_final or graph_cost == acoustic_cost == np.inf):
                self.fail(f"expected finite costs, or both inf where no path ends, got {graph_cost}, {acoustic_cost}")
            finals.append((graph_cost, acoustic_cost))
            final_labels.append(self._labels(length))
            final_counts.append(length)
            (count,) = self._unpack("<q")
            if not 0 <= count <= self.left // ARC_BYTES:
                self.fail(f"{count} arcs do not fit in the {self.left} bytes that are left")
            counts.append(count)
            for _ in range(count):
                word, same, graph_cost, acoustic_cost, length = self._unpack("<iiffi")
                if word != same or word < 0:
                    self.fail(f"expected one word on an arc, 0 or more, got {word} and {same}")
                if not (_is_finite(graph_cost) and _is_finite(acoustic_cost)):
                    self.fail(f"expected finite costs, got {graph_cost}, {acoustic_cost}")
                labels.append(self._labels(length))
                label_counts.append(length)
                (target,) = self._unpack("<i")
                if not 0 <= target < num_states:
                    self.fail(f"an arc leads to state {target}; the lattice has {num_states}")
                words.append(word)
                targets.append(target)
                costs.append((graph_cost, acoustic_cost))
        arcs = np.empty(len(words), ARC)
        arcs["source"] = np.repeat(np.arange(num_states), counts)
        arcs["word"], arcs["target"] = words, targets
        both = np.array(costs, "<f4").reshape(-1, 2)
        arcs["graph_cost"], arcs["acoustic_cost"] = both[:, 0], both[:, 1]
        return KaldiLattice(
            start,
            arcs,
            np.frombuffer(b"".join(labels), "<i4"),
            begins_of(label_counts),
            np.array(finals, FINAL),
            np.frombuffer(b"".join(final_labels), "<i4"),
            begins_of(final_counts),
        )

    def _header(self) -> tuple[int, int]:
        if self._take(4) != MAGIC:
            self.fail("expected an OpenFst file")
        kind, arc_type = self._name(), self._name()
        if kind != b"vector" or arc_type != ARC_TYPE:
            self.fail(
                f"expected a vector FST of {ARC_TYPE.decode()!r}, got {kind.decode(errors='replace')!r} of "
                f"{arc_type.decode(errors='replace')!r}; Kaldi's lattice-copy writes compact lattices"
            )
        version, flags, _, start, num_states, _ = self._unpack("<iiQqqq")
        if version != VECTOR_VERSION or flags & HAS_SYMBOLS:
            self.fail(f"expected version {VECTOR_VERSION} without symbols, got version {version} with flags {flags}")
        if not 0 <= num_states <= self.left // STATE_BYTES:
            self.fail(f"{num_states} states do not fit in the {self.left} bytes that are left")
        if not (0 <= start < num_states or (start == -1 and num_states == 0)):
            self.fail(f"the start is state {start}; the lattice has {num_states}")
        return start, num_states

    def _name(self) -> bytes:
        (length,) = self._unpack("<i")
        if not 0 <= length <= LONGEST_NAME:
            self.fail(f"expected a name of at most {LONGEST_NAME} bytes, got one of {length}")
        return self._take(length)

    def _labels(self, length: int) -> bytes:
        if not 0 <= length <= self.left // 4:
            self.fail(f"{length} labels do not fit in the {self.left} bytes that are left")
        return self._take(4 * length)

    def _unpack(self, form: str) -> tuple:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _take(self, count: int) -> bytes:
        if count > self.left:
            self.fail("the file ends within the lattice")
        self.left -= count
        data = self.file.read(count)
        if len(data) < count:
            self.fail("the file shrank while it was read")
        return data

    def fail(self, reason: str) -> NoReturn:
        """Raises a FormatError with the place."""
        raise FormatError(f"{self.where}: byte {self.size - self.left}: {reason}")


def _is_finite(cost: float) -> bool:
    return -np.inf < cost < np.inf


def begins_of(counts: list[int]) -> npt.NDArray[np.int64]:
    """Where runs of these lengths begin, and the end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
