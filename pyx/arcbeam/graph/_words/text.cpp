#include "arcbeam/graph/_words/text.hpp"

#include <algorithm>

namespace arcbeam::words {

void Symbols::append(std::uint32_t label, std::string& to) const {
    if (ids == nullptr) {
        to += std::to_string(label);
        return;
    }
    std::int64_t at = label;
    if (!is_dense) {
        at = std::lower_bound(ids, ids + size, static_cast<std::int64_t>(label)) - ids;
    }
    if (at < size && (is_dense || ids[at] == static_cast<std::int64_t>(label))) {
        to.append(text + offsets[at], static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
    } else {
        to += '<' + std::to_string(label) + '>';
    }
}

namespace {

enum class Added { kNothing, kWord, kPiece };  // kPiece: to the last word

// Of many short paths, what one reads is fetched while those before it are read.
constexpr std::size_t kPathsAhead = 4;
constexpr std::size_t kArcPathsAhead = 8;  // of a step that reads little of each

// Writes the arcs that may write a word to `found`, which has room for all; their number.
std::size_t writing_arcs(const WordSource& source, const PathView& path, std::uint32_t* found) {
    if (source.marked_arcs == 0) {
        std::copy_n(path.arcs, path.size, found);
        return path.size;
    }
    std::uint32_t* to = found;
    for (std::size_t k = 0; k < path.size; ++k) {  // without branches: which arcs write is hard to predict
        const std::uint32_t arc = path.arcs[k];
        const bool is_own = arc >= source.marked_arcs;
        const unsigned mark = source.word_marks[(is_own ? 0U : arc) / 8U] >> arc % 8U & 1U;
        *to = arc;
        to += static_cast<unsigned>(is_own) | mark;
    }
    return static_cast<std::size_t>(to - found);
}

// The labels that many paths write, first those of their settled arcs; those of path i lie before ends[i].
struct PathsLabels {
    struct Ends {
        std::size_t settled;
        std::size_t all;
    };
    std::vector<std::uint32_t> labels;
    std::vector<Ends> ends;
};

// Arcs are scattered over a graph that no cache holds. So each step is taken for all paths, and fetches what the
// next one reads.
PathsLabels labels_of(const std::vector<ReadPath>& paths) {
    PathsLabels found;
    std::vector<std::uint32_t>& labels = found.labels;  // at first the arcs that write them
    std::size_t count = 0;
    found.ends.reserve(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (i + kPathsAhead < paths.size()) {
            const PathView& ahead = paths[i + kPathsAhead].settled;
            __builtin_prefetch(ahead.arcs);
            __builtin_prefetch(ahead.arcs + ahead.size);
        }
        const ReadPath& path = paths[i];
        if (const std::size_t most = count + path.settled.size + path.rest.size; most > labels.size()) {
            labels.resize(2U * most);
        }
        count += writing_arcs(*path.source, path.settled, labels.data() + count);
        const std::size_t settled = count;
        count += writing_arcs(*path.source, path.rest, labels.data() + count);
        found.ends.push_back({settled, count});
    }
    std::size_t at = 0, written = 0, fetched = 0, next = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        for (; next < std::min(i + kArcPathsAhead, paths.size()); ++next) {
            for (; fetched < found.ends[next].all; ++fetched) {
                __builtin_prefetch(paths[next].source->graph.words + labels[fetched]);
            }
        }
        const WordSource& source = *paths[i].source;
        const auto write_until = [&](std::size_t& end) {
            for (; at < end; ++at) {
                const std::uint32_t label = source.graph.words[labels[at]];
                if (label != kNoWord) {
                    source.symbols_of(label).fetch_place(label);
                    labels[written++] = label;
                }
            }
            end = written;
        };
        write_until(found.ends[i].settled);
        write_until(found.ends[i].all);
    }
    labels.resize(written);
    return found;
}

// Appends a label; `begin` is where its own text begins. `scratch` is only memory.
Added append_label(const WordSource& source, std::uint32_t label, TextEnd& end, std::string& scratch,
                   std::string& text, std::size_t& begin) {
    std::size_t skipped = 0;
    if (source.pieces) {
        scratch.clear();
        source.symbols_of(label).append(label, scratch);
        // A piece that starts with the separator opens a word; a piece that is only the separator just ends one.
        if (source.has_separator && scratch.compare(0, source.separator.size(), source.separator) == 0) {
            end.is_open = false;
            skipped = source.separator.size();
        }
        if (skipped == scratch.size()) {
            return Added::kNothing;
        }
    }
    const bool opens = !source.pieces || !end.is_open;
    if (opens && end.has_words) {
        text += ' ';
    }
    begin = text.size();
    if (source.pieces) {
        text.append(scratch, skipped, std::string::npos);
    } else {
        source.symbols_of(label).append(label, text);
    }
    end = {true, true};
    return opens ? Added::kWord : Added::kPiece;
}

// Appends the words of labels to a text that goes on from `end`.
void append_labels(const WordSource& source, const std::uint32_t* labels, std::size_t count, TextEnd& end,
                   std::string& text) {
    std::string scratch;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
        append_label(source, labels[i], end, scratch, text, begin);
    }
}

}  // namespace

