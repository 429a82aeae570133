"""Random reads of host memory by the device: pinned, and managed memory that stays there (`arcbeam.gpu._host_buffers`).

By the kernels of `ceilings`, over tables of two sizes: address translation limits the larger one where pages are small.
"""

import ctypes
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.engine.ceilings import Ceilings, sums_of_reads
from benchmarks.harness.registry import Row


@dataclass(frozen=True)
class Size:
    entries: tuple[int, ...] = (1 << 24, 1 << 27)  # of 16 bytes
    steps: int = 32


def reads(ceilings: Ceilings, memory: Any, entries: int, steps: int) -> list[float]:
    """Independent 16-byte reads a second of a table at the address of a buffer that has room for it."""
    address, mask, ranks = memory.host_address, entries - 1, ceilings.ranks()
    ceilings.out.buffer.resize(8 * ceilings.blocks * ceilings.size.threads)
    ctypes.memset(address, 0, 16 * entries)  # the host's pages, before the device wants them
    ceilings.launch("fill_table", address, mask, 0, ceilings.blocks)
    ceilings.launch("random_reads", address, mask, steps, ceilings.blocks)
    ceilings.expect("far reads", ceilings.out.read(len(ranks), np.uint64), sums_of_reads(ranks, steps, mask))
    took = ceilings.seconds(lambda: ceilings.launch("random_reads", address, mask, steps, ceilings.blocks))
    return [ceilings.blocks * ceilings.size.threads * steps / s for s in took]


def rows(ceilings: Ceilings, size: Size | None = None) -> list[Row]:
    from arcbeam.gpu._host_buffers import SharedBuffer
    from arcbeam.gpu._memory import PinnedBuffer

    size, found = size or Size(), []
    for entries in size.entries:
        for kind in ("pinned", "managed"):
            what = f"random 16-byte reads of the host, {kind} ({16 * entries >> 20:,} MiB)"
            memory: Any = PinnedBuffer(ceilings.context) if kind == "pinned" else SharedBuffer(ceilings.context, 0)
            memory.resize(16 * entries)
            if kind == "managed" and not memory.managed:
                found.append({"what": what, "status": "missing: the device or the host has none"})
                continue
            rate = [r / 1e9 for r in reads(ceilings, memory, entries, size.steps)]
            found.append(
                {"what": what, "value": statistics.median(rate), "spread": [min(rate), max(rate)], "unit": "G/s"}
            )
            del memory
    return found
