"""Graphs of k2, as ``torch.save(HLG.as_dict())`` writes them: read without k2 and without running their pickle."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.core.errors import FormatError
from arcbeam.files.pickled_data import Stateful
from arcbeam.files.torch_file import read_torch_file
from arcbeam.graph import _graph
from arcbeam.graph.inputs import blank_column
from arcbeam.graph.openfst import Compiled, as_arcs, used_columns
from arcbeam.graph.token_table import TokenTable

EXPECTED = "a graph of k2 (HLG.pt or LG.pt of icefall)"
FEW_STATES, STATES_AN_ARC = 1024, 16  # more states than arcs can reach are a fault
FINAL = -1  # the label of arcs to the final state


@dataclass(frozen=True)
class K2Graph:
    """A graph whose label l reads column l; costs are those of arcs to k2's final state, which is left out."""

    arcs: tuple[npt.NDArray[Any], ...]  # sources, destinations, labels, words, costs: [arcs] each
    finals: npt.NDArray[np.float32]  # [states]: +inf where not final

    @property
    def has_topology(self) -> bool:
        """Whether blanks are read, so that frames can be: else a label stands for a token, however long it lasts."""
        return bool((self.arcs[2] == 0).any())


def is_k2(path: str | os.PathLike[str], head: bytes) -> bool:
    """Whether a file is one of ``torch.save``: a zip archive of a pickle and its arrays."""
    if not head.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except Exception:  # whatever a damaged archive leads to
        return False


def compile_k2(
    path: str | os.PathLike[str],
    *,
    tokens: TokenTable | None = None,
    blank: str | int | None = None,
    label_to_column: npt.ArrayLike | None = None,
    num_columns: int | None = None,
    max_bytes: int | str | None = None,
) -> Compiled:
    """Reads, compiles and checks a graph; one without blanks is composed with the topology compact."""
    if label_to_column is not None:
        raise ValueError("label_to_column: expected None, because the labels of k2 are columns")
    read = read_k2(path, max_bytes)
    sources, destinations, labels, words, costs = read.arcs
    arcs = as_arcs(sources, destinations, labels + 1, words, costs)
    if not read.has_topology:
        from arcbeam.recipe.recipe import with_topology

        width = len(tokens) if tokens is not None else num_columns
        if width is None:
            raise ValueError("expected tokens or num_columns, because the graph reads no blank, as LG.pt; got neither")
        column = blank_column(tokens, 0 if blank is None and tokens is None else blank, width, True)
        return with_topology(arcs, read.finals, tokens, column, width)
    exact = num_columns if tokens is None else len(tokens)
    columns, depth = _graph.compile_arrays(arcs, len(read.finals), 0, read.finals, None, exact)
    width = used_columns(columns["columns"], None) if exact is None else exact
    return Compiled(columns, 0, depth, width, exact is not None, tokens, None)


def read_k2(path: str | os.PathLike[str], max_bytes: int | str | None = None) -> K2Graph:
    """The graph in a file; FormatError if there is none, or several."""
    name = os.fsdecode(path)
    content = read_torch_file(path, name, max_bytes)
    arcs = content.get("arcs") if isinstance(content, dict) else None
    if not isinstance(arcs, np.ndarray) or arcs.dtype != np.int32:
        raise FormatError(f"{name}: expected {EXPECTED}, got a file of torch.save without its arcs")
    if arcs.ndim != 2 or arcs.shape[1] != 4 or len(arcs) == 0:
        raise FormatError(f"{name}: expected one graph of k2 as arcs [arcs, 4], got {list(arcs.shape)}")
    arcs = np.ascontiguousarray(arcs)
    sources, destinations, labels = (arcs[:, i].astype(np.int64) for i in range(3))
    costs = 0.0 - arcs[:, 3].copy().view(np.float32)  # never -0
    final = int(destinations.max())
    if final > FEW_STATES + STATES_AN_ARC * len(arcs):  # gigabytes because of a small file
        raise FormatError(f"{name}: expected states from 0 to about {len(arcs)}, the number of arcs, got {final}")
    to_final = labels == FINAL
    if min(sources.min(), destinations.min()) < 0 or labels.min() < FINAL or (sources >= final).any():
        raise FormatError(f"{name}: expected states from 0 to {final}, the last one final, and labels from -1")
    if not np.array_equal(destinations == final, to_final):
        raise FormatError(f"{name}: expected the label -1 on the arcs to the final state {final}, and on no other")
    words, counts, first = _words_of(content.get("aux_labels"), len(arcs), name)
    if counts[to_final].any():
        raise FormatError(f"{name}: expected no words on arcs to the final state")
    finals = np.full(final, np.inf, np.float32)
    with np.errstate(invalid="ignore"):  # NaN stays NaN, which compiling refuses
        np.minimum.at(finals, sources[to_final], costs[to_final])
    kept = ~to_final
    columns = (sources[kept], destinations[kept], labels[kept], costs[kept])
    return _with_words(*columns, words, counts[kept], first[kept], finals)


def _words_of(aux: Any, arcs: int, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Any]:
    """The words of all arcs, how many each arc has, and where its first one is; 0 and -1 stand for none."""
    if isinstance(aux, Stateful) and type(aux.state) is tuple and len(aux.state) == 3:  # ragged: any number of words
        splits, _, values = aux.state
    else:
        splits, values = np.arange(arcs + 1), aux
    if not all(isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype.kind in "iu" for a in (splits, values)):
        raise FormatError(f"{name}: expected aux_labels, the words of the arcs, as int32 or ragged, got something else")
    splits = splits.astype(np.int64)
    fits = len(splits) == arcs + 1 and splits[0] == 0 and splits[-1] == len(values) and (np.diff(splits) >= 0).all()
    if not fits:
        raise FormatError(f"{name}: expected aux_labels of {arcs} arcs, got those of {len(splits) - 1}")
    places = np.append(0, np.cumsum(values > 0))
    first = places[splits[:-1]]
    return values[values > 0].astype(np.int64), places[splits[1:]] - first, first


def _with_words(
    sources: Any, destinations: Any, labels: Any, costs: Any, words: Any, counts: Any, first: Any, finals: Any
) -> K2Graph:
    """The arcs with a word each: further words of an arc are written on new states after it, which read nothing."""
    written = np.zeros(len(labels), np.int64)
    written[counts > 0] = words[first[counts > 0]]
    many = np.flatnonzero(counts > 1)
    more = counts[many] - 1
    ends = np.cumsum(more)
    added = np.arange(int(more.sum()))
    position = added - np.repeat(ends - more, more)
    next_states = len(finals) + added + 1
    next_states[ends - 1] = destinations[many]
    destinations[many] = len(finals) + ends - more
    further = words[np.repeat(first[many] + 1, more) + position]
    arcs = (
        np.append(sources, len(finals) + added),
        np.append(destinations, next_states),
        np.append(labels, np.full(len(added), FINAL)),  # FINAL + 1 is epsilon where label l is l + 1
        np.append(written, further),
        np.append(costs, np.zeros(len(added), np.float32)),
    )
    return K2Graph(arcs, np.append(finals, np.full(len(added), np.inf, np.float32)))
