// What one warp does for an utterance between two rounds: it takes over what was found, and goes on to the next
// depth or to a later frame. Its twin is cpu_reference/transducer/beam/lane.cpp.
//
// in    the candidates' sums and best labels
// out   live hypotheses; labels in the log
#pragma once

#include "transducer/beam/buckets.cuh"
#include "transducer/beam/expand.cuh"
#include "transducer/beam/histories.cuh"
#include "transducer/beam/requests.cuh"
#include "transducer/beam/settle.cuh"

namespace arcbeam::transducer::beam {

template <class Models, class Lattices>
class Advance {
  public:
    ARCBEAM_DEVICE Advance(const Utterance& of, const Models& models, const Lattices& lattices)
        : of_(of),
          models_(models),
          lattices_(lattices),
          buckets_{of, lattices},
          histories_{of},
          expansion_{of, models} {}

    // Before the first round of a launch.
    ARCBEAM_DEVICE void begin() const {
        Lane& lane = of_.state();
        const std::uint64_t bad = simt::load_readonly(of_.loop.bad_inputs + of_.lane);
        const bool is_fresh = simt::load(&lane.nodes) == 0U;
        simt::warp_sync(simt::kAllThreads);
        if (is_fresh && simt::warp_thread() == 0U) {
            histories_.store_node(kRoot, kNowhere, of_.loop.blank, kNowhere);
            if constexpr (Models::kFused) {
                models_.begin(of_);
            }
            for (std::uint32_t b = 0U; b < buckets_of(of_.beam.sizes); ++b) {
                simt::store(of_.place(kRoot, b), kNowhere);
            }
            store_hypothesis(of_.live(0U), Hypothesis{kRoot, 0.0F, 0.0F, kNowhere, 0U, 0U, 0.0F, 0.0F});
            simt::store(&lane.nodes, 1U);
            simt::store(&lane.live, 1U);
            simt::store(&lane.later, -INFINITY);
            refuse(bad);
        }
        simt::warp_sync(simt::kAllThreads);
        if constexpr (Lattices::kKept) {
            lattices_.log.add_tokens(of_, 0U, 0U, is_fresh ? 1U : 0U);
        }
    }

    // After a state has been restored.
    ARCBEAM_DEVICE void go_on() const {
        const std::uint64_t bad = simt::load_readonly(of_.loop.bad_inputs + of_.lane);
        if (bad == kNothingBad) {
            go_to_next_frame();
            return;
        }
        if (simt::warp_thread() == 0U) {
            refuse(bad);
        }
        simt::warp_sync(simt::kAllThreads);
    }

    // Expands what has been tested in this round.
    ARCBEAM_DEVICE void advance() const {
        const std::uint32_t live = simt::load(&of_.state().live);
        float bound = 0.0F;
        if (!expansion_.find_bound(live, bound)) {
            simt::warp_sync(simt::kAllThreads);
            if (simt::warp_thread() == 0U) {
                fail(LaneOutcome::not_finite, simt::load(&of_.state().frame));
            }
            simt::warp_sync(simt::kAllThreads);
            return;
        }
        const std::uint32_t count = expansion_.admit(live, bound);
        if (!has_room(count)) {
            wait_for_room(of_);  // what has been tested is tested again
            return;
        }
        for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
            add(first, count - first < simt::kWarpSize ? count - first : simt::kWarpSize);
        }
        const std::uint32_t deeper = of_.beam.sizes.frames;
        std::uint32_t left = 0U;
        if (simt::load(of_.count(deeper)) > 0U) {
            const float overtaken = buckets_.overtaken();
            left = buckets_.cut_off(deeper, overtaken > bound ? overtaken : bound);
        }
        if (left > 0U) {
            go_to(simt::load(&of_.state().frame), simt::load(&of_.state().symbols) + 1U, left);
        } else {
            go_to_next_frame();
        }
    }

