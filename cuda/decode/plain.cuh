// The plain search, as the loops of work.cuh, utterance.cuh and cluster.cuh take it. Another search has a struct
// with the same members, and stages of its own.
#pragma once

#include "decode/launch/work.cuh"

namespace arcbeam {

template <bool lattices, bool streams>
struct PlainSearch {
    using Params = SearchParams;  // of its kernels
    using Lane = arcbeam::Lane;   // what a block keeps for a lane
    using Counted = Counts;       // what a thread counts
    // Whether lattices are requested. The code for them is not in the other kernels: with it a frame of few tokens
    // takes a fifth longer even if it never runs.
    static constexpr bool kLattices = lattices;
    // Whether utterances may be chunks of streams. With the code for lattices, that for streams makes the search
    // of whole utterances spill more, so it is in kernels of its own there.
    static constexpr bool kStreams = streams;

    // Whether one warp decodes small frames, and the keys of their tokens, see StateKeys.
    static constexpr bool kSmallFrames = true;
    using SmallKeys = StateKeys;

    // The part of the parameter that all searches have.
    ARCBEAM_DEVICE static const SearchParams& common(const Params& params) { return params; }

    // Where a lane's arrays lie in shared memory, and where n tokens are kept.
    ARCBEAM_DEVICE static void carve(const SearchParams& params, unsigned char* memory, Lane& lane) {
        carve_lane(params, memory, lane);
    }
    ARCBEAM_DEVICE static void place_tokens(Lane& lane, std::uint32_t n, std::uint32_t number) {
        lane.tokens = room_for(lane, n, number);
    }

    // Tokens are kept in device memory when a lane stops, and by streams.
    ARCBEAM_DEVICE static void save_tokens(const Lane& lane, const SpillView& memory) {
        copy_tokens(lane.tokens, spilled_tokens(memory, 0U), lane.state.num_tokens);
    }
    ARCBEAM_DEVICE static void restore_tokens(const Lane& lane, const SpillView& memory) {
        copy_tokens(spilled_tokens(memory, 0U), lane.tokens, lane.state.num_tokens);
    }
    // Between the state of the stream that an utterance is a chunk of, and where the tokens of a stopped lane wait.
    template <Moves moves>
    ARCBEAM_DEVICE static void move_tokens(const Params&, std::uint32_t, const SpillView& from, const SpillView& to,
                                           std::uint32_t n) {
        copy_tokens(spilled_tokens(from, 0U), spilled_tokens(to, 0U), n);
    }

    // The columns of all arcs that a stream may take, where endpoints read them.
    ARCBEAM_DEVICE static const std::uint16_t* columns(const Params&, std::uint32_t, const StreamView& view) {
        return view.columns;
    }

    // The begin and the end of a launch; one thread calls close().
    ARCBEAM_DEVICE static void open(const Params&, Lane&) {}
    ARCBEAM_DEVICE static void close(const Params&, const Lane&) {}

    // A lane goes on that had stopped. Returns what it still lacks.
    ARCBEAM_DEVICE static Need resumed(const Params&, Lane&) { return Need::nothing; }

    // What a frame expects to be empty.
    ARCBEAM_DEVICE static void free_shared_tables(const Lane& lane) { free_table<BlockTeam>(lane.shared_work); }
    ARCBEAM_DEVICE static void free_large_tables(const Lane& lane) { free_table<BlockTeam>(mixed_workspace(lane)); }
    template <class Team>
    ARCBEAM_DEVICE static void reset_frame(Lane& lane) {
        arcbeam::reset_frame<Team>(*lane.control);
    }

    // The order of the lane's tokens.
    ARCBEAM_DEVICE static StateOrder order(const Params&, const Lane& lane) {
        return {lane.tokens.token, lane.tokens.state};
    }

    // A frame, which is committed whole or leaves no trace.
    template <class Team>
    ARCBEAM_DEVICE static FrameEnd advance(const Params& params, Lane& lane, float cut, Room room) {
        return arcbeam::advance<Team, lattices>(params, lane, cut, room);
    }
    // Whether frames in shared memory have code of their own, in which the compiler knows the addresses. Without it
    // an utterance takes half as long again.
    static constexpr bool kSharedApart = true;

    // Why a frame ended with FrameEnd::waits.
    ARCBEAM_DEVICE static Need lacks(const Lane&) { return Need::nothing; }

    // Follows each frame that was committed.
    ARCBEAM_DEVICE static void committed(Lane&) {}

    // The best token of the last frame, among those in final states if there are any and `finals` count; false if
    // the lane lacks something first.
    ARCBEAM_DEVICE static bool find_end(const Params& params, Lane& lane, bool finals, bool& reached_final) {
        reached_final = best_end(params.graph, lane.tokens, lane.state.num_tokens, finals, *lane.control);
        return true;
    }

    // What token `index` costs as an end, as pack(cost, state); kNoPacked: no path ends there. find_end() has been
    // called. All threads of a warp call this.
    ARCBEAM_DEVICE static std::uint64_t end_of(const Params& params, const Lane& lane, std::uint32_t index,
                                               bool is_token, bool final_only) {
        return is_token ? end_key(params.graph, lane.tokens, index, final_only) : kNoPacked;
    }

    // The blocks of a cluster add up what their threads count: the owner hands its lane's counts to a frame of the
    // team and takes them back; the others add theirs to the owner's memory.
    ARCBEAM_DEVICE static Counted counted(const Lane& lane) { return lane.counts; }
    ARCBEAM_DEVICE static void set_counted(Lane& lane, const Counted& counted) { lane.counts = counted; }
    ARCBEAM_DEVICE static void add_helpers_counts(unsigned char* of_owner, Counted& counted) {
        add_counts<ClusterTeam>(*reinterpret_cast<Control*>(of_owner), counted);
    }
    // Counts beyond those of the lane's state, when an utterance begins, and when it ends or stops.
    ARCBEAM_DEVICE static void forget_counts(Lane&) {}
    template <bool kClusters>
    ARCBEAM_DEVICE static void report_counts(const Params&, Lane&) {}

    // A frame by all blocks of the cluster. Here it is not inlined and has a private copy of the parameter, which
    // no store can change, so that the frames that the owner makes alone keep their registers.
    ARCBEAM_DEVICE_NOINLINE static TeamFrame team_frame(const Params& given, Counted& counted) {
        const Params params = given;
        return make_team_frame<PlainSearch>(params, counted);
    }
};

}  // namespace arcbeam
