// Answers lanes' questions: the interface, and the answers from the arcs of a model whose index the device has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/lm_view.hpp"
#include "shared/requests.hpp"

namespace arcbeam::requests {

class Answerer {
  public:
    Answerer() = default;
    virtual ~Answerer() = default;
    Answerer(const Answerer&) = delete;
    Answerer& operator=(const Answerer&) = delete;

    // Answers all questions, from any thread. Answers none if there is no room; then the caller has to make room
    // when no thread is in here.
    virtual bool answer(const Question* questions, std::size_t count, Answer* answers) = 0;
};

// Fukunaga et al. 2019: the device has found the arc with the index, and adds the weights up.
class ArcAnswerer : public Answerer {
  public:
    explicit ArcAnswerer(const LmView& lm) : lm_(lm) {}

    bool answer(const Question* questions, std::size_t count, Answer* answers) override {
        for (std::size_t i = 0; i < count; ++i) {  // all are far away, and none depends on another
            if (questions[i].label == kOfState) {
                __builtin_prefetch(lm_.backoff_weights + questions[i].state);
            } else {
                __builtin_prefetch(lm_.arcs + questions[i].state);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t state = questions[i].state;
            if (questions[i].label == kOfState) {
                answers[i] = {lm_.backoff_weights[state], kLmEmptyHistory};
            } else {
                answers[i] = {lm_.arcs[state].weight, lm_.arcs[state].next_state};
            }
        }
        return true;
    }

  private:
    LmView lm_;
};

}  // namespace arcbeam::requests
