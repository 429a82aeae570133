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

// The labels that many paths write; those of path i lie before ends[i].
struct PathsLabels {
    std::vector<std::uint32_t> labels;
    std::vector<std::size_t> ends;
};

// Arcs are scattered over a graph that no cache holds. So each step is taken for all paths, and fetches what the
// next one reads.
template <typename Path>
PathsLabels labels_of(const std::vector<Path>& paths) {
    PathsLabels found;
    std::vector<std::uint32_t>& labels = found.labels;  // at first the arcs that write them
    found.ends.reserve(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (i + 2U * kPathsAhead < paths.size()) {
            const PathView& far = paths[i + 2U * kPathsAhead].path;
            __builtin_prefetch(far.arcs);
            __builtin_prefetch(far.arcs + far.size);
        }
        if (i + kPathsAhead < paths.size()) {
            const Path& ahead = paths[i + kPathsAhead];
            for (std::size_t k = 0; k < ahead.path.size; ++k) {
                ahead.source->fetch_mark(ahead.path.arcs[k]);
            }
        }
        const WordSource& source = *paths[i].source;
        for (std::size_t k = 0; k < paths[i].path.size; ++k) {
            const std::uint32_t arc = paths[i].path.arcs[k];
            if (source.may_write(arc)) {
                __builtin_prefetch(source.graph.words + arc);
                labels.push_back(arc);
            }
        }
        found.ends.push_back(labels.size());
    }
    std::size_t at = 0, written = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const WordSource& source = *paths[i].source;
        for (; at < found.ends[i]; ++at) {
            const std::uint32_t label = source.graph.words[labels[at]];
            if (label != kNoWord) {
                source.symbols_of(label).fetch_place(label);
                labels[written++] = label;
            }
        }
        found.ends[i] = written;
    }
    labels.resize(written);
    return found;
}

// Where the text of a path will be written.
void fetch_end(const Unread& path) { __builtin_prefetch(path.to->text.data() + path.to->text.size(), 1); }
void fetch_end(const Rest& path) { static_cast<void>(path); }

// Calls `write(path, labels, how many)` for each path, while the symbols of paths ahead are fetched.
template <typename Path, typename Write>
void for_each_path(std::vector<Path>& paths, Write write) {
    const PathsLabels of_all = labels_of(paths);
    const std::uint32_t* labels = of_all.labels.data();
    std::size_t begin = 0;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (const std::size_t ahead = i + kPathsAhead; ahead < paths.size()) {
            fetch_end(paths[ahead]);
            for (std::size_t k = of_all.ends[ahead - 1U]; k < of_all.ends[ahead]; ++k) {
                paths[ahead].source->symbols_of(labels[k]).fetch(labels[k]);
            }
        }
        write(paths[i], labels + begin, of_all.ends[i] - begin);
        begin = of_all.ends[i];
    }
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

bool is_ascii(const char* text, std::size_t size) {
    unsigned char bits = 0;
    for (std::size_t i = 0; i < size; ++i) {
        bits = static_cast<unsigned char>(bits | static_cast<unsigned char>(text[i]));
    }
    return bits < 0x80U;
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

void read_kept(std::vector<Unread>& paths) {
    for_each_path(paths, [](const Unread& one, const std::uint32_t* labels, std::size_t count) {
        KeptText& kept = *one.to;
        const std::size_t before = kept.text.size();
        TextEnd after = kept.end;
        try {
            append_labels(*one.source, labels, count, after, kept.text);
        } catch (...) {
            kept.text.resize(before);
            throw;
        }
        kept.is_ascii = kept.is_ascii && is_ascii(kept.text.data() + before, kept.text.size() - before);
        kept.end = after;
        kept.arcs += one.path.size;
    });
}

void write_rests(std::vector<Rest>& rests, std::string& text) {
    for_each_path(rests, [&text](Rest& rest, const std::uint32_t* labels, std::size_t count) {
        const std::size_t before = text.size();
        append_labels(*rest.source, labels, count, rest.end, text);
        rest.until = text.size();
        rest.is_ascii = is_ascii(text.data() + before, rest.until - before);
    });
}

}  // namespace arcbeam::words