  private:
    // Fails if the frames have a value that is not finite, by one thread.
    ARCBEAM_DEVICE void refuse(std::uint64_t bad) const {
        if (bad != kNothingBad) {
            const auto frame = static_cast<std::uint32_t>(bad >> 32U);
            const auto feature = static_cast<std::uint32_t>(bad);
            simt::store(&of_.state().bad_feature, feature);
            simt::store(&of_.state().bad_value, feature_at(of_.loop.utterances[of_.lane], frame, feature));
            fail(LaneOutcome::bad_input, frame);
        }
    }

    ARCBEAM_DEVICE void fail(LaneOutcome outcome, std::uint32_t frame) const {
        simt::store(&of_.state().outcome, outcome);
        simt::store(&of_.state().bad_frame, frame);
        simt::store(&of_.state().frames, 0U);
    }

    [[nodiscard]] ARCBEAM_DEVICE bool has_room(std::uint32_t arrivals) const {
        const Rooms& rooms = of_.rooms();
        bool fits = simt::load(&of_.state().nodes) + arrivals <= rooms.nodes &&
                    simt::load(&of_.state().labels) + 2U * of_.most() <= rooms.labels;
        for (std::uint32_t b = simt::warp_thread(); b < buckets_of(of_.beam.sizes); b += simt::kWarpSize) {
            fits = fits && simt::load(of_.count(b)) + arrivals <= rooms.bucket;
        }
        if (!of_.is_stream() &&
            simt::load(&of_.state().frame) + of_.beam.sizes.frames > simt::load(&of_.state().frames)) {
            std::uint32_t all = arrivals;  // meet at the end
            for (std::uint32_t b = 0U; b < buckets_of(of_.beam.sizes); ++b) {
                all += simt::load(of_.count(b));
            }
            fits = fits && all <= rooms.bucket;
        }
        if constexpr (Lattices::kKept) {
            fits = fits && lattices_.log.has_room(of_, arrivals);
        }
        return simt::all(simt::kAllThreads, fits);
    }

    // Adds some candidates, one of each thread, to their buckets.
    ARCBEAM_DEVICE void add(std::uint32_t first, std::uint32_t arrivals) const {
        const std::uint32_t me = simt::warp_thread();
        const std::uint32_t tokens = of_.loop.network.tokens;
        const Place here{simt::load(&of_.state().frame), simt::load(&of_.state().symbols)};
        std::uint32_t bucket = 0U;
        std::uint32_t source = kRoot;
        std::uint32_t token = of_.loop.blank;
        if (me < arrivals) {
            const std::uint32_t index = index_of(simt::load(&of_.candidate(1U, first + me)->key));
            const std::uint32_t duration = duration_of(first + me);
            token = index % tokens;
            source = simt::load(&of_.live(index / tokens)->node);
            const Place next = token == of_.loop.blank ? after_blank(here, duration)
                                                       : after_label(here, duration, of_.loop.max_symbols);
            bucket = next.frame == here.frame ? of_.beam.sizes.frames
                                              : of_.bucket_of(static_cast<std::uint32_t>(next.frame));
        }
        // A label with several durations is several neighbours, the first of which finds the history.
        const bool writes = me < arrivals && token != of_.loop.blank;
        const std::uint64_t history = writes ? std::uint64_t{source} << 32U | token : ~std::uint64_t{0};
        const std::uint32_t same = simt::match_any(simt::kAllThreads, history);
        [[maybe_unused]] bool is_new = false;
        const std::uint32_t child =
            histories_.child(writes && simt::is_leader(same), source, token, [&](std::uint32_t made) {
                is_new = true;
                if constexpr (Models::kFused) {
                    models_.follow(of_, source, token, made);
                }
            });
        const std::uint32_t of_leader = simt::shuffle(simt::kAllThreads, child, simt::lowest_bit(same));
        const std::uint32_t node = writes ? of_leader : source;
        if constexpr (Lattices::kKept) {
            lattices_.contexts.add(of_, is_new, child);
            if (lattices_.log.is_kept()) {
                lattices_.log.add_arcs(of_, arrivals, me < arrivals ? arc(first + me, node) : ArcRecord{});
            }
        }
        simt::warp_sync(simt::kAllThreads);
        // Of another thread it is the history that they share.
        const float later = buckets_.add(arrivals, bucket, node, [&](std::uint32_t thread) {
            return made(first + thread, node, static_cast<std::uint32_t>(here.frame));
        });
        if (me == 0U && later > simt::load(&of_.state().later)) {
            simt::store(&of_.state().later, later);
        }
        simt::warp_sync(simt::kAllThreads);
    }

    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t place_of_duration(std::uint32_t i) const {
        return static_cast<std::uint32_t>(simt::load(&of_.candidate(1U, i)->order) % of_.beam.sizes.durations);
    }

