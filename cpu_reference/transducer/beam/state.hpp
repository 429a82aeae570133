// The state of a beam search between two chunks of its stream: all that the search of later frames needs (law 12,
// streams). Both engines read and write it.
//
// rule  no frame after those of the stream so far has been searched, and nothing has been rescaled for the next one
// order it depends on the frames so far alone: arrivals by frame, on a frame as they came; histories and labels as
//       the paths of the arrivals have them, each from its beginning, then the other histories with a prediction by
//       (parent, token); predictions by their histories
#pragma once

#include <cstdint>
#include <vector>

#include "transducer/beam/bucket.hpp"
#include "transducer/beam/fusion.hpp"
#include "transducer/labels.hpp"

namespace arcbeam::transducer::beam {

struct BeamState {
    // A hypothesis in its bucket.
    struct Arrival {
        std::int64_t frame;  // of those that follow, from 0
        std::uint32_t node;  // its history
        float score;
        float path;
        std::uint32_t log;  // the last label of its strongest path; kNoLabel: its labels are settled
    };
    struct History {
        std::uint32_t parent;  // comes before it; the first is its own
        std::uint32_t token;   // its last label; 0 of the first
        Fused fused;
    };

    std::int64_t frames = 0;  // of the stream so far
    double offset = 0.0;
    std::uint32_t labels = 0;  // of the sentence that are settled
    std::vector<Arrival> arrivals;
    std::vector<History> histories;  // the first is the common ancestor of the others
    Shares shares{};                 // of all labels of the first
    // Histories with a prediction; and of each the LSTM's state [layers, units], or the last tokens of a stateless
    // network.
    std::vector<std::uint32_t> predicted;
    std::vector<float> hidden;
    std::vector<float> cell;
    std::vector<std::int32_t> contexts;
    std::vector<Label> log;  // labels that some strongest path has and another one has not; after those before

    // Before the first frame of a sentence, with these states of the models.
    static BeamState begun(std::int64_t frames, const FusionStates& states) {
        BeamState state;
        state.frames = frames;
        state.arrivals.push_back({0, 0U, 0.0F, 0.0F, kNoLabel});
        state.histories.push_back({0U, 0U, Fused{states}});
        return state;
    }
};

}  // namespace arcbeam::transducer::beam
