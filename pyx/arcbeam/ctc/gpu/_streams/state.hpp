// The state of a stream on a device (decode/search.hpp) as all engines save it, and the reverse. The twin's own
// state is filled and asked, so that both write the same.
#pragma once

#include <cstdint>

#include "decode/models.hpp"
#include "decode/saved_search.hpp"
#include "rescore/rescoring_search.hpp"
#include "shared/boost.hpp"
#include "shared/endpoint.hpp"
#include "shared/graph_view.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam {

// A state in memory of the host, at a multiple of 16, with room for so many tokens with histories, and entries of
// the log.
struct HostState {
    unsigned char* memory;
    std::uint32_t tokens;
    std::uint32_t entries;
};

// What gives tokens their histories: models of the host whose states have the device's numbers, and a boost.
struct StreamModels {
    const RescoringView* lms;  // null: none
    SharedBits bits;
    BoostView boost;
};

// The large model's state after what was heard.
std::uint32_t large_start(const RescoringView& lms, const twin::Heard& heard);

// Lacks what the host knows without the device: what is settled, `frames` and `fired`.
twin::SavedSearch saved_search(const HostState& from);

// Writes the state with which a search goes on.
void resume_search(const twin::SavedSearch& saved, const GraphView& graph, const StreamModels& models,
                   const twin::Heard& heard, const EndpointRules& rules, const HostState& into);

}  // namespace arcbeam
