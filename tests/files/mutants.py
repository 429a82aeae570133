"""Damaged files: what the fuzz tests of all loaders share."""

import os
import random
import struct

import numpy as np
import pytest

from arcbeam.core.errors import FormatError, GraphError
from tests.graph.sealing import poke
from tests.simt.build import LONG

SLOW = os.environ.get("HYPOTHESIS_PROFILE") == "sanitize"  # instrumented extensions: many times slower, more memory
MUTANTS = 5000 if LONG else 200 if SLOW else 300  # of a file
SPARE_BYTES = 1 << 30  # far more than any of these small files may make a loader allocate
TELLING = [0, 1, 2, 3, 15, 16, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
TELLING += [0x100000000, 0x3FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]
TELLING += [struct.unpack("<I", struct.pack("<f", x))[0] for x in (np.nan, np.inf, -np.inf, -0.0, 1e38)]
KINDS = ("flip", "flip", "number", "number", "number", "truncate", "extend", "splice", "remove")
WORDS = (b"9", b"-1", b"99999999999999999999", b"1e999", b"nan", b"\n", b"\0", b"\xff", b" ", b"(((((((((", b"[" * 40)


def mutate(rng, data, kinds=KINDS):
    """Bytes with one to four accidents."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        kind = rng.choice(kinds)
        if kind == "flip" and at < len(data):
            data = poke(data, at, bytes([data[at] ^ 1 << rng.randrange(8)]))
        elif kind == "number":
            size = rng.choice((1, 2, 4, 4, 8))
            at -= at % size if rng.random() < 0.5 else 0
            number = rng.choice(TELLING) & ((1 << 8 * size) - 1)
            data = poke(data, at, number.to_bytes(size, "little")[: max(0, len(data) - at)])
        elif kind == "truncate" and rng.random() < 0.5:
            data = data[:at]
        elif kind == "extend":
            data += rng.randbytes(rng.choice((1, 4, 16, 100)))
        elif kind == "splice":
            other = rng.randrange(len(data) + 1)
            data = data[:at] + data[other : other + rng.choice((1, 4, 12, 16, 64))] + data[at:]
        elif kind == "remove":
            data = data[:at] + data[at + rng.choice((1, 4, 12, 16, 64)) :]
        elif kind == "word":
            data = data[:at] + rng.choice(WORDS) + data[at:]
    return data


def mutate_text(rng, data):
    """The same for text, with numbers in digits."""
    return mutate(rng, data, ("flip", "truncate", "splice", "remove", "word", "word"))


@pytest.fixture
def little_memory():
    """Bounds the address space, so that a giant allocation fails at once instead of taking the machine with it."""
    resource = pytest.importorskip("resource")
    if SLOW or not os.path.exists("/proc/self/statm"):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def attack(seed, data, path, load, count, change=mutate, advice=None):
    """Loads mutants of a file, which may raise what the contract of loaders has; returns how many were accepted.

    That is a FormatError or GraphError that names the file, an OSError of the system that names one, or a ValueError
    with one of the texts in `advice`, which tell the caller which option to give.
    """
    rng = random.Random(seed)
    accepted = 0
    for i in range(count):
        mutant = change(rng, data)
        path.unlink(missing_ok=True)  # an earlier mutant may still be mapped
        path.write_bytes(mutant)
        try:
            load(path)
        except BaseException as error:
            if not is_in_order(error, path, advice):
                raise AssertionError(f"mutant {i} of seed {seed!r}, kept in {path}, raised {error!r}") from error
        else:
            accepted += 1
    return accepted


def is_in_order(error, path, advice):
    """Whether a loader may raise this of a damaged file."""
    if isinstance(error, (FormatError, GraphError)):
        return str(path) in str(error)
    if isinstance(error, OSError):
        return error.errno is not None and error.filename is not None
    return advice is not None and type(error) is ValueError and any(text in str(error) for text in advice)
