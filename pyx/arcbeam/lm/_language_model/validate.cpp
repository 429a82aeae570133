#include "arcbeam/lm/_language_model/validate.hpp"

#include "common/parallel.hpp"
#include "shared/cost.hpp"

namespace arcbeam {

namespace {

bool is_weight(float weight) { return weight >= -kLargestCost; }  // +inf is a weight, NaN is not

// Bases point into the arrays. The base of a wide block points to a block of the separate table, one each, in
// order.
Status check_bases(const std::uint32_t* bases, std::uint64_t blocks, std::uint32_t most, std::uint32_t num_wide,
                   const char* what) {
    std::uint64_t wide = 0;
    for (std::uint64_t block = 0; block < blocks; ++block) {
        const bool is_wide = (bases[block] & kLmWideBlock) != 0;
        const std::uint32_t value = bases[block] & ~kLmWideBlock;
        if (is_wide ? value != wide || num_wide - wide < (1U << kLmBlockBits) : value > most)
            return format_error("%s: the base of block %llu is %u, which is beyond the end", what,
                                static_cast<unsigned long long>(block), value);
        wide += is_wide ? 1U << kLmBlockBits : 0U;
    }
    if (wide != num_wide)
        return format_error("%s: the table of wide blocks has %u numbers, expected %llu", what, num_wide,
                            static_cast<unsigned long long>(wide));
    return {};
}

Status check_state(const LmView& lm, std::uint32_t s) {
    const std::uint32_t begin = lm.first_arc(s);
    const std::uint32_t end = lm.first_arc(s + 1);
    if (begin > end || end > lm.num_arcs)
        return format_error("state %u has the arcs %u to %u of %u", s, begin, end, lm.num_arcs);
    if (s != kLmEmptyHistory && lm.backoff_state(s) >= s)
        return format_error("state %u backs off to state %u; expected a smaller one", s, lm.backoff_state(s));
    if (!is_weight(lm.backoff_weights[s])) return format_error("the back-off weight of state %u is not a cost", s);
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
            return format_error("the weight of state %u, arc %u is not a cost", s, arc - begin);
    }
    return {};
}

}  // namespace

Status validate(const LmView& lm, unsigned threads) {
    const std::uint64_t blocks = (lm.num_states + std::uint64_t{(1U << kLmBlockBits) - 1}) >> kLmBlockBits;
    Status status = check_bases(lm.first_bases, (lm.num_states >> kLmBlockBits) + std::uint64_t{1}, lm.num_arcs,
                                lm.num_wide_firsts, "first arcs");
    if (status.ok())
        status = check_bases(lm.backoff_bases, blocks, lm.num_states, lm.num_wide_backoffs, "back-off states");
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
