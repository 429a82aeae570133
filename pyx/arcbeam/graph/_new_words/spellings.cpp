#include "arcbeam/graph/_new_words/spellings.hpp"

#include <algorithm>
#include <tuple>

namespace arcbeam::new_words {

namespace {

constexpr std::uint32_t kNowhere = 0;  // the root, to which nothing leads

}  // namespace

void Spelled::add(const Spelled& other, std::size_t word) {
    for (std::size_t s = other.words[word]; s < other.words[word + 1U]; ++s) {
        const auto* const first = other.columns.data();
        columns.insert(columns.end(), first + other.begins[s], first + other.begins[s + 1U]);
        end_spelling();
    }
    end_word();
}

// A way to cut the text from a place on; ways share what they have in common.
struct Pieces::Way {
    std::uint32_t tokens;
    std::uint16_t column;  // of the first
    std::uint32_t rank;    // of the way that goes on after it
    std::uint32_t end;     // where that begins

    bool operator<(const Way& other) const {
        return std::tie(tokens, column, rank, end) < std::tie(other.tokens, other.column, other.rank, other.end);
    }
};

// The ways from a place on: [begin, end) of all.
struct Pieces::Place {
    std::size_t begin = 0;
    std::size_t end = 0;
};

std::uint32_t Pieces::next(std::uint32_t node, char byte) const {
    const auto found = next_.find(std::uint64_t{node} << 8U | static_cast<unsigned char>(byte));
    return found == next_.end() ? kNowhere : found->second;
}

void Pieces::add(std::string_view text, std::uint16_t column) {
    std::uint32_t node = 0;
    for (const char byte : text) {
        const auto made = static_cast<std::uint32_t>(column_of_.size());
        const auto [place, is_new] =
            next_.try_emplace(std::uint64_t{node} << 8U | static_cast<unsigned char>(byte), made);
        if (is_new) {
            column_of_.push_back(-1);
        }
        node = place->second;
    }
    if (node != 0) {
        column_of_[node] = column;
    }
}

std::size_t Pieces::spell(std::string_view text, std::size_t most, Spelled& spelled) const {
    std::vector<Place> places(text.size() + 1U);
    std::vector<Way> ways{{0U, 0U, 0U, 0U}};
    std::vector<Way> found;
    places.back().end = 1;
    for (std::size_t begin = text.size(); begin-- > 0;) {
        found.clear();
        std::uint32_t node = 0;
        for (std::size_t at = begin; at < text.size() && (node = next(node, text[at])) != kNowhere; ++at) {
            if (column_of_[node] < 0) {
                continue;
            }
            const Place& following = places[at + 1U];
            for (std::size_t way = following.begin; way < following.end; ++way) {
                found.push_back({1U + ways[way].tokens, static_cast<std::uint16_t>(column_of_[node]),
                                 static_cast<std::uint32_t>(way - following.begin),
                                 static_cast<std::uint32_t>(at + 1U)});
            }
        }
        const std::size_t kept = std::min(most, found.size());
        std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end());
        places[begin] = {ways.size(), ways.size() + kept};
        ways.insert(ways.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept));
    }
    const Place& whole = places.front();
    for (std::size_t way = whole.begin; way < whole.end; ++way) {
        for (const Way* one = &ways[way]; one->tokens != 0U; one = &ways[places[one->end].begin + one->rank]) {
            spelled.columns.push_back(one->column);
        }
        spelled.end_spelling();
    }
    spelled.end_word();
    return whole.begin < whole.end ? text.size() : stuck_at(text);
}

std::size_t Pieces::stuck_at(std::string_view text) const {
    std::vector<bool> is_reached(text.size() + 1U);
    is_reached[0] = true;
    std::size_t furthest = 0;
    for (std::size_t begin = 0; begin < text.size(); ++begin) {
        if (!is_reached[begin]) {
            continue;
        }
        furthest = begin;
        std::uint32_t node = 0;
        for (std::size_t at = begin; at < text.size() && (node = next(node, text[at])) != kNowhere; ++at) {
            is_reached[at + 1U] = is_reached[at + 1U] || column_of_[node] >= 0;
        }
    }
    return furthest;
}

}  // namespace arcbeam::new_words
