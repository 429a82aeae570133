"""Killers run in processes of their own, because a wrong kernel may leave what breaks the process of its host."""

import functools
import multiprocessing
import resource
import signal
from multiprocessing.connection import Connection

import pytest

from tests.mutants import catalogue, killers, twin
from tests.mutants.switch import Switched
from tests.simt import build

# All are forked from one that has the switched kernels ready and has not used a driver.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.mutants.ready"])
LIMIT_S = 300  # of a killer
MOST_BYTES = 8 << 30  # of address space: a wrong kernel may request ever more room


class WrongError(AssertionError):
    """A killer has failed, for what its message says."""


def run(killer: str, number: int) -> None:
    """Runs a killer with this mutant; with 0 none runs, yet all are compiled.

    Raises
    ------
    WrongError
        The test has failed, the emulator has found a bug, the decoder has raised, or the process has died.
    TimeoutError
        It has not ended within `LIMIT_S`: no test has seen what is wrong.
    """
    if killer.startswith("twin_"):
        message = twin.run(killer, number)
        if message is not None:
            raise WrongError(message)
        return
    receiving, sending = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(sending, killer, number))
    process.start()
    sending.close()
    try:
        if not receiving.poll(LIMIT_S):
            process.kill()
            process.join()
            raise TimeoutError(f"{killer} has not ended within {LIMIT_S} s")
        message = receiving.recv()
    except EOFError:
        message = "the process has ended"
    process.join()
    if process.exitcode < 0:
        raise WrongError(f"{killer} was ended by {signal.Signals(-process.exitcode).name}")
    if message is not None:
        raise WrongError(message)


@functools.cache
def switched() -> Switched:
    return Switched(catalogue.read()[0])


def _run(sending: Connection, killer: str, number: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    build.LONG = True  # a killer runs as many schedules as in the long tests
    try:
        with switched().running(number):
            getattr(killers, killer)()
    except (build.KernelError, AssertionError, pytest.fail.Exception) as error:
        sending.send(str(error))
    except Exception as error:
        sending.send(f"{type(error).__name__}: {error}")
    else:
        sending.send(None)
