// One utterance after another on one core: calls the stages in order and holds no arithmetic of its own. `LaneLoop`
// is the order of a batch, of streams and of frames; `Lane` has the stages of a search without histories.
#pragma once

#include <atomic>
#include <limits>

#include "decode/acoustic.hpp"
#include "decode/backtrack.hpp"
#include "decode/closure.hpp"
#include "decode/cutoff.hpp"
#include "decode/expand.hpp"
#include "decode/lattice.hpp"
#include "decode/prune.hpp"
#include "decode/recombine.hpp"
#include "decode/streams/stream.hpp"
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
    Lattice lattice;  // empty if none was requested; of a stream before its sentence ends, for this chunk
    Work work;
    std::uint32_t frames = 0;  // that were taken of the chunk of a stream
    Outcome outcome = Outcome::kCancelled;
    std::uint32_t bad_frame = 0;  // where kBadLogProb was found
    std::uint32_t bad_column = 0;
};

// The step of a frame: it admits something; nothing, and then everything is as after the frame before; or has no
// room.
enum class Step : std::uint8_t { kAlive, kDead, kFull };

// `Self` is the lane, with these parts: `prepare` and `start` of an utterance, `step` of a frame, and the `ends` of
// its tokens. `State` is the search's between frames.
template <typename Self, typename State>
class LaneLoop {
  public:
    // The wide states are those of the graph; they must outlive the lane.
    explicit LaneLoop(const WideStates& wide, State search = State()) : wide_(wide), search_(std::move(search)) {}

