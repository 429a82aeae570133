// Who answers what lanes ask: here, from the arcs of a model whose index the device has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rescore/mail.hpp"
#include "shared/lm_view.hpp"

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

}  // namespace arcbeam::requests
