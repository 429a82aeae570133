// The path of a lattice whose words differ least from a reference.
//
// in   lattice; the word of each link, 0 for none; reference words; bytes for rows
// out  the fewest insertions, deletions and substitutions that any path needs, and the links of such a path
// rule of paths with equally few errors, the one whose link numbers come first; a path that ends precedes those
// that go on
//
// A row has the errors of a token for each word of the reference, and the rows of an hour of speech would take tens
// of gigabytes. So they are filled from the end to the start, and only those of some steps are kept, `apart` from
// each other. The walk then goes from the start to the end, and fills the rows between two such steps anew when it
// comes there, in the same way if they are too many again. What is found does not depend on the bytes.
//
//     step     0 . . . 4 . . . 8 . . . 12       kept, apart by 4; then 0 1 2 3 between 0 and 4, and so on
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "lattice/lattice.hpp"

namespace arcbeam::lattice {

constexpr std::size_t kOracleRoom = std::size_t{1} << 28U;  // bytes for the rows that are kept, each time

struct Oracle {
    std::uint32_t errors = 0;
    std::vector<std::uint32_t> links;
};

class OracleSearch {
  public:
    OracleSearch(const Lattice& lattice, const std::uint32_t* words, const std::vector<std::uint32_t>& reference,
                 std::size_t room)
        : lattice_(lattice),
          words_(words),
          reference_(reference),
          width_(reference.size() + 1U),
          rows_(lattice.num_tokens()),
          before_(width_),
          after_(width_) {
        const std::size_t of_a_step = lattice.num_tokens() / lattice.num_steps() + 1U;
        const std::size_t most = room / (of_a_step * width_ * sizeof(std::uint32_t));
        steps_kept_ = static_cast<std::uint32_t>(std::clamp<std::size_t>(most, 2U, lattice.num_steps() + 1U));
        std::iota(before_.begin(), before_.end(), 0U);
    }

    Oracle operator()() {
        walk(0, lattice_.num_steps());
        return std::move(found_);
    }

  private:
    static constexpr std::uint32_t kFar = 0x3fffffffU;

    // errors(token, j): the fewest on the way from a token to an end, compared with the words of the reference from
    // j on. A token with one link on, without a word, has its target's row.
    using Row = std::shared_ptr<const std::vector<std::uint32_t>>;

    // Walks through the steps [first, last). The rows of step `last` are there.
    void walk(std::uint32_t first, std::uint32_t last) {
        const std::uint32_t apart = (last - first + steps_kept_ - 1U) / steps_kept_;
        for (std::uint32_t step = last; step-- > first;) {
            fill(step);
            if (step + 1U < last && (step + 1U - first) % apart != 0U) {
                drop(step + 1U);
            }
        }
        if (first == 0) {
            found_.errors = rows_[0]->front();
        }
        if (apart > 1U) {
            for (std::uint32_t step = first; step < last; step += apart) {
                walk(step, std::min(step + apart, last));
            }
            return;
        }
        follow(lattice_.first_token[last]);
        for (std::uint32_t step = first; step < last; ++step) {
            drop(step);
        }
    }

    void fill(std::uint32_t step) {
        for (std::uint32_t token = lattice_.first_token[step + 1U]; token-- > lattice_.first_token[step];) {
            rows_[token] =
                has_own_row(token) ? row_of(token) : rows_[lattice_.links[lattice_.first_link[token]].target];
        }
    }

    void drop(std::uint32_t step) {
        for (std::uint32_t token = lattice_.first_token[step]; token < lattice_.first_token[step + 1U]; ++token) {
            rows_[token].reset();
        }
    }

    [[nodiscard]] bool has_own_row(std::uint32_t token) const {
        const std::uint32_t first = lattice_.first_link[token];
        return lattice_.first_link[token + 1] - first != 1 || words_[first] != 0 || is_end(token);
    }

    [[nodiscard]] bool is_end(std::uint32_t token) const {
        return token >= lattice_.first_end() && !std::isinf(lattice_.end_extras[token - lattice_.first_end()]);
    }

    [[nodiscard]] Row row_of(std::uint32_t token) const {
        auto row = std::make_shared<std::vector<std::uint32_t>>(width_, kFar);
        std::uint32_t* const errors = row->data();
        for (std::size_t j = 0; j < width_ && is_end(token); ++j) {
            errors[j] = static_cast<std::uint32_t>(width_ - 1U - j);
        }
        for (std::uint32_t i = lattice_.first_link[token]; i < lattice_.first_link[token + 1]; ++i) {
            const std::uint32_t* const target_row = rows_[lattice_.links[i].target]->data();
            for (std::size_t j = 0; j < width_; ++j) {
                errors[j] = std::min(errors[j], by_link(i, target_row, j));
            }
        }
        for (std::size_t j = width_ - 1U; j-- > 0;) {
            errors[j] = std::min(errors[j], errors[j + 1U] + 1U);  // word j is deleted
        }
        return row;
    }

    // The fewest errors of paths that go on by a link, without a deletion before it.
    [[nodiscard]] std::uint32_t by_link(std::uint32_t link, const std::uint32_t* target_row, std::size_t j) const {
        if (words_[link] == 0) {
            return target_row[j];
        }
        const std::uint32_t inserted = target_row[j] + 1U;
        if (j + 1U == width_) {
            return inserted;
        }
        return std::min(inserted, target_row[j + 1U] + (words_[link] != reference_[j] ? 1U : 0U));
    }

    // Takes the first link by which the fewest errors can still be reached, up to a token of number `end` or more,
    // or to the end of the path.
    void follow(std::uint32_t end) {
        while (token_ < end && (!is_end(token_) || before_[width_ - 1U] != found_.errors)) {
            std::uint32_t link = lattice_.first_link[token_];
            while (!leads_on(link)) {
                ++link;
            }
            found_.links.push_back(link);
            before_.swap(after_);
            token_ = lattice_.links[link].target;
        }
    }

    [[nodiscard]] bool leads_on(std::uint32_t link) {
        const std::uint32_t* const target_row = rows_[lattice_.links[link].target]->data();
        bool leads = false;
        for (std::size_t j = 0; j < width_; ++j) {
            after_[j] = before_[j];
            if (words_[link] != 0) {
                ++after_[j];
                if (j > 0) {
                    const std::uint32_t substituted =
                        before_[j - 1U] + (words_[link] != reference_[j - 1U] ? 1U : 0U);
                    after_[j] = std::min({after_[j], substituted, after_[j - 1U] + 1U});
                }
            }
            leads |= after_[j] + target_row[j] == found_.errors;
        }
        return leads;
    }

    const Lattice& lattice_;
    const std::uint32_t* words_;
    const std::vector<std::uint32_t>& reference_;
    const std::size_t width_;
    std::uint32_t steps_kept_;
    std::vector<Row> rows_;  // [tokens]: of those that are kept

    // The walk: where it is, and the errors so far, compared with the first j words of the reference.
    Oracle found_;
    std::uint32_t token_ = 0;
    std::vector<std::uint32_t> before_;  // [words of the reference + 1]
    std::vector<std::uint32_t> after_;   // the same after a link
};

inline Oracle oracle(const Lattice& lattice, const std::uint32_t* words,
                     const std::vector<std::uint32_t>& reference, std::size_t room = kOracleRoom) {
    return lattice.num_tokens() == 0 ? Oracle{static_cast<std::uint32_t>(reference.size()), {}}
                                     : OracleSearch(lattice, words, reference, room)();
}

}  // namespace arcbeam::lattice
