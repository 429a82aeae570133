#include "arcbeam/graph/_words/text.hpp"

#include <algorithm>

namespace arcbeam::words {

void Symbols::append(std::uint32_t label, std::string& to) const {
    if (ids == nullptr) {
        to += std::to_string(label);
        return;
    }
    // Ids mostly run from 0 on without a gap.
    std::int64_t at = label;
    if (at >= size || ids[at] != static_cast<std::int64_t>(label)) {
        at = std::lower_bound(ids, ids + size, static_cast<std::int64_t>(label)) - ids;
    }
    if (at < size && ids[at] == static_cast<std::int64_t>(label)) {
        to.append(text + offsets[at], static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
    } else {
        to += '<' + std::to_string(label) + '>';
    }
}

namespace {

enum class Added { kNothing, kWord, kPiece };  // kPiece: to the last word

// Of many short paths, the words of one are fetched while those before it are read.
constexpr std::size_t kPathsAhead = 4;

void fetch_words(const WordSource& source, const PathView& path) {
    for (std::size_t i = 0; i < path.size; ++i) {
        if (source.may_write(path.arcs[i])) {
            __builtin_prefetch(source.graph.words + path.arcs[i]);
        }
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

void KeptText::read(const WordSource& source, const PathView& path) {
    const std::size_t before = text.size();
    TextEnd after = end;
    try {
        write_text(source, path, after, text);
    } catch (...) {
        text.resize(before);
        throw;
    }
    is_ascii = is_ascii && words::is_ascii(text.data() + before, text.size() - before);
    end = after;
    arcs += path.size;
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

void read_kept(const std::vector<Unread>& paths) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (i + kPathsAhead < paths.size()) {
            fetch_words(*paths[i + kPathsAhead].source, paths[i + kPathsAhead].path);
        }
        paths[i].to->read(*paths[i].source, paths[i].path);
    }
}

void write_rests(std::vector<Rest>& rests, std::string& text) {
    for (std::size_t i = 0; i < rests.size(); ++i) {
        if (i + kPathsAhead < rests.size()) {
            fetch_words(*rests[i + kPathsAhead].source, rests[i + kPathsAhead].path);
        }
        Rest& rest = rests[i];
        const std::size_t before = text.size();
        write_text(*rest.source, rest.path, rest.end, text);
        rest.until = text.size();
        rest.is_ascii = is_ascii(text.data() + before, rest.until - before);
    }
}

}  // namespace arcbeam::words
