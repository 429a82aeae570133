// A bucket: the hypotheses that arrive at one frame with the same number of labels on it, equal histories merged.
//
// in    hypotheses in the order of the law: by frame, depth and rank of their source, the blank before labels,
// token,
//       duration
// out   one for each history, in the order of their first arrivals
// rule  scores are added (or the larger one stays) in this order; the strongest single path keeps its labels, the
//       first of equals
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shared/transducer_beam.hpp"
#include "transducer/beam/lattice.hpp"

namespace arcbeam::transducer::beam {

constexpr std::uint32_t kNoLabel = 0xffffffffU;

// A label on a path.
struct Label {
    std::uint32_t before;  // its place in the log of labels; kNoLabel for none
    std::uint32_t token;
    std::int64_t frame;
    std::uint32_t duration;
    float log_prob;
    float confidence;
};

struct Hypothesis {
    std::uint32_t node;  // its history
    float score;         // of all its paths
    float path;          // of the strongest one
    std::uint32_t log;   // the last label of the strongest path in the log; kNoLabel for none
    bool is_written;     // whether `label` follows on that path, and is not in the log yet
    Label label;
};

struct Bucket {
    void add(const Hypothesis& one, bool sums) {
        const auto [place, is_new] = places.try_emplace(one.node, hypotheses.size());
        if (is_new) {
            hypotheses.push_back(one);
            return;
        }
        Hypothesis& found = hypotheses[place->second];
        const float score = merged_score(found.score, one.score, sums);
        if (one.path > found.path) {
            found = one;
        }
        found.score = score;
    }

    [[nodiscard]] float best() const {
        float best = -INFINITY;
        for (const Hypothesis& one : hypotheses) {
            best = one.score > best ? one.score : best;
        }
        return best;
    }

    void rescale(float best) {
        for (Hypothesis& one : hypotheses) {
            one.score -= best;
            one.path -= best;
        }
    }

    std::vector<Hypothesis> hypotheses;
    std::unordered_map<std::uint32_t, std::size_t> places;  // by node; never gone through in order
    std::vector<Arrival> arrivals;                          // if a lattice is kept
};

// Cut-off: the hypotheses of a bucket that score at least `bound`, of these the first `most` by (score, order of
// their first arrivals).
inline std::vector<Hypothesis> cut_off(Bucket& bucket, float bound, std::size_t most) {
    std::vector<Hypothesis>& all = bucket.hypotheses;
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Hypothesis& one) { return !(one.score >= bound); }),
              all.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), most));
    return std::move(all);
}

}  // namespace arcbeam::transducer::beam
