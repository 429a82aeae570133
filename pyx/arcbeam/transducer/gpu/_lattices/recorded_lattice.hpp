// The lattices of utterances that a GPU has searched, from what its kernel has written down.
//
// in    tokens by (frame, depth, rank), the first one before any frame; arcs in the order of the search
// out   the lattice of the twin
// rule  the twin's log takes the tokens of one place after the other, as it does in a search
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pool/lazy_pool.hpp"
#include "transducer/beam/lattice.hpp"
#include "transducer/beam/lattice_records.hpp"

namespace arcbeam::transducer::beam {

struct Recorded {
    const TokenRecord* tokens;  // null: there is no lattice, because the utterance is an error
    std::size_t num_tokens;
    const ArcRecord* arcs;
    std::size_t num_arcs;
    const std::uint32_t* contexts;   // of histories; null: each has its own
    const std::uint32_t* durations;  // in frames; an RNN-T has one, which is 0
    std::uint32_t frames;
    std::uint32_t blank;
    std::uint32_t max_symbols;
};

void make_lattices(const std::vector<Recorded>& recorded, twin::LazyPool& threads, std::vector<Lattice>& lattices);

}  // namespace arcbeam::transducer::beam
