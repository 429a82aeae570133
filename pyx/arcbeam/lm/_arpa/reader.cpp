#include "arcbeam/lm/_arpa/reader.hpp"

#include <algorithm>
#include <cmath>

#include "arcbeam/lm/_arpa/text.hpp"

namespace arcbeam::arpa {

namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20U;
constexpr std::uint32_t kHighestOrder = 32;
constexpr std::uint64_t kMostWords = 1U << 28U;     // of an open vocabulary
constexpr std::uint64_t kMostReserved = 1U << 26U;  // n-grams that a header makes room for before they are seen

// A text of the file in a form that suits a message: short and printable.
std::string shown(std::string_view text) {
    std::string result = "'";
    for (const char c : text.substr(0, 60)) result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    return result + (text.size() > 60 ? "...'" : "'");
}

std::string_view stripped(std::string_view text) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

std::string section_name(std::uint32_t order) { return "\\" + std::to_string(order) + "-grams:"; }

}  // namespace

Reader::Reader(std::uint32_t num_words, std::uint64_t most_bytes)
    : most_bytes_(most_bytes), is_open_(false), trie_(num_words + 3) {
    begin(num_words);
}

void Reader::begin(std::uint32_t num_words) {
    num_words_ = num_words;
    trie_ = Trie(num_words + 3);
    listed_.assign(num_words + 3, false);
    index_.add("<s>", sentence_start());
    index_.add("</s>", sentence_end());
}

void Reader::feed(std::string_view block) {
    while (!block.empty() && place_ != Place::kEnd) {
        const std::size_t end = block.find('\n');
        if (partial_.size() + std::min(end, block.size()) > kLongestLine) {
            ++line_number_;
            fail("expected lines of at most 1048576 bytes, got a longer one");
        }
        if (end == std::string_view::npos) {
            partial_.append(block);
            return;
        }
        if (partial_.empty()) {
            line(block.substr(0, end));
        } else {
            partial_.append(block.substr(0, end));
            const std::string whole = std::move(partial_);
            partial_.clear();
            line(whole);
        }
        block.remove_prefix(end + 1);
    }
}

void Reader::finish() {
    if (place_ != Place::kEnd && !partial_.empty()) {
        const std::string whole = std::move(partial_);
        partial_.clear();
        line(whole);
    }
    if (line_number_ == 0) fail("expected an ARPA model, got an empty file");
    if (place_ == Place::kPreamble) fail("expected \\data\\, got the end of the file");
    if (place_ != Place::kEnd) fail("expected \\end\\, got the end of the file");
    if (!is_open_)
        for (std::uint32_t w = 1; w <= num_words_; ++w) tally_.missing_words += listed_[w] ? 0U : 1U;
    tally_.has_end = listed_[sentence_end()];
}

void Reader::line(std::string_view text) {
    ++line_number_;
    text = stripped(text);
    if (place_ == Place::kPreamble) {
        if (text == "\\data\\") place_ = Place::kCounts;
        return;
    }
    if (text.empty()) return;
    // A section's title ends in "-grams:". A word may begin with a backslash, but a number never does.
    if (text.front() == '\\')
        section(text);
    else if (place_ == Place::kCounts)
        header(text);
    else if (place_ == Place::kNgrams)
        ngram(text);
    else
        fail("expected " + section_name(order_ + 1) + ", got " + shown(text));
}

void Reader::header(std::string_view text) {
    const std::size_t equals = text.find('=');
    std::uint64_t order = 0;
    std::uint64_t count = 0;
    if (text.substr(0, 6) != "ngram " || equals == std::string_view::npos ||
        !parse_count(stripped(text.substr(6, equals - 6)), order) ||
        !parse_count(stripped(text.substr(equals + 1)), count))
        fail("expected 'ngram ORDER=COUNT' or " + section_name(1) + ", got " + shown(text));
    if (order != tally_.header.size() + 1 || order > kHighestOrder)
        fail("expected the count of order " + std::to_string(tally_.header.size() + 1) +
             " (32 at most), got that of " + std::to_string(order));
    if (count >= kNone) fail("expected fewer than 2^32 - 1 n-grams of one order, got " + std::to_string(count));
    // The shortest line is a number of one digit, words of one character, the separators, and the line's end.
    const std::uint64_t most = (most_bytes_ + 1) / (2 * (order + 1));
    if (count > most)
        fail("expected at most " + std::to_string(most) + " n-grams of order " + std::to_string(order) +
             ", which is all that " + std::to_string(most_bytes_) + " bytes can hold, got " +
             std::to_string(count));
    tally_.header.push_back(count);
}

