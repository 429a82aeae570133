#include "arcbeam/lm/_arpa/histories.hpp"

namespace arcbeam::arpa {

Histories::Histories(const Reader& reader) : reader_(reader), trie_(reader.trie()), levels_(trie_.order() + 1) {
    find_states();
    for (std::uint32_t order = 1; order <= trie_.order(); ++order) follow_suffixes(order);
}

void Histories::find_states() {
    for (std::uint32_t order = 1; order < trie_.order(); ++order) {
        const std::uint32_t size = trie_.level(order).size();
        levels_[order].is_state.assign(size, false);
        for (std::uint32_t i = 0; i < size; ++i) {
            const auto [first, last] = trie_.children(order, i);
            levels_[order].is_state[i] = first != last || (order == 1 && i == reader_.sentence_start());
        }
    }
    // A model that has only unigrams has no history but the empty one.
    levels_[trie_.order()].is_state.assign(trie_.level(trie_.order()).size(), false);
}

// Finds the suffixes and, for added n-grams, the probabilities of one level; the levels below are done.
void Histories::follow_suffixes(std::uint32_t order) {
    const Level& level = trie_.level(order);
    LevelNotes& notes = levels_[order];
    notes.probabilities = level.probabilities;
    notes.suffix_order.assign(level.size(), 0);
    notes.suffix.assign(level.size(), 0);
    if (order == 1) return;
    for (std::uint32_t context = 0; context + 1 < level.begin.size(); ++context) {
        for (std::uint32_t i = level.begin[context]; i < level.begin[context + 1]; ++i) {
            const Landing to = shorter({order - 1, context}, level.words[i], true);
            notes.suffix_order[i] = static_cast<std::uint8_t>(to.place.order);
            notes.suffix[i] = to.place.position;
            if (std::isnan(level.probabilities[i]))
                notes.probabilities[i] = static_cast<float>(to.backoff + probability(to.place));
        }
    }
}

}  // namespace arcbeam::arpa
