// Stage lattice: the links that lost, and what of the log and of them is within the lattice beam (law 8). The rule
// is the twin's, cpu_reference/decode/lattice.hpp. Nothing of it runs unless a lattice is requested.
//
// Capture        a frame's candidates that lost against their states' winners, as links; in find_sources
// note_step      where a step ends in the log and among the links
// prune_lattice  drops what is beyond the lattice beam in mid-utterance, to make room; the extras of the last
//                step's tokens count as 0 there
// write_lattice  at the end: writes what is within the lattice beam to the pool
//
// The order of entries and links within a step differs from run to run; the host numbers them by rule.
#pragma once

#include "decode/lattice_extras.cuh"
#include "decode/recombine.cuh"

namespace arcbeam {

// One thread calls this at the begin of a launch.
ARCBEAM_DEVICE void open_lattice(const LatticeLane& of_host, LatticeLane& lane) {
    simt::store(&lane.costs, of_host.costs);
    simt::store(&lane.links, of_host.links);
    simt::store(&lane.link_capacity, of_host.link_capacity);
    simt::store(&lane.num_links, of_host.num_links);
}

// Adds the links that the threads of a warp note. There is room for all of them.
template <class Team>
ARCBEAM_DEVICE void note_link(bool needed, const Link& link, LatticeLane& lane) {
    const std::uint32_t at = take_place<Team>(&lane.num_links, needed);
    if (needed) {
        simt::store_streaming(simt::load(&lane.links) + at, link);
    }
}

// Notes the candidates that find_sources() sees lose. One thread of a warp takes the places of all.
template <class Team>
struct Capture {
    static constexpr bool kOfWarps = true;

    Array<std::uint32_t> table_index;
    std::uint32_t first_log;
    float beam;
    LatticeLane* lane;

    template <std::uint32_t kEach>
    ARCBEAM_DEVICE void note(const Candidate (&candidate)[kEach], const std::uint64_t (&winner)[kEach]) const {
        float slack[kEach];
        bool needed[kEach];
        std::uint32_t place[kEach];
        std::uint32_t num_taken = 0U;
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            slack[k] = slack_of(packed_cost(candidate[k].packed), packed_cost(winner[k]));
            needed[k] = candidate[k].place != kNoIndex && candidate[k].packed != winner[k] && stays(beam, slack[k]);
            const std::uint32_t lanes = simt::ballot(simt::kAllThreads, needed[k]);
            place[k] = num_taken + simt::place_in(lanes);
            num_taken += simt::popcount(lanes);
        }
        if (num_taken == 0U) {
            return;
        }
        std::uint32_t first = 0U;
        if (simt::warp_thread() == 0U) {
            first = simt::atomic_add<Team::kScope>(&lane->num_links, num_taken);
        }
        first = simt::shuffle(simt::kAllThreads, first, 0U);
        for (std::uint32_t k = 0U; k < kEach; ++k) {
            if (needed[k]) {
                const Link link{candidate[k].source, first_log + table_index[candidate[k].place],
                                packed_arc(candidate[k].packed), slack[k]};
                simt::store_streaming(simt::load(&lane->links) + (first + place[k]), link);
            }
        }
    }
};

// `steps_before`: those of a stream's sentence before the chunk.
ARCBEAM_DEVICE LatticeLog lattice_log(const LatticeParams& params, const LatticeLane& lane, const LaneState& state,
                                      std::uint32_t steps_before) {
    auto* const after_log = reinterpret_cast<std::uint32_t*>(state.log + state.log_capacity);
    float* const costs = simt::load(&lane.costs);
    Link* const links = simt::load(&lane.links);
    const std::uint32_t link_capacity = simt::load(&lane.link_capacity);
    auto* const behind_links = reinterpret_cast<std::uint32_t*>(links + link_capacity);
    return {state.log,
            costs,
            reinterpret_cast<std::uint32_t*>(costs + state.log_capacity),
            links,
            params.steps + simt::load_readonly(params.first_step + state.utterance),
            {after_log, after_log + mark_words(state.log_capacity)},
            {behind_links, behind_links + mark_words(link_capacity)},
            state.log_size,
            simt::load(&lane.num_links),
            steps_before + state.frame + state.started,
            params.beam};
}

// One thread calls this after a frame was committed. `number` is the step's.
ARCBEAM_DEVICE void note_step(const LatticeParams& params, const LatticeLane& lane, const LaneState& state,
                              std::uint32_t number) {
    simt::store(params.steps + simt::load_readonly(params.first_step + state.utterance) + number,
                LatticeStep{state.offset, state.log_size, simt::load(&lane.num_links)});
}

