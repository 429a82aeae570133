// Expected edit distances between a reference and the paths of a part of a lattice, and what each word of the
// reference is aligned with: Xu, Povey, Mangu & Zhu 2011, "Minimum Bayes Risk decoding and system combination based
// on a recursion for edit distance", section 4, equations 15 to 26, and Kaldi's MbrDecode.
//
// in   tokens [begin, end) of a lattice, all of whose paths pass through `begin` and through `end`, which may stand
// for
//      the place after all ends; reference words r_1 .. r_k; the share that each link has in the paths into its
//      target
// out  alignments (slot, word, posterior); the posteriors of a slot sum to 1
// rule expected distance of token t to j words, with an expectation at tokens and minima at links:
//
//          D(begin, j) = j          D(t, j) = sum over links into t of share * arc(link, j)
//          a link without a word    arc(j) = D(source, j)
//          a link with word w       arc(j) = min(D(source, j - 1) + [w != r_j], D(source, j) + 1, arc(j - 1) + 1)
//
//      The posterior 1 of `end` is then sent back along the choices. Between the words of the reference lie gaps,
//      so that inserted words have a place; a gap has its own mass, but the distance of the word before it.
//
//          slot    0        1       2     3       4     5    ...  2k       2k + 1
//                  begin    gap 0   r_1   gap 1   r_2   gap 2     r_k      gap k
//
//      In a gap, an insertion precedes a deletion; at a word, the order is substitution, insertion, deletion. The
//      first within 2^-30 of the smallest is taken, so that rounding in the expectations does not choose. Links are
//      taken in number order, and an end after them.
//
// A part with more than `step_limit` distances has them only in a band of 16 words to each side of the place that
// the hypothesis has reached; outside they count as very large.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lattice/lattice.hpp"

namespace arcbeam::lattice {

// Tokens [begin, end) and the links that leave them.
struct Part {
    std::uint32_t begin;
    std::uint32_t end;
};

class ExpectedEdits {
  public:
    static constexpr std::uint32_t kBand = 16;
    static constexpr double kMargin = 0x1p-30;

    // Shares are as long as the links and the last step's tokens. `reached`, which is read where the part is
    // banded, has the number of the reference's words that the hypothesis has written before each token's step.
    void begin(const Lattice& lattice, const std::uint32_t* words, const double* link_shares,
               const double* end_shares, const std::uint32_t* links_into) {
        lattice_ = &lattice;
        words_ = words;
        link_shares_ = link_shares;
        end_shares_ = end_shares;
        links_into_ = links_into;
        rows_of_.resize(lattice.num_tokens() + 1U);
        offsets_.resize(lattice.num_tokens() + 1U);
        masses_of_.resize(lattice.num_tokens() + 1U);
    }

    // Calls collect(slot, word, posterior, link), where the word is 0 for a deletion. The link is that whose word
    // is aligned, and kNone for what the first token deletes. Returns the expected number of errors.
    template <typename Collect>
    double align(const Part& part, const std::vector<std::uint32_t>& reference, const std::uint32_t* reached,
                 Collect collect) {
        part_ = part;
        reference_ = reference.data();
        size_ = reference.size();
        width_ = reached == nullptr ? size_ + 1U : std::min<std::size_t>(size_ + 1U, 2U * kBand + 1U);
        for (std::uint32_t token = part.begin; token <= part.end; ++token) {
            rows_of_[token] = kNone;
            offsets_[token] = 0;
            if (reached != nullptr) {
                const std::size_t below = reached[token] < kBand ? 0 : reached[token] - kBand;
                offsets_[token] = static_cast<std::uint32_t>(std::min(below, size_ + 1U - width_));
            }
        }
        const double errors = forward();
        backward(collect);
        return errors;
    }

    // What is kept from call to call.
    [[nodiscard]] std::size_t bytes() const {
        return rows_.capacity() * sizeof(double) + masses_.capacity() * sizeof(double);
    }

    static constexpr std::uint32_t kNone = 0xffffffffU;

  private:
    static constexpr double kFar = 1e9;

    struct Masses {
        std::size_t begin;  // in masses_
        std::size_t first;  // slot
        std::size_t last;
    };

