// Streams (law 10): an utterance may be a chunk of a stream, and then begins with the state that the chunk before
// has left, and leaves one. What a state is stands in search.hpp.
//
// load_stream    places the tokens and the log of a state in the lane; says what the lane lacks for them
// settle_stream  after the path of the chunk was written: drops what no token descends from, and finds the arcs
//                that all tokens share
// save_stream    leaves the state; says whether there is too little room for it
#pragma once

#include "decode/arrival.cuh"
#include "decode/collect.cuh"

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

template <class Search>
ARCBEAM_DEVICE Need load_stream(const typename Search::Params& params, typename Search::Lane& lane) {
    const SearchParams& common = Search::common(params);
    const StreamView view = common.streams[lane.state.utterance];
    LaneState& state = lane.state;
    if (view.before == nullptr) {
        state.stream = StreamStep::loaded;
        return Need::nothing;
    }
    const StreamMemory memory = stream_memory(view.before, view.before_tokens, view.before_entries);
    const StreamCounts saved = simt::load(&memory.words->counts);
    if (saved.num_tokens > state.spill.capacity) {
        return Need::spill;
    }
    if (saved.log_size > state.log_capacity) {
        return Need::log;
    }
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < saved.log_size; i += simt::block_size()) {
        simt::store(state.log + i, simt::load(memory.log + i));
    }
    state.started = 1U;
    state.alive = saved.alive;
    state.offset = simt::load(&memory.words->offset);
    state.num_tokens = saved.num_tokens;
    state.log_size = saved.log_size;
    state.known = saved.known;
    state.stream = saved.alive != 0U ? StreamStep::loaded : StreamStep::dead_before;
    Search::place_tokens(lane, state.num_tokens, state.frame);
    Search::restore_tokens(lane, memory.tokens);
    forget_milestones(lane);
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.control->smallest_acoustic, kNoCost);
    }
    simt::block_barrier();
    if (state.alive != 0U && lane.utterance.frames != 0U) {
        if (!have_row(common, lane, 0U)) {
            return Need::log_probs;
        }
        load_acoustic(common, lane.utterance, 0U, lane.acoustic, *lane.control);
        simt::block_barrier();
    }
    return Need::nothing;
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

// How many arcs follow, on the path to the entry `end`, the deepest entry that all tokens descend from, or are. One
// thread walks back; the settled part need not be looked at.
ARCBEAM_DEVICE std::uint32_t arcs_after_trunk(const TokenLog& log, const Marks& marks, std::uint32_t end) {
    std::uint32_t arcs = 0U;
    std::uint32_t found = 0U;
    ARCBEAM_ROLLED
    for (std::uint32_t at = end; is_young(at, log.settled); ++arcs) {
        const bool forks = (simt::load(marks.before + at / 32U) >> at % 32U & 1U) != 0U;
        if (forks || at >= log.size - log.num_tokens) {
            found = arcs;
        }
        at = simt::load(log.entries + at).source;
    }
    return found;
}

// Sets result.settled, and takes what was settled before out of the path, at its begin. Returns how many arcs of
// the path in the log are settled. Barriers are passed.
ARCBEAM_DEVICE_NOINLINE std::uint32_t settle_stream(const SearchParams& params, Lane& lane) {
    LaneState& state = lane.state;
    const std::uint32_t end = simt::load(&lane.control->end_index);
    const Collected left =
        collect({state.log, state.log_capacity, state.log_size, state.num_tokens, state.settled}, lane.histogram);
    state.log_size = left.size;
    state.settled = left.settled;
    forget_milestones(lane);
    const TokenLog log{state.log, state.log_capacity, state.log_size, state.num_tokens, state.settled};
    auto* const behind = reinterpret_cast<std::uint32_t*>(log.entries + log.capacity);
    const Marks marks{behind, behind + mark_words(log.capacity)};
    mark_forks(log, marks);
    if (simt::thread_rank() == 0U) {
        UtteranceResult& result = params.results[state.utterance];
        const std::uint32_t of_trunk =
            result.path_length - arcs_after_trunk(log, marks, log.size - log.num_tokens + end);
        result.settled = of_trunk - state.known;
        result.path_length -= state.known;
        simt::store(&lane.control->selected, of_trunk);
    }
    simt::block_barrier();
    const std::uint32_t of_trunk = simt::load(&lane.control->selected);
    simt::block_barrier();
    return of_trunk;
}

// Of the settled entries one is kept, in place of the deepest. `of_trunk`: what settle_stream() has returned.
template <class Search>
ARCBEAM_DEVICE bool save_stream(const SearchParams& params, const typename Search::Lane& lane,
                                std::uint32_t of_trunk) {
    const StreamView view = params.streams[lane.state.utterance];
    const LaneState& state = lane.state;
    const std::uint32_t cut = state.settled != 0U ? state.settled - 1U : 0U;
    const std::uint32_t entries = state.log_size - cut;
    if (view.is_last != 0U) {
        return true;
    }
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
    Search::save_tokens(lane, memory.tokens);
    if (simt::thread_rank() == 0U) {
        simt::store(&memory.words->counts, StreamCounts{state.num_tokens, entries, of_trunk - cut, state.alive});
        simt::store(&memory.words->offset, state.offset);
    }
    return true;
}

}  // namespace arcbeam
