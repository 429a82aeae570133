// The stages of the search that rescores on one frame, one after the other, by one block: what each has made is
// written down, and how long it took. The search itself calls them from rescore/frame.cuh and stops between none.
//
// in   the tokens of the frame before and their histories, in the order of the log; its entries and those before; a
//      row of log-probs; the models and an arc cache
// out  candidates answered, then rescored; winners, frontier, survivors, path; clock cycles of every stage, over
// all
//      turns
#pragma once

#include "one_frame.cuh"
#include "rescore/search.cuh"

namespace arcbeam {

enum class Stage : std::uint32_t { lookup, rescore, recombine, closure, prune, backtrack };
constexpr std::uint32_t kStages = 6U;

struct Answered {
    Candidate candidate;  // with kNoPacked: beyond the bound
    Extension answer;     // the history after the word; `place` has the bits of the deviation
};

struct Hypothesis {
    std::uint64_t packed;  // pack(cost, arc)
    History history;
    std::uint64_t state;
};

struct Survived {
    std::uint32_t state;
    float cost;
    History history;
};

struct StagesResult {
    std::uint64_t cycles[kStages];
    std::uint64_t all_cycles;  // of all turns
    std::uint64_t end;         // pack(cost, state)
    float cutoff;
    float lookup_bound;
    float bound;
    float best;
    std::uint32_t num_candidates;
    std::uint32_t num_with_words;
    std::uint32_t num_winners;
    std::uint32_t num_hypotheses;
    std::uint32_t num_tokens;
    std::uint32_t reached_final;
    std::uint32_t ended;     // 1: all is there; 0: dead, or something had no room
    std::uint32_t distinct;  // of the stage lookup alone, as the two below
    std::uint32_t misses;
    std::uint32_t reads;
};

template <class Variant>
struct StagesParams {
    Variant rescoring;         // of its search the graph, options, sizes, and where the path goes
    SpillView spill;           // its tables are free
    const float* log_probs;    // [columns]
    const FrameToken* tokens;  // [num_tokens]
    const History* histories;  // [num_tokens]
    LogEntry* log;             // log_bytes(log_capacity); [log_size] are there
    Answered* answered;        // [spill.candidates]
    Answered* rescored;        // [spill.candidates]
    Hypothesis* winners;       // [spill.capacity], as the two below
    Hypothesis* frontier;
    Survived* survivors;
    StagesResult* result;
    std::uint32_t num_tokens;
    std::uint32_t log_size;
    std::uint32_t log_capacity;
    std::uint32_t turns;
    Room room;
    std::uint32_t apart;       // 1: lookup and rescore as two stages; 0: as the search goes through both
    std::uint32_t cold_cache;  // 1: the cache is emptied before each turn
};

template <class Params>
ARCBEAM_DEVICE void set_histories(const Params& params, RescoringLane& lane) {
    lane.histories = room_for_histories(lane, params.num_tokens);
    for (std::uint32_t i = simt::thread_rank(); i < params.num_tokens; i += simt::block_size()) {
        lane.histories[i] = simt::load(params.histories + i);
    }
    const ArcCacheView& cache = params.rescoring.cache;
    for (std::uint32_t i = simt::thread_rank(); params.cold_cache != 0U && i < cache.size * kCacheWords;
         i += simt::block_size()) {
        simt::store_relaxed<Scope::device>(cache.entries + i, std::uint64_t{0});
    }
}

// Candidate i as it is, with the answer to the one whose request it shares.
ARCBEAM_DEVICE void write_answer(std::uint32_t i, std::uint32_t requesting, const RescoringWorkspace& work,
                                 Answered* into) {
    const Candidate candidate = work.candidate()[i];
    const Extension answer = work.extension()[requesting];
    simt::store(&into[i].candidate, candidate);
    simt::store(&into[i].answer, answer);
}

// The candidates with their deviations, between lookup and rescore: those without words, those with requests, and
// those that share the request of another.
ARCBEAM_DEVICE void write_answers(std::uint32_t n, std::uint32_t num_with_words, std::uint32_t num_distinct,
                                  const RescoringWorkspace& work, Answered* into) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        if (simt::load(&work.extension().at(i)->word) == kNoWord) {
            write_answer(i, i, work, into);
        }
    }
    for (std::uint32_t at = simt::thread_rank(); at < num_distinct; at += simt::block_size()) {
        const std::uint32_t i = work.distinct()[at];
        write_answer(i, i, work, into);
    }
    for (std::uint32_t at = simt::thread_rank(); at < num_with_words; at += simt::block_size()) {
        const std::uint32_t i = work.with_words()[at];
        if (i != kNoIndex) {
            write_answer(i, simt::load(&work.extension().at(i)->place), work, into);
        }
    }
}

