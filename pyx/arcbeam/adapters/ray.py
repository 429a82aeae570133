"""`RayDecoder`: decodes the rows of a dataset of Ray on many machines; it needs no package of Ray itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arcbeam.core.calls import lists_options
from arcbeam.core.errors import InputError, without_place
from arcbeam.core.json_lines import ctc_fields, json_line
from arcbeam.ctc.decoder import CtcDecoder
from arcbeam.ctc.options import DecoderOptions
from arcbeam.files.log_probs import read_log_probs
from arcbeam.graph.graph import Graph

PATHS = ("path", "item")  # the columns of Ray's datasets that have names of files


class RayDecoder:
    """Decodes log-probs in the actors of Ray Data: ``dataset.map_batches(arcbeam.adapters.RayDecoder, ...)``.

    Ray sends the arguments, which are a path and plain options, to its actors. Each opens the graph once; the actors of
    a machine share a mapped graph. A row of the result is an utterance, with the bytes that one process would give,
    whatever the number of actors is, and also if Ray has repeated a batch because an actor died.

    Parameters
    ----------
    graph : path
        A graph of arcbeam, by a name that all machines know.
    options : DecoderOptions, optional
        Those of the decoder, such as ``DecoderOptions(acoustic_scale=1.5, device="cpu", threads=1)``; the threads are
        those of each actor, for which Ray's ``num_cpus`` sets processors aside.
    nbest : int, optional
        Also give so many of the best word sequences, in JSON.
    confidence : bool
        Also give confidences, in JSON.
    logits : bool
        The inputs are logits.

    Raises
    ------
    FormatError
        The graph is damaged.
    FileNotFoundError
        A machine does not have the graph.

    Examples
    --------
    >>> files = ray.data.from_items(["shard0.npz", "shard1.npz"])
    >>> decoder = {"graph": "graph.arcbeam", "options": arcbeam.DecoderOptions(device="cpu", threads=1)}
    >>> actors = ray.data.ActorPoolStrategy(size=2)
    >>> files.map_batches(RayDecoder, fn_constructor_kwargs=decoder, batch_size=1, compute=actors, num_cpus=1)
    """

    @lists_options()
    def __init__(
        self,
        graph: str | os.PathLike[str],
        options: DecoderOptions | None = None,
        *,
        nbest: int | None = None,
        confidence: bool = False,
        logits: bool = False,
    ) -> None:
        settings = options or DecoderOptions()
        self._decoder = CtcDecoder(
            Graph.load(Path(graph)), **{name: getattr(settings, name) for name in settings.__dataclass_fields__}
        )
        self._nbest, self._confidence, self._logits = nbest, confidence, logits

    def __call__(self, rows: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Decodes a batch of rows.

        Parameters
        ----------
        rows : dict
            A column ``path`` or ``item`` with files that `read_log_probs` opens, of one or many utterances each; or
            the columns ``id`` and ``log_probs``, with an array [frames, columns] a row.

        Returns
        -------
        dict
            ``id``, ``text``, ``json`` (the line of ``arcbeam decode --format json``) and ``error`` of each utterance.
            The error is empty, or says why the utterance was not decoded; then text and JSON are empty.

        Raises
        ------
        InputError
            The rows have no such columns.
        FormatError, OSError
            A file cannot be read; Ray repeats the batch, and ends the job if it fails again.
        """
        names: list[str] = []
        arrays: list[np.ndarray] = []
        for name, log_probs in self._utterances(rows):
            names.append(name)
            arrays.append(log_probs)
        found = self._decoder.decode(
            arrays, errors="return", nbest=self._nbest, confidence=self._confidence, logits=self._logits
        )
        result: dict[str, list[Any]] = {"id": names, "text": [], "json": [], "error": []}
        for name, array, hypothesis in zip(names, arrays, found, strict=True):
            failed = hypothesis.error is not None
            fields = {} if failed else {"id": name, "frames": len(array), **ctc_fields(hypothesis)}
            result["text"].append("" if failed else hypothesis.text)
            result["json"].append("" if failed else json_line(fields).rstrip("\n"))
            result["error"].append(str(without_place(hypothesis.error)) if hypothesis.error is not None else "")
        return result

    def _utterances(self, rows: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, np.ndarray]]:
        """The utterances of the rows, in order."""
        if "id" in rows and "log_probs" in rows:
            for name, log_probs in zip(rows["id"], rows["log_probs"], strict=True):
                yield str(name), np.asarray(log_probs)
            return
        column = next((name for name in PATHS if name in rows), None)
        if column is None:
            raise InputError(
                "log_probs", f"expected rows with the columns id and log_probs, or path, got {', '.join(rows)}"
            )
        for path in rows[column]:
            yield from read_log_probs(str(path))
