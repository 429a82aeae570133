// Stage lattice: the links that lost, and what of the log and of them is within the lattice beam (law 8). The rule
// is the twin's, cpu_reference/decode/lattice.hpp. Nothing of it runs unless a lattice is asked for.
//
// capture        a frame's candidates that lost against their states' winners, as links; after find_sources
// note_step      where a step ends in the log and among the links
// prune_lattice  drops what is beyond the lattice beam in mid-utterance, to make room; the extras of the last
// step's
//                tokens count as 0 there
// write_lattice  at the end: writes what is within the lattice beam to the pool
//
// The order of entries and links within a step differs from run to run; the host numbers them by rule.
#pragma once

#include "decode/collect.cuh"
#include "decode/recombine.cuh"
#include "shared/slack.hpp"

namespace arcbeam {

using lattice::Link;

// One thread calls this at the begin of a launch.
ARCBEAM_DEVICE void open_lattice(const LatticeLane& of_host, LatticeLane& lane) {
    simt::store(&lane.costs, of_host.costs);
    simt::store(&lane.links, of_host.links);
    simt::store(&lane.link_capacity, of_host.link_capacity);
    simt::store(&lane.num_links, of_host.num_links);
}

// Adds the links that the threads of a warp want to note. There is room for all of them.
template <class Team>
ARCBEAM_DEVICE void note_link(bool wanted, const Link& link, LatticeLane& lane) {
    const std::uint32_t at = take_place<Team>(&lane.num_links, wanted);
    if (wanted) {
        simt::store_streaming(simt::load(&lane.links) + at, link);
    }
}

template <class Team>
ARCBEAM_DEVICE void capture(std::uint32_t num_candidates, std::uint32_t first_log, float beam,
                            const Workspace& work, LatticeLane& lane) {
    const std::uint32_t of_warps = (num_candidates + simt::kWarpSize - 1U) / simt::kWarpSize * simt::kWarpSize;
    for (std::uint32_t i = Team::rank(); i < of_warps; i += Team::size()) {
        Link link{0U, 0U, 0U, 0.0F};
        bool wanted = false;
        if (i < num_candidates) {
            const Candidate candidate = work.candidate[i];
            if (candidate.place != kNoIndex) {
                const std::uint64_t winner = work.table_best[candidate.place];
                const float slack = slack_of(packed_cost(candidate.packed), packed_cost(winner));
                link = {candidate.source, first_log + work.table_index[candidate.place],
                        packed_arc(candidate.packed), slack};
                wanted = candidate.packed != winner && stays(beam, slack);
            }
        }
        note_link<Team>(wanted, link, lane);
    }
}

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

ARCBEAM_DEVICE LatticeLog lattice_log(const LatticeParams& params, const LatticeLane& lane,
                                      const LaneState& state) {
    auto* const behind = reinterpret_cast<std::uint32_t*>(state.log + state.log_capacity);
    float* const costs = simt::load(&lane.costs);
    Link* const links = simt::load(&lane.links);
    const std::uint32_t link_capacity = simt::load(&lane.link_capacity);
    auto* const behind_links = reinterpret_cast<std::uint32_t*>(links + link_capacity);
    return {state.log,
            costs,
            reinterpret_cast<std::uint32_t*>(costs + state.log_capacity),
            links,
            params.steps + simt::load_readonly(params.first_step + state.utterance),
            {behind, behind + mark_words(state.log_capacity)},
            {behind_links, behind_links + mark_words(link_capacity)},
            state.log_size,
            simt::load(&lane.num_links),
            state.frame + state.started,
            params.beam};
}

// One thread calls this after a frame was committed. `number` is the step's.
ARCBEAM_DEVICE void note_step(const LatticeParams& params, const LatticeLane& lane, const LaneState& state,
                              std::uint32_t number) {
    simt::store(params.steps + simt::load_readonly(params.first_step + state.utterance) + number,
                LatticeStep{state.offset, state.log_size, simt::load(&lane.num_links)});
}

ARCBEAM_DEVICE LatticeStep step_before(const LatticeLog& log, std::uint32_t step) {
    return step == 0U ? LatticeStep{0.0, 0U, 0U} : simt::load(log.steps + (step - 1U));
}

// Lowers the extra of a link's source; says whether that is a token of this very step, and now has less.
ARCBEAM_DEVICE bool lower_extra(const LatticeLog& log, std::uint32_t source, float slack, std::uint32_t target,
                                std::uint32_t first_of_step) {
    const std::uint32_t of_target = simt::load_relaxed<Scope::block>(log.extras + target);
    if (of_target == kNoCost || source == kNoIndex) {
        return false;
    }
    const float extra = extra_by(slack, from_ordered(of_target));
    if (!stays(log.beam, extra)) {
        return false;
    }
    const std::uint32_t before = simt::atomic_min<Scope::block>(log.extras + source, ordered(extra));
    return source >= first_of_step && ordered(extra) < before;
}

// Finds the extra of every entry from those of the last step's, as far as they are within the beam. Within a step
// epsilon links lead from token to token; it is repeated until they change nothing.
ARCBEAM_DEVICE void find_extras(const LatticeLog& log) {
    ARCBEAM_ROLLED
    for (std::uint32_t step = log.num_steps; step-- > 0U;) {
        const LatticeStep before = step_before(log, step);
        const LatticeStep last = simt::load(log.steps + step);
        bool again = true;
        while (again) {
            bool lowered = false;
            ARCBEAM_ROLLED
            for (std::uint32_t i = before.entries_end + simt::thread_rank(); i < last.entries_end;
                 i += simt::block_size()) {
                lowered |= lower_extra(log, simt::load(log.entries + i).source, 0.0F, i, before.entries_end);
            }
            ARCBEAM_ROLLED
            for (std::uint32_t i = before.links_end + simt::thread_rank(); i < last.links_end;
                 i += simt::block_size()) {
                const Link link = simt::load(log.links + i);
                lowered |= lower_extra(log, link.source, link.slack, link.target, before.entries_end);
            }
            again = simt::block_barrier_or(lowered);
        }
    }
}

// What is left of a lattice.
struct Kept {
    std::uint32_t entries;
    std::uint32_t links;
};

// Marks what is within the beam, by the extras. Barriers are passed, one at the end.
ARCBEAM_DEVICE Kept mark_kept(const LatticeLog& log, const Array<std::uint32_t>& scratch) {
    ARCBEAM_ROLLED
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(log.num_entries); word += simt::block_size()) {
        std::uint32_t bits = 0U;
        ARCBEAM_ROLLED
        for (std::uint32_t i = 32U * word; i < log.num_entries && i < 32U * word + 32U; ++i) {
            bits |= simt::load(log.extras + i) != kNoCost ? 1U << i % 32U : 0U;
        }
        simt::store(log.entry_marks.kept + word, bits);
    }
    ARCBEAM_ROLLED
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(log.num_links); word += simt::block_size()) {
        std::uint32_t bits = 0U;
        ARCBEAM_ROLLED
        for (std::uint32_t i = 32U * word; i < log.num_links && i < 32U * word + 32U; ++i) {
            const Link link = simt::load(log.links + i);
            const std::uint32_t extra = simt::load(log.extras + link.target);
            const bool kept = extra != kNoCost && stays(log.beam, extra_by(link.slack, from_ordered(extra)));
            bits |= kept ? 1U << i % 32U : 0U;
        }
        simt::store(log.link_marks.kept + word, bits);
    }
    simt::block_barrier();
    const std::uint32_t entries = count({nullptr, 0U, log.num_entries, 0U, 0U}, log.entry_marks, scratch);
    const std::uint32_t links = count({nullptr, 0U, log.num_links, 0U, 0U}, log.link_marks, scratch);
    return {entries, links};
}