    // `graph` is a GraphView, or an OpenGraph with the new words of the utterance.
    template <typename Graph>
    void decode(const Graph& graph, const DecodeOptions& options, float lattice_beam, const LogProbs& logp,
                const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!check(logp, result)) {
            return;
        }
        prepare(graph, options, lattice_beam);
        begin(graph, options, LmContext{}, lattice_beam, options.collect_above, result.work);
        bool alive = true;
        NoWatch watch;
        if (!run(graph, options, logp, cancel, watch, alive, result)) {
            return;
        }
        const auto ends = self().ends(graph);
        const End end = best_end(ends, search_.tokens, alive);
        result.path = backtrack(end, search_.tokens, search_.log, search_.offset, alive);
        if (keeps_links_) {
            result.lattice = search_.links->finish(graph, ends, search_.tokens, end, result.path, search_.log);
        }
        result.outcome = Outcome::kDecoded;
    }

    // The next chunk of a stream, as far as its sentence goes. The result has the path after the settled arcs: the
    // best so far, or after the last chunk, or where an endpoint has ended the sentence, that of the whole.
    template <typename Graph>
    void decode(const Graph& graph, const DecodeOptions& options, Stream& stream, const LogProbs& chunk, bool last,
                const std::atomic<bool>& cancel, Result& result) {
        result = Result{};
        if (!check(chunk, result)) {
            return;
        }
        if (stream.has_given_lattice()) {
            result.outcome = Outcome::kDecoded;
            return;
        }
        const bool begins = !stream.has_begun();
        Stream::Loan loan(stream, search_);
        prepare(graph, options, stream.lattice_beam);
        if (loan.saved() != nullptr) {
            loan.resume(graph, options.collect_above);
        } else if (begins) {
            begin(graph, options, stream.lm_context, stream.lattice_beam, stream.links_above(options.collect_above),
                  result.work);
        }
        bool alive = stream.is_alive();
        if (!run(graph, options, chunk, cancel, stream.watch, alive, result)) {
            return;
        }
        loan.take_settled(graph);
        const bool ends_here = last || stream.watch.has_fired();
        const auto ends = self().ends(graph);
        const End end = best_end(ends, search_.tokens, alive && ends_here);
        result.path = backtrack(end, search_.tokens, search_.log, search_.offset, alive, search_.settled());
        if (keeps_links_ && (ends_here || stream.shows_lattice)) {
            result.lattice = loan.lattice(graph, ends, end, result.path, ends_here);
        }
        result.outcome = Outcome::kDecoded;
        loan.done(alive, result.frames);
    }

    [[nodiscard]] std::size_t log_bytes() const { return search_.log.bytes(); }

  protected:
    const WideStates& wide_;
    State search_;
    Acoustic acoustic_;
    CheapColumns cheap_;
    Buffer<Candidate> candidates_;
    Cutoff cut_;
    bool keeps_links_ = false;

  private:
    // NaN and +inf are errors; -inf means "never".
    static bool check(const LogProbs& logp, Result& result) {
        for (std::uint32_t frame = 0; frame < logp.frames; ++frame) {
            if (logp.is_sound(frame)) {
                continue;
            }
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

    Self& self() { return static_cast<Self&>(*this); }

    template <typename Graph>
    void prepare(const Graph& graph, const DecodeOptions& options, float lattice_beam) {
        keeps_links_ = lattice_beam >= 0.0F;
        acoustic_.begin(options.acoustic_scale, options.blank_penalty, options.blank_column);
        self().prepare(graph);
    }

    // Frame 0: the closure from the start state.
    // `lm_context`: the words before; `links_above`: links and entries before the first of their prunings.
    template <typename Graph>
    void begin(const Graph& graph, const DecodeOptions& options, const LmContext& lm_context, float lattice_beam,
               std::uint32_t links_above, Work& work) {
        search_.begin(lattice_beam, options.collect_above, links_above);
        candidates_.clear();
        candidates_.add({0.0F, kNoArc, graph.start, kNoSource});
        self().start(graph, options, lm_context, work);
    }

    // Decodes frames as long as the search is `alive` and the sentence goes on; false if it had to be given up.
    template <typename Graph, typename Watch>
    bool run(const Graph& graph, const DecodeOptions& options, const LogProbs& logp,
             const std::atomic<bool>& cancel, Watch& watch, bool& alive, Result& result) {
        bool goes_on = !watch.has_fired();
        result.frames = goes_on ? logp.frames : 0U;
        for (std::uint32_t frame = 0; frame < logp.frames && goes_on && (alive || watch.counts_frames()); ++frame) {
            if (cancel.load(std::memory_order_relaxed)) {
                result.outcome = Outcome::kCancelled;
                return false;
            }
            if (alive) {
                acoustic_.load(logp, frame);
                const Step taken = self().step(graph, options, result.work);
                if (taken == Step::kFull) {
                    result.outcome = Outcome::kCapacity;
                    return false;
                }
                alive = taken == Step::kAlive;
            }
            if (watch.ends_at(graph, self().ends(graph), search_.tokens, search_.log, search_.settled(), alive)) {
                result.frames = frame + 1U;
                goes_on = false;
            }
        }
        return true;
    }
};

class Lane : public LaneLoop<Lane, SearchState> {
    friend LaneLoop;

  public:
    using LaneLoop::LaneLoop;

  private:
    void prepare(const GraphView& graph) { closure_.begin(graph); }

    void start(const GraphView& graph, const DecodeOptions& options, const LmContext& /*without a model*/,
               Work& work) {
        commit_frame(graph, beam_bound(0.0F, options.beam), work);
    }

    [[nodiscard]] PlainEnds ends(const GraphView& graph) const { return {graph, search_.tokens}; }

    Step step(const GraphView& graph, const DecodeOptions& options, Work& work) {
        if (!search_.log.has_room(graph.num_states) || (keeps_links_ && !search_.links->has_room())) {
            return Step::kFull;
        }
        cutoff(search_.tokens, options.beam, options.max_active, ends(graph), cut_);
        const auto first_log = search_.log.size() - static_cast<std::uint32_t>(search_.tokens.size());
        const float bound = Expand(graph, wide_, acoustic_, options.beam, cheap_, candidates_, work)(
            search_.tokens, first_log, cut_);
        if (candidates_.empty()) {
            return Step::kDead;
        }
        commit_frame(graph, bound, work);
        ++work.frames;
        return Step::kAlive;
    }

    void commit_frame(const GraphView& graph, float bound, Work& work) {
        if (keeps_links_) {
            commit_frame(graph, bound, work, *search_.links);
            search_.links->commit(
                frontier_, search_.tokens, search_.offset, [](std::uint32_t slot) { return slot; }, search_.log);
        } else {
            commit_frame(graph, bound, work, NoLinks{});
        }
    }

    // Not inlined, so that the search without links is compiled apart from the one with them.
    template <typename Links>
    [[gnu::noinline]] void commit_frame(const GraphView& graph, float bound, Work& work, Links&& links) {
        table_.begin_frame(candidates_.size());
        frontier_.clear();
        recombine(candidates_, bound, table_, frontier_, work, links);
        closure_(graph, bound, search_.log.size(), table_, frontier_, links);
        search_.offset += static_cast<double>(prune(frontier_, search_.tokens, search_.log));
        work.tokens += search_.tokens.size();
    }

    StateTable table_;
    Frontier frontier_;
    Closure closure_;
};

}  // namespace arcbeam::twin
