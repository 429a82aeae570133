// One utterance after another on one core: calls the stages in order and holds no arithmetic of its own.
#pragma once

#include <atomic>
#include <limits>

#include "decode/acoustic.hpp"
#include "decode/backtrack.hpp"
#include "decode/closure.hpp"
#include "decode/cutoff.hpp"
#include "decode/expand.hpp"
#include "decode/prune.hpp"
#include "decode/recombine.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

struct DecodeOptions {
    float beam;                // cost
    std::uint32_t max_active;  // tokens; 0: no limit
    float acoustic_scale;
    float blank_penalty;          // cost
    std::int32_t blank_column;    // -1: none
    std::uint32_t collect_above;  // token-log entries before the first collection
};

enum class Outcome : std::uint8_t { kDecoded, kBadLogProb, kCapacity, kOutOfMemory, kCancelled };

struct Result {
    Path path;
    Work work;
    Outcome outcome = Outcome::kCancelled;
    std::uint32_t bad_frame = 0;  // where kBadLogProb was found
    std::uint32_t bad_column = 0;
};

class Lane {
  public:
    void decode(const GraphView& graph, const DecodeOptions& options, const LogProbs& logp,
                const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!check(logp, result)) {
            return;
        }
        begin(graph, options, result.work);
        bool alive = true;
        for (std::uint32_t frame = 0; frame < logp.frames && alive; ++frame) {
            if (cancel.load(std::memory_order_relaxed)) {
                result.outcome = Outcome::kCancelled;
                return;
            }
            if (!log_.has_room(graph.num_states)) {
                result.outcome = Outcome::kCapacity;
                return;
            }
            acoustic_.load(logp, frame);
            alive = step(graph, options, result.work);
        }
        result.path = backtrack(graph, tokens_, log_, offset_, alive);
        result.outcome = Outcome::kDecoded;
    }

    [[nodiscard]] std::size_t log_bytes() const { return log_.bytes(); }

    // NaN and +inf are errors; -inf means "never".
    static bool check(const LogProbs& logp, Result& result) {
        for (std::uint32_t frame = 0; frame < logp.frames; ++frame) {
            for (std::uint32_t column = 0; column < logp.columns; ++column) {
                if (!(logp.at(frame, column) <= std::numeric_limits<float>::max())) {
                    result.outcome = Outcome::kBadLogProb;
                    result.bad_frame = frame;
                    result.bad_column = column;
                    return false;
                }
            }
        }
        return true;
    }

  private:
    // Frame 0: the closure from the start state.
    void begin(const GraphView& graph, const DecodeOptions& options, Work& work) {
        acoustic_.begin(options.acoustic_scale, options.blank_penalty, options.blank_column);
        log_.begin(options.collect_above);
        closure_.begin(graph);
        offset_ = 0.0;
        candidates_.clear();
        candidates_.add({0.0F, kNoArc, graph.start, kNoSource});
        settle(graph, beam_bound(0.0F, options.beam), work);
    }

    // Decodes one frame; false if it admits nothing, and then everything is as after the frame before.
    bool step(const GraphView& graph, const DecodeOptions& options, Work& work) {
        const float cut = cutoff(tokens_, options.beam, options.max_active, cutoff_scratch_);
        const auto first_log = log_.size() - static_cast<std::uint32_t>(tokens_.size());
        const float bound = Expand(graph, acoustic_, options.beam, candidates_, work)(tokens_, first_log, cut);
        if (candidates_.empty()) {
            return false;
        }
        settle(graph, bound, work);
        ++work.frames;
        return true;
    }

    void settle(const GraphView& graph, float bound, Work& work) {
        table_.begin_frame(frontier_.size(), candidates_.size());
        frontier_.clear();
        recombine(candidates_, bound, table_, frontier_, work);
        closure_(graph, bound, log_.size(), table_, frontier_);
        offset_ += static_cast<double>(prune(frontier_, tokens_, log_));
        work.tokens += tokens_.size();
    }

    Acoustic acoustic_;
    Buffer<Token> tokens_;
    Buffer<Candidate> candidates_;
    CutoffScratch cutoff_scratch_;
    StateTable table_;
    Frontier frontier_;
    Closure closure_;
    TokenLog log_;
    double offset_ = 0.0;
};

}  // namespace arcbeam::twin
