// Compiles a list of phrases into the automaton of shared/boost.hpp (law 9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/boost.hpp"

namespace arcbeam::boost {

constexpr double kUnit = 1024.0;  // scores and shares are multiples of 1/kUnit

// Phrases as word ids, in any order; none is empty, and no two are equal.
struct Phrases {
    std::vector<std::uint32_t> words;
    std::vector<std::size_t> first_word;  // [phrases + 1]
    std::vector<std::int64_t> scores;     // [phrases], in units

    [[nodiscard]] std::size_t size() const { return scores.size(); }
};

struct Automaton {
    std::vector<BoostState> states;
    std::vector<BoostArc> arcs;
    double largest = 0.0;  // of all potentials and costs of steps, without their signs

    [[nodiscard]] BoostView view() const {
        return {states.data(), arcs.data(), static_cast<std::uint32_t>(arcs.size() - 1U)};
    }
};

// `depth_scaling`: the weight of each word but the first, against 1, when shares are given.
Automaton compile(const Phrases& phrases, double depth_scaling);

}  // namespace arcbeam::boost
