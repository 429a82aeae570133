"""A transducer as arrays of arcs, and how kaldifst gets it: as OpenFst's vector file, written in one go."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.build.dependencies import require

_MAGIC = 2125659606
_VERSION = 2
_EXPANDED_AND_MUTABLE = 3


@dataclass
class ArcArrays:
    """Arcs in any order, one array a field; costs are natural logs. Start state and finals beside them.

    Attributes
    ----------
    sources, targets : int32 [arcs]
    inputs, outputs : int32 [arcs]
        Labels, 0 for epsilon.
    costs : float32 [arcs]
    finals : float32 [states]
        +inf where a state is not final.
    start : int
    """

    sources: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    inputs: npt.NDArray[np.int32]
    outputs: npt.NDArray[np.int32]
    costs: npt.NDArray[np.float32]
    finals: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    start: int = 0

    @property
    def num_states(self) -> int:
        return len(self.finals)

    @property
    def num_arcs(self) -> int:
        return len(self.targets)

    @classmethod
    def join(cls, groups: Iterable[tuple[Any, ...]], finals: Mapping[int, float], start: int = 0) -> ArcArrays:
        """From groups (sources, targets, inputs, outputs[, costs]) whose members broadcast against each other."""
        columns: list[list[npt.NDArray[Any]]] = [[], [], [], [], []]
        for group in groups:
            members = np.broadcast_arrays(*(np.atleast_1d(np.asarray(m)) for m in (*group, *[0.0][: 5 - len(group)])))
            for column, member in zip(columns, members, strict=True):
                column.append(member)
        sources, targets, inputs, outputs = (np.concatenate(c).astype(np.int32) for c in columns[:4])
        costs = np.concatenate(columns[4]).astype(np.float32)
        highest = max(int(sources.max(initial=0)), int(targets.max(initial=0)), start, *finals.keys())
        final_costs = np.full(highest + 1, np.inf, np.float32)
        for state, cost in finals.items():
            final_costs[state] = cost
        return cls(sources, targets, inputs, outputs, costs, final_costs, start)

    def to_vector_bytes(self) -> npt.NDArray[np.uint32]:
        """The states and arcs as OpenFst's vector format has them: 12 bytes a state, 16 an arc, in 32-bit words."""
        order = np.argsort(self.sources, kind="stable")
        if np.array_equal(order, np.arange(len(order))):
            order = slice(None)  # type: ignore[assignment]
        counts = np.bincount(self.sources, minlength=self.num_states)
        before = np.concatenate([[0], np.cumsum(counts)])
        words = np.empty(3 * self.num_states + 4 * self.num_arcs, np.uint32)
        at = 3 * np.arange(self.num_states) + 4 * before[:-1]
        words[at] = self.finals.view(np.uint32)
        words[at + 1] = counts.astype(np.uint32)
        words[at + 2] = 0  # the high half of the 64-bit count
        at = np.repeat(3 * (np.arange(self.num_states) + 1), counts) + 4 * np.arange(self.num_arcs)
        for offset, column in enumerate((self.inputs, self.outputs, self.costs, self.targets)):
            words[at + offset] = column[order].view(np.uint32)
        return words

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write OpenFst's vector file of the standard arc type."""
        with open(path, "wb") as file:
            file.write(np.array(_MAGIC, "<i4").tobytes())
            for text in (b"vector", b"standard"):
                file.write(np.array(len(text), "<i4").tobytes() + text)
            file.write(np.array([_VERSION, 0], "<i4").tobytes())
            file.write(np.array(_EXPANDED_AND_MUTABLE, "<u8").tobytes())
            file.write(np.array([self.start, self.num_states, self.num_arcs], "<i8").tobytes())
            self.to_vector_bytes().astype("<u4", copy=False).tofile(file)

    def to_kaldifst(self) -> Any:
        """The same as a kaldifst.StdVectorFst."""
        kaldifst = require("kaldifst", "building a decoding graph")
        with tempfile.TemporaryDirectory(prefix="arcbeam-") as folder:
            path = os.path.join(folder, "part.fst")
            self.write(path)
            fst = kaldifst.StdVectorFst.read(path)
        if fst is None:
            raise RuntimeError("kaldifst could not read back an automaton that was just written")
        return fst
