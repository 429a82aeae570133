// One frame of one utterance, rescored: calls the stages in order and holds no arithmetic of its own.
//
//     expand > note_words > (claim > answer > rescore) > recombine > a level of the closure, the same > prune
//
// The stages in brackets are left out where no candidate has a word. Without models, expand() notes the words,
// boost_candidates() takes the place of note_words and the brackets, and the closure boosts words as it meets them.
#pragma once

#include "rescore/closure.cuh"

namespace arcbeam {

// Gives a frame up without a trace: its tokens are as they were. Thread 0 passes the smallest acoustic cost.
template <class Team>
ARCBEAM_DEVICE FrameEnd give_up_rescoring(const RescoringWorkspace& work, RescoringLane& lane,
                                          std::uint32_t smallest_acoustic, FrameEnd why) {
    Team::barrier();
    if (Team::rank() == 0U) {
        simt::store(&lane.control->smallest_acoustic, smallest_acoustic);
    }
    free_tables<Team>(work);
    reset_rescoring_frame<Team>(lane);
    Team::barrier();
    return why;
}

// Gives the hypotheses that stay their places, and names the source of every winner; a thread takes kEach
// candidates at a time. control.tied is whether any winner has an equal: then the source may be that of either.
template <class Team, std::uint32_t kEach, class Work, class Params>
ARCBEAM_DEVICE void find_some(const Params& params, std::uint32_t num_candidates, std::uint32_t num_hypotheses,
                              std::uint32_t num_long, const Work& work, RescoringControl& given) {
    RescoringControl& control = words_beside(work, given);
    if constexpr (Params::kLimits) {
        const std::uint32_t of_warps = (num_hypotheses + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
        for (std::uint32_t i = Team::rank(); i < of_warps; i += Team::size()) {
            const std::uint32_t kept =
                i < num_hypotheses ? simt::load_relaxed<Team::kScope>(work.kept().at(i)) : kNoIndex;
            const bool stays = kept == kStays || kept == kUndecided;
            const std::uint32_t place = take_place<Team>(&control.num_kept, stays);
            if (stays) {
                work.kept()[i] = place;
            }
        }
        cut_lists<Team>(params, kNoIndex, num_long, work, [&](std::uint32_t index, bool stays) {
            const std::uint32_t place = take_place<Team>(&control.num_kept, stays);
            if (index != kNoIndex) {
                simt::atomic_exchange<Team::kScope>(work.kept().at(index), stays ? place : kNoIndex);
            }
        });
    }
    for (std::uint32_t first = Team::rank(); first < num_candidates; first += kEach * Team::size()) {
        std::uint32_t place[kEach];
        Candidate candidate[kEach];
        std::uint32_t winner[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            place[k] = kNoIndex;
            candidate[k] = Candidate{kNoPacked, 0U, 0U};
            if (i < num_candidates) {
                place[k] = simt::load(&work.extension().at(i)->place);
                candidate[k] = work.candidate()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            winner[k] = kNoIndex;
            if (place[k] != kNoIndex && work.key_best()[place[k]] == candidate[k].packed) {
                winner[k] = work.key_index()[place[k]];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (winner[k] != kNoIndex && simt::atomic_cas<Team::kScope>(work.source().at(winner[k]), kUnclaimed,
                                                                        candidate[k].source) != kUnclaimed) {
                simt::store_relaxed<Team::kScope>(&control.tied, 1U);
            }
        }
    }
}

template <class Team, class Params>
ARCBEAM_DEVICE void find_survivors(const Params& params, std::uint32_t num_candidates, std::uint32_t num_hypotheses,
                                   std::uint32_t num_long, const RescoringWorkspace& work,
                                   RescoringControl& control) {
    const bool few = num_candidates <= Team::size();
    where_it_is<Team>(work, few, [&](const auto& arrays) {
        constexpr std::uint32_t kEach = kIsShared<decltype(arrays)> ? 1U : 4U;
        find_some<Team, kEach>(params, num_candidates, num_hypotheses, num_long, arrays, control);
    });
}

// Among equal winners, chooses the one whose source has the smallest history. Barriers are passed, one at the end.
// The sources have different histories, because an arc leaves only one state.
template <class Team, class Params>
ARCBEAM_DEVICE void break_ties(const Params& params, std::uint32_t num_candidates, std::uint32_t num_hypotheses,
                               const RescoringWorkspace& work, const Array<History>& histories,
                               std::uint32_t first_log_last, std::uint32_t first_log) {
    const Array<std::uint64_t> least{reinterpret_cast<std::uint64_t*>(work.epsilons().data), work.capacity};
    const auto source_history = [&](std::uint32_t source) {
        if (source == kNoIndex) {
            return std::uint64_t{0};  // of the start, which has no equal
        }
        const History history = source >= first_log ? work.history(work.place()[source - first_log])
                                                    : static_cast<History>(histories[source - first_log_last]);
        return history_bits(history);
    };
    for (std::uint32_t i = Team::rank(); i < num_hypotheses; i += Team::size()) {
        least[i] = kNoPacked;
    }
    Team::barrier();
    for (std::uint32_t pass = 0U; pass < 2U; ++pass) {
        for (std::uint32_t i = Team::rank(); i < num_candidates; i += Team::size()) {
            const std::uint32_t place = simt::load(&work.extension().at(i)->place);
            const Candidate candidate = work.candidate()[i];
            if (place == kNoIndex || work.key_best()[place] != candidate.packed) {
                continue;
            }
            const std::uint32_t index = work.key_index()[place];
            const std::uint64_t key = source_history(candidate.source);
            if (pass == 0U) {
                keep_first<Team>(params, least.at(index), key);
            } else if (least[index] == key) {
                work.source()[index] = candidate.source;
            }
        }
        Team::barrier();
    }
}

// The index of hypothesis i among those that stay.
template <bool limits, class Work>
ARCBEAM_DEVICE std::uint32_t kept_index(std::uint32_t i, const Work& work) {
    if constexpr (limits) {
        return work.kept()[i];
    } else {
        return i;
    }
}

// Stage lattice: the candidates that lost against the winners of their keys, as links; see decode/lattice.cuh.
// Where two have equal cost and arc, the one whose source was named has won.
template <class Team, bool limits>
ARCBEAM_DEVICE void capture_histories(std::uint32_t num_candidates, std::uint32_t first_log, float beam,
                                      const RescoringWorkspace& work, LatticeLane& lane) {
    const std::uint32_t of_warps = (num_candidates + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t i = Team::rank(); i < of_warps; i += Team::size()) {
        Link link{0U, 0U, 0U, 0.0F};
        bool needed = false;
        const std::uint32_t place = i < num_candidates ? simt::load(&work.extension().at(i)->place) : kNoIndex;
        if (place != kNoIndex) {
            const Candidate candidate = work.candidate()[i];
            const std::uint32_t index = work.key_index()[place];
            const std::uint32_t kept = kept_index<limits>(index, work);
            const std::uint64_t winner = work.key_best()[place];
            const float slack = slack_of(packed_cost(candidate.packed), packed_cost(winner));
            const bool lost = candidate.packed != winner || candidate.source != work.source()[index];
            needed = kept != kNoIndex && lost && stays(beam, slack);
            const bool within = candidate.source != kNoIndex && candidate.source >= first_log;
            link = {within && needed ? first_log + kept_index<limits>(candidate.source - first_log, work)
                                     : candidate.source,
                    first_log + kept, packed_arc(candidate.packed), slack};
        }
        note_link<Team>(needed, link, lane);
    }
}

// The milestone that a new token descends from; see inherited_milestone().
template <class Work>
ARCBEAM_DEVICE std::uint32_t milestone_of(std::uint32_t source, const Work& work, const Tokens& old,
                                          const LogPlace& place) {
    while (source != kNoIndex && source >= place.first) {
        source = work.source()[source - place.first];
    }
    return source == kNoIndex ? kNoIndex : static_cast<std::uint32_t>(old.milestone[source - place.first_old]);
}

// The values of a hypothesis that becomes a token.
struct Survivor {
    std::uint32_t key;
    std::uint32_t index;  // among those that are kept; kNoIndex: it is not kept
    std::uint32_t list;
    std::uint32_t source;
    std::uint32_t owner;
    std::uint64_t winner;
    StateArcs arcs;
};

// The hypotheses that stay become tokens and enter the log; sources within the frame move with theirs. Frees the
// tables. A thread takes kEach at a time, because their loads may come from device memory.
template <class Team, bool lattices, bool limits, std::uint32_t kEach, class Work>
ARCBEAM_DEVICE void commit_some(std::uint32_t num_hypotheses, float best, const Work& work, const Tokens& old,
                                const Tokens& tokens, const Array<History>& histories, const LogPlace& into) {
    for (std::uint32_t first = Team::rank(); first < num_hypotheses; first += kEach * Team::size()) {
        Survivor one[kEach];
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            const std::uint32_t i = first + k * Team::size();
            one[k].key = kNoIndex;
            if (i < num_hypotheses) {
                one[k].key = work.place()[i];
                one[k].index = kept_index<limits>(i, work);
                if constexpr (limits) {
                    one[k].list = work.list()[i];
                }
                one[k].source = work.source()[i];
                one[k].arcs = work.arcs()[i];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (one[k].key != kNoIndex) {
                one[k].winner = work.key_best()[one[k].key];
                one[k].owner = work.key_owner()[one[k].key];
            }
        }
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (one[k].key == kNoIndex) {
                continue;
            }
            const std::uint32_t index = one[k].index;
            if (index != kNoIndex) {
                const StateArcs& arcs = one[k].arcs;
                const std::uint32_t entry = into.first + index;
                std::uint32_t source = one[k].source;
                if (source != kNoIndex && source >= into.first) {
                    source = into.first + kept_index<limits>(source - into.first, work);
                }
                const float cost = rescale(packed_cost(one[k].winner), best);
                tokens.token[index] = Token{cost, arcs.first_emitting, arcs.arcs_end, arcs.smallest_weight};
                tokens.state[index] = simt::load(&work.candidate().at(one[k].owner)->place);
                histories[index] = simt::load(&work.extension().at(one[k].owner)->history);
                simt::store_streaming(into.log + entry, LogEntry{source, packed_arc(one[k].winner)});
                std::uint32_t milestone = milestone_of(one[k].source, work, old, into);
                if (into.milestones != nullptr) {
                    simt::store_streaming(into.milestones + into.num_milestones + index,
                                          Milestone{entry, milestone});
                    milestone = into.num_milestones + index;
                }
                tokens.milestone[index] = milestone;
                if constexpr (lattices) {
                    simt::store_streaming(into.costs + entry, cost);
                }
            }
            work.key_owner()[one[k].key] = kNoIndex;
            work.key_best()[one[k].key] = kNoPacked;
            if (limits && one[k].list != kNoIndex) {  // all hypotheses of a list write the same value
                simt::store_relaxed<Team::kScope>(work.list_state().at(one[k].list), kNoIndex);
                simt::store_relaxed<Team::kScope>(work.list_count().at(one[k].list), kNoIndex);
            }
        }
    }
}

template <class Team, bool lattices = false, bool limits = true>
ARCBEAM_DEVICE void commit_survivors(std::uint32_t num_hypotheses, float best, const RescoringWorkspace& work,
                                     const Tokens& old, const Tokens& tokens, const Array<History>& histories,
                                     const LogPlace& into) {
    where_it_is<Team>(work, num_hypotheses <= Team::size(), [&](const auto& arrays) {
        constexpr std::uint32_t kEach = kIsShared<decltype(arrays)> ? 1U : 2U;
        commit_some<Team, lattices, limits, kEach>(num_hypotheses, best, arrays, old, tokens, histories, into);
    });
}

// Turns candidates within the bound into tokens. `next_frame` is the row whose acoustic costs are needed next.
template <class Team, class Params>
ARCBEAM_DEVICE FrameEnd commit_rescoring(const Params& params, RescoringLane& lane, std::uint32_t num_candidates,
                                         float bound, const RescoringWorkspace& work, std::uint32_t next_frame) {
    Control& control = *lane.control;
    RescoringControl& words = *lane.words;
    const std::uint32_t link_room = room_for_links<Params::kLattices>(lane);
    const std::uint32_t admitted =
        recombine_histories<Team>(params, 0U, num_candidates, false, bound, Step{0U, 0U, 0U}, work, control, words);
    const std::uint32_t smallest_acoustic = take_smallest_acoustic<Team>(control);
    Team::barrier();
    const Closed closed = close_with_histories<Team>(params, lane, num_candidates, bound, work);
    if (closed.end != FrameEnd::committed) {
        return give_up_rescoring<Team>(work, lane, smallest_acoustic, closed.end);
    }
    const std::uint32_t all_candidates = simt::load(&control.num_candidates);
    const std::uint32_t num_hypotheses = closed.num_hypotheses;
    // Counted before they are cut, which is simpler
    if (!log_has_room<Params::kLattices>(lane, num_hypotheses, all_candidates, link_room)) {
        return give_up_rescoring<Team>(work, lane, smallest_acoustic, FrameEnd::log_full);
    }
    std::uint32_t num_long = 0U;
    if (Params::kLimits && simt::load(&words.long_ends) != 0U) {
        num_long = rank_lists<Team>(kNoIndex, num_hypotheses, work, words);
    }
    if (num_long == kNoIndex) {
        return give_up_rescoring<Team>(work, lane, smallest_acoustic, FrameEnd::no_room);
    }
    find_survivors<Team>(params, all_candidates, num_hypotheses, num_long, work, words);
    load_next_row<Team>(params.search, lane, next_frame);
    Team::barrier();
    const float best = from_ordered(simt::load(&words.best_survivor));
    const std::uint32_t num_tokens = Params::kLimits ? simt::load(&words.num_kept) : num_hypotheses;
    if (simt::load(&words.tied) != 0U) {
        break_ties<Team>(params, all_candidates, num_hypotheses, work, lane.histories,
                         lane.state.log_size - lane.state.num_tokens, lane.state.log_size);
    }
    if (Team::rank() == 0U) {  // for the next frame; later counters are reset then
        reset_counts(control);
        reset_first_words(words);
    }
    if constexpr (Params::kLattices) {
        capture_histories<Team, Params::kLimits>(all_candidates, lane.state.log_size, params.search.lattice->beam,
                                                 work, control.lattice);
        Team::barrier();
    }
    const std::uint32_t number = lane.state.frame + lane.state.started;
    const Tokens tokens = room_for(lane, num_tokens, number);
    const Array<History> histories = room_for_histories(lane, num_tokens);
    const LogPlace place = place_in_log<Params::kLattices>(lane, num_tokens, number);
    commit_survivors<Team, Params::kLattices, Params::kLimits>(num_hypotheses, best, work, lane.tokens, tokens,
                                                               histories, place);
    go_on_with(lane, tokens, num_tokens, best);
    lane.histories = histories;
    lane.counts.admitted += admitted;
    Team::barrier();
    return FrameEnd::committed;
}

// Frame 0: the start state alone, with the history at the beginning of the sentence.
template <class Params>
ARCBEAM_DEVICE void begin_rescoring(const Params& params, const RescoringWorkspace& work, RescoringLane& lane) {
    if constexpr (Params::kBoostsAlone) {
        list_words(params.boosts[lane.state.utterance], listed_of(lane));
    }
    if (simt::thread_rank() == 0U) {
        reset_later_words(*lane.words);
        simt::store(&lane.control->num_candidates, 1U);
        simt::store(&lane.words->best, ordered(0.0F));
        work.candidate()[0] = Candidate{pack(0.0F, kNoIndex), params.search.graph.start, kNoIndex};
        work.extension()[0] = Extension{first_history(params, lane.state.utterance), kNoIndex, kNoWord};
    }
    simt::block_barrier();
}

// Rescores the candidates of a frame whose acoustic costs and cut-off are known. The result `committed` means that
// the rest of the frame can follow; `dead` means that no candidate is finite. Tables go to shared memory if there
// are few enough candidates.
template <class Team, class Params>
ARCBEAM_DEVICE FrameEnd rescore_candidates(const Params& params, RescoringLane& lane, const Expanded& expanded,
                                           Room room, RescoringWorkspace& work) {
    RescoringControl& control = *lane.words;
    if (Team::rank() == 0U) {
        reset_later_words(control);
    }
    if constexpr (Params::kBoostsAlone) {
        boost_candidates<Team>(params, lane, expanded.num_candidates, expanded.bound, work);
    } else {
        note_words<Team>(params, lane, expanded.num_candidates, expanded.bound, work);
    }
    Team::barrier();
    if (room == Room::mixed) {
        const RescoringWorkspace mixed = mixed_rescoring(lane);
        const std::uint32_t within = simt::load(&control.num_within);
        if (within + within / 2U <= mixed.hypotheses) {  // with the closure there are seldom more hypotheses
            work = mixed;
        }
    }
    if constexpr (Params::kDeviates) {
        const std::uint32_t num_with_words = simt::load(&control.num_with_words[0]);
        if (num_with_words != 0U && !look_up_and_rescore<Team>(params, lane, num_with_words, 0U, work)) {
            return give_up_rescoring<Team>(work, lane, simt::load(&lane.control->smallest_acoustic),
                                           FrameEnd::waits);
        }
    }
    return simt::load(&control.best) != kNoCost ? FrameEnd::committed : FrameEnd::dead;
}

template <class Team, class Params>
ARCBEAM_DEVICE FrameEnd advance_rescoring(const Params& params, RescoringLane& lane, float cut, Room room) {
    const Counts before = lane.counts;
    const LookupCounts lookups_before = lane.lookups;
    RescoringWorkspace work = room == Room::shared ? lane.room : spilled_rescoring(lane.state.spill);
    std::uint32_t num_candidates = 1U;
    FrameEnd end = FrameEnd::committed;
    if (lane.state.started == 0U) {
        begin_rescoring(params, work, lane);
    } else {
        const Expanded expanded =
            leave_tokens<Team>(params.search, lane, cut, work.plain(), beside_targets(params));
        end = expanded.end;
        if (end == FrameEnd::committed) {
            num_candidates = expanded.num_candidates;
            end = rescore_candidates<Team>(params, lane, expanded, room, work);
        }
        if (end == FrameEnd::dead) {
            return end;
        }
    }
    if (end == FrameEnd::committed) {
        const float bound = beam_bound(from_ordered(simt::load(&lane.words->best)), params.search.beam);
        end = commit_rescoring<Team>(params, lane, num_candidates, bound, work,
                                     lane.state.frame + lane.state.started);
    }
    if (end != FrameEnd::committed) {
        lane.counts = before;
        const std::uint32_t misses = lane.lookups.misses;
        lane.lookups = lookups_before;
        // Requests that have been sent are not sent again
        if (Params::kLanesRequest && simt::load(&lane.words->request_full) == 0U) {
            lane.lookups.misses = misses;
        }
    }
    return end;
}

}  // namespace arcbeam
