// Stage lookup: what the words of the candidates add to their costs, and the histories after them.
//
// in   candidates; the bound of the search on the small graph; the histories of the tokens
//      that they leave, whose log indices begin at first_log
// out  the candidates within that bound, in their order; for each its addend (models.hpp; 0 where its arc has no
//      word), with its next history
// rule an arc without a word keeps its history
//
// LookupCache keeps answers by (history, word) from frame to frame: direct-mapped, the newest wins. No result
// depends on it.
#pragma once

#include <cstdint>

#include "decode/boosted_models.hpp"
#include "decode/models.hpp"
#include "decode/tokens.hpp"
#include "shared/cost.hpp"
#include "shared/graph_view.hpp"

namespace arcbeam::twin {

template <typename Models>
class LookupCache {
  public:
    using History = typename Models::History;
    using Addend = typename Models::Addend;

    void begin() { entries_.fill(kEntries, Entry{{}, kNoWord, {}}); }

    Addend operator()(Models& models, const History& history, std::uint32_t word, Work& work) {
        ++work.lookups;
        const std::uint32_t mixed =
            (history.large * 0x9e3779b1U ^ history.small * 0x85ebca6bU ^ word) * 0xc2b2ae35U;
        Entry& entry = entries_[mixed >> (32U - kEntryBits)];
        if (entry.word != word || !(entry.history == history)) {
            entry = {history, word, models.add(history, word)};
            ++work.lookup_misses;
        }
        return entry.addend;
    }

  private:
    static constexpr unsigned kEntryBits = 14;
    static constexpr std::size_t kEntries = std::size_t{1} << kEntryBits;

    struct Entry {
        History history;
        std::uint32_t word;  // kNoWord: empty
        Addend addend;
    };

    Buffer<Entry> entries_;
};

// Without a language model there is nothing worth keeping.
template <>
class LookupCache<NoModels> {
  public:
    void begin() {}
    NoModels::Addend operator()(NoModels&, const NoModels::History& history, std::uint32_t, Work&) {
        return NoModels::keep(history);
    }
};

// The scores of the language models are kept, whatever the boost.
template <typename Models>
class LookupCache<BoostedModels<Models>> {
  public:
    using Boosted = BoostedModels<Models>;

    void begin() { cache_.begin(); }
    typename Boosted::Addend operator()(Boosted& models, const typename Boosted::History& history,
                                        std::uint32_t word, Work& work) {
        return models.boosted(history, word, cache_(models.models(), history.lm, models.known_word(word), work));
    }

  private:
    LookupCache<Models> cache_;
};

template <typename Graph, typename Models>
void lookup(const Graph& graph, Models& models, float bound, const Buffer<typename Models::History>& histories,
            std::uint32_t first_log, LookupCache<Models>& cache, Buffer<Candidate>& candidates,
            Buffer<typename Models::Addend>& addends, Work& work) {
    constexpr std::size_t kAhead = 8;
    std::size_t kept = 0;
    for (const Candidate& candidate : candidates) {
        if (admits(bound, candidate.cost)) {
            candidates[kept++] = candidate;
        }
    }
    candidates.resize(kept);
    addends.resize(kept);
    for (std::size_t i = 0; i < kept; ++i) {
        if (i + kAhead < kept) {
            prefetch(graph.words + candidates[i + kAhead].arc);
        }
        const auto& history = histories[candidates[i].source - first_log];
        const std::uint32_t word = graph.words[candidates[i].arc];
        addends[i] = word == kNoWord ? Models::keep(history) : cache(models, history, word, work);
    }
}

}  // namespace arcbeam::twin
