// What rescoring, or a boost, added to each link and end of a lattice. A token has one history, because the history
// is a part of its key (law 4); so any link that enters it gives its history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/models.hpp"
#include "graph/open_graph.hpp"
#include "lattice/lattice.hpp"
#include "shared/boost.hpp"
#include "shared/cost.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam::lattice {

// `lm_context`: the words that the large model has before the lattice.
// Out: of_links [links], of_ends [tokens of the last step]; 0 where no word is written or no path ends.
template <typename Models>
void deviations(const OpenGraph& graph, const typename Models::View& view, const twin::LmContext& lm_context,
                const Lattice& lattice, float* of_links, float* of_ends) {
    Models models(view);
    models.begin(0);
    std::vector<History> histories(lattice.num_tokens(), models.start(lm_context));
    for (std::uint32_t token = 0; token < lattice.num_tokens(); ++token) {
        const History history = histories[token];
        for (std::uint32_t i = lattice.first_link[token]; i < lattice.first_link[token + 1U]; ++i) {
            const Link& link = lattice.links[i];
            const std::uint32_t word = graph.words[link.arc];
            const Deviation deviation =
                word == kNoWord ? Models::keep(history) : models.add(history, graph.known_word(word));
            of_links[i] = deviation.cost;
            histories[link.target] = deviation.next;
        }
    }
    for (std::size_t i = 0; i < lattice.end_extras.size(); ++i) {
        const bool ends = lattice.reached_final && is_finite(lattice.end_extras[i]);
        of_ends[i] = ends ? models.end_deviation(histories[lattice.first_end() + i]) : 0.0F;
    }
}

// What a boost added, in the same form; its refund is due at every end.
inline void boosts(const OpenGraph& graph, const BoostView& boost, const Lattice& lattice, float* of_links,
                   float* of_ends) {
    std::vector<std::uint32_t> states(lattice.num_tokens(), kNoPhrase);
    for (std::uint32_t token = 0; token < lattice.num_tokens(); ++token) {
        for (std::uint32_t i = lattice.first_link[token]; i < lattice.first_link[token + 1U]; ++i) {
            const Link& link = lattice.links[i];
            const std::uint32_t word = graph.words[link.arc];
            const BoostStep step =
                word == kNoWord ? BoostStep{0.0F, states[token]} : boost_step(boost, states[token], word);
            of_links[i] = step.cost;
            states[link.target] = step.next_state;
        }
    }
    for (std::size_t i = 0; i < lattice.end_extras.size(); ++i) {
        const bool ends = is_finite(lattice.end_extras[i]);
        of_ends[i] = ends ? boost_refund(boost, states[lattice.first_end() + i]) : 0.0F;
    }
}

}  // namespace arcbeam::lattice
