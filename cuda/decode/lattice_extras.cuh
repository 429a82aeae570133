// The extras of a lattice's entries (law 8): what the best path through each costs above the best path of all,
// found from the last step back. The rule is the twin's, cpu_reference/decode/lattice.hpp.
//
// in    the log, the links and the steps of a lane; the extras of the last step's entries; marks that are empty
// out   marks of the entries and links within the lattice beam
#pragma once

#include "decode/collect.cuh"
#include "decode/lattice_room.hpp"
#include "decode/launch/team.cuh"
#include "decode/workspace.cuh"
#include "shared/slack.hpp"

namespace arcbeam {

using lattice::Link;

// What a lane has kept of an utterance.
struct LatticeLog {
    LogEntry* entries;
    float* costs;
    std::uint32_t* extras;  // ordered()
    Link* links;
    LatticeStep* steps;
    Marks entry_marks;
    Marks link_marks;
    std::uint32_t num_entries;
    std::uint32_t num_links;
    std::uint32_t num_steps;
    float beam;
};

// The entries of a step, and the links into them.
struct StepSpan {
    std::uint32_t first;
    std::uint32_t end;
    std::uint32_t first_link;
    std::uint32_t links_end;
};

// `step` counts from 1; the step 0 and those before have nothing.
ARCBEAM_DEVICE StepSpan span_of(const LatticeLog& log, std::uint32_t step) {
    if (step == 0U || step > log.num_steps) {
        return {0U, 0U, 0U, 0U};
    }
    const LatticeStep before = step == 1U ? LatticeStep{0.0, 0U, 0U} : simt::load(log.steps + (step - 2U));
    const LatticeStep last = simt::load(log.steps + (step - 1U));
    return {before.entries_end, last.entries_end, before.links_end, last.links_end};
}

constexpr std::uint32_t kWindows = 4U;

// Where the extras of the entries of a step are: in one of four windows of shared memory if they fit, else in the
// log. None is read again once the step before has been examined.
ARCBEAM_DEVICE std::uint32_t* extras_of(const LatticeLog& log, const Array<std::uint32_t>& windows,
                                        std::uint32_t step, const StepSpan& span) {
    const std::uint32_t room = windows.size / kWindows;
    return span.end - span.first <= room ? windows.data + step % kWindows * room : log.extras + span.first;
}

template <class Team>
ARCBEAM_DEVICE void forget_extras(std::uint32_t* extras, const StepSpan& span) {
    ARCBEAM_ROLLED
    for (std::uint32_t i = Team::rank(); i < span.end - span.first; i += Team::size()) {
        simt::store(extras + i, kNoCost);
    }
}

// A step while the extras of its sources are found.
struct Backward {
    float beam;
    StepSpan span;
    std::uint32_t* extras;  // of the step's entries
    std::uint32_t first_before;
    std::uint32_t* extras_before;  // of the entries of the step before

    // Lowers the extra of a link's source; returns whether that is a token of this very step, and now has less.
    ARCBEAM_DEVICE bool lower(std::uint32_t source, float slack, std::uint32_t target) const {
        const std::uint32_t of_target = simt::load_relaxed<Scope::block>(extras + (target - span.first));
        if (of_target == kNoCost || source == kNoIndex) {
            return false;
        }
        const float extra = extra_by(slack, from_ordered(of_target));
        if (!stays(beam, extra)) {
            return false;
        }
        if (source < span.first) {
            simt::atomic_min<Scope::block>(extras_before + (source - first_before), ordered(extra));
            return false;
        }
        return ordered(extra) < simt::atomic_min<Scope::block>(extras + (source - span.first), ordered(extra));
    }

