"""KenLM's files for tests: ARPAs of random models, and binaries that KenLM's library makes of them."""

import ctypes
import functools
import random

import pytest

from arcbeam.lm.kenlm import kenlm_libraries
from tests.baseline.ngrams import NGrams

PROBING, TRIE, QUANTISED_TRIE, ARRAY_TRIE = 0, 2, 3, 4


def need_kenlm():
    """A fixture's guard: skips where the package kenlm is missing."""
    return pytest.importorskip("kenlm", reason="the package kenlm is missing: pip install '.[kenlm]'")


def random_ngrams(words, order, seed, few=False):
    """A model in 64ths; of `few` different scores if ties are wanted."""
    model = NGrams(words, order, seed)
    if few:
        pick = random.Random(seed)
        model.prob = {g: -pick.choice([1, 1, 2]) / 2 for g in model.prob} | {("<s>",): -99.0}
        model.backoff = {g: pick.choice([0.0, -0.5]) for g in model.backoff}
    return model


@functools.cache
def _library():
    library = ctypes.CDLL(kenlm_libraries()[0])
    make = library["_ZN2lm5ngram11LoadVirtualEPKcRKNS0_6ConfigENS0_9ModelTypeE"]
    make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int]
    configure = library["_ZN2lm5ngram6ConfigC1Ev"]
    configure.argtypes = [ctypes.c_void_p]
    return make, configure


def write_binary(arpa, path, kind):
    """Has KenLM write its binary file of an ARPA; skips where its options lie elsewhere than they are looked for."""
    make, configure = _library()
    config = ctypes.create_string_buffer(4096)
    configure(config)
    words = ctypes.cast(config, ctypes.POINTER(ctypes.c_void_p))
    config[0] = b"\0"  # show_progress
    words[1] = None  # messages
    # The name of the file to write is the pointer between a text and an enumeration; null, the value of the latter 1.
    numbers = ctypes.cast(config, ctypes.POINTER(ctypes.c_int))
    places = [i for i in range(10, 14) if not words[i] and numbers[2 * i + 2] == 1]
    if len(places) != 1:
        pytest.skip("this KenLM has its options elsewhere")
    name = ctypes.create_string_buffer(str(path).encode())
    words[places[0]] = ctypes.cast(name, ctypes.c_void_p).value
    assert make(str(arpa).encode(), config, kind)  # the model is never freed: it is small
    return path
