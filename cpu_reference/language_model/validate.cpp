#include "language_model/validate.hpp"

#include "graph/parallel.hpp"
#include "shared/cost.hpp"

namespace arcbeam {

namespace {

bool is_weight(float weight) { return weight >= -kLargestCost; }  // +inf is one, NaN is not

// Every offset that stands for "far" has its entry in the table, and there are no others.
template <typename Offset>
Status check_far(const LmFar* table, std::uint32_t size, const Offset* offsets, std::uint64_t count, Offset far,
                 const char* what) {
    std::uint64_t marked = 0;
    for (std::uint64_t s = 0; s < count; ++s) marked += offsets[s] == far ? 1U : 0U;
    if (marked != size)
        return format_error("%llu states have far %s, but the table has %u entries",
                            static_cast<unsigned long long>(marked), what, size);
    for (std::uint32_t i = 0; i < size; ++i) {
        const std::uint32_t state = table[i].state;
        if (state >= count || offsets[state] != far || (i > 0 && state <= table[i - 1].state))
            return format_error("the table of far %s: entry %u is of state %u, which is out of order", what, i,
                                state);
    }
    return {};
}

Status check_state(const LmView& lm, std::uint32_t s) {
    const std::uint32_t begin = lm.first_arc(s);
    const std::uint32_t end = lm.first_arc(s + 1);
    if (begin > end || end > lm.num_arcs)
        return format_error("state %u has the arcs %u to %u of %u", s, begin, end, lm.num_arcs);
    if (s != kLmEmptyHistory && lm.backoff_state(s) >= s)
        return format_error("state %u backs off to state %u; expected a smaller one", s, lm.backoff_state(s));
    if (!is_weight(lm.backoff_weights[s])) return format_error("the back-off weight of state %u is no cost", s);
    std::uint32_t last = 0;
    for (std::uint32_t arc = begin; arc < end; ++arc) {
        const std::uint32_t label = lm.label(arc);
        if (label <= last || label > lm.num_labels)
            return format_error("state %u, arc %u has the label %u after %u; expected ascending ones up to %u", s,
                                arc - begin, label, last, lm.num_labels);
        last = label;
        if (lm.arcs[arc].next_state >= lm.num_states)
            return format_error("state %u, arc %u leads to state %u of %u", s, arc - begin, lm.arcs[arc].next_state,
                                lm.num_states);
        if (!is_weight(lm.arcs[arc].weight))
            return format_error("the weight of state %u, arc %u is no cost", s, arc - begin);
    }
    return {};
}

}  // namespace

Status validate(const LmView& lm, unsigned threads) {
    Status status = check_far(lm.far_firsts, lm.num_far_firsts, lm.first_offsets, lm.num_states + std::uint64_t{1},
                              kFarFirst, "first arcs");
    if (status.ok())
        status = check_far(lm.far_backoffs, lm.num_far_backoffs, lm.backoff_offsets, lm.num_states, kFarBackoff,
                           "back-off states");
    if (!status.ok()) return status;
    if (lm.first_arc(0) != 0 || lm.first_arc(1) != lm.num_labels)
        return format_error("state 0 has the arcs %u to %u; expected one for each of %u labels", lm.first_arc(0),
                            lm.first_arc(1), lm.num_labels);
    if (lm.first_arc(lm.num_states) != lm.num_arcs)
        return format_error("the arcs of the last state end at %u; expected %u", lm.first_arc(lm.num_states),
                            lm.num_arcs);
    return parallel_ranges(lm.num_states, threads, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t s = begin; s < end; ++s) {
            Status found = check_state(lm, static_cast<std::uint32_t>(s));
            if (!found.ok()) return found;
        }
        return Status{};
    });
}

}  // namespace arcbeam
