// Word confidence, minimum Bayes risk decoding and the confusion network of a lattice, by the expected edit
// distances of expected_edits.hpp (law 8 of docs/design/rules.md).
//
// A lattice is cut into parts at its pinches: the tokens that all of its paths pass through. The words that the
// hypothesis writes in a part are compared with what other paths write there. So what comes after a pinch does not
// touch what was found before it, and long speech takes time in proportion to its length.
//
//      words of the hypothesis       a       b           c
//      tokens                     0 > 1 > 2     4 > 5 > 6 > 7       pinches 0, 1, 4, 5, 6, 7
//                                     1 > 3 > 4
//
// Decoding starts with the words of the hypothesis and takes, in each slot of a part, the word of the largest
// posterior; of equals that of the reference, then the smallest id. That goes on until no word changes, at most 20
// times.
//
// A search that has died has a score of -inf: no word of its path has any confidence, and each counts as an error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lattice/expected_edits.hpp"
#include "lattice/lattice.hpp"
#include "lattice/posteriors.hpp"
#include "lattice/scaled.hpp"

namespace arcbeam::lattice {

struct Mbr {
    // The words of the smallest risk. Frames are expected values of the link that writes the word.
    std::vector<std::uint32_t> words;
    std::vector<double> confidences;  // [words]: in [0, 1]
    std::vector<double> begins;       // [words]: frames
    std::vector<double> ends;
    // [words]: the number of the hypothesis' word if that is the word of the slot, else kNone.
    std::vector<std::uint32_t> same_as;
    double errors = 0.0;  // expected number of word errors of `words`
    bool truncated = false;

    // The confusion network: for each position the words that compete there, 0 for none, by falling posterior, then
    // by id. The posteriors of a position sum to 1. A position where nothing was written has no place.
    std::vector<std::uint32_t> first_rival;  // [positions + 1]
    std::vector<std::uint32_t> rivals;       // words
    std::vector<double> posteriors;          // [rivals]
};

class MbrDecoder {
  public:
    static constexpr int kMostIterations = 20;

    // Adds the confidence of each word of the hypothesis; returns whether distances were computed in bands.
    bool confidences(const Lattice& lattice, const std::uint32_t* words, const Weights& weights,
                     const std::vector<Scaled>& forward, std::uint64_t step_limit, std::vector<double>& found) {
        begin(lattice, words, weights, forward, step_limit);
        std::size_t word = 0;
        for (const Part& part : parts_) {
            take_reference(part, word);
            const std::size_t first = found.size();
            found.resize(first + reference_.size(), 0.0);
            if (reference_.empty()) {
                continue;
            }
            edits_.align(part, reference_, band_of(part),
                         [&](std::size_t slot, std::uint32_t aligned, double posterior, std::uint32_t) {
                             if (slot % 2U == 0U && aligned == reference_[slot / 2U - 1U]) {
                                 found[first + slot / 2U - 1U] += posterior;
                             }
                         });
            for (std::size_t i = first; i < found.size(); ++i) {
                found[i] = lattice.complete ? std::min(found[i], 1.0) : 0.0;
            }
        }
        return truncated_;
    }

    void decode(const Lattice& lattice, const std::uint32_t* words, const Weights& weights,
                const std::vector<Scaled>& forward, std::uint64_t step_limit, Mbr& found) {
        found = Mbr{};
        found.first_rival.push_back(0);
        begin(lattice, words, weights, forward, step_limit);
        std::size_t word = 0;
        for (const Part& part : parts_) {
            take_reference(part, word);
            const std::uint32_t* const band = band_of(part);
            double errors = align(part, band);
            // In a band, the reference stays: the band lies around the hypothesis.
            for (int i = 0; i < kMostIterations && band == nullptr && choose(); ++i) {
                errors = align(part, nullptr);
            }
            found.errors += errors;
            write(found);
        }
        found.truncated = truncated_;
        if (!lattice.complete) {
            found.confidences.assign(found.words.size(), 0.0);
            found.errors = static_cast<double>(found.words.size());
        }
    }

    // What is kept from call to call and may be large.
    [[nodiscard]] std::size_t bytes() const { return edits_.bytes(); }

  private:
    static constexpr std::uint32_t kNone = ExpectedEdits::kNone;

    struct Alignment {
        std::uint32_t slot;
        std::uint32_t word;
        double posterior;
        double begin;  // frames times posterior
        double end;
    };

    void begin(const Lattice& lattice, const std::uint32_t* words, const Weights& weights,
               const std::vector<Scaled>& forward, std::uint64_t step_limit) {
        lattice_ = &lattice;
        words_ = words;
        step_limit_ = step_limit;
        truncated_ = false;
        find_shares(weights, forward);
        find_parts();
        hypothesis_.clear();
        for (const std::uint32_t link : lattice.best) {
            if (words[link] != 0) {
                hypothesis_.push_back(link);
            }
        }
        reached_.clear();
        edits_.begin(lattice, words, link_shares_.data(), end_shares_.data(), links_into_.data());
    }

