// Stage lookup: what the words of the candidates add to their costs, and the histories after them.
//
// in   candidates; the bound of the search on the small graph; the histories of the tokens
//      that they leave, whose log indices begin at first_log
// out  the candidates within that bound, in their order; for each its deviation (0 where its arc has no word) and
//      its next history
// rule an arc without a word keeps its history
//
// LookupCache keeps answers by (history, word) from frame to frame: direct-mapped, the newest wins. No result
// depends on it.
#pragma once

#include <cstdint>

#include "decode/tokens.hpp"
#include "shared/cost.hpp"
#include "shared/graph_view.hpp"
#include "shared/rescoring.hpp"

namespace arcbeam::twin {

class LookupCache {
  public:
    void begin() { entries_.fill(kEntries, Entry{{0, 0}, kNoWord, {0.0F, {0, 0}}}); }

    template <typename Models>
    Deviation operator()(Models& models, const History& history, std::uint32_t word, Work& work) {
        ++work.lookups;
        const std::uint32_t mixed =
            (history.large * 0x9e3779b1U ^ history.small * 0x85ebca6bU ^ word) * 0xc2b2ae35U;
        Entry& entry = entries_[mixed >> (32U - kEntryBits)];
        if (entry.word != word || !(entry.history == history)) {
            entry = {history, word, models.deviate(history, word)};
            ++work.lookup_misses;
        }
        return entry.deviation;
    }

  private:
    static constexpr unsigned kEntryBits = 14;
    static constexpr std::size_t kEntries = std::size_t{1} << kEntryBits;

    struct Entry {
        History history;
        std::uint32_t word;  // kNoWord: empty
        Deviation deviation;
    };

    Buffer<Entry> entries_;
};

template <typename Models>
void lookup(const GraphView& graph, Models& models, float bound, const Buffer<History>& histories,
            std::uint32_t first_log, LookupCache& cache, Buffer<Candidate>& candidates,
            Buffer<Deviation>& deviations, Work& work) {
    constexpr std::size_t kAhead = 8;
    std::size_t kept = 0;
    for (const Candidate& candidate : candidates) {
        if (admits(bound, candidate.cost)) {
            candidates[kept++] = candidate;
        }
    }
    candidates.resize(kept);
    deviations.resize(kept);
    for (std::size_t i = 0; i < kept; ++i) {
        if (i + kAhead < kept) {
            prefetch(graph.words + candidates[i + kAhead].arc);
        }
        const History& history = histories[candidates[i].source - first_log];
        const std::uint32_t word = graph.words[candidates[i].arc];
        deviations[i] = word == kNoWord ? Deviation{0.0F, history} : cache(models, history, word, work);
    }
}

}  // namespace arcbeam::twin
