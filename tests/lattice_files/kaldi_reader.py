"""A second reader of compact lattices, written from the format's definition: one regular expression for text, one
cursor for binary; no arrays. And Kaldi's own, which the package kaldi-active-grammar contains."""

import importlib.util
import re
import struct
import subprocess
from pathlib import Path

import pytest


def read_binary(data, at=0):
    """(start, {state: final weight or None}, [(source, target, word, weight)], end); a weight has its labels."""

    def take(form):
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def weight():
        graph, acoustic = take("ff")
        return graph, acoustic, tuple(take("i") for _ in range(take("i")))

    assert take("I") == 0x7EB2FDD6
    assert [take(f"{take('i')}s") for _ in range(2)] == [b"vector", b"compactlattice44"]
    version, flags, properties, start, states, _ = take("iiQqqq")
    assert (version, flags, properties & 3) == (2, 0, 3)
    finals, arcs = {}, []
    for state in range(states):
        final = weight()
        finals[state] = None if final[0] == float("inf") else final
        for _ in range(take("q")):
            word, same = take("ii")
            assert word == same
            found = weight()
            arcs.append((state, take("i"), word, found))
    return start, finals, arcs, at


def read_text(text):
    """The same of text; states that are nowhere mentioned are missing."""
    finals, arcs, start = {}, [], None

    def weight(field):
        graph, acoustic, labels = (field or "0,0,").split(",")
        return float(graph), float(acoustic), tuple(map(int, labels.split("_"))) if labels else ()

    for line in text.strip("\n").splitlines():
        found = re.fullmatch(r"(\d+)(?:\t(\d+)\t(\d+))?(?:\t(\S+,\S+,\S*))?", line)
        state = int(found[1])
        start = state if start is None else start
        if found[2] is None:
            finals[state] = weight(found[4])
        else:
            arcs.append((state, int(found[2]), int(found[3]), weight(found[4])))
    return start, finals, arcs


DECLARED = r"""
#include <fstream>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>
namespace fst {
template <typename T> class LatticeWeightTpl;
template <typename W, typename I> class CompactLatticeWeightTpl;
template <typename W> struct ArcTpl;
template <typename A, typename M> class VectorState;
template <typename A, typename S> class VectorFst;
using Arc = ArcTpl<CompactLatticeWeightTpl<LatticeWeightTpl<float>, int>>;
using Compact = VectorFst<Arc, VectorState<Arc, std::allocator<Arc>>>;
}  // namespace fst
namespace kaldi {
bool WriteCompactLattice(std::ostream&, bool, const fst::Compact&);
class CompactLatticeHolder {
  public:
    bool Read(std::istream&);
    fst::Compact* lattice = nullptr;  // Kaldi's only member
};
}  // namespace kaldi
"""
COPY = r"""
int main(int, char** argv) {  // lattice-copy: an archive in, the same as text or binary out
    std::ifstream in(argv[1], std::ios::binary);
    std::ofstream out(argv[2], std::ios::binary);
    const bool binary = std::string(argv[3]) == "binary";
    out << std::setprecision(9);
    std::string key;
    while (in >> key) {
        if (in.peek() != '\n') in.get();
        kaldi::CompactLatticeHolder holder;
        if (!holder.Read(in)) return 1;
        out << key << ' ';
        if (!kaldi::WriteCompactLattice(out, binary, *holder.lattice)) return 2;
    }
}
"""


def build_kaldi(folder, program=COPY):
    """A program over Kaldi's library, by default one that copies archives; skips where that is not installed."""
    package = importlib.util.find_spec("kaldi_active_grammar")
    places = [] if package is None else [Path(str(package.origin)).parents[1] / "kaldi_active_grammar.libs"]
    found = [path for place in places for path in sorted(place.glob("libkaldi-lat*.so"))]
    if not found:
        pytest.skip("Kaldi's library is missing: the package kaldi-active-grammar of .[test] has it")
    source, built = folder / "kaldi.cpp", folder / "kaldi"
    source.write_text(DECLARED + program)
    place = str(found[0].parent)
    subprocess.run(
        ["g++", "-std=c++17", str(source), "-o", str(built), str(found[0]), f"-Wl,-rpath,{place}",
         "-Wl,--disable-new-dtags", "-Wl,--allow-shlib-undefined"],
        check=True, capture_output=True,
    )  # fmt: skip
    return built
