// A stream of speech between two chunks (law 10): the state of a search between two frames. All else that a lane
// has is room for a frame, so any lane can go on with any stream.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "decode/buffer.hpp"
#include "decode/lattice.hpp"
#include "decode/models.hpp"
#include "decode/prune.hpp"
#include "decode/streams/endpoint.hpp"
#include "decode/streams/saved_lattice.hpp"
#include "decode/streams/saved_search.hpp"
#include "decode/tokens.hpp"
#include "shared/endpoint.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

// What is saved of a stream that keeps links: what is alive, which is what other streams keep, or its lattice, too.
enum class Extent : std::uint8_t { kAlive, kAll };

struct SearchState {
    Buffer<Token> tokens;  // of the last frame; their log entries are the last of the log
    TokenLog log;
    std::unique_ptr<LinkLog> links;  // if a lattice was requested
    double offset = 0.0;             // what the costs of tokens are relative to

    // Begins the logs.
    void begin(float lattice_beam, std::uint32_t collect_above, std::uint32_t links_above) {
        const bool keeps_links = lattice_beam >= 0.0F;
        log.begin(keeps_links ? TokenLog::kNever : collect_above);
        if (keeps_links && links == nullptr) {
            links = std::make_unique<LinkLog>();
        }
        if (keeps_links) {
            links->begin(lattice_beam, links_above);
        }
        offset = 0.0;
    }

    // The entry after which the paths of a stream's answers begin, if the arcs to it are still in the log.
    [[nodiscard]] std::uint32_t settled() const { return links == nullptr ? kNoSource : links->settled(); }

    // What another stream begins with.
    [[nodiscard]] SearchState fresh() const { return {}; }

    void save(Extent extent, SavedSearch& saved) const {
        save(extent, [](std::uint32_t, std::uint32_t) { return false; }, saved);
    }

    // `precedes` orders tokens of one graph state.
    template <typename Precedes>
    void save(Extent extent, Precedes precedes, SavedSearch& saved) const {
        saved.offset = offset;
        if (links != nullptr && extent == Extent::kAll) {
            save_lattice(tokens, log, *links, precedes, saved);
        } else {
            save_paths(tokens, log, precedes, saved, settled());
        }
    }

    // `lattice_beam`, `links_above`: of a stream that keeps links.
    template <typename Graph>
    void resume(const Graph& graph, const LmContext&, const SavedSearch& saved, float lattice_beam,
                std::uint32_t collect_above, std::uint32_t links_above) {
        begin(saved.keeps_links ? lattice_beam : kNoLattice, collect_above, links_above);
        offset = saved.offset;
        const std::vector<std::uint32_t> places = restore_paths(saved, tokens, log);
        if (saved.keeps_links) {
            restore_lattice(graph, saved, places, log, *links);
        }
    }
};

// With histories, whose numbers are those of the stream's own models.
template <typename Models>
struct HistoryState : SearchState {
    using History = typename Models::History;

    explicit HistoryState(Models own) : models(std::move(own)) {}

    Models models;
    Buffer<History> histories;  // of the tokens

    [[nodiscard]] HistoryState fresh() const { return HistoryState(models); }

    void save(Extent extent, SavedSearch& saved) const {
        const auto precedes = [this](std::uint32_t a, std::uint32_t b) {
            return models.precedes(histories[a], histories[b]);
        };
        SearchState::save(extent, precedes, saved);
    }

    // Follows the words of all paths, from those of the context.
    template <typename Graph>
    void resume(const Graph& graph, const LmContext& lm_context, const SavedSearch& saved, float lattice_beam,
                std::uint32_t collect_above, std::uint32_t links_above) {
        SearchState::resume(graph, lm_context, saved, lattice_beam, collect_above, links_above);
        models.begin(collect_above);
        const auto after = [&](const History& history, std::uint32_t arc) {
            const std::uint32_t word = arc == kNoArc ? kNoWord : graph.words[arc];
            return word == kNoWord ? history : models.add(history, word).next;
        };
        History history = models.start(lm_context);
        for (const std::uint32_t arc : saved.settled) {
            history = after(history, arc);
        }
        Buffer<History> of_entries;
        of_entries.resize(saved.log.size());
        for (std::size_t i = 0; i < saved.log.size(); ++i) {
            const LogEntry& entry = saved.log[i];
            of_entries[i] = after(entry.source == kNoSource ? history : of_entries[entry.source], entry.arc);
        }
        histories.resize(saved.entries.size());
        for (std::size_t i = 0; i < saved.entries.size(); ++i) {
            histories[i] = of_entries[saved.entries[i]];
        }
    }
};

// A sentence of a stream of speech.
class Stream {
  public:
    std::vector<std::uint32_t> settled;  // the arcs that all later answers follow; may be taken away
    std::uint64_t frames = 0;            // of the sentence so far, those after the search's death included
    EndpointWatch watch{EndpointRules{}};
    LmContext lm_context;
    float lattice_beam = kNoLattice;  // of the lattice that the sentence's end gives; set before the first chunk
    bool shows_lattice = false;       // whether the next chunk gives the lattice so far; for streams that keep one

