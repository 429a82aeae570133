// The engine of transducers: utterances of similar lengths share a group, and a thread takes a group at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "pool/batch_engine.hpp"
#include "transducer/beam/group.hpp"
#include "transducer/group.hpp"
#include "transducer/network.hpp"

namespace arcbeam::transducer {

// In a group: larger groups do not share the reading of weights any better
constexpr std::size_t kMostMembers = 16;

class GroupOfBatch {
  public:
    GroupOfBatch(const Network& network, const Options& options) : network_(network), options_(options) {}

    void decode(const std::vector<Utterance>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Result>& results) {
        if (options_.beam.beam > 0.0F) {
            beams_.decode(network_, options_, batch, members, cancel, results);
        } else {
            group_.decode(network_, options_, batch, members, cancel, results);
        }
    }

  private:
    const Network& network_;
    const Options options_;
    Group group_;
    beam::Group beams_;
};

class Engine final : public twin::BatchEngine<GroupOfBatch, Utterance, Result> {
  public:
    // The network must outlive the engine.
    Engine(const Network& network, const Options& options, std::size_t threads)
        : BatchEngine([&network, options] { return std::make_unique<GroupOfBatch>(network, options); }, threads,
                      kMostMembers) {}
};

}  // namespace arcbeam::transducer
