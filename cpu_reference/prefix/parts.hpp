// The words and the beginnings of words that hypotheses have spelled, each once, under a number.
//
// A part that ends is a word that no symbol continues. It has the text of another part, whose number is its word's.
// Parts stay from utterance to utterance, as to look words up in the vocabulary and in the language model takes
// time.
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

    // Before an utterance; its request's hotwords and scores replace those of the one before.
    void begin(const Request& request) {
        request_ = &request;
        ++utterance_;
        if (parts_.empty() || parts_.size() > kMost) {
            parts_.clear();
            indices_.clear();
            numbers_.clear();
            next_.clear();
            number("", false);
        }
        refresh(kNothing);
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
    static constexpr std::size_t kMost = 1U << 16;     // parts that stay for the next utterance

    struct Part {
        std::string text;
        std::uint32_t letters, word;
        bool ends, unknown;
        bool begins_known;        // some known word begins with it
        bool hot;                 // a hotword of the utterance
        double score;             // while it is a word in progress of the utterance
        std::uint64_t utterance;  // of which these two are
    };

    std::uint32_t follow(std::uint32_t part, std::uint32_t column, bool fresh) {
        const std::uint64_t key = static_cast<std::uint64_t>(part) << 32U | column << 1U | (fresh ? 1U : 0U);
        std::uint32_t made = 0;
        if (const auto known = next_.find(key); known != next_.end()) {
            made = known->second;
        } else {
            const Symbol& symbol = model_.symbols[column];
            made = fresh ? number(symbol.fresh, symbol.ends) : number(parts_[part].text + symbol.text, false);
            next_.emplace(key, made);
        }
        if (parts_[made].utterance != utterance_) {
            refresh(made);
        }
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
        const auto [is_known, begins_known] = model_.vocabulary.find(text);
        const bool unknown = index == 0 || (!model_.vocabulary.empty() && !is_known);
        parts_.push_back({text, letters_of(text), word, ends, unknown, begins_known, false, 0.0, 0});
        indices_.push_back(index);
        numbers_.emplace(key, made);
        return made;
    }

    void refresh(std::uint32_t part) {
        for (const std::uint32_t one : {part, parts_[part].word}) {
            parts_[one].hot = request_->hotwords.find(parts_[one].text).is_word;
            parts_[one].score = score_of(parts_[one]);
            parts_[one].utterance = utterance_;
        }
    }

    // A beginning of a hotword has its share of the weight; another text that begins no known word costs.
    [[nodiscard]] double score_of(const Part& part) const {
        if (part.text.empty()) {
            return 0.0;
        }
        if (const std::uint32_t least = request_->hotwords.shortest(part.text); least != 0) {
            return request_->hotword_weight * part.letters / least;
        }
        if (model_.lm == nullptr || part.begins_known) {
            return 0.0;
        }
        const double unknown = request_->unknown;
        return part.letters > kUsualLetters ? unknown * part.letters / kUsualLetters : unknown;
    }

    const Model& model_;
    const Request* request_ = nullptr;
    std::uint64_t utterance_ = 0;
    std::vector<Part> parts_;
    std::vector<std::uint32_t> indices_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::unordered_map<std::uint64_t, std::uint32_t> next_;
};

}  // namespace arcbeam::prefix
