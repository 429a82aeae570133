#include "arcbeam/graph/_words/spans.hpp"

#include <algorithm>

namespace arcbeam::words {
namespace {

// The frames from the one that writes a label to the last token before the next label; within [earliest, latest).
Span written_span(const PathTokens& tokens, std::size_t word, std::int64_t earliest, std::int64_t latest) {
    const auto& frames = tokens.frames;
    const std::int64_t start = std::max(tokens.labels_at[word], earliest);
    const bool is_last = word + 1U == tokens.labels_at.size();
    const std::int64_t limit = is_last ? latest : std::min(latest, tokens.labels_at[word + 1U]);
    const auto beyond = std::lower_bound(frames.begin(), frames.end(), limit,
                                         [](const Span& span, std::int64_t at) { return span.start < at; });
    const bool has_token = beyond != frames.begin() && std::prev(beyond)->start >= start;
    const std::int64_t end = has_token ? std::prev(beyond)->end : start + 1;
    return {start, std::max(start + 1, std::min(end, limit))};
}

// Finds the words of a path among its tokens, one after the other.
class Speller {
  public:
    Speller(const WordSource& source, const PathTokens& tokens, std::int64_t first_token = 0)
        : source_(source),
          tokens_(tokens),
          count_(static_cast<std::int64_t>(tokens.columns.size())),
          from_(first_token),
          next_token_(first_token) {
        // A word is examined from several places, so its spellings are found once.
        spellings_.reserve(tokens.labels.size());
        for (const std::uint32_t label : tokens.labels) {
            const Spellings& all = source.spellings_of(label);
            const std::size_t first = all.first_of(label);
            std::size_t end = first;
            while (end < all.size && all.words[end] == label) {
                ++end;
            }
            spellings_.push_back({&all, first, end});
        }
    }

    std::vector<Span> spans() {
        std::vector<Span> found;
        found.reserve(tokens_.labels.size());
        std::int64_t spelled_until = 0;  // frame
        for (std::size_t word = 0; word < tokens_.labels.size(); ++word) {
            Span at{};
            const bool is_spelled = find(word, at);
            if (settled_ == word && is_certain(word, is_spelled, at)) {
                ++settled_;
                // The end of a word that is not found depends on where the next word begins.
                last_is_spelled_ = is_spelled;
                if (is_spelled) {
                    next_ = word + 1U;
                    next_token_ = at.end;
                }
            }
            if (!is_spelled) {
                found.push_back(written_span(tokens_, word, spelled_until, INT64_MAX));
                from_ = std::max(from_, tokens_.tokens_with[word]);
                follows_ = false;
                continue;
            }
            const std::int64_t end = at.end > 0 ? frame(at.end - 1).end : 0;
            const Span span{at.start < at.end ? frame(at.start).start : end, end};  // a spelling may be empty
            if (!follows_) {
                found.back() = written_span(tokens_, word - 1U, spelled_until, span.start);
            }
            found.push_back(span);
            spelled_until = end;
            from_ = at.end;
            follows_ = true;
        }
        return found;
    }

    // Of the spans: how many, from the first, stay as they are whatever follows the path.
    [[nodiscard]] SettledLabels settled() const {
        return {settled_ - (last_is_spelled_ ? 0U : 1U), next_, next_token_};
    }

  private:
    // Numbers [first, end) among all spellings.
    struct SpellingsOfWord {
        const Spellings* all;
        std::size_t first;
        std::size_t end;
    };

    // Whether no further tokens of the path could change what find() returns for a word.
    [[nodiscard]] bool is_certain(std::size_t word, bool is_spelled, const Span& found) const {
        if (word + 1U == tokens_.labels.size()) {
            return false;
        }
        if (follows_) {
            const std::int64_t at = after_separators(from_);
            if (end_of(word, at) < 0 && begins(word, at, count_)) {  // a spelling may be complete later
                return false;
            }
        }
        return is_spelled ? found.end < count_ : closed_at(word) > from_;
    }

    [[nodiscard]] const Span& frame(std::int64_t token) const {
        return tokens_.frames[static_cast<std::size_t>(token)];
    }

    // The tokens [start, end) that spell a word; false if they are not found.
    bool find(std::size_t word, Span& found) const {
        const std::int64_t closed = closed_at(word);
        if (follows_) {
            const std::int64_t at = after_separators(from_);
            found = {at, end_of(word, at)};
            if (found.end < 0 && word + 1U == tokens_.labels.size() && at < count_ && begins(word, at, count_)) {
                found.end = count_;
            }
            if (found.end >= 0) {
                return true;
            }
        }
        // Where labels are written ahead of their tokens, the next one shows nothing.
        const std::int64_t limit = closed > from_ ? closed : count_;
        const std::int64_t written = tokens_.tokens_with[word];
        found.end = limit + 1;
        for (std::int64_t at = std::min(written, limit) - 1; at >= from_; --at) {
            const std::int64_t end = end_of(word, at);
            if (end > at && end <= limit) {
                found = {at, end};
                return true;
            }
        }
        for (std::int64_t at = std::max(written, from_); at < std::min(found.end, limit); ++at) {
            const std::int64_t end = end_of(word, at);
            if (end > at && end < found.end) {
                found = {at, end};
            }
        }
        return found.end <= limit;
    }