std::vector<TextRange> write_words(const WordSource& source, const std::uint32_t* labels, std::size_t count,
                                   std::string& text, bool follows) {
    std::vector<TextRange> found;
    TextEnd end;
    end.has_words = follows;
    std::string scratch;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const Added added = append_label(source, labels[i], end, scratch, text, begin);
        if (added == Added::kWord) {
            found.push_back({begin, begin, i, i});
        }
        if (added != Added::kNothing) {
            found.back().end = text.size();
            found.back().last = i;
        }
    }
    return found;
}

void write_text(const WordSource& source, const PathView& path, TextEnd& end, std::string& text) {
    std::string scratch;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < path.size; ++i) {
        if (!source.may_write(path.arcs[i])) {
            continue;
        }
        const std::uint32_t word = source.graph.words[path.arcs[i]];
        if (word != kNoWord) {
            append_label(source, word, end, scratch, text, begin);
        }
    }
}

void StableWords::read(const WordSource& source, const PathView& path) {
    if (!has_begun_) {
        point_ = path_begin(source);
        has_begun_ = true;
    }
    PathTokens tokens = path_tokens(source, path, point_);
    tokens.drop_labels(passed_labels_);
    const SettledLabels settled = settled_labels(source, tokens, token_);
    text.resize(words_size_);
    const std::vector<TextRange> words =
        write_words(source, tokens.labels.data(), tokens.labels.size(), text, words_ > 0);
    const auto end_of = [&](std::size_t n) { return n == 0 ? words_size_ : words[n - 1U].end; };
    std::size_t stable = 0, passed = 0;  // words
    while (stable + 1U < words.size() && words[stable].last < settled.count) {
        ++stable;
    }
    while (passed < stable && words[passed].last < settled.next) {
        ++passed;
    }
    count = words_ + stable;
    size = end_of(stable);
    arcs = path.size;
    if (passed > 0) {
        const std::size_t next = passed_labels_ + words[passed].first;
        const Passed on_the_way = advance(source, path, next, settled.next_token, point_);
        words_ += passed;
        words_size_ = end_of(passed);
        passed_labels_ = next - on_the_way.labels;
        token_ = settled.next_token == INT64_MAX ? 0 : settled.next_token - on_the_way.tokens;
    }
}

void read_texts(const std::vector<ReadPath>& paths) {
    const PathsLabels of_all = labels_of(paths);
    const std::uint32_t* labels = of_all.labels.data();
    std::string text;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (const std::size_t ahead = i + kPathsAhead; ahead < paths.size()) {
            __builtin_prefetch(paths[ahead].to->text.data() + paths[ahead].to->size, 1);
            for (std::size_t k = of_all.ends[ahead - 1U].all; k < of_all.ends[ahead].all; ++k) {
                paths[ahead].source->symbols_of(labels[k]).fetch(labels[k]);
            }
        }
        const ReadPath& path = paths[i];
        KeptText& to = *path.to;
        const auto [settled, all] = of_all.ends[i];
        TextEnd end = to.end;
        text.clear();
        append_labels(*path.source, labels + begin, settled - begin, end, text);
        const TextEnd kept_end = end;
        const std::size_t kept = text.size();
        append_labels(*path.source, labels + settled, all - settled, end, text);
        if (to.text.compare(to.size, std::string::npos, text) != 0) {
            if (to.size + text.size() > to.text.capacity()) {
                to.text.reserve(to.size + text.size());  // what follows does not fail
            }
            to.text.replace(to.size, std::string::npos, text);
            to.is_new = true;
        }
        to.size += kept;
        to.end = kept_end;
        to.arcs += path.settled.size;
        begin = all;
    }
}

}  // namespace arcbeam::words