ARCBEAM_DEVICE void write_hypotheses(std::uint32_t n, const RescoringWorkspace& work, Hypothesis* into) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        const std::uint32_t key = work.place()[i];
        const std::uint32_t owner = work.key_owner()[key];
        simt::store(&into[i].packed, static_cast<std::uint64_t>(work.key_best()[key]));
        simt::store(&into[i].history, work.history(key));
        simt::store(&into[i].state, std::uint64_t{simt::load(&work.candidate().at(owner)->place)});
    }
}

// As rescore_candidates() of rescore/frame.cuh goes through lookup and rescore; which room it takes included.
// Returns how many words were wanted.
template <class Params>
ARCBEAM_DEVICE std::uint32_t answer(const Params& params, RescoringLane& lane, const Expanded& expanded, bool write,
                                    StageClock& clock, RescoringWorkspace& work) {
    RescoringControl& words = *lane.words;
    clock.start();
    note_words<BlockTeam>(params.rescoring, lane, expanded.num_candidates, expanded.bound, work);
    simt::block_barrier();
    if (params.room == Room::mixed) {
        const RescoringWorkspace mixed = mixed_rescoring(lane);
        const std::uint32_t within = simt::load(&words.num_within);
        work = within + within / 2U <= mixed.hypotheses ? mixed : work;
    }
    const std::uint32_t num_with_words = simt::load(&words.num_with_words[0]);
    std::uint32_t num_distinct = 0U;
    if (params.apart == 0U) {
        if (num_with_words != 0U) {
            look_up_and_rescore<BlockTeam>(params.rescoring, lane, num_with_words, 0U, work);
        }
        clock.stop(Stage::lookup);
        return num_with_words;
    }
    claim_words<BlockTeam>(num_with_words, 0U, work, words);
    simt::block_barrier();
    num_distinct = simt::load(&words.num_distinct[0]);
    const Questions questions{work.distinct(),  num_distinct,     work.extension(),
                              work.key_owner(), work.candidate(), &words.best};
    answer_words<BlockTeam>(params.rescoring, questions, lane.lookups);
    clock.stop(Stage::lookup);
    if (write) {
        write_answers(expanded.num_candidates, num_with_words, num_distinct, work, params.answered);
    }
    clock.start();
    rescore<BlockTeam>(params.rescoring, num_with_words, num_distinct, work, words);
    clock.stop(Stage::rescore);
    return num_with_words;
}

// The end of commit_rescoring() of rescore/frame.cuh. Returns the tokens' number; kNoIndex: there was no room.
template <class Params>
ARCBEAM_DEVICE std::uint32_t survive(const Params& params, RescoringLane& lane, std::uint32_t num_candidates,
                                     std::uint32_t num_hypotheses, const RescoringWorkspace& work) {
    RescoringControl& words = *lane.words;
    std::uint32_t num_long = 0U;
    if (simt::load(&words.long_ends) != 0U) {
        num_long = rank_lists<BlockTeam>(kNoIndex, num_hypotheses, work, words);
    }
    if (num_long == kNoIndex) {
        return kNoIndex;
    }
    find_survivors<BlockTeam>(params.rescoring, num_candidates, num_hypotheses, num_long, work, words);
    simt::block_barrier();
    const float best = from_ordered(simt::load(&words.best_survivor));
    const std::uint32_t num_tokens = simt::load(&words.num_kept);
    if (simt::load(&words.tied) != 0U) {
        break_ties<BlockTeam>(params.rescoring, num_candidates, num_hypotheses, work, lane.histories,
                              params.log_size - params.num_tokens, params.log_size);
    }
    const Tokens tokens = room_for(lane, num_tokens, 1U);
    const Array<History> histories = room_for_histories(lane, num_tokens);
    const LogPlace place{params.log, params.log_size, params.log_size - params.num_tokens, nullptr, 0U};
    commit_survivors<BlockTeam>(num_hypotheses, best, work, lane.tokens, tokens, histories, place);
    lane.tokens = tokens;
    lane.histories = histories;
    lane.state.num_tokens = num_tokens;
    lane.state.log_size = params.log_size + num_tokens;
    return num_tokens;
}

ARCBEAM_DEVICE void write_survivors(const RescoringLane& lane, std::uint32_t n, Survived* into) {
    for (std::uint32_t i = simt::thread_rank(); i < n; i += simt::block_size()) {
        const float cost = simt::load(&lane.tokens.token.at(i)->cost);
        const std::uint32_t state = lane.tokens.state[i];
        const History history = lane.histories[i];
        simt::store(into + i, Survived{state, cost, history});
    }
}

