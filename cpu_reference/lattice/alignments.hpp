// Alignments: the labels of the frames of a path, so far. Equal ones have one number; one with a label more refers
// to the one without it, so paths share what they have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "lattice/suffixes.hpp"

namespace arcbeam::lattice {

class Alignments {
  public:
    static constexpr std::uint32_t kEmpty = Suffixes::kEmpty;

    void clear() {
        sequences_.clear();
        added_ = 0;
    }

    // Labels that were added, again or for the first time.
    [[nodiscard]] std::uint64_t added() const { return added_; }

    std::uint32_t append(std::uint32_t alignment, const std::vector<std::uint32_t>& labels, std::uint64_t begin,
                         std::uint64_t end) {
        for (; begin < end; ++begin) {
            alignment = append(alignment, labels[begin]);
        }
        return alignment;
    }

    [[nodiscard]] std::uint32_t length(std::uint32_t alignment) const {
        std::uint32_t length = 0;
        for (; alignment != kEmpty; alignment = sequences_.rest(alignment)) {
            ++length;
        }
        return length;
    }

    // The shorter first; of one length the last in dictionary order, as in Kaldi. The last labels are found first,
    // so the last difference decides.
    [[nodiscard]] bool precedes(std::uint32_t a, std::uint32_t b) const {
        if (a == b) {
            return false;
        }
        const std::uint32_t length_of_a = length(a);
        const std::uint32_t length_of_b = length(b);
        if (length_of_a != length_of_b) {
            return length_of_a < length_of_b;
        }
        bool found = false;
        for (; a != b; a = sequences_.rest(a), b = sequences_.rest(b)) {
            if (sequences_.word(a) != sequences_.word(b)) {
                found = sequences_.word(a) > sequences_.word(b);
            }
        }
        return found;
    }

    void write(std::uint32_t alignment, std::vector<std::uint32_t>& into) const {
        into.resize(into.size() + length(alignment));
        for (auto at = into.rbegin(); alignment != kEmpty; alignment = sequences_.rest(alignment)) {
            *at++ = sequences_.word(alignment);
        }
    }

    // The labels with which the alignments of all elements begin. The place of an alignment is how many labels it
    // shares with the first, as far as the search has gone.
    template <typename Elements>
    std::uint32_t common_beginning(const Elements& elements) {
        std::uint32_t shared = elements.front().alignment;
        std::uint32_t count = length(shared);
        sequences_.begin();
        for (std::uint32_t at = shared, place = count; place > 0; at = sequences_.rest(at)) {
            sequences_.set_place(at, place--);
        }
        sequences_.set_place(kEmpty, 0);
        for (const auto& element : elements) {
            const std::uint32_t place = sequences_.place(walk(element.alignment));
            for (const std::uint32_t longer : path_) {
                sequences_.set_place(longer, place);
            }
            for (; count > place; --count) {
                shared = sequences_.rest(shared);
            }
        }
        return shared;
    }

    // Removes a beginning that all elements have. The place of an alignment is what is left of it.
    template <typename Elements>
    void remove_beginning(std::uint32_t beginning, Elements& elements) {
        if (beginning == kEmpty) {
            return;
        }
        sequences_.begin();
        sequences_.set_place(beginning, kEmpty);
        for (auto& element : elements) {
            std::uint32_t left = sequences_.place(walk(element.alignment));
            for (auto longer = path_.rbegin(); longer != path_.rend(); ++longer) {
                left = append(left, sequences_.word(*longer));
                sequences_.set_place(*longer, left);
            }
            element.alignment = left;
        }
    }

  private:
    std::uint32_t append(std::uint32_t alignment, std::uint32_t label) {
        ++added_;
        return sequences_.add(label, alignment);
    }

    // The longest beginning that has a place; `path_` has what is longer, from the whole alignment on.
    std::uint32_t walk(std::uint32_t alignment) {
        path_.clear();
        for (; !sequences_.has_place(alignment); alignment = sequences_.rest(alignment)) {
            path_.push_back(alignment);
        }
        return alignment;
    }

    Suffixes sequences_;  // read from the last label on
    std::uint64_t added_ = 0;
    std::vector<std::uint32_t> path_;
};

}  // namespace arcbeam::lattice
