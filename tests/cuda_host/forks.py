"""A child that is forked while a decoder is at work on a fake device."""

import threading
import time

from arcbeam import CudaError
from tests.processes import of_a_child


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

    def told():
        found = 0
        for use in (lambda: decoder.decode(batch[:1]), decoder.memory):
            try:
                use()
            except CudaError as error:
                found += "forked" in str(error)
        return found

    try:
        return of_a_child(told) == 2
    finally:
        fake.library.fake_not_ready(0)
        worker.join()
