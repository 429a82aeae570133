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
from arcbeam.files.log_probs import Utterance, find_inputs
from arcbeam.graph.graph import Graph
from arcbeam.jobs.job import Failed, Job, reason

PATHS = ("path", "item")  # the columns of Ray's datasets that have names of files
ROW = "a row of the dataset"  # where an utterance is from that is in no file
FIRST = "log_probs[0]"  # as the errors of a decoder name the only utterance of a batch


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
    skip_errors : bool
        Go on after a file that is missing or damaged, and after log-probs of another shape or type: a row says why.
        Rows about NaN and +inf do not need it.

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
        skip_errors: bool = False,
    ) -> None:
        settings = options or DecoderOptions()
        self._decoder = CtcDecoder(
            Graph.load(Path(graph)), **{name: getattr(settings, name) for name in settings.__dataclass_fields__}
        )
        self._requested: dict[str, Any] = {"nbest": nbest, "confidence": confidence, "logits": logits}
        self._skip_errors = skip_errors

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
            The error is empty, or says why the utterance was not decoded; then text and JSON are empty. With
            ``skip_errors`` the id is empty for a file, or the rest of one, that cannot be read.

        Raises
        ------
        InputError
            The rows have no such columns; or, without ``skip_errors``, the log-probs of an utterance are of another
            shape or type than the graph takes. Ray ends the job.
        FormatError, OSError
            Without ``skip_errors``: a file cannot be read. Ray ends the job.
        """
        utterances = list(self._utterances(rows))
        found = iter(self._decode([one for one in utterances if isinstance(one, Utterance)]))
        result: dict[str, list[Any]] = {"id": [], "text": [], "json": [], "error": []}
        for one in utterances:
            answer: Any = one.why if isinstance(one, Failed) else next(found)
            result["id"].append(one.id)
            if isinstance(one, Failed) or isinstance(answer, str):
                text, fields, why = "", "", answer
            else:
                line = json_line({"id": one.id, "frames": len(one.log_probs), **ctc_fields(answer)})
                text, fields, why = answer.text, line.rstrip("\n"), ""
            for column, value in (("text", text), ("json", fields), ("error", why)):
                result[column].append(value)
        return result

    def _utterances(self, rows: Mapping[str, Sequence[Any]]) -> Iterator[Utterance | Failed]:
        """The utterances of the rows, in order, and files that cannot be read."""
        if "id" in rows and "log_probs" in rows:
            for name, log_probs in zip(rows["id"], rows["log_probs"], strict=True):
                yield Utterance(str(name), np.asarray(log_probs), Path(ROW))
            return
        column = next((name for name in PATHS if name in rows), None)
        if column is None:
            raise InputError(
                "rows",
                f"expected the columns id and log_probs, or the column path or item with names of files, got "
                f"{', '.join(rows) or 'none'}",
                f"dataset.rename_columns({{{next(iter(rows), 'name')!r}: 'path'}}) gives one another name",
            )
        for path in rows[column]:
            try:
                files = find_inputs([str(path)])
            except (ValueError, OSError) as error:  # it is missing, or of an unknown kind
                if not self._skip_errors:
                    raise
                yield Failed("", Path(path), reason(error))
            else:
                yield from Job(files, skip_errors=self._skip_errors).utterances()

    def _decode(self, batch: list[Utterance]) -> list[Any]:
        """The hypothesis of each utterance, or why it has none."""
        try:
            found = self._decoder.decode([one.log_probs for one in batch], errors="return", **self._requested)
        except (TypeError, ValueError) as error:  # of one of them, or of all
            if len(batch) > 1:
                return [answer for one in batch for answer in self._decode([one])]
            if not str(error).startswith(FIRST):
                raise
            why = str(error).removeprefix(f"{FIRST}: ")
            if self._skip_errors:
                return [f"log_probs: {why}"]
            where = f", in utterance {batch[0].id!r} of {batch[0].source}"
            raise InputError("log_probs", why + where, "RayDecoder's skip_errors=True goes on after it") from error
        return [one if one.error is None else str(without_place(one.error)) for one in found]
