#include "arcbeam/lm/_lm_buckets/fill.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/parallel.hpp"

namespace arcbeam {

namespace {

constexpr std::uint32_t kSeeds = 32U;    // a table so full that it fails with one seed fails with all
constexpr std::uint32_t kMoves = 2000U;  // moves of other arcs before an arc must have its place
constexpr std::uint64_t kLine = 128U;

std::uint64_t whole_lines(std::uint64_t bytes) { return (bytes + kLine - 1U) / kLine * kLine; }

// A page of a mapped file that was lost reads as zeros, so a state may seem to back off to any other.
std::uint32_t next_in_chain(const LmView& lm, std::uint32_t state) {
    const std::uint32_t next = lm.backoff_state(state);
    return next < state ? next : kLmEmptyHistory;
}

std::uint32_t longest_chain(const LmView& lm, unsigned threads) {
    std::atomic<std::uint32_t> longest{0U};
    const auto piece = [&](std::uint64_t begin, std::uint64_t end) {
        std::uint32_t most = 0U;
        for (std::uint64_t s = begin; s < end; ++s) {
            std::uint32_t length = 0U;
            for (auto c = static_cast<std::uint32_t>(s); c != kLmEmptyHistory; c = next_in_chain(lm, c)) {
                ++length;
            }
            most = std::max(most, length);
        }
        for (std::uint32_t known = longest; known < most && !longest.compare_exchange_weak(known, most);) {
        }
        return Status{};
    };
    parallel_ranges(lm.num_states, threads, piece);
    return longest;
}

// The first state of a thread's share; all shares have about the same number of arcs.
std::uint32_t edge_of(const LmView& lm, std::uint64_t i, std::uint64_t parts) {
    const std::uint64_t arc = lm.num_arcs / parts * i + lm.num_arcs % parts * i / parts;
    std::uint32_t low = 1U;  // the empty history has no buckets
    std::uint32_t high = lm.num_states;
    if (i == parts) {
        return high;
    }
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2U;
        const bool above = lm.first_arc(middle) < arc;
        low = above ? middle + 1U : low;
        high = above ? high : middle;
    }
    return low;
}

// Calls take(state, arc, label) for the arcs of some states.
template <class Take>
void each_arc(const LmView& lm, std::uint32_t begin, std::uint32_t end, Take take) {
    for (std::uint32_t state = begin; state < end; ++state) {
        const std::uint32_t end_arc = std::min(lm.first_arc(state + 1U), lm.num_arcs);
        for (std::uint32_t arc = lm.first_arc(state); arc < end_arc; ++arc) {
            take(state, arc, lm.label(arc));
        }
    }
}

// Fills a part; false if some arc finds no place. `arcs` are those of the part.
class Part {
  public:
    bool fill(const LmBuckets& table, std::uint32_t part, LmEntry* entries, std::uint32_t count) {
        const std::uint32_t buckets = table.buckets_a_part;
        arcs_.assign(entries, entries + count);
        taken_.assign(buckets, 0U);
        std::memset(static_cast<void*>(entries), 0, sizeof(LmEntry) * kLmBucketEntries * buckets);
        std::uint32_t turn = part;
        for (LmEntry arc : arcs_) {
            LmBucketPair pair = lm_buckets_of(table, arc.state, arc.label);
            std::uint32_t into = taken_[pair.second] < taken_[pair.first] ? pair.second : pair.first;
            for (std::uint32_t moves = 0U; taken_[into] == kLmBucketEntries; ++moves) {
                if (moves == kMoves) {
                    return false;
                }
                turn = turn * 1664525U + 1013904223U;  // chooses the arc that has to move, with no periodic pattern
                std::swap(arc, entries[into * kLmBucketEntries + (turn >> 30U)]);
                pair = lm_buckets_of(table, arc.state, arc.label);
                into = pair.first == into ? pair.second : pair.first;
            }
            entries[into * kLmBucketEntries + taken_[into]] = arc;
            ++taken_[into];
        }
        return true;
    }

