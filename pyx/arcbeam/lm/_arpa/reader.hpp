// Reads an ARPA language model from blocks of text into a Trie, keeping the n-grams whose words are all known.
//
// In: the known words, or none if the model's own unigrams are the vocabulary; then the file's bytes in blocks of
// any size. Out: the trie and counts of what was left out. Fails with an ArpaError that has the line, what was
// expected and what was got. It checks header counts, the order of the sections, the number of fields, numbers,
// duplicates, words without a unigram and the closing \end\. N-grams with unknown words are checked, too, as far as
// that takes no memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arcbeam/lm/_arpa/trie.hpp"
#include "arcbeam/lm/_arpa/word_index.hpp"

namespace arcbeam::arpa {

struct Tally {
    std::uint64_t unknown_words = 0;    // unigrams of words that are not known (<unk> among them)
    std::uint64_t unknown_ngrams = 0;   // n-grams left out because a word of theirs is unknown, unigrams included
    std::uint64_t misplaced = 0;        // n-grams left out because <s> is not first or </s> not last in them
    std::uint64_t missing_words = 0;    // known words that the model has no unigram for
    bool has_end = false;               // the model has a unigram </s>
    std::vector<std::uint64_t> header;  // number of n-grams by order, as in the header
};

class Reader {
  public:
    // Takes the words that the file lists. They are numbered from 1, up to the number in the header. The text has
    // at most `most_bytes` bytes, so a header that claims more n-grams is refused before room is made for them.
    explicit Reader(std::uint64_t most_bytes) : most_bytes_(most_bytes), trie_(0) {}
    // Known words are numbered from 1; the two numbers after them are <s> and </s>.
    Reader(std::uint32_t num_words, std::uint64_t most_bytes);
    // False if the word is there already. Call this before the first block.
    bool add_word(std::string_view word, std::uint32_t id) { return index_.add(word, id); }

    void feed(std::string_view block);
    void finish();

    std::uint32_t sentence_start() const { return num_words_ + 1; }
    std::uint32_t sentence_end() const { return num_words_ + 2; }
    bool lists_sentence_start() const { return listed_[sentence_start()]; }
    // The words, <s> and </s> first, then the others in the order of their numbers.
    const WordIndex& words() const { return index_; }
    std::uint64_t ngrams_read() const { return ngrams_read_; }
    std::uint64_t line_number() const { return line_number_; }
    const Trie& trie() const { return trie_; }
    const Tally& tally() const { return tally_; }

  private:
    enum class Place { kPreamble, kCounts, kBetween, kNgrams, kEnd };

    void line(std::string_view text);
    void begin(std::uint32_t num_words);
    void header(std::string_view text);
    void section(std::string_view text);
    void close_section();
    void ngram(std::string_view text);
    float log_probability(std::string_view text, bool is_backoff) const;
    std::uint32_t word(std::string_view text) const { return index_.find(text); }
    [[noreturn]] void fail(const std::string& message) const { throw ArpaError(line_number_, message); }

    std::uint64_t most_bytes_;
    bool is_open_ = true;  // the vocabulary is that of the file
    std::uint32_t num_words_ = 0;
    WordIndex index_;
    Trie trie_;
    Tally tally_;
    Place place_ = Place::kPreamble;
    std::uint32_t order_ = 0;  // of the section being read
    std::uint64_t read_in_section_ = 0;
    std::uint64_t ngrams_read_ = 0;
    std::uint64_t line_number_ = 0;
    std::string partial_;        // the line that was cut off at the end of the last block
    std::vector<Ngram> ngrams_;  // of the section being read
    std::vector<bool> listed_;   // known words with a unigram
    std::vector<std::string_view> fields_;
    std::vector<std::uint32_t> words_;
    std::vector<std::uint32_t> last_context_;
    std::uint32_t last_context_position_ = kNone;
};

}  // namespace arcbeam::arpa
