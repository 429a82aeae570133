#include "arcbeam/ctc/boost/_boost/words.hpp"

#include <algorithm>
#include <array>
#include <functional>

namespace arcbeam::boost {

namespace {

constexpr std::size_t kAtOnce = 32;  // words whose places are fetched before the first of them is compared

std::size_t hash_of(std::string_view word) { return std::hash<std::string_view>{}(word); }

std::uint32_t tag_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32U); }

void fetch(const void* address) { __builtin_prefetch(address); }

// The words of lines, and of each line the number of words up to its end.
struct Split {
    std::vector<std::string_view> words;
    std::vector<std::size_t> ends;
};

Split split(std::string_view text, std::size_t lines) {
    Split found;
    found.words.reserve(lines + static_cast<std::size_t>(std::count(text.begin(), text.end(), ' ')));
    found.ends.reserve(lines);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == ' ' || text[at] == '\n') {
            found.words.push_back(text.substr(begin, at - begin));
            begin = at + 1;
            if (text[at] == '\n') {
                found.ends.push_back(found.words.size());
            }
        }
    }
    if (!text.empty()) {
        found.words.push_back(text.substr(begin));
        found.ends.push_back(found.words.size());
    }
    return found;
}

}  // namespace

WordIndex::WordIndex(const std::int64_t* ids, const std::int64_t* offsets, const char* text, std::size_t size,
                     const std::uint8_t* is_written, std::size_t num_written) {
    std::size_t places = 2;
    while (places < 2 * size) {
        places *= 2;
    }
    places_.resize(places);
    mask_ = places - 1;
    for (std::size_t i = 0; i < size; ++i) {
        const auto id = static_cast<std::size_t>(ids[i]);
        if (id >= num_written || is_written[id] == 0) {
            continue;
        }
        const std::string_view word(text + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
        const std::size_t hash = hash_of(word);
        std::size_t at = hash & mask_;
        while (places_[at].id != kNoWord) {
            at = (at + 1) & mask_;
        }
        places_[at] = {word, static_cast<std::uint32_t>(id), tag_of(hash)};
    }
}

std::uint32_t WordIndex::find(std::string_view word) const { return find(word, hash_of(word)); }

std::uint32_t WordIndex::find(std::string_view word, std::size_t hash) const {
    std::size_t at = hash & mask_;
    while (places_[at].id != kNoWord && (places_[at].tag != tag_of(hash) || places_[at].word != word)) {
        at = (at + 1) & mask_;
    }
    return places_[at].id;
}

void WordIndex::find(const std::string_view* words, std::size_t count, std::uint32_t* ids) const {
    std::array<std::size_t, kAtOnce> hashes{};
    for (std::size_t first = 0; first < count; first += kAtOnce) {
        const std::size_t some = std::min(kAtOnce, count - first);
        for (std::size_t i = 0; i < some; ++i) {
            hashes[i] = hash_of(words[first + i]);
            fetch(&places_[hashes[i] & mask_]);
        }
        for (std::size_t i = 0; i < some; ++i) {
            fetch(places_[hashes[i] & mask_].word.data());
        }
        for (std::size_t i = 0; i < some; ++i) {
            ids[first + i] = find(words[first + i], hashes[i]);
        }
    }
}

Phrases known_phrases(const WordIndex& index, const WordIndex* of_request, std::string_view text,
                      const std::vector<std::int64_t>& scores, std::uint8_t* is_known) {
    const Split lines = split(text, scores.size());
    std::vector<std::uint32_t> ids(lines.words.size());
    index.find(lines.words.data(), ids.size(), ids.data());
    Phrases phrases;
    phrases.words.reserve(ids.size());
    phrases.first_word.reserve(lines.ends.size() + 1);
    phrases.first_word.push_back(0);
    phrases.scores.reserve(lines.ends.size());
    std::size_t at = 0;
    for (std::size_t line = 0; line < lines.ends.size(); ++line) {
        bool known = true;
        for (; at < lines.ends[line]; ++at) {
            if (ids[at] == kNoWord && of_request != nullptr) {
                ids[at] = of_request->find(lines.words[at]);
            }
            phrases.words.push_back(ids[at]);
            known = known && ids[at] != kNoWord;
        }
        is_known[line] = known ? 1 : 0;
        if (known) {
            phrases.first_word.push_back(phrases.words.size());
            phrases.scores.push_back(scores[line]);
        } else {
            phrases.words.resize(phrases.first_word.back());
        }
    }
    return phrases;
}

}  // namespace arcbeam::boost
