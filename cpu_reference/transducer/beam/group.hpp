// Beam search of a few utterances together, in rounds: one run of the networks for all their hypotheses, then one
// step of each utterance. An utterance's bytes do not depend on the others in its group.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "transducer/aligned.hpp"
#include "transducer/beam/lane.hpp"
#include "transducer/evaluation.hpp"
#include "transducer/network.hpp"
#include "transducer/search.hpp"

namespace arcbeam::transducer::beam {

class Group {
  public:
    // Decodes utterances[i] to results[i] for each i of `members`. Leaves early if `cancel` gets set.
    void decode(const Network& network, const Options& options, const std::vector<Utterance>& utterances,
                const std::vector<std::size_t>& members, const std::atomic<bool>& cancel,
                std::vector<Result>& results);

  private:
    void run_networks(const Network& network, const std::vector<Lane*>& active);

    std::deque<Lane> lanes_;
    AlignedFloats inputs_;      // scratch of Frames::project
    AlignedFloats no_encoder_;  // zeros
    Evaluation evaluation_;
};

}  // namespace arcbeam::transducer::beam
