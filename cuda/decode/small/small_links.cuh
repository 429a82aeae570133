// The links of a small frame (stage lattice, see decode/lattice.cuh): its candidates that lost against the winners
// of their keys, by one warp. A search without lattices has KeepNoLinks.
//
// The candidate of an emitting arc stays with its thread, because the closure may still find a better one for its
// key; those of epsilon arcs wait in shared memory.
#pragma once

#include "decode/small/small_arcs.cuh"
#include "decode/stream_lattice.cuh"

namespace arcbeam {

constexpr std::uint32_t kSmallEpsilons = 64U;  // candidates of epsilon arcs of a frame
static_assert(kSmallEpsilons * sizeof(SmallCandidate) <= kHistogramBins * sizeof(std::uint32_t),
              "they take the place of the histogram");

// Where the tokens of a frame, in the threads `alive`, are in the log, and those of the frame before.
struct SmallEntries {
    std::uint32_t first;
    std::uint32_t alive;
    std::uint32_t first_before;
    std::uint32_t alive_before;

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t of(std::uint32_t thread) const {
        return first + simt::popcount(alive & ((1U << thread) - 1U));
    }
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t before(std::uint32_t thread) const {
        return first_before + simt::popcount(alive_before & ((1U << thread) - 1U));
    }
};

template <class Search>
struct KeepNoLinks {
    ARCBEAM_DEVICE KeepNoLinks(const SearchParams&, const Lane&) {}
    ARCBEAM_DEVICE static void begin(bool, std::uint64_t, std::uint32_t, std::uint32_t) {}
    ARCBEAM_DEVICE static bool add(std::uint64_t, std::uint32_t, std::uint32_t) { return true; }
    ARCBEAM_DEVICE static bool note(const SmallEntries&, std::uint64_t, std::uint32_t) { return true; }
    ARCBEAM_DEVICE static void end_step() {}
};

template <class Search>
class KeepLinks {
  public:
    ARCBEAM_DEVICE KeepLinks(const SearchParams& params, const Lane& lane)
        : lattice_(lane.control->lattice),
          state_(lane.state),
          epsilons_(reinterpret_cast<SmallCandidate*>(lane.histogram.data)),
          steps_(params.lattice->steps + simt::load_readonly(params.lattice->first_step + lane.state.utterance) +
                 steps_before<Search>(params, lane.state.utterance)),
          beam_(params.lattice->beam) {}

    // This thread's candidate of an emitting arc, if it has one, and the thread that has its key.
    ARCBEAM_DEVICE void begin(bool has, std::uint64_t packed, std::uint32_t source, std::uint32_t holder) {
        own_ = SmallCandidate{packed, has ? holder : kNoIndex, source};
        num_epsilons_ = 0U;
    }

    // A candidate of an epsilon arc, the same for all threads; false: there are too many.
    ARCBEAM_DEVICE bool add(std::uint64_t packed, std::uint32_t source, std::uint32_t holder) {
        if (num_epsilons_ == kSmallEpsilons) {
            return false;
        }
        if (simt::warp_thread() == 0U) {
            simt::store(epsilons_ + num_epsilons_, SmallCandidate{packed, holder, source});
        }
        ++num_epsilons_;
        return true;
    }

    // Notes the links, given the winner of this thread's key and its source; false: there is no room for them.
    ARCBEAM_DEVICE bool note(const SmallEntries& entries, std::uint64_t winner, std::uint32_t source) {
        Links links{simt::load(&lattice_.links),
                    simt::load(&lattice_.num_links),
                    simt::load(&lattice_.link_capacity),
                    entries,
                    winner,
                    source};
        note_losers(own_, entries.before(own_.source), links);
        if (num_epsilons_ != 0U) {
            simt::warp_sync(simt::kAllThreads);
            for (std::uint32_t first = 0U; first < num_epsilons_; first += simt::kWarpSize) {
                const std::uint32_t at = first + simt::warp_thread();
                SmallCandidate candidate{kNoPacked, kNoIndex, 0U};
                if (at < num_epsilons_) {
                    candidate = simt::load(epsilons_ + at);
                }
                note_losers(candidate, entries.of(candidate.source), links);
            }
        }
        if (links.size > links.capacity) {
            return false;
        }
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(&lattice_.num_links, links.size);
        }
        return true;
    }

    // A frame was committed, and state.frame counts it.
    ARCBEAM_DEVICE void end_step() const {
        if (simt::warp_thread() == 0U) {
            simt::store(steps_ + state_.frame,
                        LatticeStep{state_.offset, state_.log_size, simt::load(&lattice_.num_links)});
        }
    }

  private:
    struct Links {
        Link* memory;
        std::uint32_t size;
        std::uint32_t capacity;
        const SmallEntries& entries;
        std::uint64_t winner;  // of this thread's key
        std::uint32_t source;
    };

    // candidate.state is the thread that has its key, kNoIndex where there is no candidate.
    ARCBEAM_DEVICE void note_losers(const SmallCandidate& candidate, std::uint32_t source, Links& links) const {
        const bool has = candidate.state != kNoIndex;
        const std::uint32_t holder = has ? candidate.state : simt::warp_thread();
        const std::uint64_t winner = simt::shuffle(simt::kAllThreads, links.winner, holder);
        const std::uint32_t of_winner = simt::shuffle(simt::kAllThreads, links.source, holder);
        const float slack = slack_of(packed_cost(candidate.packed), packed_cost(winner));
        const bool lost = candidate.packed != winner || candidate.source != of_winner;
        const bool is_needed = has && lost && stays(beam_, slack);
        const std::uint32_t all = simt::ballot(simt::kAllThreads, is_needed);
        const std::uint32_t into = links.size + simt::place_in(all);
        if (is_needed && into < links.capacity) {
            simt::store_streaming(links.memory + into,
                                  Link{source, links.entries.of(holder), packed_arc(candidate.packed), slack});
        }
        links.size += simt::popcount(all);
    }

    LatticeLane& lattice_;
    const LaneState& state_;
    SmallCandidate* const epsilons_;
    LatticeStep* const steps_;
    const float beam_;
    SmallCandidate own_;  // with the thread that has its key in the place of a state
    std::uint32_t num_epsilons_;
};

}  // namespace arcbeam
