// The state of a stream on a device (decode/search.hpp) as all engines save it, and the reverse. The twin's own
// state is filled and read, so that both write the same.
#pragma once

#include <cstdint>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/kenlm_answerer.hpp"
#include "decode/models.hpp"
#include "decode/streams/saved_search.hpp"
#include "graph/open_graph.hpp"
#include "rescore/rescoring_search.hpp"
#include "shared/boost.hpp"
#include "shared/endpoint.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam {

// A state in memory of the host, at a multiple of 16, with room for so many tokens with histories, and entries of
// the log.
struct HostState {
    unsigned char* memory;
    std::uint32_t tokens;
    std::uint32_t entries;
};

// What a stream keeps of its lattice (decode/lattice_room.hpp) in memory of the host, at a multiple of 16, with
// room for so many links and steps; without memory for a stream that keeps none.
struct HostLinks {
    unsigned char* memory;
    std::uint32_t links;
    std::uint32_t steps;
};

// KenLM's states, one after the other. On a device histories of KenLM are numbers that the host gives them, and
// takes back now and then.
using KenLmHistories = std::vector<unsigned char>;

// What gives tokens their histories: models of the host, and a boost. At most one is not null: models whose states
// have the device's numbers, or those with a KenLM. With either, histories share their bits where a boost has
// phrases.
struct StreamModels {
    const RescoringView* lms;
    const twin::KenLmView* kenlm;
    SharedBits bits;
    BoostView boost;
};

// The large model's state after the context.
std::uint32_t large_start(const RescoringView& lms, const twin::LmContext& lm_context);
KenLmHistories large_start(const twin::KenLmView& kenlm, const twin::LmContext& lm_context);

// The histories of the tokens, and the reverse: false if there is no room for their numbers.
KenLmHistories histories_of(const HostState& from, const StreamModels& models,
                            const requests::KenLmAnswerer& numbers);
bool number_histories(const KenLmHistories& histories, const StreamModels& models, requests::KenLmAnswerer& numbers,
                      const HostState& into);

// Lacks what the host has without the device: what is settled, `frames` and `fired`. With `links`, whose lattice
// has this beam, the lattice is saved; otherwise what is alive. `histories`: those of a KenLM.
twin::SavedSearch saved_search(const HostState& from, const HostLinks& links, float lattice_beam,
                               const OpenGraph& graph, const StreamModels& models, const KenLmHistories& histories);

// Writes the state with which a search continues, and its links where it keeps some; with a KenLM, its histories
// apart.
void resume_search(const twin::SavedSearch& saved, const OpenGraph& graph, const StreamModels& models,
                   const twin::LmContext& lm_context, const EndpointRules& rules, const HostState& into,
                   const HostLinks& links, KenLmHistories& histories);

}  // namespace arcbeam
