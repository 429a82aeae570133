"""Decoders of one core at work on all of them, where their words matter and not their speed."""

import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.adapters import Adapter


def texts(adapter: Adapter, utterances: Sequence[npt.NDArray[np.floating]]) -> list[str]:
    """What the adapter says of each utterance."""
    return [answer.text for answer in adapter.answers(adapter.decode(adapter.prepare(utterances)))]


def _part(pipe: Any, adapter: Adapter, utterances: Sequence[npt.NDArray[np.floating]]) -> None:
    try:
        pipe.send((texts(adapter, utterances), None))
    except BaseException as error:
        pipe.send((None, f"{type(error).__name__}: {error}"))
    finally:
        pipe.close()
        os._exit(0)


def texts_of_processes(adapter: Adapter, utterances: Sequence[npt.NDArray[np.floating]], processes: int) -> list[str]:
    """The same, by so many forked processes, each with every so manieth utterance.

    This process must not have used CUDA. Raises RuntimeError where one of them fails or dies.
    """
    context, children = multiprocessing.get_context("fork"), []
    for first in range(min(processes, len(utterances))):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_part, args=(theirs, adapter, utterances[first::processes]))
        child.start()
        theirs.close()
        children.append((child, ours))
    found, wrong = [""] * len(utterances), ""
    for first, (child, ours) in enumerate(children):
        try:
            said, why = ours.recv()
        except EOFError:
            said, why = None, "a process that decoded has died"
        child.join()
        if said is None:
            wrong = wrong or why
        else:
            found[first::processes] = said
    if wrong:
        raise RuntimeError(wrong)
    return found
