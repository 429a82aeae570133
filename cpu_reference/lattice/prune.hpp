// Prunes a lattice to a smaller beam: the result is the lattice that a search with this beam gives, byte for byte.
//
// in   lattice; beam, in nats
// out  the lattice of the links that stay under law 8 of docs/design/rules.md, and of the tokens that they reach;
// the
//      numbers that they had
// rule tokens and links keep their order, so they keep the order that law 8 gives them
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lattice/lattice.hpp"
#include "shared/slack.hpp"

namespace arcbeam::lattice {

// The extras of all tokens: what the best path through each costs above the best path of all.
inline std::vector<float> extras_of(const Lattice& lattice) {
    std::vector<float> extras(lattice.num_tokens(), kInfiniteCost);
    std::copy(lattice.end_extras.begin(), lattice.end_extras.end(), extras.begin() + lattice.first_end());
    for (std::uint32_t i = lattice.num_links(); i-- > 0;) {
        const Link& link = lattice.links[i];
        extras[link.source] = std::min(extras[link.source], extra_by(link.slack, extras[link.target]));
    }
    return extras;
}

struct Pruned {
    Lattice lattice;
    std::vector<std::uint32_t> tokens;  // [tokens that stay]: their numbers before
    std::vector<std::uint32_t> links;   // [links that stay]
};

inline Pruned prune(const Lattice& lattice, float beam) {
    Pruned found;
    Lattice& kept = found.lattice;
    kept.total_cost = lattice.total_cost;
    kept.reached_final = lattice.reached_final;
    kept.complete = lattice.complete;
    if (lattice.num_tokens() == 0) {
        return found;
    }
    const std::vector<float> extras = extras_of(lattice);
    std::vector<std::uint32_t> numbers(lattice.num_tokens());
    for (std::uint32_t step = 0; step < lattice.num_steps(); ++step) {
        kept.first_token.push_back(kept.num_tokens());
        for (std::uint32_t token = lattice.first_token[step]; token < lattice.first_token[step + 1]; ++token) {
            numbers[token] = kept.num_tokens();
            if (stays(beam, extras[token])) {
                found.tokens.push_back(token);
                kept.states.push_back(lattice.states[token]);
                kept.costs.push_back(lattice.costs[token]);
            }
        }
    }
    kept.first_token.push_back(kept.num_tokens());

    std::vector<std::uint32_t> links(lattice.num_links());  // their new numbers
    for (std::uint32_t token = 0; token < lattice.num_tokens(); ++token) {
        if (stays(beam, extras[token])) {
            kept.first_link.push_back(kept.num_links());
        }
        for (std::uint32_t i = lattice.first_link[token]; i < lattice.first_link[token + 1]; ++i) {
            const Link& link = lattice.links[i];
            links[i] = kept.num_links();
            if (stays(beam, extra_by(link.slack, extras[link.target]))) {
                found.links.push_back(i);
                kept.links.push_back({numbers[link.source], numbers[link.target], link.arc, link.slack});
            }
        }
    }
    kept.first_link.push_back(kept.num_links());

    for (std::uint32_t token = lattice.first_end(); token < lattice.num_tokens(); ++token) {
        if (stays(beam, extras[token])) {
            const float extra = lattice.end_extras[token - lattice.first_end()];
            kept.end_extras.push_back(stays(beam, extra) ? extra : kInfiniteCost);
        }
    }
    for (const std::uint32_t link : lattice.best) {
        kept.best.push_back(links[link]);
    }
    return found;
}

}  // namespace arcbeam::lattice
