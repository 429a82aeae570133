"""A transducer as arrays of arcs. kaldifst gets it as OpenFst's vector file, written in one pass."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.packages import require


@dataclass
class ArcArrays:
    """Arcs in any order, one array for each field; start state and finals are separate."""

    sources: npt.NDArray[np.int32]  # [arcs]
    targets: npt.NDArray[np.int32]
    inputs: npt.NDArray[np.int32]  # 0 for epsilon, as in `outputs`
    outputs: npt.NDArray[np.int32]
    costs: npt.NDArray[np.float32]  # natural logs
    finals: npt.NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    start: int = 0

    @property
    def num_states(self) -> int:
        """The number of states, including states without arcs."""
        return len(self.finals)

    @property
    def num_arcs(self) -> int:
        """The number of arcs."""
        return len(self.targets)

    @classmethod
    def join(cls, groups: Iterable[tuple[Any, ...]], finals: Mapping[int, float], start: int = 0) -> ArcArrays:
        """Join groups (sources, targets, inputs, outputs[, costs]) whose members broadcast against each other."""
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

    def to_kaldifst(self) -> Any:
        """Return the same transducer as a kaldifst.StdVectorFst."""
        from arcbeam.graph.openfst import write_vector

        kaldifst = require("kaldifst", "building a decoding graph")
        with tempfile.TemporaryDirectory(prefix="arcbeam-") as folder:
            path = os.path.join(folder, "part.fst")
            write_vector(
                path, self.start, self.sources, self.targets, self.inputs, self.outputs, self.costs, self.finals,
                self.num_states,
            )  # fmt: skip
            fst = kaldifst.StdVectorFst.read(path)
        if fst is None:
            raise RuntimeError("kaldifst could not read back an automaton that was just written")
        return fst
