// What a block keeps while it works in a lane that rescores.
#pragma once

#include "decode/frame.cuh"
#include "rescore/requests/requests.cuh"

namespace arcbeam {

struct RescoringLane : Lane {
    RescoringControl* words;
    RescoringWorkspace room;          // in shared memory
    Array<History> shared_histories;  // of tokens in shared memory
    Array<History> histories;         // of the tokens
    LookupCounts lookups;
};

// Lays a lane's arrays out in the dynamic shared memory at `memory`.
ARCBEAM_DEVICE void carve_rescoring_lane(const SearchParams& params, unsigned char* memory, RescoringLane& lane) {
    lane.control = reinterpret_cast<Control*>(memory);
    memory += kControlBytes;
    lane.words = reinterpret_cast<RescoringControl*>(memory);
    memory += kRescoringControlBytes;
    carve_rooms(params, memory, lane);
    lane.shared_histories = carve<History>(memory, params.shared_capacity);
    lane.shared_capacity = params.shared_capacity;
    lane.room =
        rescoring_workspace(memory, params.shared_capacity, params.shared_candidates, params.shared_table_size);
    const std::uint64_t bytes =
        rescoring_workspace_bytes(params.shared_capacity, params.shared_candidates, params.shared_table_size);
    lane.large_table = {memory, static_cast<std::uint32_t>(bytes)};
    lane.shared_work = Workspace{};
    lane.large_table_is_free = false;
}

ARCBEAM_DEVICE RescoringWorkspace spilled_rescoring(const SpillView& spill) {
    return rescoring_workspace(spill.memory, spill.capacity, spill.candidates, spill.table_size);
}

// The same with tables that take all memory of lane.room. Its own tables, all bits 1 where they are free, lie in
// theirs.
ARCBEAM_DEVICE RescoringWorkspace mixed_rescoring(const RescoringLane& lane) {
    RescoringWorkspace work = spilled_rescoring(lane.state.spill);
    work.tables = lane.large_table.data;
    work.table_size = mixed_table_size(lane.large_table.size);
    const std::uint32_t most = work.table_size / 4U * 3U;
    work.hypotheses = most < work.capacity ? most : work.capacity;
    work.most_ranked = most / 2U;
    return work;
}

ARCBEAM_DEVICE Array<History> spilled_histories(const SpillView& spill) {
    unsigned char* memory = spill.tokens + tokens_bytes(spill.capacity);
    return carve<History>(memory, spill.capacity);
}

// Where the histories of n tokens are kept; see room_for().
ARCBEAM_DEVICE Array<History> room_for_histories(const RescoringLane& lane, std::uint32_t n) {
    return n > lane.shared_capacity ? spilled_histories(lane.state.spill) : lane.shared_histories;
}

ARCBEAM_DEVICE void copy_histories(const Array<History>& from, const Array<History>& to, std::uint32_t n) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        to[i] = static_cast<History>(from[i]);
    }
}

// Resets what a frame counts from zero, except the counters of its first steps, which are ready since the end of
// the last frame.
ARCBEAM_DEVICE void reset_later_words(RescoringControl& control) {
    simt::store(&control.best_survivor, kNoCost);
    simt::store(&control.has_level, 0U);
    simt::store(&control.num_kept, 0U);
    simt::store(&control.tied, 0U);
    simt::store(&control.num_long, 0U);
    simt::store(&control.long_levels, 0U);
    simt::store(&control.long_ends, 0U);
    simt::store(&control.num_ranked, 0U);
    simt::store(&control.unranked, 0U);
}

ARCBEAM_DEVICE void reset_first_words(RescoringControl& control) {
    simt::store(&control.best, kNoCost);
    simt::store(&control.num_within, 0U);
    simt::store(&control.num_questions, 0U);
    for (std::uint32_t slot = 0U; slot < 3U; ++slot) {
        simt::store(&control.num_with_words[slot], 0U);
        simt::store(&control.num_distinct[slot], 0U);
    }
}

// Resets all counters, for a frame that begins anew. A barrier must follow.
template <class Team>
ARCBEAM_DEVICE void reset_rescoring_frame(RescoringLane& lane) {
    reset_frame<Team>(*lane.control);
    if (Team::rank() == 0U) {
        reset_first_words(*lane.words);
        reset_later_words(*lane.words);
    }
}

}  // namespace arcbeam
