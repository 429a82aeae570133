// OpenFst files of the types `vector` and `const`, standard arc type: their layout, and writing of vector files.
//
//   header      magic, fst type, arc type, version, flags, properties, start, number of states, number of arcs
//   symbols     optional tables, input then output: magic, name, next key, size, then size x (symbol, key)
//   vector      one state after the other: final weight f4, number of arcs i8, its arcs
//   const       all states (final weight f4, first arc u4, arcs u4, input and output epsilons u4 each), then all
//   arcs;
//               each of the two parts starts at a multiple of 16 bytes if the file is aligned
//
// A string is a 4-byte length and bytes. Nothing in a file is trusted before it has been checked against the size
// of the file: errors name the byte, and no allocation is larger than the file can justify.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.hpp"
#include "graph/columns.hpp"

namespace arcbeam {

struct Bytes {
    const unsigned char* data;
    std::uint64_t size;
};

// A symbol table inside a file: symbol i is bytes [begins[i], begins[i] + lengths[i]), with key keys[i].
struct SymbolSpans {
    bool present = false;
    std::vector<std::uint64_t> begins;
    std::vector<std::uint32_t> lengths;
    std::vector<std::int64_t> keys;
};

struct OpenFstFile {
    bool is_const = false;
    std::int64_t start = -1;
    std::int64_t num_states = -1;    // -1 in a vector file: as many as there are
    std::int64_t num_arcs = -1;      // used for const files only
    std::uint64_t states_at = 0U;    // byte of the first state
    std::uint64_t arcs_at = 0U;      // const files: byte of the first arc
    std::uint64_t most_states = 0U;  // as many as the rest of the file has room for
    SymbolSpans input;
    SymbolSpans output;
};

// True when the bytes begin as an OpenFst file does.
bool is_openfst(const Bytes& file);

Status read_openfst_header(const Bytes& file, OpenFstFile* fst);

// Fills in states[].first_arc and finals from a file whose header was read. There must be room for most_states (+ 1
// for states).
Status scan_openfst_states(const Bytes& file, const OpenFstFile& fst, StateRecord* states, float* finals,
                           std::uint64_t* num_states, std::uint64_t* num_arcs);

// The arcs of a scanned file.
RawArcs openfst_arcs(const Bytes& file, const OpenFstFile& fst);

// Bytes of the states of a vector file.
std::uint64_t vector_body_size(std::uint64_t num_states, std::uint64_t num_arcs);

// Writes the states of a vector file (what follows its header) to out.
void write_vector_body(const RawArc* arcs, const GraphColumns& graph, unsigned char* out);

}  // namespace arcbeam
