"""The decoder of a graph's file: the graph as the options change it, and the device that decodes."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from arcbeam.compat.riva.settings import Settings
from arcbeam.core.checks import check_count
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.graph import graph_file
from arcbeam.graph.graph import Graph
from arcbeam.graph.openfst import EPSILON_COLUMN

MOST_OF_A_HEAD = 64  # bytes of a file by which a graph of arcbeam is recognised


def loaded(
    settings: Settings,
    wfst_path: str | os.PathLike[str],
    symbol_table_path: str | os.PathLike[str],
    num_tokens_including_blank: int,
    device: str,
    posterior_scale: float,
) -> CtcDecoder:
    """The decoder; errors as of `Graph.load` and `CtcDecoder`."""
    check_count("num_tokens_including_blank", num_tokens_including_blank, or_none="")
    if settings.blank is not None and settings.blank >= num_tokens_including_blank:
        raise ValueError(
            f"blank_ilabel: expected a column below {num_tokens_including_blank}, got {settings.blank}; it counts "
            "columns from 0, despite its name"
        )
    with open(wfst_path, "rb") as file:
        is_own = graph_file.KIND.begins(file.read(MOST_OF_A_HEAD))
    if is_own:
        raise ValueError(
            f"wfst_path: expected an OpenFst vector or const file, as riva reads, got {os.fspath(wfst_path)}, a graph "
            "of arcbeam; arcbeam.CtcDecoder decodes with it, and arcbeam build-graph --openfst writes the other"
        )
    graph = Graph.load(
        wfst_path, words=symbol_table_path, num_columns=num_tokens_including_blank, blank=settings.blank, force=True
    )
    if settings.length_penalty or settings.ends_anywhere:
        graph = changed(graph, settings.length_penalty, settings.ends_anywhere)
    return CtcDecoder(
        graph,
        beam=settings.beam,
        max_active=settings.max_active,
        lattice_beam=settings.lattice_beam,
        blank_penalty=settings.blank_penalty,
        posterior_scale=posterior_scale,
        threads=settings.threads,
        device=device_of(device),
    )


def changed(graph: Graph, length_penalty: float, ends_anywhere: bool) -> Graph:
    """The graph with a cost for each arc that reads a frame and leads to another state, or with free ends."""
    first: npt.NDArray[np.int64] = graph.states["first_arc"].astype(np.int64)
    sources = np.repeat(np.arange(graph.num_states), first[1:] - first[:-1])
    following, reads = graph.targets["next_state"], graph.columns != EPSILON_COLUMN
    weights = graph.targets["weight"] + length_penalty * (reads & (following != sources))
    labels = np.where(reads, graph.columns.astype(np.int64) + 1, 0)
    return Graph.from_arcs(
        [sources, following, labels, graph.words, weights],
        start=graph.start,
        finals=np.zeros(graph.num_states) if ends_anywhere else graph.finals,
        num_states=graph.num_states,
        tokens=graph.tokens,
        word_symbols=graph.word_symbols,
        blank=graph.blank,
        num_columns=graph.num_columns,
    )


def device_of(device: str) -> str:
    """The device; for "auto" the GPU that torch has selected, if that is another than the first."""
    torch: Any = sys.modules.get("torch")
    if device == "auto" and torch is not None and torch.cuda.is_available() and torch.cuda.current_device():
        return f"cuda:{torch.cuda.current_device()}"
    return device