    // Tokens that are read before the arc that closes a word.
    [[nodiscard]] std::int64_t closed_at(std::size_t word) const {
        return word + 1U < tokens_.labels.size() ? tokens_.tokens_before[word + 1U] : count_;
    }

    // Where the spelling that begins at a token ends; -1 if none is complete.
    [[nodiscard]] std::int64_t end_of(std::size_t word, std::int64_t at) const {
        const std::int64_t closed = closed_at(word);
        std::int64_t longest = -1, explained = -1, later = -1;
        each_spelling(word, [&](const std::uint16_t* spelling, std::int64_t length) {
            const std::int64_t end = at + length;
            if (end > count_ || !equal(spelling, at, end)) {
                return;
            }
            if (end > closed) {
                later = later < 0 ? end : std::min(later, end);
                return;
            }
            longest = std::max(longest, end);
            if (end > explained && explains_rest(word, end)) {
                explained = end;
            }
        });
        return explained >= 0 ? explained : longest >= 0 ? longest : later;
    }

    // Whether the tokens after a word, with the one of the arc that closes it, begin the next word; after the
    // last word, whether there are none.
    [[nodiscard]] bool explains_rest(std::size_t word, std::int64_t end) const {
        const std::int64_t at = after_separators(end);
        if (word + 1U == tokens_.labels.size()) {
            return at == count_;
        }
        const std::int64_t read = tokens_.tokens_with[word + 1U];
        return at < read && begins(word + 1U, at, read);
    }

    // Whether the tokens [at, end) and a spelling are equal as far as both go.
    [[nodiscard]] bool begins(std::size_t word, std::int64_t at, std::int64_t end) const {
        bool found = false;
        each_spelling(word, [&](const std::uint16_t* spelling, std::int64_t length) {
            found = found || (length > 0 && equal(spelling, at, std::min(end, at + length)));
        });
        return found;
    }

    [[nodiscard]] bool equal(const std::uint16_t* spelling, std::int64_t at, std::int64_t end) const {
        return std::equal(spelling, spelling + (end - at), tokens_.columns.begin() + at);
    }

    [[nodiscard]] std::int64_t after_separators(std::int64_t at) const {
        while (at < count_ && tokens_.columns[static_cast<std::size_t>(at)] == source_.separator_column) {
            ++at;
        }
        return at;
    }

    template <typename Visit>
    void each_spelling(std::size_t word, Visit visit) const {
        const SpellingsOfWord& one = spellings_[word];
        for (std::size_t i = one.first; i < one.end; ++i) {
            const std::int64_t row = one.all->rows[i];
            const std::int64_t begin = one.all->offsets[row];
            visit(one.all->columns + begin, static_cast<std::int64_t>(one.all->offsets[row + 1]) - begin);
        }
    }