    // What part of the weight that reaches a token comes by a link, and what part of all paths ends at a token.
    void find_shares(const Weights& weights, const std::vector<Scaled>& forward) {
        const Link* const links = lattice_->links.data();
        links_into_.assign(lattice_->num_tokens(), 0);
        for (std::uint32_t i = 0; i < lattice_->num_links(); ++i) {
            ++links_into_[links[i].target];
        }
        link_shares_.resize(lattice_->num_links());
        for (std::uint32_t i = 0; i < lattice_->num_links(); ++i) {
            const std::uint32_t target = links[i].target;
            link_shares_[i] = links_into_[target] == 1
                                  ? 1.0
                                  : share(times(forward[links[i].source], weights.links[i]), forward[target]);
        }
        Scaled total;
        const std::uint32_t first_end = lattice_->first_end();
        for (std::uint32_t token = first_end; token < lattice_->num_tokens(); ++token) {
            total = plus(total, times(forward[token], weights.ends[token - first_end]));
        }
        end_shares_.resize(weights.ends.size());
        for (std::uint32_t token = first_end; token < lattice_->num_tokens(); ++token) {
            end_shares_[token - first_end] = share(times(forward[token], weights.ends[token - first_end]), total);
        }
    }

    void find_parts() {
        parts_.clear();
        const std::uint32_t tokens = lattice_->num_tokens();
        std::uint32_t begin = 0;
        std::uint32_t farthest = 0;  // that a link from a token before this one reaches
        bool has_ended = false;
        for (std::uint32_t token = 0; token < tokens; ++token) {
            if (farthest <= token && token > begin && !has_ended) {
                parts_.push_back({begin, token});
                begin = token;
            }
            for (std::uint32_t i = lattice_->first_link[token]; i < lattice_->first_link[token + 1]; ++i) {
                farthest = std::max(farthest, lattice_->links[i].target);
            }
            has_ended |=
                token >= lattice_->first_end() && !std::isinf(lattice_->end_extras[token - lattice_->first_end()]);
        }
        parts_.push_back({begin, tokens});
    }

    // The words that the hypothesis writes in a part; `word` goes from part to part.
    void take_reference(const Part& part, std::size_t& word) {
        reference_.clear();
        origins_.clear();
        first_word_ = word;
        for (; word < hypothesis_.size() && lattice_->links[hypothesis_[word]].source < part.end; ++word) {
            reference_.push_back(words_[hypothesis_[word]]);
            origins_.push_back(static_cast<std::uint32_t>(word));
        }
    }

    // For each token the words of a part that the hypothesis, which is the reference, has written before the
    // token's step; null if the part is small enough for all distances.
    const std::uint32_t* band_of(const Part& part) {
        const std::uint64_t links = lattice_->first_link[part.end] - lattice_->first_link[part.begin];
        if (links * (reference_.size() + 1U) <= step_limit_ || reference_.size() <= 2U * ExpectedEdits::kBand) {
            return nullptr;
        }
        truncated_ = true;
        reached_.resize(lattice_->num_tokens() + 1U);
        std::size_t word = first_word_;
        const std::size_t last = first_word_ + reference_.size();
        const auto step_after =
            std::upper_bound(lattice_->first_token.begin(), lattice_->first_token.end(), part.begin);
        auto step = static_cast<std::size_t>(step_after - lattice_->first_token.begin()) - 1U;
        for (; step < lattice_->num_steps() && lattice_->first_token[step] < part.end; ++step) {
            const std::uint32_t first = lattice_->first_token[step];
            while (word < last && lattice_->links[hypothesis_[word]].source < first) {
                ++word;
            }
            const std::uint32_t end = std::min(lattice_->first_token[step + 1], part.end);
            for (std::uint32_t token = std::max(first, part.begin); token < end; ++token) {
                reached_[token] = static_cast<std::uint32_t>(word - first_word_);
            }
        }
        reached_[part.end] = static_cast<std::uint32_t>(reference_.size());
        return reached_.data();
    }

    // Fills alignments_: one for each word of a slot, by slot and word.
    double align(const Part& part, const std::uint32_t* band) {
        alignments_.clear();
        const double errors =
            edits_.align(part, reference_, band,
                         [&](std::size_t slot, std::uint32_t word, double posterior, std::uint32_t link) {
                             Alignment one{static_cast<std::uint32_t>(slot), word, posterior, 0.0, 0.0};
                             if (word != 0) {
                                 one.begin = posterior * frame_of(lattice_->links[link].source);
                                 one.end = posterior * frame_of(lattice_->links[link].target);
                             }
                             alignments_.push_back(one);
                         });
        std::stable_sort(alignments_.begin(), alignments_.end(), [](const Alignment& a, const Alignment& b) {
            return a.slot < b.slot || (a.slot == b.slot && a.word < b.word);
        });
        std::size_t kept = 0;
        for (const Alignment& one : alignments_) {
            if (kept > 0 && alignments_[kept - 1].slot == one.slot && alignments_[kept - 1].word == one.word) {
                alignments_[kept - 1].posterior += one.posterior;
                alignments_[kept - 1].begin += one.begin;
                alignments_[kept - 1].end += one.end;
            } else {
                alignments_[kept++] = one;
            }
        }
        alignments_.resize(kept);
        return errors;
    }

