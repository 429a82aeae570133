// A KenLM model, through the library that the Python package kenlm installs.
//
// The package ships no headers, so the few declarations that are needed are here, and loading checks that the
// library agrees with them: the symbols exist, and the values in the assumed layout make sense. Scores are
// log10. A state is plain bytes, state_size() of them: words, newest first; their back-off weights; their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace arcbeam {

enum class KenLmError : std::uint8_t {
    kNone,
    kLibrary,  // the library cannot be loaded, or does not match the declarations
    kModel,    // the library rejects the model's file
};

class KenLm {
  public:
    static constexpr std::size_t kLargestState = 1024;  // bytes

    // Loads a model (ARPA or binary). Null on failure, with the kind and the reason.
    static std::unique_ptr<KenLm> load(const std::string& library, const std::string& path, KenLmError& kind,
                                       std::string& reason);
    ~KenLm();
    KenLm(const KenLm&) = delete;
    KenLm& operator=(const KenLm&) = delete;

    [[nodiscard]] std::size_t state_size() const { return state_size_; }
    [[nodiscard]] std::size_t context() const { return context_; }  // words that a state has room for
    [[nodiscard]] unsigned order() const { return order_; }
    // Returns 0, the unknown word, if the model does not have the word.
    [[nodiscard]] std::uint32_t word(const std::string& text) const { return index_(vocabulary_, text.c_str()); }
    [[nodiscard]] std::uint32_t start_word() const { return start_word_; }  // <s>
    [[nodiscard]] std::uint32_t end_sentence() const { return end_sentence_; }
    void begin_sentence(void* state) const { std::memcpy(state, begin_sentence_, state_size_); }
    void null_context(void* state) const { std::memcpy(state, null_context_, state_size_); }

    // log10 probability of a word after a state. The two states must be different objects.
    float score(const void* state, std::uint32_t word, void* next) const {
        return score_(model_, state, word, next);
    }

    // How many words a state still sees.
    [[nodiscard]] std::size_t length(const void* state) const {
        return static_cast<const unsigned char*>(state)[8 * context_];
    }

    // The i-th newest of these words.
    [[nodiscard]] static std::uint32_t word_of(const void* state, std::size_t i) {
        std::uint32_t word;
        std::memcpy(&word, static_cast<const unsigned char*>(state) + 4 * i, sizeof word);
        return word;
    }

    // The back-off weight of the i + 1 newest words, log10.
    [[nodiscard]] float backoff_of(const void* state, std::size_t i) const {
        float backoff;
        std::memcpy(&backoff, static_cast<const unsigned char*>(state) + 4 * (context_ + i), sizeof backoff);
        return backoff;
    }

    // Lets a state see one word more, before all that it sees, and gives the longer history this back-off weight.
    // The state must have room for it: it sees fewer words than the model's order less one.
    void push_oldest(void* state, std::uint32_t word, float backoff) const {
        const std::size_t n = length(state);
        auto* const bytes = static_cast<unsigned char*>(state);
        std::memcpy(bytes + 4 * n, &word, sizeof word);
        std::memcpy(bytes + 4 * (context_ + n), &backoff, sizeof backoff);
        bytes[8 * context_] = static_cast<unsigned char>(n + 1);
    }

    // No word scores more than this after the state. Probabilities are at most 1, but back-off weights may exceed
    // it.
    [[nodiscard]] float most(const void* state) const {
        float sum = 0.0F;
        for (std::size_t i = 0, n = length(state); i < n && i < context_; ++i) {
            const float backoff = backoff_of(state, i);
            sum += backoff > 0.0F ? backoff : 0.0F;
        }
        return sum;
    }

  private:
    KenLm() = default;
    bool is_plausible(std::string& reason);

    void* model_ = nullptr;
    const void* vocabulary_ = nullptr;
    std::uint32_t (*index_)(const void* vocabulary, const char* word) = nullptr;
    float (*score_)(const void* model, const void* state, std::uint32_t word, void* next) = nullptr;
    const void* begin_sentence_ = nullptr;
    const void* null_context_ = nullptr;
    std::size_t state_size_ = 0;
    std::size_t context_ = 0;
    unsigned order_ = 0;
    std::uint32_t start_word_ = 0;
    std::uint32_t end_sentence_ = 0;
};

}  // namespace arcbeam
