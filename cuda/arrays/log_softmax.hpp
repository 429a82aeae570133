// The structs through which the host and the kernel log_softmax talk to each other; both compile them.
#pragma once

#include <cstdint>

namespace arcbeam {

// The logits of an utterance, of one frame or more.
struct LogitsView {
    const void* logits;
    std::int64_t row_stride;  // in values
    std::int64_t is_half;
    std::uint64_t first_row;  // frames of the utterances before it
};

struct LogSoftmaxParams {
    const LogitsView* utterances;
    std::uint64_t rows;  // of all utterances
    std::uint32_t num_utterances;
    std::uint32_t columns;
    float* log_probs;  // [rows][columns]
};

}  // namespace arcbeam
