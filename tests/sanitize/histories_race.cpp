// Histories and answers of KenLM that threads share without a lock, for ThreadSanitizer: they number the same
// histories at the same time, and write and read the same lines of the cache. Equal histories have equal numbers
// and no others have; a number's words are there for who hears of it; what the cache says is what was kept there.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "arcbeam/ctc/gpu/models/_requests/answer_cache.hpp"
#include "arcbeam/ctc/gpu/models/_requests/histories.hpp"

namespace {

using arcbeam::Answer;
using arcbeam::Question;
using arcbeam::requests::AnswerCache;
using arcbeam::requests::Histories;

constexpr std::size_t kWords = 2, kContext = 5, kThreads = 4;
constexpr std::uint32_t kVocabulary = 40, kRoom = 2000;

// State `i` of all: of two words, one or none.
struct State {
    unsigned char bytes[8 * kContext + 4];
};

State state_of(std::uint32_t i) {
    State state{};
    const std::uint32_t words[kWords] = {1U + i % kVocabulary, 1U + i / kVocabulary % kVocabulary};
    const float backoffs[kWords] = {static_cast<float>(i), 0.5F};
    std::memcpy(state.bytes, words, sizeof words);
    std::memcpy(state.bytes + 4 * kContext, backoffs, sizeof backoffs);
    state.bytes[8 * kContext] = i == 0U ? 0 : i <= kVocabulary ? 1 : 2;
    return state;
}

bool is_right(const Histories& histories, std::uint32_t number, const State& state, const std::uint32_t* row) {
    State read{};
    histories.read(number, read.bytes);
    const std::size_t count = state.bytes[8 * kContext];
    bool right = read.bytes[8 * kContext] == count && row[0] == count &&
                 std::memcmp(read.bytes, state.bytes, 4 * count) == 0 &&
                 std::memcmp(read.bytes + 4 * kContext, state.bytes + 4 * kContext, 4 * count) == 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t word;
        std::memcpy(&word, state.bytes + 4 * i, sizeof word);
        right = right && row[1 + i] == word + 7U;
    }
    return right;
}

}  // namespace

int main() {
    std::atomic<bool> wrong{false};
    std::vector<std::uint32_t> ranks(kVocabulary + 2U);
    for (std::uint32_t word = 0; word < ranks.size(); ++word) {
        ranks[word] = word + 7U;
    }
    Histories histories({kWords, kContext}, ranks.data());
    std::vector<std::uint32_t> words(64U * histories.words_a_row());
    const State first = state_of(0);
    histories.begin(first.bytes, words.data(), 64);
    AnswerCache cache(7);
    std::vector<std::vector<std::uint32_t>> known(kThreads, std::vector<std::uint32_t>(kRoom, Histories::kNone));
    std::size_t room = 64;
    for (bool is_full = true; is_full;) {  // as between launches: more room, the same numbers
        std::atomic<bool> full{false};
        std::vector<std::thread> threads;
        for (std::size_t thread = 0; thread < kThreads; ++thread) {
            threads.emplace_back([&, thread] {
                std::uint32_t spare = Histories::kNone;
                for (std::uint32_t at = 0; at < kRoom; ++at) {
                    const std::uint32_t i = (at * 7U + static_cast<std::uint32_t>(thread)) % (kRoom / 2U);
                    const State state = state_of(i);
                    const std::uint32_t number = histories.number(state.bytes, histories.hash(state.bytes), spare);
                    if (number == Histories::kNone) {
                        full = true;
                        return;
                    }
                    std::uint32_t& before = known[thread][i];
                    if ((before != Histories::kNone && before != number) || (number == 0U) != (i == 0U) ||
                        !is_right(histories, number, state, words.data() + number * histories.words_a_row())) {
                        wrong = true;
                    }
                    before = number;
                    const Question question{number, i % 3U};
                    Answer answer{-1.0F, 0U};
                    if (cache.find(question, answer) &&
                        (answer.next_state != (number ^ 5U) || answer.cost != 2.0F)) {
                        wrong = true;
                    }
                    cache.keep(question, {2.0F, number ^ 5U});
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        is_full = full;
        if (is_full) {
            std::vector<std::uint32_t> more(2U * room * histories.words_a_row());
            histories.move(more.data(), 2U * room);
            words.swap(more);
            room *= 2U;
        }
    }
    for (std::uint32_t i = 0; i < kRoom / 2U; ++i) {
        for (std::size_t thread = 1; thread < kThreads; ++thread) {
            if (known[thread][i] != known[0][i]) {
                wrong = true;
            }
        }
        for (std::uint32_t j = 0; j < i; ++j) {
            if (known[0][i] == known[0][j]) {
                wrong = true;
            }
        }
    }
    if (wrong) {
        std::puts(
            "a history has another number, or another has its number, or an answer is not that of its question");
        return 1;
    }
    std::printf("%zu numbers for %u histories\n", histories.size(), kRoom / 2U);
    return 0;
}
