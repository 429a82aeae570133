// The labels that a device holds in place of an arc's column. The bits that the columns of a graph leave free say
// by how much the weight of an arc exceeds the smallest weight of its state, rounded down. So most arcs that cost
// too much are recognised without being read.
//
//     label   excess / step | column          16 bits, of which column_bits are the column
//     step    32 / 2^(16 - column_bits)       a power of two, so that steps are exact in float32
//
// pyx/arcbeam/ctc/gpu/searches/graph_layout.py makes them, so that least_weight() never exceeds the arc's weight.
#pragma once

#include <cstring>

#include "decode/search.hpp"
#include "shared/simt.cuh"

namespace arcbeam {

struct ArcLabels {
    std::uint32_t column_bits;
    float unit;  // 2^23 steps: the last bit of a float32 of this size is worth one step

    ARCBEAM_DEVICE static ArcLabels of(const SearchParams& params) {
        // 2^23 * 32 / 2^(16 - column_bits) = 2^(12 + column_bits)
        const std::uint32_t bits = (127U + 12U + params.graph.column_bits) << 23U;
        ArcLabels labels{params.graph.column_bits, 0.0F};
        std::memcpy(&labels.unit, &bits, sizeof bits);
        return labels;
    }

    ARCBEAM_DEVICE std::uint32_t column(std::uint32_t label) const { return label & ((1U << column_bits) - 1U); }

    ARCBEAM_DEVICE float least_weight(std::uint32_t label, float smallest_weight) const {
        std::uint32_t bits;
        std::memcpy(&bits, &unit, sizeof bits);
        bits |= label >> column_bits;
        float above;
        std::memcpy(&above, &bits, sizeof bits);
        return smallest_weight + (above - unit);
    }
};

}  // namespace arcbeam
