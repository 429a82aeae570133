"""The side of a worker that answers calls through a pipe. It imports nothing of arcbeam or of the other rooms.

So a process can serve with another version of arcbeam than the one that calls (`benchmarks.tasks.version_worker`).
"""

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any


def answer(pipe: Any, make: Callable[[], Any]) -> None:
    """Calls methods of what ``make()`` gives, as the pipe names them, until it sends None or closes; then exits.

    Each answer is (True, value), or (False, text) with the last words of one that failed, after which no more come. The
    first answer is that of ``make``, with None.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # its parent's handler is not for a child
    try:
        contender = make()
        pipe.send((True, None))
        while (request := pipe.recv()) is not None:
            method, arguments = request
            pipe.send((True, getattr(contender, method)(*arguments)))
    except EOFError:
        pass  # the parent is no more
    except BaseException as error:
        pipe.send((False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
    finally:
        pipe.close()
    os._exit(0)  # whatever a peer's threads think of it