    // Frames before the token.
    [[nodiscard]] double frame_of(std::uint32_t token) const {
        const auto after = std::upper_bound(lattice_->first_token.begin(), lattice_->first_token.end(), token);
        return static_cast<double>(after - lattice_->first_token.begin() - 1);
    }

    [[nodiscard]] std::size_t end_of_slot(std::size_t i) const {
        const std::uint32_t slot = alignments_[i].slot;
        while (i < alignments_.size() && alignments_[i].slot == slot) {
            ++i;
        }
        return i;
    }

    // The best alignment of the slot that begins at i.
    [[nodiscard]] const Alignment& best_of(std::size_t i) const {
        const std::uint32_t slot = alignments_[i].slot;
        const std::uint32_t current = slot % 2U == 0U ? reference_[slot / 2U - 1U] : 0U;
        const Alignment* best = &alignments_[i];
        for (const std::size_t end = end_of_slot(i); i < end; ++i) {
            const Alignment& one = alignments_[i];
            if (one.posterior > best->posterior || (one.posterior == best->posterior && one.word == current)) {
                best = &one;
            }
        }
        return *best;
    }

    // Makes the best words of the slots the reference; returns whether it differs from the one before.
    bool choose() {
        chosen_.clear();
        chosen_origins_.clear();
        for (std::size_t i = 0; i < alignments_.size(); i = end_of_slot(i)) {
            if (best_of(i).word != 0) {
                const std::uint32_t slot = alignments_[i].slot;
                chosen_.push_back(best_of(i).word);
                chosen_origins_.push_back(slot % 2U == 0U ? origins_[slot / 2U - 1U] : kNone);
            }
        }
        if (chosen_ == reference_) {
            return false;
        }
        reference_.swap(chosen_);
        origins_.swap(chosen_origins_);
        return true;
    }

    // The word of the hypothesis in the slot of a word of the reference, if it is the same.
    [[nodiscard]] std::uint32_t same_as(std::size_t at) const {
        const std::uint32_t origin = origins_[at];
        return origin != kNone && words_[hypothesis_[origin]] == reference_[at] ? origin : kNone;
    }

    void write(Mbr& found) {
        for (std::size_t i = 0; i < alignments_.size();) {
            const std::size_t end = end_of_slot(i);
            const std::uint32_t slot = alignments_[i].slot;
            if (slot % 2U == 0U) {
                // The reference is what the last choice has left, and so the best of its slot.
                const std::uint32_t word = reference_[slot / 2U - 1U];
                Alignment one{slot, word, 0.0, 0.0, 0.0};
                for (std::size_t at = i; at < end; ++at) {
                    one = alignments_[at].word == word ? alignments_[at] : one;
                }
                found.words.push_back(word);
                found.confidences.push_back(std::min(one.posterior, 1.0));
                found.begins.push_back(one.posterior > 0.0 ? one.begin / one.posterior : 0.0);
                found.ends.push_back(one.posterior > 0.0 ? one.end / one.posterior : 0.0);
                found.same_as.push_back(same_as(slot / 2U - 1U));
            }
            std::stable_sort(alignments_.begin() + static_cast<std::ptrdiff_t>(i),
                             alignments_.begin() + static_cast<std::ptrdiff_t>(end),
                             [](const Alignment& a, const Alignment& b) { return a.posterior > b.posterior; });
            if (end - i > 1 || alignments_[i].word != 0) {
                for (std::size_t at = i; at < end; ++at) {
                    found.rivals.push_back(alignments_[at].word);
                    found.posteriors.push_back(std::min(alignments_[at].posterior, 1.0));
                }
                found.first_rival.push_back(static_cast<std::uint32_t>(found.rivals.size()));
            }
            i = end;
        }
    }

    const Lattice* lattice_ = nullptr;
    const std::uint32_t* words_ = nullptr;
    std::uint64_t step_limit_ = 0;
    bool truncated_ = false;
    ExpectedEdits edits_;
    std::vector<double> link_shares_;        // [links]
    std::vector<double> end_shares_;         // [tokens of the last step]
    std::vector<std::uint32_t> links_into_;  // [tokens]
    std::vector<Part> parts_;
    std::vector<std::uint32_t> hypothesis_;  // its links with words
    std::vector<std::uint32_t> reference_;   // words, in the part at hand
    std::vector<std::uint32_t> origins_;     // [reference]: the word of the hypothesis in the slot, kNone: none
    std::vector<std::uint32_t> chosen_;
    std::vector<std::uint32_t> chosen_origins_;
    std::vector<std::uint32_t> reached_;  // [tokens + 1]
    std::size_t first_word_ = 0;          // of the hypothesis in the part at hand
    std::vector<Alignment> alignments_;
};

}  // namespace arcbeam::lattice