// What is left of a lattice.
struct Kept {
    std::uint32_t entries;
    std::uint32_t links;
};

ARCBEAM_DEVICE void forget_marks(const Marks& marks, std::uint32_t size) {
    ARCBEAM_ROLLED
    for (std::uint32_t word = simt::thread_rank(); word < mark_words(size); word += simt::block_size()) {
        simt::store(marks.kept + word, 0U);
    }
}

ARCBEAM_DEVICE Kept count_kept(const LatticeLog& log, const Array<std::uint32_t>& scratch) {
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

// Drops what no path within the beam of any of the last `num_tokens` entries needs, and moves the rest together.
// The entries of the last step all stay. Barriers are passed, one at the end.
ARCBEAM_DEVICE Kept prune_lattice(const LatticeLog& log, const LatticeRoom& room) {
    forget_marks(log.entry_marks, log.num_entries);
    forget_marks(log.link_marks, log.num_links);
    const StepSpan last = span_of(log, log.num_steps);
    std::uint32_t* const extras = extras_of(log, room.windows, log.num_steps, last);
    ARCBEAM_ROLLED
    for (std::uint32_t i = simt::thread_rank(); i < last.end - last.first; i += simt::block_size()) {
        simt::store(extras + i, ordered(0.0F));
    }
    find_extras(log, room);
    const Kept kept = count_kept(log, room.runs);
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
    bool alive;          // whether the search was alive after the last frame
    bool reached_final;
    double total_cost;
    std::uint32_t frames;
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

// Gives the ends their extras, and marks what is within the beam of them. Of a search that died only the best path
// is kept, which one thread walks. Barriers are passed, one at the end.
ARCBEAM_DEVICE void mark_from_ends(const LatticeLog& log, const LatticeEnds& ends, const LatticeRoom& room) {
    forget_marks(log.entry_marks, log.num_entries);
    forget_marks(log.link_marks, log.num_links);
    if (ends.alive) {
        std::uint32_t* const extras = extras_of(log, room.windows, log.num_steps, span_of(log, log.num_steps));
        ARCBEAM_ROLLED
        for (std::uint32_t i = simt::thread_rank(); i < ends.n; i += simt::block_size()) {
            simt::store(extras + i, static_cast<std::uint32_t>(ends.extras[i]));
        }
        find_extras(log, room);
        return;
    }
    simt::block_barrier();
    if (simt::thread_rank() == 0U) {
        ARCBEAM_ROLLED
        for (std::uint32_t at = ends.best; at != kNoIndex; at = simt::load(log.entries + at).source) {
            simt::atomic_or<Scope::block>(log.entry_marks.kept + at / 32U, 1U << at % 32U);
        }
    }
    simt::block_barrier();
}

// Writes the lattice of an utterance to the pool. `shared` is a word that the block shares. False if the pool is
// full; then what is needed has been added to pool_used. Barriers are passed.
ARCBEAM_DEVICE bool write_lattice(const LatticeParams& params, std::uint32_t utterance, const LatticeLog& log,
                                  const LatticeEnds& ends, const LatticeRoom& room, std::uint64_t* shared) {
    mark_from_ends(log, ends, room);
    const Kept kept = count_kept(log, room.runs);
    const std::uint32_t first_end =
        kept_before(log.entry_marks, log.num_entries - ends.n, log.num_entries, kept.entries);
    if (simt::thread_rank() == 0U) {
        const std::uint64_t bytes =
            lattice_bytes(log.num_steps, kept.links, kept.entries, kept.entries - first_end);
        const std::uint64_t begin = simt::atomic_add<Scope::device>(params.pool_used, bytes);
        const bool fits = begin <= params.pool_capacity && bytes <= params.pool_capacity - begin;
        simt::store(shared, fits ? begin : kNoPacked);
        if (fits) {
            params.results[utterance] = LatticeResult{begin,
                                                      ends.total_cost,
                                                      log.num_steps,
                                                      kept.links,
                                                      kept.entries,
                                                      log.entry_marks.place(ends.best),
                                                      ends.frames,
                                                      ends.reached_final ? 1U : 0U,
                                                      0U,
                                                      ends.alive ? 1U : 0U};
        }
    }
    simt::block_barrier();
    const std::uint64_t begin = simt::load(shared);
    simt::block_barrier();
    if (begin == kNoPacked) {
        return false;
    }
    write_kept(log, ends, kept, first_end, params.pool + begin);
    simt::block_barrier();
    if (simt::thread_rank() == 0U) {
        simt::store_release<Scope::system>(&params.results[utterance].written, 1U);
    }
    return true;
}

}  // namespace arcbeam