    // Distances of a token, by the number of words of the reference.
    struct Row {
        const double* values;
        std::size_t offset;
        std::size_t width;

        [[nodiscard]] double operator()(std::size_t j) const {
            return j - offset < width ? values[j - offset] : kFar;  // also for j = -1
        }
    };

    [[nodiscard]] Row row(std::uint32_t token) const {
        return {rows_.data() + rows_of_[token] * width_, offsets_[token], width_};
    }

    double forward() {
        rows_.clear();
        num_rows_ = 0;
        arc_.resize(width_);
        rows_of_[part_.begin] = add_row();
        for (std::size_t i = 0; i < width_; ++i) {
            rows_[i] = static_cast<double>(offsets_[part_.begin] + i);
        }
        const Link* const links = lattice_->links.data();
        const std::uint32_t last = lattice_->first_link[part_.end];
        for (std::uint32_t i = lattice_->first_link[part_.begin]; i < last; ++i) {
            const std::uint32_t source = links[i].source;
            const std::uint32_t target = links[i].target;
            if (words_[i] == 0 && links_into_[target] == 1 && offsets_[source] == offsets_[target]) {
                rows_of_[target] = rows_of_[source];  // the very distances
                continue;
            }
            const bool is_first = rows_of_[target] == kNone;
            if (is_first) {
                rows_of_[target] = add_row();
            }
            const double* from = rows_.data() + rows_of_[source] * width_;
            if (words_[i] != 0) {
                arc_distances(row(source), words_[i]);
                from = arc_.data();
            }
            add(from, offsets_[target] - offsets_[source], link_shares_[i], is_first,
                rows_.data() + rows_of_[target] * width_);
        }
        if (part_.end < lattice_->num_tokens()) {
            return row(part_.end)(size_);
        }
        double errors = 0.0;
        for (std::uint32_t token = lattice_->first_end(); token < part_.end; ++token) {
            const double share = end_shares_[token - lattice_->first_end()];
            errors += share > 0.0 ? share * row(token)(size_) : 0.0;
        }
        return errors;
    }

    std::uint32_t add_row() {
        rows_.resize(rows_.size() + width_);
        return num_rows_++;
    }

    // Offsets grow with time, so a target's band begins `shift` words after its source's.
    void add(const double* __restrict from, std::size_t shift, double share, bool is_first,
             double* __restrict to) const {
        const std::size_t within = shift < width_ ? width_ - shift : 0;
        if (is_first) {
            for (std::size_t i = 0; i < within; ++i) {
                to[i] = share * from[i + shift];
            }
            std::fill(to + within, to + width_, share * kFar);
        } else {
            for (std::size_t i = 0; i < within; ++i) {
                to[i] += share * from[i + shift];
            }
            for (std::size_t i = within; i < width_; ++i) {
                to[i] += share * kFar;
            }
        }
    }

    void arc_distances(const Row& from, std::uint32_t word) {
        double* const arc = arc_.data();
        const std::uint32_t* const band = reference_ + from.offset;  // of index i: the word i - 1 of the band
        arc[0] = from.values[0] + 1.0;
        for (std::size_t i = 1; i < from.width; ++i) {
            const double substituted = from.values[i - 1] + (band[i - 1] != word ? 1.0 : 0.0);
            const double inserted = from.values[i] + 1.0;
            arc[i] = substituted < inserted ? substituted : inserted;
        }
        for (std::size_t i = 1; i < from.width; ++i) {
            const double deleted = arc[i - 1] + 1.0;
            arc[i] = deleted < arc[i] ? deleted : arc[i];
        }
    }

