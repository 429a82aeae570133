// The token log, collected: entries that no token descends from make room for new ones. Part of stage prune; the
// twin's is TokenLog in cpu_reference/decode/prune.hpp. Order is kept, so the last num_tokens entries stay the
// tokens'.
//
// in   log[log_size], of which the last num_tokens entries are those of the tokens; 256 words of shared memory
// out  log compacted in place; returns its new size, the same in every thread, after a barrier
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

// Which entries are kept, and how many before each word of 32 marks: in the room behind the log.
struct Marks {
    std::uint32_t* kept;
    std::uint32_t* before;

    ARCBEAM_DEVICE bool holds(std::uint32_t entry) const {
        return (simt::load(kept + entry / 32U) >> entry % 32U & 1U) != 0U;
    }

    // Where a kept entry moves to.
    ARCBEAM_DEVICE std::uint32_t place(std::uint32_t entry) const {
        const std::uint32_t below = simt::load(kept + entry / 32U) & ((1U << entry % 32U) - 1U);
        return simt::load(before + entry / 32U) + simt::popcount(below);
    }
};

// Marks what each token descends from, up to the first entry that another thread has marked.
ARCBEAM_DEVICE void mark(const LogEntry* log, std::uint32_t log_size, std::uint32_t num_tokens,
                         const Marks& marks) {
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(log_size); word += simt::block_size()) {
        simt::store(marks.kept + word, 0U);
    }
    simt::block_barrier();
    for (std::uint32_t i = simt::thread_rank(); i < num_tokens; i += simt::block_size()) {
        for (std::uint32_t at = log_size - num_tokens + i; at != kNoIndex; at = simt::load(log + at).source) {
            const std::uint32_t bit = 1U << at % 32U;
            if ((simt::atomic_or<Scope::block>(marks.kept + at / 32U, bit) & bit) != 0U) {
                break;
            }
        }
    }
    simt::block_barrier();
}

// Counts the marks before each word; a few threads take a run of words each. Returns how many there are in all.
ARCBEAM_DEVICE std::uint32_t count(std::uint32_t log_size, const Marks& marks, const Array<std::uint32_t>& runs) {
    const std::uint32_t thread = simt::thread_rank();
    const std::uint32_t counting = simt::block_size() < runs.size ? simt::block_size() : runs.size;
    const std::uint32_t words = mark_words(log_size);
    const std::uint32_t run = (words + counting - 1U) / counting;
    const std::uint32_t begin = thread * run < words ? thread * run : words;
    const std::uint32_t end = begin + run < words ? begin + run : words;
    if (thread < counting) {
        std::uint32_t sum = 0U;
        for (std::uint32_t word = begin; word < end; ++word) {
            sum += simt::popcount(simt::load(marks.kept + word));
        }
        runs[thread] = sum;
    }
    simt::block_barrier();
    std::uint32_t before = 0U;
    std::uint32_t all = 0U;
    for (std::uint32_t i = 0U; i < counting; ++i) {
        const std::uint32_t sum = runs[i];
        before += i < thread ? sum : 0U;
        all += sum;
    }
    if (thread < counting) {
        for (std::uint32_t word = begin; word < end; ++word) {
            simt::store(marks.before + word, before);
            before += simt::popcount(simt::load(marks.kept + word));
        }
    }
    simt::block_barrier();
    return all;
}

// Moves kept entries down, a block's width at a time: what is overwritten has been read before the barrier.
ARCBEAM_DEVICE void compact(LogEntry* log, std::uint32_t log_size, const Marks& marks) {
    for (std::uint32_t first = 0U; first < log_size; first += simt::block_size()) {
        const std::uint32_t at = first + simt::thread_rank();
        const bool kept = at < log_size && marks.holds(at);
        const LogEntry entry = kept ? simt::load(log + at) : LogEntry{kNoIndex, kNoIndex};
        simt::block_barrier();
        if (kept) {
            const std::uint32_t source = entry.source == kNoIndex ? kNoIndex : marks.place(entry.source);
            simt::store(log + marks.place(at), LogEntry{source, entry.arc});
        }
        simt::block_barrier();
    }
}

ARCBEAM_DEVICE std::uint32_t collect_log(const LaneState& lane, const Array<std::uint32_t>& scratch) {
    auto* const behind = reinterpret_cast<std::uint32_t*>(lane.log + lane.log_capacity);
    const Marks marks{behind, behind + mark_words(lane.log_capacity)};
    mark(lane.log, lane.log_size, lane.num_tokens, marks);
    const std::uint32_t size = count(lane.log_size, marks, scratch);
    compact(lane.log, lane.log_size, marks);
    return size;
}

}  // namespace arcbeam
