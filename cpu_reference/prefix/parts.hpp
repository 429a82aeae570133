// The words and the beginnings of words that an utterance's hypotheses have spelled, each once, under a number.
//
// A part that ends is a word that no symbol continues. It has the text of another part, whose number is its word's.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "prefix/model.hpp"

namespace arcbeam::prefix {

class Parts {
  public:
    static constexpr std::uint32_t kNothing = 0;  // the empty text

    explicit Parts(const Model& model) : model_(model) {}

    void begin(const Request& request) {
        request_ = &request;
        parts_.clear();
        indices_.clear();
        numbers_.clear();
        next_.clear();
        number("", false);
    }

    [[nodiscard]] const std::string& text(std::uint32_t part) const { return parts_[part].text; }
    [[nodiscard]] double score(std::uint32_t part) const { return parts_[part].score; }
    [[nodiscard]] bool ends(std::uint32_t part) const { return parts_[part].ends; }
    [[nodiscard]] std::uint32_t word(std::uint32_t part) const { return parts_[part].word; }
    [[nodiscard]] bool is_unknown(std::uint32_t word) const { return parts_[word].unknown; }
    [[nodiscard]] bool is_hot(std::uint32_t word) const { return parts_[word].hot; }
    // The language model's index of each word.
    [[nodiscard]] const std::vector<std::uint32_t>& indices() const { return indices_; }

    // The part that a symbol begins or continues.
    std::uint32_t fresh(std::uint32_t column) { return follow(kNothing, column, true); }
    std::uint32_t extended(std::uint32_t part, std::uint32_t column) { return follow(part, column, false); }

  private:
    static constexpr std::uint32_t kUsualLetters = 6;  // longer unknown words cost more

    struct Part {
        std::string text;
        double score;  // while it is a word in progress
        std::uint32_t word;
        bool ends, unknown, hot;
    };

    std::uint32_t follow(std::uint32_t part, std::uint32_t column, bool fresh) {
        const std::uint64_t key = static_cast<std::uint64_t>(part) << 32U | column << 1U | (fresh ? 1U : 0U);
        if (const auto known = next_.find(key); known != next_.end()) {
            return known->second;
        }
        const Symbol& symbol = model_.symbols[column];
        const std::uint32_t made =
            fresh ? number(symbol.fresh, symbol.ends) : number(parts_[part].text + symbol.text, false);
        next_.emplace(key, made);
        return made;
    }

    std::uint32_t number(const std::string& text, bool ends) {
        const std::string key = text + (ends ? '\0' : '\1');
        if (const auto known = numbers_.find(key); known != numbers_.end()) {
            return known->second;
        }
        const std::uint32_t word = ends ? number(text, false) : static_cast<std::uint32_t>(parts_.size());
        const auto made = static_cast<std::uint32_t>(parts_.size());
        const std::uint32_t index = model_.lm == nullptr ? 0 : model_.lm->word(text);
        const bool unknown = index == 0 || (!model_.vocabulary.empty() && !model_.vocabulary.contains(text));
        parts_.push_back({text, score_of(text), word, ends, unknown, request_->hotwords.contains(text)});
        indices_.push_back(index);
        numbers_.emplace(key, made);
        return made;
    }

    // A beginning of a hotword has its share of the weight; another text that begins no known word costs.
    [[nodiscard]] double score_of(const std::string& text) const {
        if (text.empty()) {
            return 0.0;
        }
        const std::uint32_t letters = letters_of(text);
        if (const std::uint32_t least = request_->hotwords.shortest(text); least != 0) {
            return request_->hotword_weight * letters / least;
        }
        if (model_.lm == nullptr || model_.vocabulary.any_begins_with(text)) {
            return 0.0;
        }
        return letters > kUsualLetters ? request_->unknown * letters / kUsualLetters : request_->unknown;
    }

    const Model& model_;
    const Request* request_ = nullptr;
    std::vector<Part> parts_;
    std::vector<std::uint32_t> indices_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::unordered_map<std::uint64_t, std::uint32_t> next_;
};

}  // namespace arcbeam::prefix
