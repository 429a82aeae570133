// The loops of data/closed_lm.py, on all cores.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "shared/lm_view.hpp"

namespace {

using arcbeam::LmArc;

// Calls each(part) for all parts, with so many threads.
template <typename Each>
void together(std::size_t parts, unsigned threads, Each each) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> pool;
    for (unsigned i = 0; i < threads; ++i) {
        pool.emplace_back([&] {
            for (std::size_t part = next++; part < parts; part = next++) {
                each(part);
            }
        });
    }
    for (std::thread& thread : pool) {
        thread.join();
    }
}

constexpr std::size_t kStates = 4096;  // of a part

// KenLM's key of an n-gram: its words from the last to the first.
std::uint64_t combined(std::uint64_t key, std::uint32_t word) {
    return key * 8978948897894561157U ^ static_cast<std::uint64_t>(1U + word) * 17894857484156487943U;
}

// What is put into one of KenLM's tables: open addressing from key modulo the number of places on, key 0 where none
// is.
struct Entry {
    std::uint64_t key;
    float values[2];
};

class Table {
  public:
    Table(unsigned char* memory, std::uint64_t places, std::size_t bytes)
        : memory_(memory), places_(places), bytes_(bytes) {}

    [[nodiscard]] std::uint64_t first_place(std::uint64_t key) const { return key % places_; }

    // At the first free place from `at` on that lies before `end`; false if there is none.
    bool put(const Entry& entry, std::uint64_t at, std::uint64_t end) {
        for (; at < end; ++at) {
            std::uint64_t key;
            std::memcpy(&key, memory_ + at * bytes_, sizeof key);
            if (key == 0) {
                std::memcpy(memory_ + at * bytes_, &entry, bytes_);
                return true;
            }
        }
        return false;
    }

    // All entries that `every(from, to, put)` gives for the states of its parts. Each thread goes over all of them
    // and keeps to places of its own; what does not fit there comes last.
    template <typename Every>
    void fill(unsigned threads, Every every) {
        std::vector<std::vector<Entry>> late(threads);
        together(threads, threads, [&](std::size_t part) {
            const std::uint64_t begin = places_ / threads * part;
            const std::uint64_t end = part + 1 == threads ? places_ : places_ / threads * (part + 1);
            every([&](std::uint64_t key, auto entry_of) {
                const std::uint64_t at = first_place(key);
                if (at >= begin && at < end) {
                    const Entry entry = entry_of(key);
                    if (!put(entry, at, end)) {
                        late[part].push_back(entry);
                    }
                }
            });
        });
        for (const std::vector<Entry>& some : late) {
            for (const Entry& entry : some) {
                if (!put(entry, first_place(entry.key), places_)) {
                    put(entry, 0, places_);
                }
            }
        }
    }

  private:
    unsigned char* memory_;
    std::uint64_t places_;
    std::size_t bytes_;
};

float log10_of(float cost) { return static_cast<float>(-static_cast<double>(cost) / 2.302585092994045684); }

}  // namespace

extern "C" {

// Arcs of histories of two words. Of state i: those of row[i] in the table of `width` columns, or where row[i] < 0,
// given_first[-1 - row[i]] and following of the given ones. first: [states + 1].
void closed_lm_arcs(std::size_t states, const std::int64_t* first, const std::int64_t* row, std::size_t width,
                    const std::uint32_t* labels, const LmArc* arcs, const std::int64_t* given_first,
                    const std::uint32_t* given_labels, const LmArc* given_arcs, unsigned threads,
                    std::uint16_t* low, std::uint8_t* high, LmArc* all) {
    together((states + kStates - 1) / kStates, threads, [=](std::size_t part) {
        for (std::size_t i = part * kStates; i < std::min(states, (part + 1) * kStates); ++i) {
            const std::size_t from = row[i] >= 0 ? static_cast<std::size_t>(row[i]) * width
                                                 : static_cast<std::size_t>(given_first[-1 - row[i]]);
            const std::uint32_t* const my_labels = (row[i] >= 0 ? labels : given_labels) + from;
            const LmArc* const my_arcs = (row[i] >= 0 ? arcs : given_arcs) + from;
            const auto count = static_cast<std::size_t>(first[i + 1] - first[i]);
            for (std::size_t j = 0; j < count; ++j) {
                const std::size_t to = static_cast<std::size_t>(first[i]) + j;
                low[to] = static_cast<std::uint16_t>(my_labels[j]);
                high[to] = static_cast<std::uint8_t>(my_labels[j] >> 16U);
                all[to] = my_arcs[j];
            }
        }
    });
}

// KenLM's table of n-grams of three words: the arcs of histories of two, first [states + 1]. u, v [states] are the
// histories' words as KenLM numbers them, words[label] likewise.
void closed_lm_longest(std::size_t states, const std::int64_t* first, const std::uint32_t* u,
                       const std::uint32_t* v, const std::uint16_t* low, const std::uint8_t* high,
                       const LmArc* arcs, const std::uint32_t* words, unsigned threads, std::uint64_t places,
                       unsigned char* memory) {
    Table(memory, places, 12).fill(threads, [=](auto put) {
        for (std::size_t state = 0; state < states; ++state) {
            for (auto arc = first[state]; arc < first[state + 1]; ++arc) {
                const std::uint32_t word = words[low[arc] | static_cast<std::uint32_t>(high[arc]) << 16U];
                put(combined(combined(word, v[state]), u[state]),
                    [=](std::uint64_t key) { return Entry{key, {-std::fabs(log10_of(arcs[arc].weight)), 0.0F}}; });
            }
        }
    });
}

// That of two words, v and x as KenLM numbers them. What is the end of a longer n-gram has a probability without
// sign; the back-off weight of what no n-gram continues is a negative zero.
void closed_lm_middle(std::size_t pairs, const std::uint32_t* v, const std::uint32_t* x, const float* costs,
                      const std::uint8_t* is_end, const float* backoffs, const std::uint8_t* is_history,
                      unsigned threads, std::uint64_t places, unsigned char* memory) {
    Table(memory, places, 16).fill(threads, [=](auto put) {
        for (std::size_t i = 0; i < pairs; ++i) {
            put(combined(x[i], v[i]), [=](std::uint64_t key) {
                const float log = std::fabs(log10_of(costs[i]));
                const float backoff = log10_of(backoffs[i]);
                return Entry{key,
                             {is_end[i] != 0 ? log : -log, is_history[i] == 0           ? -0.0F
                                                           : std::fabs(backoff) == 0.0F ? 0.0F
                                                                                        : backoff}};
            });
        }
    });
}

}  // extern "C"
