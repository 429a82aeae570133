// A stream of speech between two chunks (law 10): what a search knows between two frames. All else that a lane has
// is room for a frame, so any lane can go on with any stream.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "decode/buffer.hpp"
#include "decode/prune.hpp"
#include "decode/tokens.hpp"

namespace arcbeam::twin {

struct SearchState {
    Buffer<Token> tokens;  // of the last frame; their log entries are the last of the log
    TokenLog log;
    double offset = 0.0;  // what the costs of tokens are relative to

    // What another stream begins with.
    [[nodiscard]] SearchState fresh() const { return {}; }
};

// With histories, whose numbers are those of the stream's own models.
template <typename Models>
struct HistoryState : SearchState {
    explicit HistoryState(Models own) : models(std::move(own)) {}

    Models models;
    Buffer<typename Models::History> histories;  // of the tokens

    [[nodiscard]] HistoryState fresh() const { return HistoryState(models); }
};

class Stream {
  public:
    std::vector<std::uint32_t> settled;  // the arcs that all later answers follow; may be taken away
    std::uint64_t frames = 0;            // of the chunks so far, those after the search's death included

    [[nodiscard]] bool has_begun() const { return held_ != nullptr; }
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

        void done(bool alive, std::uint64_t frames) {
            stream_.frames += frames;
            stream_.alive_ = alive;
            stream_.whole_ = true;
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
        AnyHeld(const AnyHeld&) = delete;
        AnyHeld& operator=(const AnyHeld&) = delete;
    };
    template <typename State>
    struct Held : AnyHeld {
        explicit Held(State fresh) : state(std::move(fresh)) {}
        State state;
    };

    std::unique_ptr<AnyHeld> held_;
    bool alive_ = true;
    bool whole_ = true;
};

}  // namespace arcbeam::twin
