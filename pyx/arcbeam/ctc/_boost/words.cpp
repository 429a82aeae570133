#include "arcbeam/ctc/_boost/words.hpp"

#include <functional>

namespace arcbeam::boost {

namespace {

// The text up to a mark, or all of it; takes both from `rest`.
std::string_view cut(std::string_view& rest, char mark) {
    const std::size_t end = rest.find(mark);
    const std::string_view part = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    return part;
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
        std::size_t at = std::hash<std::string_view>{}(word)&mask_;
        while (places_[at].id != kNoWord) {
            at = (at + 1) & mask_;
        }
        places_[at] = {word, static_cast<std::uint32_t>(id)};
    }
}

std::uint32_t WordIndex::find(std::string_view word) const {
    std::size_t at = std::hash<std::string_view>{}(word)&mask_;
    while (places_[at].id != kNoWord && places_[at].word != word) {
        at = (at + 1) & mask_;
    }
    return places_[at].id;
}

Phrases known_phrases(const WordIndex& index, const WordIndex* of_request, std::string_view text,
                      const std::int64_t* scores, std::uint8_t* is_known) {
    Phrases phrases;
    phrases.first_word.push_back(0);
    for (std::size_t line = 0; !text.empty(); ++line) {
        std::string_view words = cut(text, '\n');
        bool known = true;
        while (known && !words.empty()) {
            const std::string_view name = cut(words, ' ');
            std::uint32_t word = index.find(name);
            if (word == kNoWord && of_request != nullptr) {
                word = of_request->find(name);
            }
            phrases.words.push_back(word);
            known = word != kNoWord;
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