    // The frames of a candidate's duration; 0 in an RNN-T.
    [[nodiscard]] ARCBEAM_DEVICE std::uint32_t duration_of(std::uint32_t i) const {
        return simt::load_readonly(of_.loop.lengths + place_of_duration(i));
    }

    // The hypothesis that a candidate makes of its source.
    [[nodiscard]] ARCBEAM_DEVICE Hypothesis made(std::uint32_t i, std::uint32_t node, std::uint32_t frame) const {
        const std::uint64_t key = simt::load(&of_.candidate(1U, i)->key);
        const std::uint32_t tokens = of_.loop.network.tokens;
        const std::uint32_t rank = index_of(key) / tokens;
        const std::uint32_t token = index_of(key) - rank * tokens;
        const RowSums sums = expansion_.sums_of(rank);
        const float of_token = models_.scores(of_, rank, sums).of(token);
        Hypothesis made = load_hypothesis(of_.live(rank));
        const float of_duration = simt::load(of_.durations(rank) + place_of_duration(i));
        made.score = score_after(made.score, of_token, of_duration);
        made.path = score_after(made.path, of_token, of_duration);
        if (token != of_.loop.blank) {
            made.node = node;
            made.frame = frame;
            made.duration = duration_of(i) | kWritten;
            made.log_prob = of_token;
            if constexpr (Models::kFused) {
                made.log_prob = PlainModels{}.scores(of_, rank, sums).of(token);  // the network's
            }
            made.confidence = sums.confidence;
        }
        return made;
    }

    // The arc that a candidate is, from the rank of its source.
    [[nodiscard]] ARCBEAM_DEVICE ArcRecord arc(std::uint32_t i, std::uint32_t node) const {
        const std::uint32_t index = index_of(simt::load(&of_.candidate(1U, i)->key));
        const std::uint32_t rank = index / of_.loop.network.tokens;
        const std::uint32_t token = index - rank * of_.loop.network.tokens;
        const RowSums sums = expansion_.sums_of(rank);
        const float duration = simt::load(of_.durations(rank) + place_of_duration(i));
        return {rank,
                node,
                token,
                place_of_duration(i),
                step_score(PlainModels{}.scores(of_, rank, sums).of(token), duration),
                step_score(models_.scores(of_, rank, sums).of(token), duration)};
    }

    ARCBEAM_DEVICE void go_to(std::uint32_t frame, std::uint32_t symbols, std::uint32_t live) const {
        simt::warp_sync(simt::kAllThreads);
        if (simt::warp_thread() == 0U) {
            simt::store(&of_.state().frame, frame);
            simt::store(&of_.state().symbols, symbols);
            simt::store(&of_.state().live, live);
        }
        write_labels(live);
        if constexpr (Lattices::kKept) {
            lattices_.log.add_tokens(of_, frame, symbols, live);
        }
        if constexpr (Models::kFused) {
            if (!of_.is_active()) {
                models_.end(of_, live);
            }
        }
    }