void Reader::section(std::string_view text) {
    if (tally_.header.empty()) fail("expected 'ngram 1=COUNT', got " + shown(text));
    if (place_ == Place::kNgrams) close_section();
    const bool all_read = order_ == tally_.header.size();
    const std::string expected = all_read ? "\\end\\" : section_name(order_ + 1);
    if (text != expected) fail("expected " + expected + ", got " + shown(text));
    place_ = all_read ? Place::kEnd : Place::kNgrams;
    if (!all_read) ++order_;
    if (is_open_ && order_ == 1 && !all_read) {
        if (tally_.header[0] > kMostWords)
            fail("expected at most " + std::to_string(kMostWords) + " words, got " +
                 std::to_string(tally_.header[0]));
        begin(static_cast<std::uint32_t>(tally_.header[0]));
    }
    if (!all_read) ngrams_.reserve(std::min<std::uint64_t>(tally_.header[order_ - 1], kMostReserved));
    read_in_section_ = 0;
    last_context_.clear();
}

void Reader::close_section() {
    const std::uint64_t expected = tally_.header[order_ - 1];
    if (read_in_section_ != expected)
        fail("expected " + std::to_string(expected) + " n-grams of order " + std::to_string(order_) +
             " as the header says, got " + std::to_string(read_in_section_));
    trie_.seal(ngrams_, order_ == tally_.header.size());
    place_ = Place::kBetween;
}

float Reader::log_probability(std::string_view text, bool is_backoff) const {
    const char* const what = is_backoff ? "the log10 of a back-off weight" : "the log10 of a probability";
    double value = 0.0;
    if (!parse_number(text, value) || std::isnan(value) || value == std::numeric_limits<double>::infinity())
        fail(std::string("expected ") + what + ", got " + shown(text));
    // Rounding in the tool that wrote the file may leave a certain event a hair above zero.
    if (!is_backoff && value > 1e-4) fail(std::string("expected ") + what + ", zero at most, got " + shown(text));
    return static_cast<float>(value);
}

void Reader::ngram(std::string_view text) {
    split(text, fields_);
    const bool highest = order_ == tally_.header.size();
    if (fields_.size() != order_ + 1 && fields_.size() != order_ + 2)
        fail("expected a log10 probability, " + std::to_string(order_) + (order_ == 1 ? " word" : " words") +
             " and optionally a back-off weight, got " + std::to_string(fields_.size()) + " fields in " +
             shown(text));
    if (read_in_section_ == tally_.header[order_ - 1])
        fail("expected " + std::to_string(read_in_section_) + " n-grams of order " + std::to_string(order_) +
             " as the header says, got another: " + shown(text));
    ++read_in_section_;
    ++ngrams_read_;
    Ngram ngram{0, 0, log_probability(fields_[0], false), 0.0F, static_cast<std::uint32_t>(line_number_)};
    if (fields_.size() == order_ + 2) {
        ngram.backoff = log_probability(fields_.back(), true);
        if (highest && ngram.backoff != 0.0F)
            fail("expected no back-off weight in the highest order, got " + shown(fields_.back()));
    }
    words_.resize(order_);
    bool misplaced = false;
    for (std::uint32_t i = 0; i < order_; ++i) {
        words_[i] = word(fields_[i + 1]);
        if (words_[i] == kNone && is_open_) {
            if (order_ > 1) fail("expected words that have a unigram, got " + shown(fields_[i + 1]));
            words_[i] = static_cast<std::uint32_t>(index_.size() - 1);
            index_.add(fields_[1], words_[i]);
        } else if (words_[i] == kNone) {
            ++tally_.unknown_ngrams;
            if (order_ == 1) ++tally_.unknown_words;
            return;
        }
        misplaced |= (i > 0 && words_[i] == sentence_start()) || (i + 1 < order_ && words_[i] == sentence_end());
    }
    if (misplaced) {
        ++tally_.misplaced;
        return;
    }
    ngram.word = words_.back();
    if (order_ == 1) {
        listed_[ngram.word] = true;
    } else {
        for (std::uint32_t i = 0; i < order_; ++i)
            if (!listed_[words_[i]]) fail("expected words that have a unigram, got " + shown(fields_[i + 1]));
        words_.pop_back();
        if (words_ != last_context_) {
            last_context_position_ = trie_.context(words_);
            last_context_ = words_;
        }
        ngram.context = last_context_position_;
    }
    ngrams_.push_back(ngram);
}

}  // namespace arcbeam::arpa
