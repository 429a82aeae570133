// Kim and Lane 2014: KenLM on the host answers the questions of lanes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "arcbeam/ctc/gpu/models/_requests/answer_cache.hpp"
#include "arcbeam/ctc/gpu/models/_requests/answerer.hpp"
#include "arcbeam/ctc/gpu/models/_requests/histories.hpp"
#include "kenlm/kenlm.hpp"
#include "shared/natural_log.hpp"

namespace arcbeam::requests {

// A history has one number, which is the same for all lanes and from batch to batch; 0 is the beginning of a
// sentence.
class KenLmAnswerer : public Answerer {
  public:
    // `ranks`: see Histories.
    KenLmAnswerer(const KenLm& lm, const std::uint32_t* ranks)
        : lm_(lm), histories_({lm.order() - 1U, lm.context()}, ranks) {}

    [[nodiscard]] std::size_t words_a_state() const { return histories_.words_a_row(); }

    // All assigned numbers lie below it. Valid while no thread is in here.
    [[nodiscard]] std::size_t size() const { return histories_.size(); }

    // The host memory that each history takes, words included, when there are as many as there is room for.
    [[nodiscard]] std::size_t bytes_a_state() const {
        return histories_.bytes_each() + 4 * words_a_state() + AnswerCache::kLineBytes * kLinesAHistory;
    }

    // Forgets all numbers. From now on rows of words go to `words`, which has room for `capacity` of them.
    void begin(std::uint32_t* words, std::size_t capacity) {
        alignas(8) unsigned char start[KenLm::kLargestState];
        lm_.begin_sentence(start);
        cache_ = AnswerCache(capacity * kLinesAHistory);
        histories_.begin(start, words, capacity);
    }

    // Keeps the numbers and makes room for more.
    void move(std::uint32_t* words, std::size_t capacity) {
        cache_ = AnswerCache(capacity * kLinesAHistory);
        histories_.move(words, capacity);
    }

    // For what keeps histories while no thread is in here, as KenLM's states: that of a number, and the number of a
    // state, which is Histories::kNone if there is no room.
    [[nodiscard]] std::size_t state_size() const { return lm_.state_size(); }
    void read(std::uint32_t number, void* state) const { histories_.read(number, state); }
    [[nodiscard]] std::uint32_t number(const void* state) {
        std::uint32_t spare = Histories::kNone;
        return histories_.number(state, histories_.hash(state), spare);
    }

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        for (std::size_t first = 0; first < count; first += kTogether) {
            if (!answer_some(questions + first, std::min(kTogether, count - first), answers + first)) {
                return false;
            }
        }
        return true;
    }

  private:
    static constexpr std::size_t kTogether = 32;
    static constexpr std::size_t kLinesAHistory = 2;

    // Does each step for all questions before the next one, because a step prefetches what the next one reads.
    bool answer_some(const Question* questions, std::size_t count, Answer* answers) {
        std::size_t open[kTogether];
        std::size_t num_open = 0;
        for (std::size_t i = 0; i < count; ++i) {
            cache_.prefetch(questions[i]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (!cache_.find(questions[i], answers[i])) {
                histories_.prefetch(questions[i].state);
                open[num_open++] = i;
            }
        }
        alignas(8) unsigned char before[KenLm::kLargestState] = {};
        alignas(8) unsigned char after[kTogether][KenLm::kLargestState];
        std::uint64_t hashes[kTogether];
        for (std::size_t i = 0; i < num_open; ++i) {
            const Question& question = questions[open[i]];
            histories_.read(question.state, before);
            answers[open[i]].cost = natural_cost(static_cast<double>(lm_.score(before, question.label, after[i])));
            hashes[i] = histories_.hash(after[i]);
            histories_.prefetch_slot(hashes[i]);
        }
        std::uint32_t spare = Histories::kNone;
        for (std::size_t i = 0; i < num_open; ++i) {
            Answer& answer = answers[open[i]];
            answer.next_state = histories_.number(after[i], hashes[i], spare);
            if (answer.next_state == Histories::kNone) {
                return false;
            }
            cache_.keep(questions[open[i]], answer);
        }
        return true;
    }

    const KenLm& lm_;
    Histories histories_;
    AnswerCache cache_;
};

}  // namespace arcbeam::requests