    ARCBEAM_DEVICE void go_to_next_frame() const {
        std::uint32_t frame = simt::load(&of_.state().frame);
        double offset = simt::load(&of_.state().offset);
        const std::uint32_t frames = simt::load(&of_.state().frames);
        float later = -INFINITY;
        std::uint32_t live = 0U;
        for (std::uint32_t k = 0U; k < of_.beam.sizes.frames && live == 0U; ++k) {
            frame += 1U;
            const std::uint32_t bucket = of_.bucket_of(frame);
            if (simt::load(of_.count(bucket)) > 0U) {
                if (frame >= frames && of_.is_stream()) {
                    frame = frames;
                    break;
                }
                if (frame >= frames) {
                    meet(frame);
                }
                offset = offset + static_cast<double>(buckets_.rescale(bucket, later));
                if (of_.beam.settle_frames > 0U && frame < frames) {
                    later = settle_apart(of_, frame);
                }
                live = buckets_.cut_off(bucket, -of_.beam.beam);
            }
        }
        if (of_.is_stream()) {
            keep_predictions_apart(of_, live);
        }
        if (simt::warp_thread() == 0U) {
            simt::store(&of_.state().offset, offset);
            simt::store(&of_.state().later, later);
        }
        go_to(frame, 0U, live);
    }

    // Adds what has arrived after a frame, the first one after the last that was searched, to its bucket.
    ARCBEAM_DEVICE void meet(std::uint32_t frame) const {
        for (std::uint32_t k = 1U; k < of_.beam.sizes.frames; ++k) {
            const std::uint32_t from = of_.bucket_of(frame + k);
            const std::uint32_t count = simt::load(of_.count(from));
            for (std::uint32_t first = 0U; first < count; first += simt::kWarpSize) {
                const std::uint32_t left = count - first;
                const std::uint32_t arrivals = left < simt::kWarpSize ? left : simt::kWarpSize;
                const std::uint32_t me = simt::warp_thread() < arrivals ? simt::warp_thread() : 0U;
                buckets_.add(
                    arrivals, of_.bucket_of(frame), simt::load(&of_.bucket(from, first + me)->node),
                    [&](std::uint32_t thread) { return load_hypothesis(of_.bucket(from, first + thread)); });
            }
            simt::warp_sync(simt::kAllThreads);
            if (simt::warp_thread() == 0U) {
                simt::store(of_.count(from), 0U);
            }
            simt::warp_sync(simt::kAllThreads);
        }
    }

    ARCBEAM_DEVICE void write_labels(std::uint32_t live) const {
        const std::uint32_t me = simt::warp_thread();
        Hypothesis* const mine = of_.live(me < live ? me : 0U);
        const std::uint32_t duration = me < live ? simt::load(&mine->duration) : 0U;
        const std::uint32_t writers = simt::ballot(simt::kAllThreads, (duration & kWritten) != 0U);
        const std::uint32_t labels = simt::load(&of_.state().labels);
        simt::warp_sync(simt::kAllThreads);
        if ((duration & kWritten) != 0U) {
            Hypothesis one = load_hypothesis(mine);
            const std::uint32_t at = labels + simt::place_in(writers);
            Label* const to = of_.log(at);
            simt::store(&to->before, one.log);
            simt::store(&to->token, simt::load(&of_.node(one.node)->token));
            simt::store(&to->frame, one.frame);
            simt::store(&to->duration, duration & ~kWritten);
            simt::store(&to->log_prob, one.log_prob);
            simt::store(&to->confidence, one.confidence);
            simt::store(&mine->log, at);
            simt::store(&mine->duration, duration & ~kWritten);
        }
        if (me == 0U) {
            simt::store(&of_.state().labels, labels + simt::popcount(writers));
        }
        simt::warp_sync(simt::kAllThreads);
    }

    const Utterance& of_;
    const Models& models_;
    const Lattices& lattices_;
    Buckets<Lattices> buckets_;
    Histories histories_;
    Expansion<Models> expansion_;
};

}  // namespace arcbeam::transducer::beam