ARCBEAM_DEVICE void write_counts(const LookupCounts& counts, StagesResult* into) {
    const LookupCounts sums = warp_sums(counts);
    if (simt::warp_thread() == 0U) {
        simt::atomic_add<Scope::block>(&into->distinct, sums.distinct);
        simt::atomic_add<Scope::block>(&into->misses, sums.misses);
        simt::atomic_add<Scope::block>(&into->reads, sums.reads);
    }
}

// Every stage once; false if there was no room, or nothing to admit.
template <class Params>
ARCBEAM_DEVICE bool run_stages(const Params& params, RescoringLane& lane, bool write) {
    const SearchParams& search = params.rescoring.search;
    StagesResult* const result = params.result;
    Control& control = *lane.control;
    RescoringControl& words = *lane.words;
    RescoringWorkspace work = params.room == Room::shared ? lane.room : spilled_rescoring(params.spill);
    StageClock clock(result->cycles);
    reset_rescoring_frame<BlockTeam>(lane);
    free_tables<BlockTeam>(work);
    if (params.room == Room::mixed) {
        free_tables<BlockTeam>(mixed_rescoring(lane));
    }
    set_histories(params, lane);
    set_tokens(search, params.tokens, params.num_tokens, params.log_size, lane);
    simt::block_barrier();

    const float cut = cutoff(order_of(params.rescoring, lane.tokens, lane.histories), params.num_tokens,
                             search.beam, search.max_active, lane.histogram, control);
    const Expanded expanded = leave_tokens<BlockTeam>(search, lane, cut, work.plain());
    if (expanded.end != FrameEnd::committed) {
        return false;
    }
    const std::uint32_t num_with_words = answer(params, lane, expanded, write, clock, work);
    if (write) {
        write_counts(lane.lookups, result);
    }
    if (simt::load(&words.best) == kNoCost) {
        return false;
    }
    const float bound = beam_bound(from_ordered(simt::load(&words.best)), params.rescoring.search.beam);
    for (std::uint32_t i = simt::thread_rank(); write && i < expanded.num_candidates; i += simt::block_size()) {
        write_answer(i, i, work, params.rescored);
    }

    clock.start();
    recombine_histories<BlockTeam>(params.rescoring, 0U, expanded.num_candidates, false, bound, Step{0U, 0U, 0U},
                                   work, control, words);
    clock.stop(Stage::recombine);
    const std::uint32_t num_winners = simt::load(&control.added[0]);
    if (num_winners > work.hypotheses) {
        return false;
    }
    if (write) {
        write_hypotheses(num_winners, work, params.winners);
    }

    clock.start();
    const Closed closed =
        close_with_histories<BlockTeam>(params.rescoring, lane, expanded.num_candidates, bound, work);
    clock.stop(Stage::closure);
    const std::uint32_t num_hypotheses = closed.num_hypotheses;
    if (closed.end != FrameEnd::committed || num_hypotheses > params.log_capacity - params.log_size) {
        return false;
    }
    if (write) {
        write_hypotheses(num_hypotheses, work, params.frontier);
    }
    const float best = from_ordered(simt::load(&words.best_survivor));

    clock.start();
    const std::uint32_t num_tokens =
        survive(params, lane, simt::load(&control.num_candidates), num_hypotheses, work);
    clock.stop(Stage::prune);
    if (num_tokens == kNoIndex) {
        return false;
    }
    if (write) {
        write_survivors(lane, num_tokens, params.survivors);
    }

    clock.start();
    const bool few = num_tokens <= lane.room.candidate().size;
    const Array<Candidate> scratch = few ? lane.room.candidate() : spilled_rescoring(params.spill).candidate();
    const bool reached_final = best_rescored_end(params.rescoring, lane, scratch, true);
    const bool fits = write_path<false>(search, lane);
    clock.stop(Stage::backtrack);
    RescoringSearch<decltype(params.rescoring)>::template report_counts<false>(params.rescoring, lane);
    if (write && simt::thread_rank() == 0U) {
        result->end = simt::load(&control.best_end);
        result->cutoff = cut;
        result->lookup_bound = expanded.bound;
        result->bound = bound;
        result->best = best;
        result->num_candidates = expanded.num_candidates;
        result->num_with_words = num_with_words;
        result->num_winners = num_winners;
        result->num_hypotheses = num_hypotheses;
        result->num_tokens = num_tokens;
        result->reached_final = reached_final ? 1U : 0U;
    }
    return fits;
}

template <class Params>
ARCBEAM_DEVICE void run_turns(const Params& params) {
    const SearchParams& search = params.rescoring.search;
    RescoringLane lane;
    carve_rescoring_lane(search, simt::shared_memory(), lane);
    lane.lookups = LookupCounts{};
    if (simt::thread_rank() == 0U) {
        simt::store(&lane.words->of_helpers, LookupCounts{});
    }
    run_turns(params, search, lane, [&](bool write) { return run_stages(params, lane, write); });
}

}  // namespace arcbeam
