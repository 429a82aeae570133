// The plain search, as the loops of work.cuh, utterance.cuh and cluster.cuh take it. Another search has a struct
// with the same members, and stages of its own:
//
// Params, common()                 the parameter of its kernels, and the plain search's part of it
// Lane, carve(), place_tokens()    what a block keeps for a lane, where that lies in memory, and the room of n
// tokens save_tokens(), restore_tokens()  a lane that stops keeps its tokens in device memory open(), close() the
// begin and the end of a launch; one thread calls close() resumed()                        a lane goes on that had
// stopped; says what it still lacks free_shared_tables(), free_large_tables(), reset_frame()   what a frame expects
// to be empty advance()                        a frame, which is committed whole or leaves no trace lacks() why a
// frame ended with FrameEnd::waits committed()                      after each frame that was committed find_end()
// the best token of the last frame; false if the lane lacks something first Counted, counted(), set_counted(),
// add_helpers_counts(), forget_counts(), report_counts()
//                                  what threads count, so that the blocks of a cluster can add it up
// team_frame()                     make_team_frame(), in a function of its own if that is faster
#pragma once

#include "decode/work.cuh"

namespace arcbeam {

struct PlainSearch {
    using Params = SearchParams;
    using Lane = arcbeam::Lane;
    using Counted = Counts;

    ARCBEAM_DEVICE static const SearchParams& common(const Params& params) { return params; }

    ARCBEAM_DEVICE static void carve(const SearchParams& params, unsigned char* memory, Lane& lane) {
        carve_lane(params, memory, lane);
    }
    ARCBEAM_DEVICE static void place_tokens(Lane& lane, std::uint32_t n, std::uint32_t number) {
        lane.tokens = room_for(lane, n, number);
    }
    ARCBEAM_DEVICE static void save_tokens(const Lane& lane) {
        copy_tokens(lane.tokens, spilled_tokens(lane.state.spill, 0U), lane.state.num_tokens);
    }
    ARCBEAM_DEVICE static void restore_tokens(const Lane& lane) {
        copy_tokens(spilled_tokens(lane.state.spill, 0U), lane.tokens, lane.state.num_tokens);
    }

    ARCBEAM_DEVICE static void open(const Params&, Lane&) {}
    ARCBEAM_DEVICE static void close(const Params&, const Lane&) {}
    ARCBEAM_DEVICE static Need resumed(const Params&, Lane&) { return Need::nothing; }

    ARCBEAM_DEVICE static void free_shared_tables(const Lane& lane) { free_table<BlockTeam>(lane.shared_work); }
    ARCBEAM_DEVICE static void free_large_tables(const Lane& lane) { free_table<BlockTeam>(mixed_workspace(lane)); }
    template <class Team>
    ARCBEAM_DEVICE static void reset_frame(Lane& lane) {
        arcbeam::reset_frame<Team>(*lane.control);
    }

    template <class Team>
    ARCBEAM_DEVICE static FrameEnd advance(const Params& params, Lane& lane, float cut, Room room) {
        return arcbeam::advance<Team>(params, lane, cut, room);
    }
    ARCBEAM_DEVICE static Need lacks(const Lane&) { return Need::nothing; }
    ARCBEAM_DEVICE static void committed(Lane&) {}
    ARCBEAM_DEVICE static bool find_end(const Params& params, Lane& lane, bool& reached_final) {
        reached_final =
            best_end(params.graph, lane.tokens, lane.state.num_tokens, lane.state.alive != 0U, *lane.control);
        return true;
    }

    ARCBEAM_DEVICE static Counted counted(const Lane& lane) { return lane.counts; }
    ARCBEAM_DEVICE static void set_counted(Lane& lane, const Counted& counted) { lane.counts = counted; }
    ARCBEAM_DEVICE static void add_helpers_counts(unsigned char* of_owner, Counted& counted) {
        add_counts<ClusterTeam>(*reinterpret_cast<Control*>(of_owner), counted);
    }
    ARCBEAM_DEVICE static void forget_counts(Lane&) {}
    template <bool kClusters>
    ARCBEAM_DEVICE static void report_counts(const Params&, Lane&) {}

    // Not inlined, with a private copy of the parameter that no store can change: so the frames that the owner
    // makes alone keep their registers.
    ARCBEAM_DEVICE_NOINLINE static TeamFrame team_frame(const Params& given, Counted& counted) {
        const Params params = given;
        return make_team_frame<PlainSearch>(params, counted);
    }
};

}  // namespace arcbeam
