// Stage backtrack: the best token of the last live frame, and its path. The rule is the twin's,
// cpu_reference/decode/backtrack.hpp.
//
// best_end    finds control.best_end and control.end_index, in all threads; returns whether a final state was
// reached write_path  one thread: copies the path's arcs, last one first, to the path pool; false if the pool is
// full
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

ARCBEAM_DEVICE std::uint64_t end_key(const GraphView& graph, const Tokens& tokens, std::uint32_t index,
                                     bool final_only) {
    const std::uint32_t state = tokens.state[index];
    float cost = tokens.cost[index];
    if (final_only) {
        cost = extend_epsilon(cost, simt::load_readonly(graph.finals + state));
        if (!is_finite(cost)) {
            return kNoPacked;
        }
    }
    return pack(cost, state);
}

ARCBEAM_DEVICE bool best_end(const GraphView& graph, const Tokens& tokens, std::uint32_t n, bool alive,
                             Control& control) {
    bool reached_final = alive;
    for (;;) {
        if (simt::thread_rank() == 0U) {
            simt::store(&control.best_end, kNoPacked);
        }
        simt::block_barrier();
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            simt::atomic_min<Scope::block>(&control.best_end, end_key(graph, tokens, i, reached_final));
        }
        simt::block_barrier();
        const std::uint64_t best = simt::load(&control.best_end);
        if (best != kNoPacked || !reached_final) {
            for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
                if (end_key(graph, tokens, i, reached_final) == best) {
                    simt::store(&control.end_index, i);
                }
            }
            simt::block_barrier();
            return reached_final;
        }
        reached_final = false;
        simt::block_barrier();
    }
}

ARCBEAM_DEVICE bool write_path(const SearchParams& params, const LogEntry* log, std::uint32_t end,
                               UtteranceResult& result) {
    std::uint32_t length = 0U;
    for (LogEntry entry = simt::load(log + end); entry.arc != kNoIndex; entry = simt::load(log + entry.source)) {
        ++length;
    }
    const std::uint32_t begin = simt::atomic_add<Scope::device>(params.path_pool_used, length);
    if (begin > params.path_pool_capacity || length > params.path_pool_capacity - begin) {
        return false;
    }
    std::uint32_t at = begin;
    for (LogEntry entry = simt::load(log + end); entry.arc != kNoIndex; entry = simt::load(log + entry.source)) {
        simt::store(params.path_pool + at++, entry.arc);
    }
    result.path_begin = begin;
    result.path_length = length;
    return true;
}

}  // namespace arcbeam
