"""Compact lattices in Kaldi's text form: an empty line, a line for each arc and final state, and an empty line."""
# 0 <tab> 1 <tab> 17 <tab> 2.5,103.25,4_4_9      source, target, word, graph cost, acoustic cost, labels
# 1 <tab> 0.25,0,                                a final state and its weight; without one its costs are 0
# The state of the first line is the start.

from __future__ import annotations

import re
from typing import Any, BinaryIO, NoReturn

import numpy as np

from arcbeam.core.errors import FormatError
from arcbeam.lattices.compact_lattice import ARC, FINAL
from arcbeam.lattices.kaldi_binary import begins_of
from arcbeam.lattices.kaldi_lattice import KaldiLattice

NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
WEIGHT = re.compile(rb"(%b),(%b),((?:-?\d+(?:_-?\d+)*)?)" % (NUMBER, NUMBER))
LARGEST = float(np.finfo(np.float32).max)
ONE = (0.0, 0.0, b"")


def encode(lattice: KaldiLattice) -> bytes:
    """The text of a lattice; numbers have the digits that distinguish a float32 from its neighbours."""
    lines = [""]
    first = lattice.first_arcs.tolist()
    targets, words = lattice.arcs["target"].tolist(), lattice.arcs["word"].tolist()
    labels, begins = list(map(str, lattice.labels.tolist())), lattice.label_begins.tolist()
    ends, end_begins = list(map(str, lattice.final_labels.tolist())), lattice.final_label_begins.tolist()
    states = list(range(lattice.num_states))
    if lattice.num_states:  # the start comes first, wherever it stands
        states.insert(0, states.pop(lattice.start))
    for state in states:
        for arc in range(first[state], first[state + 1]):
            string = "_".join(labels[begins[arc] : begins[arc + 1]])
            graph_cost, acoustic_cost = lattice.arcs["graph_cost"][arc], lattice.arcs["acoustic_cost"][arc]
            lines.append(f"{state}\t{targets[arc]}\t{words[arc]}\t{graph_cost!s},{acoustic_cost!s},{string}")
        graph_cost, acoustic_cost = lattice.finals[state]
        if np.isfinite(graph_cost):
            string = "_".join(ends[end_begins[state] : end_begins[state + 1]])
            lines.append(f"{state}\t{graph_cost!s},{acoustic_cost!s},{string}")
        elif state == lattice.start and first[state] == first[state + 1]:
            raise ValueError("Kaldi's text form cannot express a lattice whose start has no arcs and is not final")
    return ("\n".join(lines) + "\n\n").encode()


class Decoder:
    """Reads lattices from a file; messages begin with `where`."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file = file
        self.where = where
        self.place = file.tell()

    def lattice(self) -> KaldiLattice:
        """The lattice up to the next empty line, or to the end of the file, where Kaldi needs none; or FormatError."""
        if self._line().strip():
            self.fail("expected a lattice, whose text begins on a line of its own")
        arcs: list[tuple[Any, ...]] = []
        finals: dict[int, tuple[float, float, bytes]] = {}
        lines = 0
        start = -1
        while fields := self._line().split():
            lines += 1
            numbers = [self._number(field) for field in fields[:3]] if len(fields) > 2 else [self._number(fields[0])]
            start = numbers[0] if lines == 1 else start
            if len(fields) in (1, 2):
                if numbers[0] in finals:
                    self.fail(f"state {numbers[0]} has two final weights")
                finals[numbers[0]] = ONE if len(fields) == 1 else self._weight(fields[1])
            elif len(fields) in (3, 4):
                arcs.append((*numbers, *(ONE if len(fields) == 3 else self._weight(fields[3]))))
            else:
                self.fail(f"expected at most 4 fields in a line of a compact lattice, got {len(fields)}")
        most = max([start, *finals, *(max(arc[:2]) for arc in arcs)])
        if most > 1024 + 16 * lines:  # a number that only damage can explain would make huge arrays
            self.fail(f"state {most} is mentioned, but there are only {lines} lines")
        return _lattice(start, most + 1, arcs, finals)

    def _line(self) -> bytes:
        self.place = self.file.tell()
        return self.file.readline()

    def _number(self, field: bytes) -> int:
        if not (field.isdigit() and len(field) <= 10 and int(field) < 1 << 31):
            self.fail(f"expected a state or word from 0 to 2147483647, got {field[:40]!r}")
        return int(field)

    def _weight(self, field: bytes) -> tuple[float, float, bytes]:
        found = WEIGHT.fullmatch(field)
        if found is None:
            self.fail(f"expected a weight such as 2.5,103.25,4_4_9, got {field[:40]!r}")
        costs = float(found[1]), float(found[2])
        if max(map(abs, costs)) > LARGEST:
            self.fail(f"expected costs that fit in float32, got {field[:40]!r}")
        if any(len(label) > 11 or abs(int(label)) >= 1 << 31 for label in found[3].split(b"_") if label):
            self.fail(f"expected labels that fit in int32, got {found[3][:40]!r}")
        return *costs, found[3]

    def fail(self, reason: str) -> NoReturn:
        """Raises a FormatError with the place of the line that was read last."""
        raise FormatError(f"{self.where}: line at byte {self.place}: {reason}")


def _lattice(start: int, num_states: int, arcs: list[tuple], finals: dict[int, tuple]) -> KaldiLattice:
    arcs.sort(key=lambda arc: arc[0])  # stable: the arcs of a state keep their order
    ends = [finals.get(state, (np.inf, np.inf, b"")) for state in range(num_states)]
    strings = [_labels(arc[5]) for arc in arcs]
    final_strings = [_labels(end[2]) for end in ends]
    return KaldiLattice(
        start,
        np.array([arc[:5] for arc in arcs], ARC),
        np.array([label for string in strings for label in string], "<i4"),
        begins_of([len(string) for string in strings]),
        np.array([end[:2] for end in ends], FINAL),
        np.array([label for string in final_strings for label in string], "<i4"),
        begins_of([len(string) for string in final_strings]),
    )


def _labels(string: bytes) -> list[int]:
    return [int(label) for label in string.split(b"_")] if string else []