// How many of the first n are kept.
ARCBEAM_DEVICE std::uint32_t kept_before(const Marks& marks, std::uint32_t n, std::uint32_t size,
                                         std::uint32_t kept) {
    return n == size ? kept : marks.place(n);
}

ARCBEAM_DEVICE LatticeStep moved(const LatticeLog& log, const LatticeStep& step, const Kept& kept) {
    return {step.offset, kept_before(log.entry_marks, step.entries_end, log.num_entries, kept.entries),
            kept_before(log.link_marks, step.links_end, log.num_links, kept.links)};
}

ARCBEAM_DEVICE LogEntry moved(const LatticeLog& log, const LogEntry& entry) {
    return {entry.source == kNoIndex ? kNoIndex : log.entry_marks.place(entry.source), entry.arc};
}

ARCBEAM_DEVICE Link moved(const LatticeLog& log, const Link& link) {
    return {log.entry_marks.place(link.source), log.entry_marks.place(link.target), link.arc, link.slack};
}

// Gives every entry before `first` no extra. A barrier must follow.
ARCBEAM_DEVICE void forget_extras(const LatticeLog& log, std::uint32_t first) {
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < first; i += simt::block_size()) {
        simt::store(log.extras + i, kNoCost);
    }
}

// Drops what no path within the beam of any of the last `num_tokens` entries needs, and moves the rest together.
// The entries of the last step all stay. Barriers are passed, one at the end.
ARCBEAM_DEVICE_NOINLINE Kept prune_lattice(const LatticeLog log, std::uint32_t num_tokens,
                                           const Array<std::uint32_t> scratch) {
    const std::uint32_t first_token = log.num_entries - num_tokens;
    forget_extras(log, first_token);
    ARCBEAM_ROLLED
    for (std::uint32_t i = first_token + simt::thread_rank(); i < log.num_entries; i += simt::block_size()) {
        simt::store(log.extras + i, ordered(0.0F));
    }
    simt::block_barrier();
    find_extras(log);
    const Kept kept = mark_kept(log, scratch);
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < log.num_steps; i += simt::block_size()) {
        simt::store(log.steps + i, moved(log, simt::load(log.steps + i), kept));
    }
    move_kept(log.links, 0U, log.num_links, log.link_marks, [&](const Link& link) { return moved(log, link); });
    move_kept(log.costs, 0U, log.num_entries, log.entry_marks, [](float cost) { return cost; });
    move_kept(log.entries, 0U, log.num_entries, log.entry_marks,
              [&](const LogEntry& entry) { return moved(log, entry); });
    return kept;
}

