// Streams (law 10): an utterance may be a chunk of a stream. It then begins with the state that the chunk before
// has left, and leaves one itself. What a state is stands in search.hpp.
//
// load_stream    puts a state's tokens where those of a stopped lane wait, and its log into the lane's
// settle_stream  drops what no token descends from, and finds the arcs that all tokens share
// save_stream    leaves the state; false if there is too little room for it
//
// Everything comes by value: a lane that is passed by reference to what is not inlined would lie in memory, and the
// compiler would not know what of it is shared.
#pragma once

#include "decode/collect.cuh"
#include "decode/endpoint.cuh"

namespace arcbeam {

// The state of a stream in memory: the words of StreamState, the log, and the tokens as a lane's spill has them.
struct StreamMemory {
    StreamState* words;
    LogEntry* log;
    SpillView tokens;
};

ARCBEAM_DEVICE StreamMemory stream_memory(unsigned char* memory, std::uint32_t tokens, std::uint32_t entries) {
    auto* const log = memory + padded(sizeof(StreamState));
    return {
        reinterpret_cast<StreamState*>(memory), reinterpret_cast<LogEntry*>(log),
        SpillView{nullptr, log + padded(sizeof(LogEntry) * static_cast<std::uint64_t>(entries)), tokens, 0U, 0U}};
}

// What a search does with the tokens of a stream.
enum class Moves : std::uint8_t { from_stream, to_stream };

// A barrier must follow. The lane has room for all of it.
template <class Search>
ARCBEAM_DEVICE void load_stream(const typename Search::Params& params, std::uint32_t utterance,
                                const StreamMemory from, const SpillView spill, LogEntry* log) {
    const StreamCounts counts = simt::load(&from.words->counts);
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < counts.log_size; i += simt::block_size()) {
        simt::store(log + i, simt::load(from.log + i));
    }
    Search::template move_tokens<Moves::from_stream>(params, utterance, from.tokens, spill, counts.num_tokens);
}

// Marks which entries of a log, in which every entry has a token descending from it, are the source of one other
// entry (`kept`) and of several (`before`). Settled entries are not examined. A barrier was passed.
ARCBEAM_DEVICE void mark_forks(const TokenLog& log, const Marks& marks) {
    ARCBEAM_ROLLED
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(log.size); word += simt::block_size()) {
        simt::store(marks.kept + word, 0U);
        simt::store(marks.before + word, 0U);
    }
    simt::block_barrier();
    ARCBEAM_ROLLED
    for (std::uint32_t i = log.settled + simt::thread_rank(); i < log.size; i += simt::block_size()) {
        const std::uint32_t source = simt::load(log.entries + i).source;
        if (source != kNoIndex) {
            const std::uint32_t bit = 1U << source % 32U;
            if ((simt::atomic_or<Scope::block>(marks.kept + source / 32U, bit) & bit) != 0U) {
                simt::atomic_or<Scope::block>(marks.before + source / 32U, bit);
            }
        }
    }
    simt::block_barrier();
}

// The path to an entry, from where all tokens' paths part.
struct AfterTrunk {
    std::uint32_t arcs;     // that follow the deepest entry which all tokens descend from, or are
    std::uint32_t settled;  // the last of its entries that was settled before; kNoIndex: none
};

// One thread walks back; the settled part is not read.
ARCBEAM_DEVICE AfterTrunk after_trunk(const TokenLog& log, const Marks& marks, std::uint32_t end) {
    std::uint32_t arcs = 0U;
    std::uint32_t found = 0U;
    std::uint32_t at = end;
    ARCBEAM_ROLLED
    for (; is_young(at, log.settled); ++arcs) {
        const bool forks = (simt::load(marks.before + at / 32U) >> at % 32U & 1U) != 0U;
        if (forks || at >= log.size - log.num_tokens) {
            found = arcs;
        }
        at = simt::load(log.entries + at).source;
    }
    return {found, at};
}

// A log whose settled part has been found.
struct SettledLog {
    std::uint32_t size;
    std::uint32_t settled;
    std::uint32_t of_trunk;  // how many arcs of the path in the log are settled
    std::uint32_t deepest;   // of thread 0 alone: the deepest of the `settled` entries; kNoIndex: none
};

// Sets result.settled, and takes what was settled before, `known`, out of the path, at its begin. `end` is the
// place of the path's end among the tokens, `word` one that the block shares. Barriers are passed. Everything comes
// by value: a lane that is passed by reference would lie in memory, and the compiler would not know what of it is
// shared.
ARCBEAM_DEVICE SettledLog settle_stream(const TokenLog given, UtteranceResult* result, std::uint32_t known,
                                        std::uint32_t end, const Array<std::uint32_t> scratch,
                                        std::uint32_t* word) {
    const Collected left = collect(given, scratch);
    const TokenLog log{given.entries, given.capacity, left.size, given.num_tokens, left.settled};
    auto* const after_log = reinterpret_cast<std::uint32_t*>(log.entries + log.capacity);
    const Marks marks{after_log, after_log + mark_words(log.capacity)};
    simt::block_barrier();
    mark_forks(log, marks);
    std::uint32_t deepest = kNoIndex;
    if (simt::thread_rank() == 0U) {
        const std::uint32_t length = simt::load(&result->path_length);
        const AfterTrunk after = after_trunk(log, marks, log.size - log.num_tokens + end);
        const std::uint32_t of_trunk = length - after.arcs;
        deepest = after.settled;
        simt::store(&result->settled, of_trunk - known);
        simt::store(&result->path_length, length - known);
        simt::store(word, of_trunk);
    }
    simt::block_barrier();
    const std::uint32_t of_trunk = simt::load(word);
    simt::block_barrier();
    return {log.size, log.settled, of_trunk, deepest};
}

// Of the settled entries one is kept, in place of the deepest. `settled`: what settle_stream() has found. `taken`:
// how many frames of the chunk the sentence has.
template <class Search>
ARCBEAM_DEVICE bool save_stream(const typename Search::Params& params, const LaneState state,
                                const SettledLog settled, const std::uint32_t* taken) {
    const StreamView& view = Search::common(params).streams[state.utterance];
    const std::uint32_t cut = state.settled != 0U ? state.settled - 1U : 0U;
    const std::uint32_t entries = state.log_size - cut;
    if (state.num_tokens > view.after_tokens || entries > view.after_entries) {
        return false;
    }
    const StreamMemory memory = stream_memory(view.after, view.after_tokens, view.after_entries);
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < entries; i += simt::block_size()) {
        const LogEntry entry = simt::load(state.log + cut + i);
        const std::uint32_t source = entry.source < state.settled ? 0U : entry.source - cut;
        const bool is_root = cut + i < state.settled || entry.source == kNoIndex;
        simt::store(memory.log + i, is_root ? LogEntry{kNoIndex, kNoIndex} : LogEntry{source, entry.arc});
    }
    Search::template move_tokens<Moves::to_stream>(params, state.utterance, state.spill, memory.tokens,
                                                   state.num_tokens);
    if (simt::thread_rank() == 0U) {
        simt::store(&memory.words->counts,
                    StreamCounts{state.num_tokens, entries, settled.of_trunk - cut, state.alive});
        simt::store(&memory.words->offset, state.offset);
        const std::uint32_t dead = state.alive != 0U ? 0U : simt::load(taken) - state.frame;
        simt::store(&memory.words->dead_frames, dead_before(view) + dead);
        simt::store(&memory.words->settled_silence,
                    silence_at<Search>(params, state.utterance, view, state.log, settled.deepest));
    }
    return true;
}

}  // namespace arcbeam
