// The confidence of each frame of CTC log-probs, on a pool of threads, and that of labels and words made of them.
//
// in   log-probs of an utterance; a measure
// out  float32 [frames]: in [0, 1]
// rule transducer/confidence.hpp over the columns of a frame. A column of -inf has no share in a sum. A frame
// without
//      any other column has the confidence 0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/acoustic.hpp"
#include "pool/batch_engine.hpp"
#include "transducer/confidence.hpp"

namespace arcbeam::frame_confidence {

using transducer::Confidence;

// Log-probs, measure and room for the confidences must outlive the batch.
struct Query {
    twin::LogProbs log_probs;
    const Confidence* measure;
    float* into;  // [frames]
};

inline std::size_t frames_of(const Query& query) { return query.log_probs.frames; }

enum class Outcome : std::uint8_t { kDone, kOutOfMemory, kCancelled };

struct Answer {
    Outcome outcome = Outcome::kCancelled;
};

class Worker {
  public:
    explicit Worker(bool portable);

    void decode(const std::vector<Query>& batch, const std::vector<std::size_t>& members,
                const std::atomic<bool>& cancel, std::vector<Answer>& answers);

  private:
    void measure(const Query& query, std::uint32_t frame);

    float (*of_row_)(const Confidence&, const float*, std::size_t);  // for this machine's vector unit
    std::vector<float> row_;                                         // what is above -inf
};

class Engine final : public twin::BatchEngine<Worker, Query, Answer> {
  public:
    explicit Engine(std::size_t threads, bool portable = false);  // portable: for tests, without vector units
};

}  // namespace arcbeam::frame_confidence
