// Collects the token log: entries that no token descends from make room for new ones. Part of stage prune; the
// twin's version is TokenLog in cpu_reference/decode/prune.hpp. The order is kept, so the last num_tokens entries
// are still those of the tokens. Every token descends from each of the first `settled` entries; they stay and are
// not examined.
//
// in   log[log_size], of which the last num_tokens entries are those of the tokens; 256 words of shared memory
// out  log compacted in place, its new size, and how many entries are settled now, the same in every thread
//      A barrier was passed.
#pragma once

#include "decode/workspace.cuh"

namespace arcbeam {

// The marks of entries that are kept, and the number of kept entries before each word of 32 marks. They are in the
// memory after the log.
struct Marks {
    std::uint32_t* kept;
    std::uint32_t* before;

    ARCBEAM_DEVICE bool holds(std::uint32_t entry) const {
        return (simt::load(kept + entry / 32U) >> entry % 32U & 1U) != 0U;
    }

    // The new place of a kept entry.
    ARCBEAM_DEVICE std::uint32_t place(std::uint32_t entry) const {
        const std::uint32_t below = simt::load(kept + entry / 32U) & ((1U << entry % 32U) - 1U);
        return simt::load(before + entry / 32U) + simt::popcount(below);
    }
};

// The log of a lane.
struct TokenLog {
    LogEntry* entries;
    std::uint32_t capacity;
    std::uint32_t size;
    std::uint32_t num_tokens;
    std::uint32_t settled;
};

// Also false where there is no entry.
ARCBEAM_DEVICE bool is_young(std::uint32_t entry, std::uint32_t settled) { return entry + 1U > settled; }

// Marks what each token descends from, up to the first entry that another thread has marked already. *meeting
// becomes the first of the entries at which two paths meet; log_size if there is none. Settled entries are marked
// only where they share a word with entries that are not settled.
ARCBEAM_DEVICE void mark(const TokenLog& log, const Marks& marks, std::uint32_t* meeting) {
    const std::uint32_t first_word = log.settled / 32U;
    ARCBEAM_ROLLED
    for (std::uint32_t word = first_word + simt::thread_rank(); word < mark_words(log.size);
         word += simt::block_size()) {
        simt::store(marks.kept + word, word == first_word ? (1U << log.settled % 32U) - 1U : 0U);
    }
    if (simt::thread_rank() == 0U) {
        simt::store(meeting, log.size);
    }
    simt::block_barrier();
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < log.num_tokens; i += simt::block_size()) {
        ARCBEAM_ROLLED
        for (std::uint32_t at = log.size - log.num_tokens + i; is_young(at, log.settled);) {
            const std::uint32_t source = simt::load(log.entries + at).source;  // while the mark is on its way
            const std::uint32_t bit = 1U << at % 32U;
            if ((simt::atomic_or<Scope::block>(marks.kept + at / 32U, bit) & bit) != 0U) {
                simt::atomic_min<Scope::block>(meeting, at);
                break;
            }
            at = source;
        }
    }
    simt::block_barrier();
}

// Counts the marks before each word. A few threads take a run of words each. Returns how many entries are kept.
ARCBEAM_DEVICE std::uint32_t count(const TokenLog& log, const Marks& marks, const Array<std::uint32_t>& runs) {
    const std::uint32_t thread = simt::thread_rank();
    const std::uint32_t counting = simt::block_size() < runs.size ? simt::block_size() : runs.size;
    const std::uint32_t first_word = log.settled / 32U;
    const std::uint32_t words = mark_words(log.size) - first_word;
    const std::uint32_t run = (words + counting - 1U) / counting;
    const std::uint32_t begin = first_word + (thread * run < words ? thread * run : words);
    const std::uint32_t end = first_word + words - begin < run ? first_word + words : begin + run;
    if (thread < counting) {
        std::uint32_t sum = 0U;
        ARCBEAM_ROLLED
        for (std::uint32_t word = begin; word < end; ++word) {
            sum += simt::popcount(simt::load(marks.kept + word));
        }
        runs[thread] = sum;
    }
    simt::block_barrier();
    std::uint32_t before = 32U * first_word;
    std::uint32_t all = before;
    ARCBEAM_ROLLED
    for (std::uint32_t i = 0U; i < counting; ++i) {
        const std::uint32_t sum = runs[i];
        before += i < thread ? sum : 0U;
        all += sum;
    }
    if (thread < counting) {
        ARCBEAM_ROLLED
        for (std::uint32_t word = begin; word < end; ++word) {
            simt::store(marks.before + word, before);
            before += simt::popcount(simt::load(marks.kept + word));
        }
    }
    simt::block_barrier();
    return all;
}

// Moves what is kept of values [first, size) down, as many at a time as the block has threads; change(value) is
// what is stored. Whatever a step overwrites has been read before the barrier.
template <class T, class Change>
ARCBEAM_DEVICE void move_kept(T* values, std::uint32_t first, std::uint32_t size, const Marks& marks,
                              const Change& change) {
    ARCBEAM_ROLLED
    for (; first < size; first += simt::block_size()) {
        const std::uint32_t at = first + simt::thread_rank();
        const bool kept = at < size && marks.holds(at);
        const T value = kept ? change(simt::load(values + at)) : T{};
        simt::block_barrier();
        if (kept) {
            simt::store(values + marks.place(at), value);
        }
        simt::block_barrier();
    }
}

ARCBEAM_DEVICE void compact(const TokenLog& log, const Marks& marks) {
    move_kept(log.entries, log.settled / 32U * 32U, log.size, marks, [&](const LogEntry& entry) {
        return LogEntry{is_young(entry.source, log.settled) ? marks.place(entry.source) : entry.source, entry.arc};
    });
}

// How many of the first `most` entries are settled; see TokenLog::settle(). There one thread needs one pass from
// the end; here all threads together need a pass or two.
ARCBEAM_DEVICE std::uint32_t settled_of(const TokenLog& log, std::uint32_t most, std::uint32_t* first) {
    for (;;) {
        if (simt::thread_rank() == 0U) {
            simt::store(first, most);
        }
        simt::block_barrier();
        ARCBEAM_ROLLED
        for (std::uint32_t i = log.settled + simt::thread_rank(); i < most; i += simt::block_size()) {
            const std::uint32_t source = simt::load(log.entries + i).source;
            if (source != kNoIndex && source >= most) {
                simt::atomic_min<Scope::block>(first, i);
            }
        }
        simt::block_barrier();
        const std::uint32_t fewer = simt::load(first);
        simt::block_barrier();
        if (fewer == most) {
            return most;
        }
        most = fewer;
    }
}

// The size of a log after its collection.
struct Collected {
    std::uint32_t size;
    std::uint32_t settled;
};

ARCBEAM_DEVICE Collected collect(const TokenLog& log, const Array<std::uint32_t>& scratch) {
    auto* const after_log = reinterpret_cast<std::uint32_t*>(log.entries + log.capacity);
    const Marks marks{after_log, after_log + mark_words(log.capacity)};
    const Array<std::uint32_t> runs{scratch.data, scratch.size - 1U};
    std::uint32_t* const word = scratch.at(scratch.size - 1U);
    mark(log, marks, word);
    const std::uint32_t meeting = simt::load(word);
    const std::uint32_t size = count(log, marks, runs);
    compact(log, marks);
    const std::uint32_t tokens = size - log.num_tokens;
    const std::uint32_t met = meeting == log.size ? size : marks.place(meeting);
    return {size, settled_of(log, met < tokens ? met : tokens, word)};
}

}  // namespace arcbeam
