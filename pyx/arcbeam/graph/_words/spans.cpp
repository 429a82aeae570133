#include "arcbeam/graph/_words/spans.hpp"

#include <algorithm>
#include <unordered_set>

namespace arcbeam::words {
namespace {

// Depth-first search for the pronunciations that add up to the tokens.
class Speller {
  public:
    Speller(const WordSource& source, const PathTokens& tokens) : source_(source), tokens_(tokens) {}

    // Token ranges [start, end) of the labels; false if no pronunciations explain the tokens.
    bool spell(std::vector<Span>& chosen) {
        const std::size_t count = tokens_.labels.size();
        std::int64_t at = 0;
        chosen.clear();
        while (chosen.size() < count) {
            const std::size_t word = chosen.size();
            if (levels_.size() == word) {
                levels_.push_back({options_.size(), options_.size()});
                if (seen_.insert(static_cast<std::uint64_t>(word) << 32U | static_cast<std::uint64_t>(at)).second) {
                    add_options(word, at);
                }
            }
            Level& level = levels_[word];
            if (level.next < options_.size()) {
                chosen.push_back(options_[level.next++]);
                at = chosen.back().end;
            } else if (word == 0U) {
                return false;
            } else {
                options_.resize(level.begin);
                levels_.pop_back();
                chosen.pop_back();  // the word before has its choices already
            }
        }
        return true;
    }

  private:
    struct Level {
        std::size_t begin;  // of a word's options
        std::size_t next;   // to be tried
    };

    void add_options(std::size_t word, std::int64_t begin) {
        const auto count = static_cast<std::int64_t>(tokens_.columns.size());
        std::int64_t at = begin;
        while (at < count && tokens_.columns[static_cast<std::size_t>(at)] == source_.separator_column) {
            ++at;
        }
        const Spellings& all = source_.spellings;
        const std::uint32_t label = tokens_.labels[word];
        const bool last = word + 1U == tokens_.labels.size();
        for (auto i =
                 static_cast<std::size_t>(std::lower_bound(all.words, all.words + all.size, label) - all.words);
             i < all.size && all.words[i] == label; ++i) {
            const std::uint16_t* spelling = all.columns + all.offsets[all.rows[i]];
            const auto length = static_cast<std::int64_t>(all.offsets[all.rows[i] + 1]) - all.offsets[all.rows[i]];
            const std::int64_t rest = std::min(length, count - at);
            // The last word of a path that ends too early may lack its last tokens.
            const bool fits = rest == length || (last && rest > 0);
            if (fits && std::equal(spelling, spelling + rest, tokens_.columns.begin() + at)) {
                options_.push_back({at, at + rest});
            }
        }
    }

    const WordSource& source_;
    const PathTokens& tokens_;
    std::vector<Span> options_;  // of all words chosen so far and of the next, in a row
    std::vector<Level> levels_;
    std::unordered_set<std::uint64_t> seen_;  // (word, token) that was tried
};

std::vector<Span> between_labels(const PathTokens& tokens) {
    std::vector<Span> found;
    const auto& frames = tokens.frames;
    for (std::size_t i = 0; i < tokens.labels_at.size(); ++i) {
        const std::int64_t start = tokens.labels_at[i];
        const bool is_last = i + 1U == tokens.labels_at.size();
        const std::int64_t limit = is_last ? INT64_MAX : tokens.labels_at[i + 1U];
        const auto behind = std::lower_bound(frames.begin(), frames.end(), limit,
                                             [](const Span& span, std::int64_t at) { return span.start < at; });
        const bool has_token = behind != frames.begin() && std::prev(behind)->start >= start;
        const std::int64_t end = has_token ? std::prev(behind)->end : start + 1;
        found.push_back({start, std::max(start + 1, std::min(end, limit))});
    }
    return found;
}

}  // namespace

PathTokens path_tokens(const WordSource& source, const PathView& path) {
    PathTokens tokens;
    std::uint32_t state = source.graph.start;
    std::uint16_t before = kEpsilonColumn;
    std::int64_t frame = 0;
    for (std::size_t i = 0; i < path.size; ++i) {
        const std::uint32_t arc = path.arcs[i];
        __builtin_prefetch(source.graph.columns + path.arc_ahead(i));
        __builtin_prefetch(source.graph.words + path.arc_ahead(i));
        __builtin_prefetch(source.graph.targets + path.arc_ahead(i));
        const std::uint16_t column = source.graph.columns[arc];
        const std::uint32_t word = source.graph.words[arc];
        const std::uint32_t next_state = source.graph.targets[arc].next_state;
        if (word != kNoWord) {
            tokens.labels.push_back(word);
            tokens.labels_at.push_back(frame);
        }
        if (column != kEpsilonColumn) {
            // A repeated token goes round its state's self-loop and writes nothing; any other non-blank arc is a
            // new token.
            const bool is_repeat = next_state == state && word == kNoWord && column == before;
            if (is_repeat) {
                if (!tokens.frames.empty() && tokens.frames.back().end == frame &&
                    tokens.columns.back() == column) {
                    tokens.frames.back().end = frame + 1;
                }
            } else if (column != source.blank) {
                tokens.columns.push_back(column);
                tokens.frames.push_back({frame, frame + 1});
            }
            before = column;
            ++frame;
        }
        state = next_state;
    }
    return tokens;
}

std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens) {
    if (source.pieces) {
        return tokens.labels.size() == tokens.frames.size() ? tokens.frames : between_labels(tokens);
    }
    std::vector<Span> chosen;
    if (source.spellings.words == nullptr || !Speller(source, tokens).spell(chosen)) {
        return between_labels(tokens);
    }
    for (Span& span : chosen) {
        const auto first = static_cast<std::size_t>(span.start);
        const auto behind = static_cast<std::size_t>(span.end);
        const std::int64_t end = behind > 0U ? tokens.frames[behind - 1U].end : 0;
        span = {first < behind ? tokens.frames[first].start : end, end};  // the spelling of a word may be empty
    }
    return chosen;
}

}  // namespace arcbeam::words
