// Who answers what lanes ask: from the arcs of a model whose index the device has, or by KenLM.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

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
class KenLmAnswerer : public Answerer {
  public:
    // `ranks`: see KenLmStates.
    KenLmAnswerer(const KenLm& lm, const std::uint32_t* ranks) : lm_(lm), ranks_(ranks) {}

    // Of a row of words: how many there are, and their ranks, newest first; zeros behind them.
    [[nodiscard]] std::size_t words_a_state() const { return lm_.order(); }
    [[nodiscard]] std::size_t size() const { return states_.size(); }

    // Forgets all numbers; rows of words go to `words` from now on, which has room for so many.
    void begin(std::uint32_t* words, std::size_t capacity) {
        words_ = words;
        capacity_ = capacity;
        written_ = 0;
        states_.begin(lm_, ranks_);
        alignas(8) unsigned char start[KenLm::kLargestState];
        lm_.begin_sentence(start);
        number(start);
    }

    // The same numbers, and room for more of them.
    void move(std::uint32_t* words, std::size_t capacity) {
        std::copy(words_, words_ + written_ * words_a_state(), words);
        words_ = words;
        capacity_ = capacity;
    }

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        const std::size_t bytes = lm_.state_size();
        thread_local std::vector<unsigned char> before, after;
        before.resize(count * bytes);
        after.resize(count * bytes);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (states_.size() + count > capacity_) {
                return false;
            }
            for (std::size_t i = 0; i < count; ++i) {
                std::memcpy(before.data() + i * bytes, states_[questions[i].state], bytes);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            const float score = lm_.score(before.data() + i * bytes, questions[i].label, after.data() + i * bytes);
            answers[i].cost = natural_cost(static_cast<double>(score));
        }
        const std::lock_guard<std::mutex> lock(mutex_);
        if (states_.size() + count > capacity_) {
            return false;
        }
        for (std::size_t i = 0; i < count; ++i) {
            answers[i].next_state = number(after.data() + i * bytes);
        }
        return true;
    }

  private:
    std::uint32_t number(const void* state) {
        const std::uint32_t found = states_.number(state);
        for (; written_ < states_.size(); ++written_) {  // more than one if memory had run out
            write_words(written_);
        }
        return found;
    }

    void write_words(std::uint32_t number) {
        const void* const state = states_[number];
        std::uint32_t* const row = words_ + number * words_a_state();
        std::fill(row, row + words_a_state(), 0U);
        row[0] = static_cast<std::uint32_t>(lm_.length(state));
        for (std::uint32_t i = 0; i < row[0]; ++i) {
            row[1 + i] = ranks_[KenLm::word_of(state, i)];
        }
    }

    const KenLm& lm_;
    const std::uint32_t* ranks_;
    std::mutex mutex_;
    KenLmStates states_;
    std::uint32_t* words_ = nullptr;
    std::size_t capacity_ = 0;
    std::uint32_t written_ = 0;  // states that have a row
};

}  // namespace arcbeam::requests