// The ends of an utterance: the last entries of the log.
struct LatticeEnds {
    Array<std::uint32_t> extras;  // [n]: ordered(), of the end alone; kNoCost: no path ends here
    std::uint32_t n;
    std::uint32_t best;  // an entry
    bool alive;          // whether the search lived to the last frame
};

// Writes what is kept to memory of the host.
ARCBEAM_DEVICE void write_kept(const LatticeLog& log, const LatticeEnds& ends, const Kept& kept,
                               std::uint32_t first_end, unsigned char* memory) {
    auto* const steps = reinterpret_cast<LatticeStep*>(memory);
    auto* const links = reinterpret_cast<Link*>(steps + log.num_steps);
    auto* const entries = reinterpret_cast<LogEntry*>(links + kept.links);
    auto* const costs = reinterpret_cast<float*>(entries + kept.entries);
    float* const extras = costs + kept.entries;
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < log.num_steps; i += simt::block_size()) {
        simt::store(steps + i, moved(log, simt::load(log.steps + i), kept));
    }
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < log.num_links; i += simt::block_size()) {
        if (log.link_marks.holds(i)) {
            simt::store(links + log.link_marks.place(i), moved(log, simt::load(log.links + i)));
        }
    }
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < log.num_entries; i += simt::block_size()) {
        if (!log.entry_marks.holds(i)) {
            continue;
        }
        const std::uint32_t at = log.entry_marks.place(i);
        simt::store(entries + at, moved(log, simt::load(log.entries + i)));
        simt::store(costs + at, simt::load(log.costs + i));
        if (at >= first_end) {
            const std::uint32_t extra = ends.extras[i - (log.num_entries - ends.n)];
            simt::store(extras + (at - first_end), extra == kNoCost ? kInfiniteCost : from_ordered(extra));
        }
    }
}

// Gives the ends their extras. Of a search that died only the best path is kept, which one thread walks.
ARCBEAM_DEVICE void begin_at_ends(const LatticeLog& log, const LatticeEnds& ends) {
    const std::uint32_t first = log.num_entries - ends.n;
    forget_extras(log, ends.alive ? first : log.num_entries);
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); ends.alive && i < ends.n; i += simt::block_size()) {
        simt::store(log.extras + first + i, static_cast<std::uint32_t>(ends.extras[i]));
    }
    simt::block_barrier();
    if (!ends.alive && simt::thread_rank() == 0U) {
        ARCBEAM_ROLLED
        for (std::uint32_t at = ends.best; at != kNoIndex; at = simt::load(log.entries + at).source) {
            simt::store(log.extras + at, ordered(0.0F));
        }
    }
    simt::block_barrier();
}

// Writes the lattice of an utterance to the pool. `shared` is a word that the block shares. False if the pool is
// full; then what is needed has been added to pool_used. Barriers are passed.
ARCBEAM_DEVICE_NOINLINE bool write_lattice(const LatticeParams& params, std::uint32_t utterance, LatticeLog log,
                                           const LatticeEnds ends, const Array<std::uint32_t> scratch,
                                           std::uint64_t* shared) {
    begin_at_ends(log, ends);
    if (ends.alive) {
        find_extras(log);
    } else {
        log.num_links = 0U;
    }
    const Kept kept = mark_kept(log, scratch);
    const std::uint32_t first_end =
        kept_before(log.entry_marks, log.num_entries - ends.n, log.num_entries, kept.entries);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t bytes =
            lattice_bytes(log.num_steps, kept.links, kept.entries, kept.entries - first_end);
        const std::uint64_t begin = simt::atomic_add<Scope::device>(params.pool_used, bytes);
        const bool fits = begin <= params.pool_capacity && bytes <= params.pool_capacity - begin;
        simt::store(shared, fits ? begin : kNoPacked);
        if (fits) {
            params.results[utterance] =
                LatticeResult{begin, log.num_steps, kept.links, kept.entries, log.entry_marks.place(ends.best)};
        }
    }
    simt::block_barrier();
    const std::uint64_t begin = simt::load(shared);
    simt::block_barrier();
    if (begin == kNoPacked) {
        return false;
    }
    write_kept(log, ends, kept, first_end, params.pool + begin);
    return true;
}

}  // namespace arcbeam