    const WordSource& source_;
    const PathTokens& tokens_;
    std::int64_t count_;
    std::vector<SpellingsOfWord> spellings_;  // of each word
    std::int64_t from_;                       // the first token that the words before leave
    bool follows_ = true;                     // the word before was found, so the next one follows it
    std::size_t settled_ = 0;
    bool last_is_spelled_ = true;  // of the settled words
    std::size_t next_ = 0;         // the word after the last settled one that is spelled
    std::int64_t next_token_ = 0;  // and the first token after that
};

// The columns of a graph without new words, where an arc needs no comparison to be found.
struct PlainColumns {
    const std::uint16_t* columns;
    const std::uint32_t* words;
    const ArcTarget* targets;
};

// Reads up to the arc that writes one label more than `labels`, or reads one token more than `most`.
template <typename Columns>
void read_arcs(const Columns& graph, const WordSource& source, const PathView& path, std::size_t labels,
               std::size_t most, PathPoint& point, PathTokens& tokens) {
    auto [i, state, before, frame] = point;
    for (; i < path.size; ++i) {
        const std::uint32_t arc = path.arcs[i];
        const std::uint32_t ahead = path.arc_ahead(i);
        __builtin_prefetch(graph.columns + ahead);
        __builtin_prefetch(graph.words + ahead);
        __builtin_prefetch(graph.targets + ahead);
        const std::uint16_t column = graph.columns[arc];
        const std::uint32_t word = graph.words[arc];
        const std::uint32_t next_state = graph.targets[arc].next_state;
        const std::int64_t begin = frame;
        // A repeated token goes round its state's self-loop and writes nothing; any other non-blank arc is a new
        // token.
        const bool is_repeat = next_state == state && word == kNoWord && column == before;
        const bool is_token = column != kEpsilonColumn && !is_repeat && column != source.blank;
        if ((word != kNoWord && tokens.labels.size() == labels) || (is_token && tokens.columns.size() == most)) {
            break;
        }
        if (column != kEpsilonColumn) {
            if (is_repeat) {
                if (!tokens.frames.empty() && tokens.frames.back().end == frame &&
                    tokens.columns.back() == column) {
                    tokens.frames.back().end = frame + 1;
                }
            } else if (is_token) {
                tokens.columns.push_back(column);
                tokens.frames.push_back({frame, frame + 1});
            }
            before = column;
            ++frame;
        }
        if (word != kNoWord) {
            tokens.labels.push_back(word);
            tokens.labels_at.push_back(begin);
            const auto tokens_with = static_cast<std::int64_t>(tokens.columns.size());
            tokens.tokens_before.push_back(tokens_with - (is_token ? 1 : 0));
            tokens.tokens_with.push_back(tokens_with);
        }
        state = next_state;
    }
    point = {i, state, before, frame};
}

void read(const WordSource& source, const PathView& path, std::size_t labels, std::size_t most, PathPoint& point,
          PathTokens& tokens) {
    const OpenGraph& graph = source.graph;
    if (graph.first_word != OpenGraph::kNoNewWord) {
        read_arcs(graph, source, path, labels, most, point, tokens);
    } else {
        const PlainColumns plain{graph.columns + 0U, graph.words + 0U, graph.targets + 0U};
        read_arcs(plain, source, path, labels, most, point, tokens);
    }
}

}  // namespace

PathPoint path_begin(const WordSource& source) {
    PathPoint begin;
    begin.state = source.graph.start;
    return begin;
}

PathTokens path_tokens(const WordSource& source, const PathView& path, const PathPoint& from) {
    PathTokens tokens;
    tokens.columns.reserve((path.size - from.arc) / 2U);
    tokens.frames.reserve((path.size - from.arc) / 2U);
    for (auto* const of_labels : {&tokens.labels_at, &tokens.tokens_before, &tokens.tokens_with}) {
        of_labels->reserve((path.size - from.arc) / 16U);
    }
    tokens.labels.reserve((path.size - from.arc) / 16U);
    PathPoint point = from;
    read(source, path, SIZE_MAX, SIZE_MAX, point, tokens);
    return tokens;
}

Passed advance(const WordSource& source, const PathView& path, std::size_t label, std::int64_t token,
               PathPoint& point) {
    PathTokens passed;
    read(source, path, label, static_cast<std::size_t>(token), point, passed);
    return {passed.labels.size(), static_cast<std::int64_t>(passed.columns.size())};
}

void PathTokens::drop_labels(std::size_t count) {
    const auto first = static_cast<std::ptrdiff_t>(count);
    labels.erase(labels.begin(), labels.begin() + first);
    labels_at.erase(labels_at.begin(), labels_at.begin() + first);
    tokens_before.erase(tokens_before.begin(), tokens_before.begin() + first);
    tokens_with.erase(tokens_with.begin(), tokens_with.begin() + first);
}

std::vector<Span> label_spans(const WordSource& source, const PathTokens& tokens) {
    if (source.pieces && tokens.labels.size() == tokens.frames.size()) {
        return tokens.frames;
    }
    if (!source.pieces && source.spellings.words != nullptr) {
        return Speller(source, tokens).spans();
    }
    std::vector<Span> found;
    for (std::size_t word = 0; word < tokens.labels.size(); ++word) {
        found.push_back(written_span(tokens, word, 0, INT64_MAX));
    }
    return found;
}

SettledLabels settled_labels(const WordSource& source, const PathTokens& tokens, std::int64_t first_token) {
    if (!source.pieces && source.spellings.words != nullptr) {
        Speller speller(source, tokens, first_token);
        speller.spans();
        return speller.settled();
    }
    const std::size_t count = tokens.labels.empty() ? 0 : tokens.labels.size() - 1U;
    return {count, count, INT64_MAX};
}

void SpanReader::read(const std::uint32_t* arcs, std::size_t count, PathLabels& to) const {
    const PathTokens tokens = path_tokens(*source_, {arcs, count});
    to.labels.insert(to.labels.end(), tokens.labels.begin(), tokens.labels.end());
    for (const Span& span : label_spans(*source_, tokens)) {
        to.starts.push_back(span.start);
        to.ends.push_back(span.end);
    }
    to.path_ends.push_back(to.labels.size());
}

}  // namespace arcbeam::words