    template <typename Collect>
    void backward(Collect collect) {
        const std::size_t slots = 2U * size_ + 2U;
        if (sums_.size() < slots) {
            sums_.assign(slots, 0.0);
        }
        masses_.assign(1, 1.0);
        if (part_.end < lattice_->num_tokens()) {
            masses_of_[part_.end] = {0, slots - 1U, slots};
        }
        for (std::uint32_t token = part_.end; token-- > part_.begin;) {
            first_ = slots;
            last_ = 0;
            for (std::uint32_t i = lattice_->first_link[token]; i < lattice_->first_link[token + 1]; ++i) {
                const Masses& of_target = masses_of_[lattice_->links[i].target];
                if (of_target.first == of_target.last || link_shares_[i] == 0.0) {
                    continue;
                }
                if (words_[i] == 0) {
                    first_ = std::min(first_, of_target.first);
                    last_ = std::max(last_, of_target.last);
                    for (std::size_t q = of_target.first; q < of_target.last; ++q) {
                        sums_[q] += link_shares_[i] * masses_[of_target.begin + (q - of_target.first)];
                    }
                } else {
                    send_back(i, of_target, collect);
                }
            }
            if (token >= lattice_->first_end() && part_.end == lattice_->num_tokens() &&
                end_shares_[token - lattice_->first_end()] > 0.0) {
                add_mass(slots - 1U, end_shares_[token - lattice_->first_end()]);
            }
            masses_of_[token] = {masses_.size(), first_, std::max(first_, last_)};
            for (std::size_t q = first_; q < last_; ++q) {
                masses_.push_back(sums_[q]);
                sums_[q] = 0.0;
            }
        }
        const Masses& masses = masses_of_[part_.begin];
        double deleted = 0.0;
        for (std::size_t q = slots; q-- > 1;) {
            if (q >= masses.first && q < masses.last) {
                deleted += masses_[masses.begin + (q - masses.first)];
            }
            if (deleted > 0.0) {
                collect(q, 0U, deleted, kNone);
            }
        }
    }

    template <typename Collect>
    void send_back(std::uint32_t link, const Masses& of_target, Collect collect) {
        const std::uint32_t word = words_[link];
        const Row from = row(lattice_->links[link].source);
        arc_distances(from, word);
        const Row arc{arc_.data(), from.offset, from.width};
        double carried = 0.0;  // from the next slot, by a deletion
        for (std::size_t q = of_target.last; q-- > 0;) {
            if (q < of_target.first && carried == 0.0) {
                break;
            }
            double mass = carried;
            carried = 0.0;
            if (q >= of_target.first) {
                mass += link_shares_[link] * masses_[of_target.begin + (q - of_target.first)];
            }
            if (mass == 0.0) {
                continue;
            }
            const std::size_t j = q / 2U;
            const double inserted = from(j) + 1.0;
            if (q == 0) {
                add_mass(0, mass);
            } else if (q % 2U == 1U) {
                if (inserted <= arc(j) + kMargin) {
                    collect(q, word, mass, link);
                    add_mass(q - 1U, mass);
                } else {
                    collect(q, 0U, mass, link);
                    carried = mass;
                }
            } else {
                const double substituted = from(j - 1U) + (reference_[j - 1U] != word ? 1.0 : 0.0);
                const double deleted = arc(j - 1U) + 1.0;
                const double bound = std::min(std::min(substituted, inserted), deleted) + kMargin;
                if (substituted <= bound) {
                    collect(q, word, mass, link);
                    add_mass(q - 1U, mass);
                } else if (inserted <= bound) {
                    add_mass(q, mass);
                } else {
                    collect(q, 0U, mass, link);
                    carried = mass;
                }
            }
        }
    }

    void add_mass(std::size_t slot, double mass) {
        sums_[slot] += mass;
        first_ = std::min(first_, slot);
        last_ = std::max(last_, slot + 1U);
    }

    const Lattice* lattice_ = nullptr;
    const std::uint32_t* words_ = nullptr;
    const double* link_shares_ = nullptr;
    const double* end_shares_ = nullptr;
    const std::uint32_t* links_into_ = nullptr;
    const std::uint32_t* reference_ = nullptr;
    Part part_{};
    std::size_t size_ = 0;   // of the reference
    std::size_t width_ = 0;  // of a row
    std::uint32_t num_rows_ = 0;
    std::vector<double> rows_;            // [rows, width]
    std::vector<std::uint32_t> rows_of_;  // [tokens + 1]
    std::vector<std::uint32_t> offsets_;  // [tokens + 1]
    std::vector<double> arc_;             // [width]
    std::vector<double> masses_;          // of all tokens of the part
    std::vector<Masses> masses_of_;       // [tokens + 1]
    std::vector<double> sums_;            // [slots], 0 between tokens
    std::size_t first_ = 0, last_ = 0;    // the slots of the token at hand
};

}  // namespace arcbeam::lattice
