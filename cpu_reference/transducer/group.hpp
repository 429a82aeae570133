// Greedy decoding of a few utterances together (Bataev et al. 2024). When several of them need the same matrix at
// the same time, they share one product of matrices. An utterance's bytes do not depend on the others in its group.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/evaluation.hpp"
#include "transducer/lane.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

class Group {
  public:
    // Decodes utterances[i] to results[i] for each i of `members`. Leaves early if `cancel` gets set.
    void decode(const Network& network, const Options& options, const std::vector<Utterance>& utterances,
                const std::vector<std::size_t>& members, const std::atomic<bool>& cancel,
                std::vector<Result>& results);

  private:
    using Lanes = std::vector<Lane*>;

    // The lane and the frame of a test.
    struct Tested {
        Lane* lane;
        std::int64_t frame;
    };

    void start(const std::vector<Utterance>& utterances, const std::vector<std::size_t>& members,
               std::vector<Result>& results);

    // Algorithm 2: the outer loop is over frames.
    void loop_over_frames(const std::atomic<bool>& cancel);
    // Algorithm 3: the outer loop is over labels, the inner one over blanks.
    void loop_over_labels(const std::atomic<bool>& cancel);
    // Skips blanks until each lane has written a label or ended; `found` gets the lanes that have written one.
    void find_labels(Lanes& seeking, Lanes& found, const std::atomic<bool>& cancel);

    // Runs the joint network on all tests_.
    void test();

    // Runs the prediction network on each lane's last token.
    void predict(const Lanes& lanes);
    static std::vector<Prediction*> predictions_of(const Lanes& lanes);

    const Network* network_ = nullptr;
    const Options* options_ = nullptr;
    std::vector<Lane> lanes_;
    Lanes active_;
    std::vector<Tested> tests_;
    AlignedFloats inputs_;  // scratch of Lane::project
    Evaluation evaluation_;
};

}  // namespace arcbeam::transducer
