// The search with a large language model, as the loops of decode/work.cuh take it; decode/plain.cuh has what the
// members are for.
#pragma once

#include "decode/launch/work.cuh"
#include "rescore/end.cuh"
#include "rescore/small_keys.cuh"

namespace arcbeam {

ARCBEAM_DEVICE LookupCounts warp_sums(const LookupCounts& counts) {
    return {simt::reduce_add(simt::kAllThreads, counts.lookups),
            simt::reduce_add(simt::kAllThreads, counts.distinct),
            simt::reduce_add(simt::kAllThreads, counts.misses), simt::reduce_add(simt::kAllThreads, counts.reads)};
}

template <Scope scope, class Counters>
ARCBEAM_DEVICE void add_lookups(Counters* counters, const LookupCounts& sums) {
    simt::atomic_add<scope>(&counters->lookups, decltype(counters->lookups){sums.lookups});
    simt::atomic_add<scope>(&counters->distinct, decltype(counters->distinct){sums.distinct});
    simt::atomic_add<scope>(&counters->misses, decltype(counters->misses){sums.misses});
    simt::atomic_add<scope>(&counters->reads, decltype(counters->reads){sums.reads});
}

template <class Variant>
struct RescoringSearch {
    using Params = Variant;
    using Lane = RescoringLane;
    static constexpr bool kLattices = Variant::kLattices;
    static constexpr bool kStreams = true;
    // Not where the host answers, where models are in buckets or boosted, nor with new words
    static constexpr bool kSmallFrames = !Variant::kHasNewWords && !Variant::kIsOpened && !Variant::kLanesRequest &&
                                         Variant::kBoosts == Variant::kBoostsAlone && !Variant::kHasBuckets;
    using SmallKeys = std::conditional_t<Variant::kBoosts, PhraseKeys<Variant>, ModelKeys<Variant>>;
    struct Counted {
        Counts counts;
        LookupCounts lookups;
    };

    ARCBEAM_DEVICE static const SearchParams& common(const Params& params) { return params.search; }

    ARCBEAM_DEVICE static void carve(const SearchParams& params, unsigned char* memory, Lane& lane) {
        carve_rescoring_lane(params, memory, lane);
        if constexpr (Variant::kBoostsAlone) {
            lane.rounds.size = kRoundsWithFilter;
        }
    }
    ARCBEAM_DEVICE static void place_tokens(Lane& lane, std::uint32_t n, std::uint32_t number) {
        lane.tokens = room_for(lane, n, number);
        lane.histories = room_for_histories(lane, n);
    }
    ARCBEAM_DEVICE static void save_tokens(const Lane& lane, const SpillView& memory) {
        copy_histories(lane.histories, spilled_histories(memory), lane.state.num_tokens);
        copy_tokens(lane.tokens, spilled_tokens(memory, 0U), lane.state.num_tokens);
    }
    ARCBEAM_DEVICE static void restore_tokens(const Lane& lane, const SpillView& memory) {
        copy_histories(spilled_histories(memory), lane.histories, lane.state.num_tokens);
        copy_tokens(spilled_tokens(memory, 0U), lane.tokens, lane.state.num_tokens);
    }
    template <Moves moves>
    ARCBEAM_DEVICE static void move_tokens(const Params& params, std::uint32_t utterance, const SpillView& from,
                                           const SpillView& to, std::uint32_t n) {
        const Array<History> histories = spilled_histories(from);
        const Array<History> into = spilled_histories(to);
        for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
            const History history = histories[i];
            into[i] = moves == Moves::from_stream ? history_from_stream(params, utterance, history)
                                                  : history_to_stream(params, utterance, history);
        }
        copy_tokens(spilled_tokens(from, 0U), spilled_tokens(to, 0U), n);
    }

    ARCBEAM_DEVICE static const std::uint16_t* columns(const Params&, std::uint32_t, const StreamView& view) {
        return view.columns;
    }

    ARCBEAM_DEVICE static void open(const Params& params, Lane& lane) {
        if (Params::kLanesRequest && simt::thread_rank() == 0U) {
            open_requests(params.views[lane_number()], *lane.words);
        }
    }
    ARCBEAM_DEVICE static void close(const Params& params, const Lane& lane) {
        if (Params::kLanesRequest) {
            close_requests(params, *lane.words);
        }
    }
    ARCBEAM_DEVICE static Need resumed(const Params& params, Lane& lane) {
        if constexpr (Params::kBoostsAlone) {
            list_words(params.boosts[lane.state.utterance], listed_of(lane));
            simt::block_barrier();
        }
        const bool is_open = Params::kLanesRequest && simt::load(&lane.words->request_open) != 0U;
        return is_open && !take_late_answers(params, *lane.words) ? kNeedsAnswers : Need::nothing;
    }