    ARCBEAM_DEVICE bool keeps(float slack, std::uint32_t target) const {
        const std::uint32_t of_target = simt::load(extras + (target - span.first));
        return of_target != kNoCost && stays(beam, extra_by(slack, from_ordered(of_target)));
    }
};

// Prefetches what lies before `first` of an array that is read from its end.
template <class Team, class T>
ARCBEAM_DEVICE void prefetch_before(const T* values, std::uint32_t first, std::uint32_t& fetched) {
    constexpr std::uint32_t kAhead = 2048U;
    constexpr std::uint32_t kLine = 128U / sizeof(T);
    const std::uint32_t needed = first > kAhead ? first - kAhead : 0U;
    ARCBEAM_ROLLED
    for (std::uint32_t at = needed + kLine * Team::rank(); at < fetched; at += kLine * Team::size()) {
        simt::prefetch(values + at);
    }
    fetched = needed < fetched ? needed : fetched;
}

// Shared memory for the stage's end.
struct LatticeRoom {
    Array<std::uint32_t> windows;  // for extras; see extras_of()
    Array<std::uint32_t> runs;     // for count()
};

// Whether a warp examines a step, after which it forgets the extras of `next`, two steps before.
ARCBEAM_DEVICE bool is_small(const StepSpan& span, const StepSpan& next) {
    constexpr std::uint32_t kMost = 2U * simt::kWarpSize;
    return span.end - span.first <= simt::kWarpSize && span.links_end - span.first_link <= kMost &&
           next.end - next.first <= kMost;
}

// Examines steps from `step` back, as long as they are all of the size of the first, and returns the step that is
// left. Within a step epsilon links lead from token to token; it is repeated until they change nothing. What a
// thread reads first has been loaded while the step after was examined.
template <class Team>
ARCBEAM_DEVICE std::uint32_t examine_steps(const LatticeLog& log, const Array<std::uint32_t>& windows,
                                           std::uint32_t step, bool small) {
    const std::uint32_t thread = Team::rank();
    StepSpan span = span_of(log, step);
    StepSpan before = span_of(log, step - 1U);
    std::uint32_t fetched = span.first;
    std::uint32_t fetched_links = span.first_link;
    LogEntry first_entry{kNoIndex, kNoIndex};
    Link first_link{kNoIndex, 0U, 0U, 0.0F};
    if (span.first + thread < span.end) {
        first_entry = simt::load(log.entries + (span.first + thread));
    }
    if (span.first_link + thread < span.links_end) {
        first_link = simt::load(log.links + (span.first_link + thread));
    }
    ARCBEAM_ROLLED
    for (; step > 0U; --step) {
        const StepSpan next = span_of(log, step >= 2U ? step - 2U : 0U);
        if (is_small(span, next) != small) {
            break;
        }
        prefetch_before<Team>(log.entries, before.first, fetched);
        prefetch_before<Team>(log.links, before.first_link, fetched_links);
        forget_extras<Team>(extras_of(log, windows, step + kWindows - 2U, next), next);
        LogEntry next_entry{kNoIndex, kNoIndex};
        Link next_link{kNoIndex, 0U, 0U, 0.0F};
        if (before.first + thread < before.end) {
            next_entry = simt::load(log.entries + (before.first + thread));
        }
        if (before.first_link + thread < before.links_end) {
            next_link = simt::load(log.links + (before.first_link + thread));
        }
        const Backward backward{log.beam, span, extras_of(log, windows, step, span), before.first,
                                extras_of(log, windows, step - 1U, before)};
        bool again = true;
        while (again) {
            bool lowered = false;
            ARCBEAM_ROLLED
            for (std::uint32_t i = span.first + thread; i < span.end; i += Team::size()) {
                const LogEntry entry = i == span.first + thread ? first_entry : simt::load(log.entries + i);
                lowered |= backward.lower(entry.source, 0.0F, i);
            }
            ARCBEAM_ROLLED
            for (std::uint32_t i = span.first_link + thread; i < span.links_end; i += Team::size()) {
                const Link link = i == span.first_link + thread ? first_link : simt::load(log.links + i);
                lowered |= backward.lower(link.source, link.slack, link.target);
            }
            again = Team::barrier_or(lowered);
        }
        ARCBEAM_ROLLED
        for (std::uint32_t i = span.first + thread; i < span.end; i += Team::size()) {
            if (backward.keeps(0.0F, i)) {
                simt::atomic_or<Scope::block>(log.entry_marks.kept + i / 32U, 1U << i % 32U);
            }
        }
        ARCBEAM_ROLLED
        for (std::uint32_t i = span.first_link + thread; i < span.links_end; i += Team::size()) {
            const Link link = i == span.first_link + thread ? first_link : simt::load(log.links + i);
            if (backward.keeps(link.slack, link.target)) {
                simt::atomic_or<Scope::block>(log.link_marks.kept + i / 32U, 1U << i % 32U);
            }
        }
        span = before;
        before = next;
        first_entry = next_entry;
        first_link = next_link;
    }
    return step;
}

// Finds the extra of every entry from those of the last step's, as far as they are within the beam, and marks what
// is within it. The marks are empty before. One warp examines small steps, without a barrier of the block.
ARCBEAM_DEVICE void find_extras(const LatticeLog& log, const LatticeRoom& room) {
    std::uint32_t step = log.num_steps;
    const StepSpan before = span_of(log, step - 1U);
    forget_extras<BlockTeam>(extras_of(log, room.windows, step - 1U, before), before);
    simt::block_barrier();
    ARCBEAM_ROLLED
    while (step > 0U) {
        if (!is_small(span_of(log, step), span_of(log, step >= 2U ? step - 2U : 0U))) {
            step = examine_steps<BlockTeam>(log, room.windows, step, false);
            simt::block_barrier();
            continue;
        }
        if (simt::warp() == 0U) {
            const std::uint32_t left = examine_steps<WarpTeam>(log, room.windows, step, true);
            if (simt::warp_thread() == 0U) {
                simt::store(room.runs.data, left);
            }
        }
        simt::block_barrier();
        step = simt::load(room.runs.data);
        simt::block_barrier();
    }
}

}  // namespace arcbeam
