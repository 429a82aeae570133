"""A child that is forked while a decoder is at work on a fake device."""

import os
import signal
import threading
import time

from arcbeam import CudaError


def told_in_a_child(decoder, batch, fake, launched):
    """Whether a child, forked while another thread decodes, gets that error from every call of the decoder.

    ``launched`` gives the number of launches so far.
    """
    fake.library.fake_not_ready(10**9)
    worker = threading.Thread(target=decoder.decode, args=(batch,))
    before = launched()
    worker.start()
    while launched() == before:  # from then on it waits for the device, and has the turn
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        told = 0
        for use in (lambda: decoder.decode(batch[:1]), decoder.memory):
            try:
                use()
            except CudaError as error:
                told += "forked" in str(error)
        os._exit(0 if told == 2 else 1)
    status = os.waitpid(child, 0)[1]
    fake.library.fake_not_ready(0)
    worker.join()
    return status == 0
