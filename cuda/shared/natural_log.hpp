// Converts log10, as in ARPA files and KenLM, to the costs of a search, with one expression for all.
#pragma once

#include "shared/portable.hpp"

namespace arcbeam {

constexpr double kLn10 = 2.302585092994045684;

// The cost of a probability or a back-off weight, rounded to float32 once.
ARCBEAM_HD float natural_cost(double log10_weight) { return static_cast<float>(-kLn10 * log10_weight); }

}  // namespace arcbeam
