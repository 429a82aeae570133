// Posteriors: the share of a link, or of a token, in all the paths of a lattice (law 8 of docs/design/rules.md).
//
// rule a path weighs exp(-scale * (the sum of its slacks and its end's extra)), as the product of its links'
// weights
//      and its end's. The winner's weight is 1. Sums take links in number order, and a token's end after its links.
//
//          forward[first] = 1       forward[t]  = sum over links into t of forward[source] * weight
//          backward[t] = sum over links from t of weight * backward[target], + the weight of an end at t
//          posterior[link] = forward[source] * weight * backward[target] / backward[first]
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lattice/lattice.hpp"
#include "lattice/scaled.hpp"

namespace arcbeam::lattice {

struct Weights {
    std::vector<double> links;  // [links]: in [0, 1]
    std::vector<double> ends;   // [tokens of the last step]; 0 where no path ends

    void set(const Lattice& lattice, double scale) {
        links.resize(lattice.links.size());
        for (std::size_t i = 0; i < links.size(); ++i) {
            const float slack = lattice.links[i].slack;
            links[i] = slack == 0.0F ? 1.0 : exp_of_minus(scale * static_cast<double>(slack));
        }
        ends.resize(lattice.end_extras.size());
        for (std::size_t i = 0; i < ends.size(); ++i) {
            const float extra = lattice.end_extras[i];
            ends[i] = std::isinf(extra) ? 0.0 : exp_of_minus(scale * static_cast<double>(extra));
        }
    }
};

inline void sum_forward(const Lattice& lattice, const Weights& weights, std::vector<Scaled>& forward) {
    forward.assign(lattice.num_tokens(), Scaled{});
    forward[0].mantissa = 1.0;
    const Link* const links = lattice.links.data();
    for (std::uint32_t i = 0; i < lattice.num_links(); ++i) {
        Scaled& sum = forward[links[i].target];
        sum = plus(sum, times(forward[links[i].source], weights.links[i]));
    }
}

inline void sum_backward(const Lattice& lattice, const Weights& weights, std::vector<Scaled>& backward) {
    backward.resize(lattice.num_tokens());
    const std::uint32_t first_end = lattice.first_end();
    for (std::uint32_t token = lattice.num_tokens(); token-- > 0;) {
        Scaled sum;
        for (std::uint32_t i = lattice.first_link[token]; i < lattice.first_link[token + 1]; ++i) {
            sum = plus(sum, times(backward[lattice.links[i].target], weights.links[i]));
        }
        if (token >= first_end) {
            sum = plus(sum, normal(weights.ends[token - first_end], 0));
        }
        backward[token] = sum;
    }
}

struct Posteriors {
    std::vector<double> links;  // [links]: in [0, 1]
    double log_total = 0.0;     // ln of the weight of all paths, where the best weighs 1
};

inline Posteriors posteriors(const Lattice& lattice, double scale) {
    Posteriors found;
    if (lattice.num_tokens() == 0) {
        return found;
    }
    Weights weights;
    std::vector<Scaled> forward;
    std::vector<Scaled> backward;
    weights.set(lattice, scale);
    sum_forward(lattice, weights, forward);
    sum_backward(lattice, weights, backward);
    found.links.resize(lattice.links.size());
    for (std::uint32_t i = 0; i < lattice.num_links(); ++i) {
        const Link& link = lattice.links[i];
        const Scaled through = times(times(forward[link.source], weights.links[i]), backward[link.target]);
        found.links[i] = share(through, backward[0]);
    }
    found.log_total = log_of(backward[0]);
    return found;
}

}  // namespace arcbeam::lattice
