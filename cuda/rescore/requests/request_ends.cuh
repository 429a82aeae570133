// The cost of the end of a sentence, where lanes send requests to the host: those of all last tokens in one round.
#pragma once

#include "rescore/requests/request_arcs.cuh"

namespace arcbeam {

// Requests the pieces that the end of a sentence needs after a history.
template <class Params>
ARCBEAM_DEVICE void request_end(const Params& params, std::uint32_t history, RescoringControl& control) {
    const LmView& lm = params.lms.large;
    LookupCounts uncounted;
    if (requests_arcs(params)) {
        LmPlace place{lm.find(history, lm.num_labels), history};
        while (place.arc == kNoLmArc) {
            place.from = lm.backoff_state(place.from);
            place.arc = lm.find(place.from, lm.num_labels);
        }
        ask_for<1U>(params, requests_of(control), history, place, control, uncounted);
    } else {
        LmStep step;
        request_step(history, lm.num_labels, control, uncounted, step);
    }
}

// Requests the end after the histories of the final tokens; afterwards the lane's table has the answers. False if
// the lane has to stop. A barrier was passed.
template <class Params>
ARCBEAM_DEVICE bool request_ends(const Params& params, const RescoringLane& lane) {
    for (std::uint32_t i = simt::thread_rank(); i < lane.state.num_tokens; i += simt::block_size()) {
        const std::uint32_t state = lane.tokens.state[i];
        const float cost = simt::load(&lane.tokens.token.at(i)->cost);
        if (is_finite(extend_epsilon(cost, simt::load_readonly(params.search.graph.finals + state)))) {
            const History history = lane.histories[i];
            request_end(params, models_part(params, history).large, *lane.words);
        }
    }
    return send_questions(params, *lane.words).answered;
}

// The same as end_deviation(), after request_ends() has got the answers.
template <class Params>
ARCBEAM_DEVICE float requested_end_deviation(const Params& params, const History& history,
                                             RescoringControl& control) {
    const Requests requests = requests_of(control);
    const LmView& lm = params.lms.large;
    LmStep large{};
    if (requests_arcs(params)) {
        const ArcCacheView none{};
        Pieces pieces{none, requests, true, false, {kNoLmArc, kLmEmptyHistory}};
        Reads uncounted;
        large = step_by<1U>(lm, history.large, lm.num_labels, true, Lanes<1U>{1U << simt::warp_thread()}, uncounted,
                            pieces);
    } else {
        const Answer answer =
            requests.answers()[claim_answer(requests, history.large, lm.num_labels, control).place];
        large.cost = answer.cost;
    }
    return deviation_cost(params.lms, large.cost,
                          lm_step(params.lms.small, history.small, params.lms.small.num_labels).cost);
}

}  // namespace arcbeam
