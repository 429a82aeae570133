// The candidates of one frame without a lexicon: any token may follow any other, and the language model scores
// tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "baseline/candidates.hpp"
#include "baseline/emissions.hpp"
#include "baseline/histories.hpp"
#include "baseline/options.hpp"

namespace arcbeam::baseline {

class FreeExpander {
  public:
    explicit FreeExpander(const SearchOptions& options) : options_(options) {}

    void expand(const std::vector<Hypothesis>& beam, const Emissions& emissions, Histories& histories,
                Candidates& candidates) {
        const float* emission = emissions.narrowed();
        for (std::uint32_t i = 0; i < beam.size(); ++i) {
            const Hypothesis& from = beam[i];
            stay(from, i, options_.blank, emission, candidates);
            if (from.token != options_.blank && from.token != kNoToken) {
                stay(from, i, from.token, emission, candidates);
            }
        }
        for (std::uint32_t i = 0; i < beam.size(); ++i) {
            follow(beam[i], i, emissions, histories, candidates);
        }
    }

    template <typename Add>
    void complete_at_end(const Hypothesis&, Histories&, Add) const {}

  private:
    [[nodiscard]] double read(double score, float emission, std::uint16_t token) const {
        score += static_cast<double>(emission);
        return token == options_.silence ? score + options_.sil_score : score;
    }

    void stay(const Hypothesis& from, std::uint32_t source, std::uint16_t token, const float* emission,
              Candidates& candidates) const {
        candidates.add(
            {read(from.score, emission[token], token), from.history, kRoot, source, kNoLabel, 0, token, false});
    }

    void follow(const Hypothesis& from, std::uint32_t source, const Emissions& emissions, Histories& histories,
                Candidates& candidates) const {
        const double gain = options_.lm_weight * static_cast<double>(histories.most(from.history));
        for (const std::uint16_t token : emissions.best()) {
            if (token == options_.blank || token == from.token) {
                continue;
            }
            const double score = read(from.score, emissions[token], token);
            if (score + gain < candidates.bound()) {
                continue;
            }
            const auto [history, lm] = histories.extend(from.history, token);
            candidates.add({score + options_.lm_weight * static_cast<double>(lm), history, kRoot, source, token, 0,
                            token, true});
        }
    }

    const SearchOptions& options_;
};

}  // namespace arcbeam::baseline
