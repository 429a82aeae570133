// Checks that the columns of shared/lm_view.hpp, which may come from anywhere, can be searched without further
// checks.
#pragma once

#include "common/status.hpp"
#include "shared/lm_view.hpp"

namespace arcbeam {

// First arcs ascend to num_arcs, back-off states lie below their states, the labels of a state ascend within 1 ..
// num_labels, state 0 has all labels, next states exist, and weights are neither NaN nor -inf.
Status validate(const LmView& lm, unsigned threads);

}  // namespace arcbeam
