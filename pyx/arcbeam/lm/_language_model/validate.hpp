// Checks that the columns of shared/lm_view.hpp, which may come from anywhere, can be searched without looking
// again.
#pragma once

#include "common/status.hpp"
#include "shared/lm_view.hpp"

namespace arcbeam {

// First arcs ascend to num_arcs, back-off states lie below their states, labels of a state ascend within 1 ..
// num_labels and those of state 0 are all there, next states exist, weights are neither NaN nor -inf.
Status validate(const LmView& lm, unsigned threads);

}  // namespace arcbeam
