// One worker: decodes an utterance at a time, and keeps its memory for the next one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "baseline/candidates.hpp"
#include "baseline/emissions.hpp"
#include "baseline/expand_free.hpp"
#include "baseline/expand_lexicon.hpp"
#include "baseline/histories.hpp"
#include "baseline/options.hpp"
#include "baseline/trie.hpp"
#include "kenlm/kenlm.hpp"

namespace arcbeam::baseline {

// A word of an answer, with the frames [start, end) of its tokens; silence or a separator at its end does not
// count. It is complete at the frame `complete`, or after the last one.
struct SpokenWord {
    std::uint32_t label;
    std::uint32_t start;
    std::uint32_t end;
    std::uint32_t complete;
};

struct Answer {
    double score;
    double am_score;
    double lm_score;
    std::vector<SpokenWord> words;
    std::vector<std::uint16_t> tokens;  // one a frame
};

enum class Outcome : std::uint8_t { kDecoded, kBadLogProb, kOutOfMemory, kCancelled };

struct Result {
    std::vector<Answer> answers;  // best first
    bool complete = false;        // all frames were read, and the answers end with a whole word
    Outcome outcome = Outcome::kDecoded;
    std::uint32_t bad_frame = 0;
    std::uint32_t bad_column = 0;
};

// The model that all workers read. Without a trie, tokens are the words.
struct Model {
    const Trie* trie;
    const KenLm* lm;                          // or null
    const std::vector<std::uint32_t>* words;  // the language model's index of each label
    SearchOptions options;
};

class Lane {
  public:
    explicit Lane(const Model& model)
        : model_(model),
          lexicon_(*(model.trie != nullptr ? model.trie : &no_trie_), model_.options),
          free_(model_.options) {}

    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    void decode(const LogProbs& log_probs, const std::atomic<bool>& cancelled, Result& result);

  private:
    // How a hypothesis was reached.
    struct LogEntry {
        std::uint32_t parent;
        std::uint32_t label;
        std::uint16_t token;
        bool advances;
    };

    void begin();
    bool step(const LogProbs& log_probs, std::uint32_t frame, Result& result);
    void end(const LogProbs& log_probs, bool all_frames, Result& result);
    [[nodiscard]] Answer answer(const Candidate& ending, const LogProbs& log_probs);
    void collect_log();
    void collect_histories();

    const Model model_;
    const Trie no_trie_;
    LexiconExpander lexicon_;
    FreeExpander free_;
    Emissions emissions_;
    Histories histories_;
    Candidates candidates_;
    std::vector<Candidate> survivors_;
    std::vector<Hypothesis> beam_;
    std::vector<LogEntry> log_;
    std::vector<std::uint32_t> renumbered_;
    std::vector<LogEntry> path_;
    std::size_t collect_log_at_ = 0;
    std::size_t collect_histories_at_ = 0;
};

}  // namespace arcbeam::baseline
