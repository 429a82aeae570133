"""Kernels reach the device through shared/simt.cuh alone: else the emulator would not see what they do."""

import re
from pathlib import Path

import pytest

from tests.simt.build import HERE, ROOT

BUILT_IN = re.compile(
    r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|clock64|clock|asm|volatile|printf|assert|cooperative_groups"
    r"|cuda::\w+|std::atomic\w*|atomic(?:Add|Sub|Min|Max|Inc|Dec|CAS|Exch|And|Or|Xor)\w*"
    r"|__(?!restrict__|VA_ARGS__|cplusplus)\w+)"
)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def device_sources() -> list[Path]:
    """All that kernels are made of, but the layer itself and what tells the compilers apart."""
    layer = ROOT / "cuda" / "shared"
    sources = [p for p in (ROOT / "cuda").rglob("*") if p.suffix in {".cu", ".cuh", ".hpp"}]
    sources += (HERE / "kernels").glob("*.cu")
    return [
        p for p in sorted(sources) if layer / "simt" not in p.parents and p.name not in {"simt.cuh", "portable.hpp"}
    ]


def built_ins(text: str) -> list[str]:
    """The CUDA built-ins that a source names outside comments and texts, as `line: name`."""
    bare = COMMENT_OR_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text)
    return [f"{bare.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in BUILT_IN.finditer(bare)]


@pytest.mark.parametrize("source", device_sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_built_in_outside_the_layer(source):
    assert built_ins(source.read_text()) == []


def test_kernels_are_looked_at():
    names = {path.name for path in device_sources()}
    assert {"cost.hpp", "scan.cu", "faulty.cu"} <= names
    assert {"simt.cuh", "warp.cuh", "atomics.cuh"}.isdisjoint(names)


@pytest.mark.parametrize(
    "line",
    [
        "auto t = threadIdx.x;",
        "__syncthreads();",
        "__syncwarp();",
        "atomicAdd(p, 1);",
        "atomicCAS_block(p, 1, 2);",
        "x = __shfl_sync(m, x, 0);",
        "__shared__ int x;",
        'asm volatile("bar.sync 0;");',
        "volatile int* p;",
        "cuda::atomic_ref<int> a(x);",
        "x = __ldg(p);",
        "__global__ void f() {}",
        "__trap();",
        "assert(x);",
        "while (clock64() < end) {}",
    ],
)
def test_a_built_in_is_found(line):
    found = built_ins(f"// threadIdx\n{line}\n")
    assert found and all(entry.startswith("2: ") for entry in found)


def test_what_kernels_may_say():
    text = '#include "shared/simt.cuh"\nconst int* __restrict__ p; /* __syncthreads\n atomicAdd */ atomic_add(p, 1U);\n'
    assert built_ins(text) == []