    // Goes on with a search that another stream has saved, of the same graph, options and boost.
    void restore(SavedSearch saved) {
        frames = saved.frames;
        alive_ = saved.alive;
        watch.resume(saved.frames, saved.dead_frames, saved.fired);
        if (saved.ended) {
            gave_lattice_ = true;
        } else {
            saved_ = std::make_unique<SavedSearch>(std::move(saved));
        }
    }

    // Nothing where the search has not begun, or has given its lattice. What has been taken away of `settled` is
    // the caller's to add, unless the lattice is saved, which has it all. Before its first chunk a stream that was
    // restored saves what it has been given.
    [[nodiscard]] SavedSearch save(Extent extent) const {
        SavedSearch saved;
        if (saved_ != nullptr) {
            saved = *saved_;
        } else if (held_ != nullptr && !gave_lattice_) {
            held_->save(extent, saved);
        }
        saved.settled.clear();
        saved.frames = frames;
        saved.alive = alive_;
        saved.fired = watch.fired();
        return saved;
    }

    [[nodiscard]] bool has_begun() const { return held_ != nullptr || saved_ != nullptr; }
    // Whether the sentence has ended with a lattice. The search is gone then.
    [[nodiscard]] bool has_given_lattice() const { return gave_lattice_; }
    // Thousands of streams share a machine, so that each prunes its links sooner than a lane that has an utterance.
    [[nodiscard]] static std::uint32_t links_above(std::uint32_t of_lane) {
        return std::min<std::uint32_t>(of_lane, 1U << 12U);
    }
    [[nodiscard]] bool is_alive() const { return alive_; }
    // False once a chunk was given up half-way. The stream cannot go on then.
    [[nodiscard]] bool is_whole() const { return whole_; }

    // Lends a stream's state to a lane for a chunk. A chunk that does not get as far as `done` breaks the stream.
    template <typename State>
    class Loan {
      public:
        Loan(Stream& stream, State& lane) : stream_(stream), lane_(lane) {
            if (stream.held_ == nullptr) {
                stream.held_ = std::make_unique<Held<State>>(lane.fresh());
            }
            stream.whole_ = false;
            swap();
        }
        ~Loan() { swap(); }
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;

        // Null unless the search is to be resumed before the chunk.
        [[nodiscard]] const SavedSearch* saved() const { return stream_.saved_.get(); }

        template <typename Graph>
        void resume(const Graph& graph, std::uint32_t collect_above) {
            lane_.resume(graph, stream_.lm_context, *saved(), stream_.lattice_beam, collect_above,
                         links_above(collect_above));
            stream_.watch.settle(graph, saved()->settled.data(), saved()->settled.size());
        }

        // Takes the arcs that all live paths share. They leave the log, unless links refer to it.
        template <typename Graph>
        void take_settled(const Graph& graph) {
            const std::size_t before = stream_.settled.size();
            if (lane_.links == nullptr) {
                lane_.log.take_settled(lane_.tokens.size(), stream_.settled);
            } else {
                lane_.links->settle(lane_.log, lane_.tokens.size(), stream_.settled);
            }
            stream_.watch.settle(graph, stream_.settled.data() + before, stream_.settled.size() - before);
        }

        // The lattice of a sentence that ends here, or so far. At the end it takes the state of the search, which
        // is no longer needed.
        template <typename Graph, typename Ends>
        Lattice lattice(const Graph& graph, const Ends& ends, const End& end, const Path& path, bool ends_here) {
            if (!ends_here) {
                return lane_.links->so_far(graph, ends, lane_.tokens, end, path, lane_.log);
            }
            Lattice whole = lane_.links->finish(graph, ends, lane_.tokens, end, path, lane_.log);
            lane_.log = TokenLog{};
            lane_.links = nullptr;
            stream_.gave_lattice_ = true;
            return whole;
        }

        void done(bool alive, std::uint64_t frames) {
            stream_.frames += frames;
            stream_.alive_ = alive;
            stream_.whole_ = true;
            stream_.saved_ = nullptr;
        }

      private:
        void swap() { std::swap(static_cast<Held<State>&>(*stream_.held_).state, lane_); }

        Stream& stream_;
        State& lane_;
    };

  private:
    struct AnyHeld {
        AnyHeld() = default;
        virtual ~AnyHeld() = default;
        virtual void save(Extent extent, SavedSearch& saved) const = 0;
        AnyHeld(const AnyHeld&) = delete;
        AnyHeld& operator=(const AnyHeld&) = delete;
    };
    template <typename State>
    struct Held : AnyHeld {
        explicit Held(State fresh) : state(std::move(fresh)) {}
        void save(Extent extent, SavedSearch& saved) const override { state.save(extent, saved); }
        State state;
    };

    std::unique_ptr<AnyHeld> held_;
    std::unique_ptr<SavedSearch> saved_;  // until the next chunk
    bool alive_ = true;
    bool whole_ = true;
    bool gave_lattice_ = false;
};

}  // namespace arcbeam::twin
