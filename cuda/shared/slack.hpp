// What lies within the lattice beam, written once for both engines (law 8 of docs/design/rules.md).
//
// The slack of a link is its cost above that of its target's winner. The extra of a token is what the best path
// through it costs above the best path of all; it is +inf where no path leads on to an end.
#pragma once

#include "shared/cost.hpp"

namespace arcbeam {

// Both costs before the frame's rescaling.
ARCBEAM_HD float slack_of(float cost, float winner_cost) { return cost - winner_cost; }

ARCBEAM_HD float end_extra(float end_cost, float best_end_cost) { return end_cost - best_end_cost; }

// The extra of a token by way of a link.
ARCBEAM_HD float extra_by(float slack, float extra_of_target) { return slack + extra_of_target; }

// A link stays iff its slack plus its target's extra is finite and within the beam, which may be +inf. So a token
// from which no path leads to an end goes under every beam.
ARCBEAM_HD bool stays(float lattice_beam, float extra) { return admits(lattice_beam, extra); }

}  // namespace arcbeam
