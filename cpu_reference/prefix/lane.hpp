// Prefix beam search over words of any spelling, with a language model of words: one worker.
//
// A hypothesis is its words so far, its word in progress and its last symbol; the probabilities of all paths to it
// are summed. The language model scores whole words. Its scores, and those of words in progress, are added only to
// rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "baseline/histories.hpp"
#include "prefix/model.hpp"
#include "prefix/parts.hpp"

namespace arcbeam::prefix {

// First frame and the frame after the last; -1: not begun.
struct Frames {
    std::int32_t start;
    std::int32_t end;
};

struct Answer {
    std::string text;
    std::vector<Frames> frames;  // of its words
    double acoustic;
    double score;
    std::vector<unsigned char> state;  // of the language model after the last word
};

enum class Outcome : std::uint8_t { kDecoded, kOutOfMemory, kCancelled };

struct Result {
    std::vector<Answer> answers;  // best first
    Outcome outcome = Outcome::kDecoded;
};

class Lane {
  public:
    explicit Lane(const Model& model) : model_(model), parts_(model) {}

    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    void decode(const Utterance& utterance, const std::atomic<bool>& cancelled, Result& result);

  private:
    static constexpr std::uint32_t kNone = 0xffffffffU;

    struct Hypothesis {
        double acoustic;
        std::uint32_t history;
        std::uint32_t part;
        std::uint32_t last;   // symbol
        std::uint32_t ended;  // the newest of its ended words, in `ended_`
        Frames frames;        // of the part
    };

    struct Candidate {
        Hypothesis to;
        Frames closed;  // of the word that ends, if `closes`
        bool closes;
        std::uint32_t source, word;  // at the end: the history and the part that become one
        double total;
    };

    struct EndedWord {
        std::uint32_t before;
        Frames frames;
    };

    // What has been said after a history, so far.
    struct Said {
        double lm;  // weighted
        std::uint32_t hotwords;
    };

    void begin();
    void step(const Utterance& utterance, std::size_t frame);
    void end(Result& result);
    void add(const Candidate& candidate);
    void grow();
    void keep_best();
    void forget_twins();
    [[nodiscard]] bool are_twins(const Hypothesis& a, const Hypothesis& b) const;
    [[nodiscard]] std::uint64_t hash_of_twin(const Hypothesis& hypothesis) const;
    [[nodiscard]] std::uint32_t say(std::uint32_t history, std::uint32_t part);
    [[nodiscard]] double word_score(float lm, std::uint32_t word, double end) const;
    [[nodiscard]] double total(const Hypothesis& hypothesis) const;
    [[nodiscard]] double final_total(const Candidate& candidate);
    [[nodiscard]] Answer answer(const Candidate& candidate);

    const Model& model_;
    const Request* request_ = nullptr;
    Parts parts_;
    baseline::Histories histories_;
    std::vector<Said> said_;  // by history
    std::vector<Hypothesis> beam_;
    std::vector<Candidate> candidates_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> table_;  // of candidates, or of twins: open addressing
    std::vector<EndedWord> ended_;
};

}  // namespace arcbeam::prefix
