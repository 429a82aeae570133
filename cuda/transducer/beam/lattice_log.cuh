// What is written down of an utterance's lattice: the hypotheses that have become live, and the candidates that
// were admitted. Its twin is cpu_reference/transducer/beam/lattice_log.hpp, with which the host makes the lattice
// of it.
//
// in    live hypotheses in their rank; admitted candidates in the order of the law
// out   records in the order in which they came
//
// Nothing is dropped here: an arc takes 24 bytes.
#pragma once

#include "transducer/beam/copy_words.cuh"
#include "transducer/beam/lattice_memory.hpp"
#include "transducer/beam/utterance.cuh"

namespace arcbeam::transducer::beam {

class LatticeLog {
  public:
    ARCBEAM_DEVICE explicit LatticeLog(const LatticeParams& params) : params_(params) {}

    [[nodiscard]] ARCBEAM_DEVICE bool is_kept() const { return params_.keeps != 0U; }

    // Whether so many arcs fit, and the tokens of the place after them.
    [[nodiscard]] ARCBEAM_DEVICE bool has_room(const Utterance& of, std::uint32_t arcs) const {
        const LatticeCounts* const there = counts(of);
        return !is_kept() || (simt::load(&there->arcs) + arcs <= params_.memory.rooms.arcs &&
                              simt::load(&there->tokens) + of.most() <= params_.memory.rooms.tokens);
    }

    // Writes the arc of each thread below `count`, whose source is the rank of a live hypothesis.
    ARCBEAM_DEVICE void add_arcs(const Utterance& of, std::uint32_t count, const ArcRecord& arc) const {
        LatticeCounts* const there = counts(of);
        const std::uint32_t before = simt::load(&there->arcs);
        const std::uint32_t first_live = simt::load(&there->tokens) - simt::load(&of.state().live);
        const std::uint32_t me = simt::warp_thread();
        if (me < count) {
            const std::size_t lane = of.lane;
            ArcRecord* const to = params_.memory.arcs + lane * params_.memory.rooms.arcs + before + me;
            simt::store(&to->source, first_live + arc.source);
            simt::store(&to->node, arc.node);
            simt::store(&to->label, arc.label);
            simt::store(&to->duration, arc.duration);
            simt::store(&to->log_prob, arc.log_prob);
            simt::store(&to->score, arc.score);
        }
        simt::warp_sync(simt::kAllThreads);
        if (me == 0U) {
            simt::store(&there->arcs, before + count);
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // Writes the live hypotheses, one of each thread, of a place.
    ARCBEAM_DEVICE void add_tokens(const Utterance& of, std::uint32_t frame, std::uint32_t symbols,
                                   std::uint32_t live) const {
        if (!is_kept()) {
            return;
        }
        LatticeCounts* const there = counts(of);
        const std::uint32_t before = simt::load(&there->tokens);
        const std::uint32_t frames = simt::load(&of.state().frames);
        const std::uint32_t me = simt::warp_thread();
        if (me < live) {
            const std::size_t lane = of.lane;
            TokenRecord* const to = params_.memory.tokens + lane * params_.memory.rooms.tokens + before + me;
            const std::uint32_t node = simt::load(&of.live(me)->node);
            simt::store(reinterpret_cast<Piece*>(to), Piece{{frame < frames ? frame : frames, symbols, node, 0U}});
        }
        simt::warp_sync(simt::kAllThreads);
        if (me == 0U) {
            simt::store(&there->tokens, before + live);
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // Takes over the records of the launch before.
    ARCBEAM_DEVICE void take_over(std::size_t lane) const {
        const LatticeMemory& old = params_.before;
        const LatticeMemory& now = params_.memory;
        copy_words(old.counts + lane, now.counts + lane, 1U);
        if (is_kept()) {
            copy_words(old.tokens + lane * old.rooms.tokens, now.tokens + lane * now.rooms.tokens,
                       simt::load(&old.counts[lane].tokens));
            copy_words(old.arcs + lane * old.rooms.arcs, now.arcs + lane * now.rooms.arcs,
                       simt::load(&old.counts[lane].arcs));
        }
    }

  private:
    [[nodiscard]] ARCBEAM_DEVICE LatticeCounts* counts(const Utterance& of) const {
        return params_.memory.counts + of.lane;
    }

    const LatticeParams& params_;
};

}  // namespace arcbeam::transducer::beam
