// Who answers what lanes ask: from the arcs of a model whose index the device has, or by KenLM.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "kenlm/kenlm.hpp"
#include "kenlm/states.hpp"
#include "rescore/mail.hpp"
#include "shared/lm_view.hpp"
#include "shared/natural_log.hpp"

namespace arcbeam::requests {

class Answerer {
  public:
    Answerer() = default;
    virtual ~Answerer() = default;
    Answerer(const Answerer&) = delete;
    Answerer& operator=(const Answerer&) = delete;

    // Answers all questions, from any thread; or none, for want of room, which the caller has to make when no
    // thread is here.
    virtual bool answer(const Question* questions, std::size_t count, Answer* answers) = 0;
};

// Fukunaga et al. 2019: the device has found the arc, and the state that lists the word.
class ArcAnswerer : public Answerer {
  public:
    explicit ArcAnswerer(const LmView& lm) : lm_(lm) {}

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        for (std::size_t i = 0; i < count; ++i) {  // all come from far, and none depends on another
            if (questions[i].arc != kNoLmArc) {
                __builtin_prefetch(lm_.arcs + questions[i].arc);
            }
            __builtin_prefetch(lm_.backoff_weights + questions[i].state);
        }
        for (std::size_t i = 0; i < count; ++i) {
            const Question& asked = questions[i];
            float backoffs = 0.0F;
            // A page that was lost reads as zeros, which lead to the empty history.
            for (std::uint32_t state = asked.state; state != asked.from && state != kLmEmptyHistory;
                 state = lm_.backoff_state(state)) {
                backoffs = lm_back_off(backoffs, lm_.backoff_weights[state]);
            }
            const LmStep step =
                asked.arc == kNoLmArc ? lm_unknown(backoffs) : lm_found(backoffs, lm_.arcs[asked.arc], asked.from);
            answers[i] = {step.cost, step.next_state};
        }
        return true;
    }

  private:
    LmView lm_;
};

// Kim and Lane 2014: KenLM on the host. A state has one number for all lanes; 0 is the beginning of a sentence.
// States are spread over shards, each with a lock of its own: a number says which, and the state's number there.
class KenLmAnswerer : public Answerer {
  public:
    // `ranks`: see KenLmStates.
    KenLmAnswerer(const KenLm& lm, const std::uint32_t* ranks) : lm_(lm), ranks_(ranks) {}

    // Of a row of words: how many there are, and their ranks, newest first; zeros behind them.
    [[nodiscard]] std::size_t words_a_state() const { return lm_.order(); }

    // Numbers that are taken lie below it, while no thread is here.
    [[nodiscard]] std::size_t size() const {
        std::size_t most = 0;
        for (const Shard& shard : shards_) {
            most = std::max(most, shard.states.size());
        }
        return most * kShards;
    }

    // Forgets all numbers; rows of words go to `words` from now on, which has room for so many.
    void begin(std::uint32_t* words, std::size_t capacity) {
        words_ = words;
        capacity_ = capacity;
        for (Shard& shard : shards_) {
            shard.states.begin(lm_, ranks_);
            shard.written = 0;
        }
        alignas(8) unsigned char start[KenLm::kLargestState];
        lm_.begin_sentence(start);
        first_shard_ = 0;
        first_shard_ = shard_of(start);
        shards_[0].states.number(start);
        write_words(start, words_);
        shards_[0].written = 1;
    }

    // The same numbers, and room for more of them.
    void move(std::uint32_t* words, std::size_t capacity) {
        std::copy(words_, words_ + std::min(size(), capacity_) * words_a_state(), words);
        words_ = words;
        capacity_ = capacity;
    }

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        const std::size_t bytes = lm_.state_size();
        alignas(8) unsigned char before[KenLm::kLargestState];
        alignas(8) unsigned char after[KenLm::kLargestState];
        for (std::size_t i = 0; i < count; ++i) {
            {
                Shard& shard = shards_[questions[i].state % kShards];
                const std::lock_guard<std::mutex> lock(shard.mutex);
                std::memcpy(before, shard.states[questions[i].state / kShards], bytes);
            }
            answers[i].cost = natural_cost(static_cast<double>(lm_.score(before, questions[i].label, after)));
            if (!number(after, answers[i].next_state)) {
                return false;
            }
        }
        return true;
    }

  private:
    static constexpr std::uint32_t kShards = 256;  // many more than threads: one that waits for a lock sleeps

    struct alignas(64) Shard {
        std::mutex mutex;
        KenLmStates states;
        std::uint32_t written = 0;  // states whose words have been written
    };

    [[nodiscard]] std::uint32_t shard_of(const void* state) const {
        return (static_cast<std::uint32_t>(KenLmStates::mixed(lm_, state) >> 40U) % kShards + kShards -
                first_shard_) %
               kShards;
    }

    // False if there is no room.
    bool number(const void* state, std::uint32_t& found) {
        const std::uint32_t at = shard_of(state);
        Shard& shard = shards_[at];
        const std::lock_guard<std::mutex> lock(shard.mutex);
        if (shard.states.size() >= capacity_ / kShards) {
            return false;  // though it may have a number
        }
        found = shard.states.number(state) * kShards + at;
        for (; shard.written < shard.states.size(); ++shard.written) {  // more than one if memory had run out
            write_words(shard.states[shard.written],
                        words_ + (std::size_t{shard.written} * kShards + at) * words_a_state());
        }
        return true;
    }

    void write_words(const void* state, std::uint32_t* row) const {
        std::fill(row, row + words_a_state(), 0U);
        row[0] = static_cast<std::uint32_t>(lm_.length(state));
        for (std::uint32_t i = 0; i < row[0]; ++i) {
            row[1 + i] = ranks_[KenLm::word_of(state, i)];
        }
    }

    const KenLm& lm_;
    const std::uint32_t* ranks_;
    Shard shards_[kShards];
    std::uint32_t first_shard_ = 0;  // of the beginning of a sentence, as it would be
    std::uint32_t* words_ = nullptr;
    std::size_t capacity_ = 0;
};

}  // namespace arcbeam::requests
