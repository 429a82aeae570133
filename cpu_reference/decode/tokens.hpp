// The values that pass between the stages of one frame.
#pragma once

#include <cstdint>

#include "decode/buffer.hpp"
#include "lattice/number.hpp"
#include "shared/tie_rule.hpp"

namespace arcbeam::twin {

constexpr std::uint32_t kNoSource = 0xffffffffU;  // source of the token that starts an utterance
constexpr std::uint32_t kNoArc = 0xffffffffU;     // arc of the token that starts an utterance

// A survivor of the last frame, its cost relative to the best of that frame.
struct Token {
    std::uint32_t state;
    float cost;
};

// One way to reach a state in this frame. `source` is the token-log index of the token it leaves.
struct Candidate {
    float cost;
    std::uint32_t arc;
    std::uint32_t state;
    std::uint32_t source;
};

inline bool wins(float cost, std::uint32_t arc, const Candidate& over) {
    return arcbeam::wins(cost, arc, over.cost, over.arc);
}

// One entry of the token log: how a survivor was reached.
using LogEntry = lattice::Entry;

// In place of a LinkLog (lattice.hpp) where no lattice is requested.
struct NoLinks {
    static void add(const Candidate&, std::uint32_t) {}
};

// Counters of the work done, summed over frames.
struct Work {
    std::uint64_t frames = 0;
    std::uint64_t tokens = 0;           // survivors, closure included
    std::uint64_t expanded_tokens = 0;  // of these, within the cut-off
    // Emitting arcs of the expanded tokens: read, or proven inadmissible without reading
    std::uint64_t leaving_arcs = 0;
    std::uint64_t read_arcs = 0;      // of these, scored
    std::uint64_t candidates = 0;     // of these, within the bound known when they were scored
    std::uint64_t admitted = 0;       // of these, within the exact bound; and each start token
    std::uint64_t lookups = 0;        // words that were rescored
    std::uint64_t lookup_misses = 0;  // of these, not answered by the cache

    Work& operator+=(const Work& other) {
        frames += other.frames;
        tokens += other.tokens;
        expanded_tokens += other.expanded_tokens;
        leaving_arcs += other.leaving_arcs;
        read_arcs += other.read_arcs;
        candidates += other.candidates;
        admitted += other.admitted;
        lookups += other.lookups;
        lookup_misses += other.lookup_misses;
        return *this;
    }
};

inline void prefetch(const void* address) { __builtin_prefetch(address); }

}  // namespace arcbeam::twin