    ARCBEAM_DEVICE static void free_shared_tables(const Lane& lane) { free_tables<BlockTeam>(lane.room); }
    ARCBEAM_DEVICE static void free_large_tables(const Lane& lane) {
        free_tables<BlockTeam>(mixed_rescoring(lane));
    }
    template <class Team>
    ARCBEAM_DEVICE static void reset_frame(Lane& lane) {
        reset_rescoring_frame<Team>(lane);
    }

    static constexpr bool kSharedApart = false;  // the stages distinguish the two, see where_it_is()

    ARCBEAM_DEVICE static HistoryOrder order(const Params& params, const Lane& lane) {
        return order_of(params, lane.tokens, lane.histories);
    }

    template <class Team>
    ARCBEAM_DEVICE static FrameEnd advance(const Params& params, Lane& lane, float cut, Room room) {
        return advance_rescoring<Team>(params, lane, cut, room);
    }
    // The reason why a question has no answer.
    ARCBEAM_DEVICE static Need lacks(const Lane& lane) {
        return simt::load(&lane.words->request_full) != 0U ? kNeedsRequestRoom : kNeedsAnswers;
    }
    ARCBEAM_DEVICE static void committed(Lane& lane) {
        if (Params::kLanesRequest) {
            make_room_for_requests(*lane.words);
        }
    }
    ARCBEAM_DEVICE static bool find_end(const Params& params, Lane& lane, bool finals, bool& reached_final) {
        if (Params::kLanesRequest && finals && !request_ends(params, lane)) {
            return false;
        }
        const Array<Candidate> scratch = lane.state.num_tokens <= lane.room.candidate().size
                                             ? lane.room.candidate()
                                             : spilled_rescoring(lane.state.spill).candidate();
        lane.large_table_is_free = false;  // the scratch lies in it
        reached_final = best_rescored_end(params, lane, scratch, finals);
        return true;
    }

    ARCBEAM_DEVICE static std::uint64_t end_of(const Params& params, const Lane& lane, std::uint32_t index,
                                               bool is_token, bool final_only) {
        return rescored_end(params, lane, index, is_token, final_only);
    }

    ARCBEAM_DEVICE static Counted counted(const Lane& lane) { return {lane.counts, lane.lookups}; }
    ARCBEAM_DEVICE static void set_counted(Lane& lane, const Counted& counted) {
        lane.counts = counted.counts;
        lane.lookups = counted.lookups;
    }
    ARCBEAM_DEVICE static void add_helpers_counts(unsigned char* of_owner, Counted& counted) {
        auto& words = *reinterpret_cast<RescoringControl*>(of_owner + kControlBytes);
        add_counts<ClusterTeam>(*reinterpret_cast<Control*>(of_owner), counted.counts);
        const LookupCounts sums = warp_sums(counted.lookups);
        if (simt::warp_thread() == 0U) {
            add_lookups<Scope::cluster>(&words.of_helpers, sums);
        }
        counted.lookups = LookupCounts{};
    }
    ARCBEAM_DEVICE static void forget_counts(Lane& lane) {
        lane.lookups = LookupCounts{};
        if (simt::thread_rank() == 0U) {
            simt::store(&lane.words->of_helpers, LookupCounts{});
        }
    }
    // Adds the look-ups to the sums of the launch. The other blocks of the cluster have added their
    // counts.
    template <bool kClusters>
    ARCBEAM_DEVICE static void report_counts(const Params& params, Lane& lane) {
        LookupCounts sums = warp_sums(lane.lookups);
        if (kClusters && simt::thread_rank() == 0U) {
            const LookupCounts more = simt::load(&lane.words->of_helpers);
            sums = {sums.lookups + more.lookups, sums.distinct + more.distinct, sums.misses + more.misses,
                    sums.reads + more.reads};
            simt::store(&lane.words->of_helpers, LookupCounts{});
        }
        if (simt::warp_thread() == 0U) {
            add_lookups<Scope::device>(params.counters, sums);
        }
        lane.lookups = LookupCounts{};
    }

    ARCBEAM_DEVICE static TeamFrame team_frame(const Params& params, Counted& counted) {
        return make_team_frame<RescoringSearch>(params, counted);
    }
};

}  // namespace arcbeam