  private:
    std::vector<LmEntry> arcs_;
    std::vector<std::uint8_t> taken_;
};

// Puts every arc somewhere in its part. Returns the number of arcs in each part, or nothing if a part has too many.
std::vector<std::uint32_t> spread(const LmView& lm, const LmBuckets& table, LmEntry* entries, unsigned threads) {
    const std::uint32_t room = table.buckets_a_part * kLmBucketEntries;
    std::vector<std::vector<std::uint32_t>> places(threads, std::vector<std::uint32_t>(table.num_parts + 1U));
    const auto on_threads = [&](const auto& work) {
        parallel_ranges(std::uint64_t{threads} * kSmallestPiece, threads,
                        [&](std::uint64_t begin, std::uint64_t end) {
                            for (std::uint64_t i = begin / kSmallestPiece; i < end / kSmallestPiece; ++i) {
                                work(places[i], edge_of(lm, i, threads), edge_of(lm, i + 1U, threads));
                            }
                            return Status{};
                        });
    };
    on_threads([&](std::vector<std::uint32_t>& counts, std::uint32_t begin, std::uint32_t end) {
        each_arc(lm, begin, end, [&](std::uint32_t state, std::uint32_t, std::uint32_t label) {
            ++counts[lm_buckets_of(table, state, label).part];
        });
    });
    std::vector<std::uint32_t> totals(table.num_parts, 0U);
    for (std::uint32_t part = 0U; part < table.num_parts; ++part) {
        std::uint64_t before = 0U;
        for (std::vector<std::uint32_t>& counts : places) {
            const std::uint32_t own = counts[part];
            counts[part] = static_cast<std::uint32_t>(before);
            before += own;
            if (before > room) {
                return {};
            }
        }
        totals[part] = static_cast<std::uint32_t>(before);
    }
    on_threads([&](std::vector<std::uint32_t>& next, std::uint32_t begin, std::uint32_t end) {
        each_arc(lm, begin, end, [&](std::uint32_t state, std::uint32_t arc, std::uint32_t label) {
            const std::uint32_t part = lm_buckets_of(table, state, label).part;
            const std::uint32_t place = next[part]++;
            if (place < totals[part]) {  // a page may have been lost since the count
                entries[std::uint64_t{part} * room + place] = {state, label, lm.arcs[arc]};
            }
        });
    });
    return totals;
}

bool fill_entries(const LmView& lm, const LmBuckets& table, LmEntry* entries, unsigned threads) {
    const std::vector<std::uint32_t> totals = spread(lm, table, entries, threads);
    std::atomic<bool> placed{totals.size() == table.num_parts};
    std::atomic<std::uint32_t> next{0U};
    parallel_ranges(std::uint64_t{threads} * kSmallestPiece, threads, [&](std::uint64_t, std::uint64_t) {
        Part part;
        while (placed) {
            const std::uint32_t i = next++;
            if (i >= table.num_parts) {
                break;
            }
            const std::uint64_t room = std::uint64_t{table.buckets_a_part} * kLmBucketEntries;
            if (!part.fill(table, i, entries + i * room, totals[i])) {
                placed = false;
            }
        }
        return Status{};
    });
    return placed;
}

void fill_chains(const LmView& lm, std::uint32_t links, LmLink* chains, unsigned threads) {
    parallel_ranges(lm.num_states, threads, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t s = begin; s < end; ++s) {
            auto state = static_cast<std::uint32_t>(s);
            for (LmLink* link = chains + s * links; link < chains + (s + 1U) * links; ++link) {
                *link = {state, state == kLmEmptyHistory ? 0.0F : lm.backoff_weights[state]};
                state = state == kLmEmptyHistory ? state : next_in_chain(lm, state);
            }
        }
        return Status{};
    });
}

}  // namespace

BucketSizes bucket_sizes(const LmView& lm, double fullness, unsigned threads) {
    BucketSizes sizes{1U, 1U, 1U, 0U, 0U, 0U};
    for (const std::uint32_t longest = longest_chain(lm, threads); sizes.links < longest;) {
        sizes.links *= 2U;
    }
    const std::uint64_t arcs = lm.num_arcs - lm.num_labels;
    const auto of_a_part = fullness * kLmBucketEntries * kLmMostBuckets;
    sizes.num_parts = std::max(1U, static_cast<std::uint32_t>(std::ceil(static_cast<double>(arcs) / of_a_part)));
    const double each = static_cast<double>(arcs) / sizes.num_parts / fullness / kLmBucketEntries;
    sizes.buckets_a_part = std::min(kLmMostBuckets, std::max(1U, static_cast<std::uint32_t>(std::ceil(each))));
    sizes.words_at = whole_lines(std::uint64_t{lm.num_states} * sizes.links * sizeof(LmLink));
    sizes.entries_at = sizes.words_at + whole_lines(std::uint64_t{lm.num_labels} * sizeof(LmArc));
    sizes.bytes = sizes.entries_at + whole_lines(std::uint64_t{sizes.num_parts} * sizes.buckets_a_part *
                                                 kLmBucketEntries * sizeof(LmEntry));
    return sizes;
}

Status fill_buckets(const LmView& lm, const BucketSizes& sizes, unsigned char* memory, unsigned threads,
                    LmBuckets& filled) {
    auto* const chains = reinterpret_cast<LmLink*>(memory);
    auto* const words = reinterpret_cast<LmArc*>(memory + sizes.words_at);
    auto* const entries = reinterpret_cast<LmEntry*>(memory + sizes.entries_at);
    const std::uint64_t pieces = std::max<std::uint64_t>(1U, lm.num_arcs / kSmallestPiece);
    const auto some = static_cast<unsigned>(std::min<std::uint64_t>(std::max(1U, threads), pieces));
    filled = {chains, words, entries, sizes.links, sizes.num_parts, sizes.buckets_a_part, 0U};
    std::copy(lm.arcs, lm.arcs + lm.num_labels, words);
    fill_chains(lm, sizes.links, chains, threads);
    for (; filled.seed < kSeeds; ++filled.seed) {
        if (fill_entries(lm, filled, entries, some)) {
            return {};
        }
    }
    return format_error("%u arcs do not fit in %u parts of %u buckets", lm.num_arcs - lm.num_labels,
                        sizes.num_parts, sizes.buckets_a_part);
}

}  // namespace arcbeam
