// Lays a model out as the columns of shared/lm_view.hpp.
//
// Labels: the words from 1 on, in the order of the file and without <s> and </s>; then the end of a sentence. Costs
// are natural logs, -ln(10) * log10(p), rounded to float32 once. Zero probabilities become +inf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arcbeam/lm/_arpa/reader.hpp"
#include "shared/lm_view.hpp"

namespace arcbeam::arpa {

struct LmColumns {
    std::vector<std::uint16_t> labels_low;
    std::vector<std::uint32_t> labels_high;
    std::vector<std::uint8_t> first_offsets;
    std::vector<std::uint32_t> first_bases;
    std::vector<std::uint32_t> wide_firsts;
    std::vector<std::uint64_t> backoff_steps;
    std::vector<std::uint32_t> backoff_bases;
    std::vector<std::uint32_t> wide_backoffs;
    std::vector<LmArc> arcs;
    std::vector<float> backoff_weights;
    std::vector<std::uint32_t> lengths;    // [order + 1]: the first state of each length of history, and the end
    std::vector<std::uint64_t> word_ends;  // [words]: where each word ends in `text`
    std::string text;
    std::uint32_t high_bits = 0;
    std::uint32_t start = 0;
    // The number of histories after which the probabilities do not sum to 1, and the worst of them.
    std::uint64_t unnormalised = 0;
    double worst_sum = 1.0;
    std::string worst_history;
};

LmColumns lay_out(const Reader& reader);

}  // namespace arcbeam::arpa
