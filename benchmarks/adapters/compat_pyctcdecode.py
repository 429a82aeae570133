"""arcbeam.compat.pyctcdecode on one core, called as pyctcdecode is."""

from functools import partial

from arcbeam.compat.pyctcdecode import build_ctcdecoder
from benchmarks.adapters.pyctcdecode import PyCtcDecode

BUILD = partial(build_ctcdecoder, threads=1)


class CompatPyCtcDecode(PyCtcDecode):
    name = "arcbeam.compat.pyctcdecode"
    build = staticmethod(BUILD)


ADAPTER = CompatPyCtcDecode
