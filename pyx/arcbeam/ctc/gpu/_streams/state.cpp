#include "arcbeam/ctc/gpu/_streams/state.hpp"

#include <vector>

#include "decode/boosted_models.hpp"
#include "decode/lattice_room.hpp"
#include "decode/streams/stream.hpp"

namespace arcbeam {

namespace {

// Where everything lies in a state; see stream_memory() in decode/stream.cuh, and carve_tokens().
struct Places {
    explicit Places(const HostState& state)
        : words(reinterpret_cast<StreamState*>(state.memory)),
          log(reinterpret_cast<LogEntry*>(state.memory + padded(sizeof(StreamState)))) {
        unsigned char* const of_tokens =
            reinterpret_cast<unsigned char*>(log) + padded(sizeof(LogEntry) * std::uint64_t{state.entries});
        tokens = reinterpret_cast<Token*>(of_tokens);
        states = reinterpret_cast<std::uint32_t*>(of_tokens + padded(sizeof(Token) * std::uint64_t{state.tokens}));
        histories = reinterpret_cast<History*>(of_tokens + tokens_bytes(state.tokens));
    }

    StreamState* words;
    LogEntry* log;
    Token* tokens;
    std::uint32_t* states;
    History* histories;  // see rescore/history.cuh
};

// The same of its links; see link_memory() in decode/stream_lattice.cuh.
struct LinkPlaces {
    explicit LinkPlaces(const HostLinks& of)
        : words(reinterpret_cast<LinkCounts*>(of.memory)),
          links(reinterpret_cast<lattice::Link*>(of.memory + padded(sizeof(LinkCounts)))),
          steps(reinterpret_cast<LatticeStep*>(links + of.links)),
          costs(reinterpret_cast<float*>(steps + of.steps)) {}

    LinkCounts* words;
    lattice::Link* links;
    LatticeStep* steps;
    float* costs;
};

// What is kept besides a log of so many entries.
twin::KeptLinks kept_links(const HostLinks& from, std::uint32_t entries) {
    const LinkPlaces places(from);
    twin::KeptLinks kept;
    kept.losers.assign(places.links, places.links + places.words->num_links);
    kept.costs.assign(places.costs, places.costs + entries);
    kept.first_entry.push_back(0U);
    for (const LatticeStep* step = places.steps; kept.first_entry.back() != entries; ++step) {
        kept.first_entry.push_back(step->entries_end);
        kept.offsets.push_back(step->offset);
    }
    return kept;
}

// `kept.losers` come step by step, by their targets.
void write_links(const twin::KeptLinks& kept, const HostLinks& into) {
    const LinkPlaces places(into);
    const auto links = static_cast<std::uint32_t>(kept.losers.size());
    *places.words = {links, static_cast<std::uint32_t>(kept.costs.size()) + links};
    std::copy(kept.losers.begin(), kept.losers.end(), places.links);
    std::copy(kept.costs.begin(), kept.costs.end(), places.costs);
    std::uint32_t link = 0;
    for (std::size_t step = 0; step < kept.offsets.size(); ++step) {
        const std::uint32_t end = kept.first_entry[step + 1];
        while (link < links && kept.losers[link].target < end) {
            ++link;
        }
        places.steps[step] = {kept.offsets[step], end, link};
    }
}

using Boosted = twin::BoostedModels<twin::NoModels>;
using BoostedAutomaton = twin::BoostedModels<twin::AutomatonModels>;
using BoostedKenLm = twin::BoostedModels<twin::KenLmModels>;

std::uint64_t bits_of(const History& history) {
    return static_cast<std::uint64_t>(history.large) << 32U | history.small;
}

// A history as a state keeps it, of models and a boost.
History kept_history(const StreamModels& models, const History& lm, std::uint32_t boost) {
    return has_phrases(models.boost) ? shared_history(models.bits, lm, boost) : lm;
}

// The number of the large model's state in a history, and the reverse.
std::uint32_t large_of(const StreamModels& models, const History& history) {
    return has_phrases(models.boost)
               ? static_cast<std::uint32_t>(bits_of(history) >> (models.bits.small + models.bits.boost))
               : history.large;
}

History with_large(const StreamModels& models, const History& history, std::uint32_t large) {
    if (!has_phrases(models.boost)) {
        return {large, history.small};
    }
    const std::uint32_t others = models.bits.small + models.bits.boost;
    const std::uint64_t kept = bits_of(history) & ((std::uint64_t{1} << others) - 1U);
    const std::uint64_t bits = std::uint64_t{large} << others | kept;
    return {static_cast<std::uint32_t>(bits >> 32U), static_cast<std::uint32_t>(bits)};
}

// Follows the words of all paths with the twin's models, and writes the log, the tokens with their histories, which
// on_device(models, history) gives, and links where there are some.
template <typename Twin, typename OnDevice>
void write_paths(const Twin& twin, const twin::SavedSearch& saved, const OpenGraph& graph,
                 const StreamModels& models, const twin::LmContext& lm_context, const Places& into,
                 const HostLinks& links, OnDevice on_device) {
    twin::HistoryState<Twin> state(twin);
    state.models.boost_with(models.boost, graph.first_word);
    // Whatever the beam: a device prunes with its own.
    state.resume(graph, lm_context, saved, kInfiniteCost, twin::TokenLog::kNever, twin::TokenLog::kNever);
    for (std::uint32_t i = 0; i < state.log.size(); ++i) {
        into.log[i] = {state.log[i].source, state.log[i].arc};
    }
    if (saved.keeps_links) {
        into.words->counts.known = state.settled();
        write_links(state.links->kept(state.log), links);
    }
    for (std::uint32_t i = 0; i < state.tokens.size(); ++i) {
        const std::uint32_t of = state.tokens[i].state;
        const StateRecord& record = graph.states[of];
        into.tokens[i] = {state.tokens[i].cost, record.first_emitting, graph.arcs_end(of), record.smallest_weight};
        into.states[i] = of;
        into.histories[i] = on_device(state.models, state.histories[i]);
    }
}

void add_state(const void* state, std::size_t size, KenLmHistories& histories) {
    const auto* const bytes = static_cast<const unsigned char*>(state);
    histories.insert(histories.end(), bytes, bytes + size);
}

}  // namespace

std::uint32_t large_start(const RescoringView& lms, const twin::LmContext& lm_context) {
    return twin::AutomatonModels(lms).start(lm_context).large;
}

KenLmHistories large_start(const twin::KenLmView& kenlm, const twin::LmContext& lm_context) {
    twin::KenLmModels models(kenlm);
    models.begin(twin::TokenLog::kNever);
    KenLmHistories found;
    add_state(models.state(models.start(lm_context)), kenlm.lm->state_size(), found);
    return found;
}

KenLmHistories histories_of(const HostState& from, const StreamModels& models,
                            const requests::KenLmAnswerer& numbers) {
    const Places places(from);
    const std::size_t size = numbers.state_size();
    KenLmHistories found(size * places.words->counts.num_tokens);
    for (std::uint32_t i = 0; i < places.words->counts.num_tokens; ++i) {
        numbers.read(large_of(models, places.histories[i]), found.data() + i * size);
    }
    return found;
}

bool number_histories(const KenLmHistories& histories, const StreamModels& models, requests::KenLmAnswerer& numbers,
                      const HostState& into) {
    const Places places(into);
    for (std::uint32_t i = 0; i < places.words->counts.num_tokens; ++i) {
        const std::uint32_t number = numbers.number(histories.data() + i * numbers.state_size());
        if (number == requests::Histories::kNone) {
            return false;
        }
        places.histories[i] = with_large(models, places.histories[i], number);
    }
    return true;
}

twin::SavedSearch saved_search(const HostState& from, const HostLinks& links, float lattice_beam,
                               const OpenGraph& graph, const StreamModels& models,
                               const KenLmHistories& histories) {
    const Places places(from);
    const StreamCounts counts = places.words->counts;
    twin::SearchState state;
    state.tokens.resize(counts.num_tokens);
    for (std::uint32_t i = 0; i < counts.num_tokens; ++i) {
        state.tokens[i] = {places.states[i], places.tokens[i].cost};
    }
    twin::Buffer<twin::LogEntry> entries;
    entries.resize(counts.log_size);
    for (std::uint32_t i = 0; i < counts.log_size; ++i) {
        entries[i] = {places.log[i].source, places.log[i].arc};
    }
    const bool keeps_links = links.memory != nullptr;
    state.begin(keeps_links ? lattice_beam : twin::kNoLattice, twin::TokenLog::kNever, twin::TokenLog::kNever);
    state.offset = places.words->offset;
    state.log.resume(entries);
    if (keeps_links) {
        state.links->resume(graph, state.log, kept_links(links, counts.log_size));
    } else {  // a device keeps some entries that are settled
        std::vector<std::uint32_t> known;
        state.log.take_settled(counts.num_tokens, known);
    }
    // Other histories are in the order of their bits.
    KenLmStates states;
    std::vector<std::uint32_t> numbers;
    if (models.kenlm != nullptr) {
        states.begin(*models.kenlm->lm, models.kenlm->ranks);
        for (std::uint32_t i = 0; i < counts.num_tokens; ++i) {
            numbers.push_back(states.number(histories.data() + i * models.kenlm->lm->state_size()));
        }
    }
    const auto precedes = [&](std::uint32_t a, std::uint32_t b) {
        if (models.kenlm != nullptr && numbers[a] != numbers[b]) {
            return states.precedes(numbers[a], numbers[b]);
        }
        return bits_of(places.histories[a]) < bits_of(places.histories[b]);
    };
    twin::SavedSearch saved;
    state.save(twin::Extent::kAll, precedes, saved);
    saved.dead_frames = places.words->dead_frames;
    saved.alive = counts.alive != 0U;
    return saved;
}

void resume_search(const twin::SavedSearch& saved, const OpenGraph& graph, const StreamModels& models,
                   const twin::LmContext& lm_context, const EndpointRules& rules, const HostState& into,
                   const HostLinks& links, KenLmHistories& histories) {
    twin::EndpointWatch watch(rules);
    watch.settle(graph, saved.settled.data(), saved.settled.size());
    const Places places(into);
    *places.words = {{static_cast<std::uint32_t>(saved.tokens.size()), static_cast<std::uint32_t>(saved.log.size()),
                      0U, saved.alive ? 1U : 0U},
                     saved.offset,
                     saved.dead_frames,
                     watch.settled_silence()};
    if (models.kenlm != nullptr) {
        histories.clear();
        const auto apart = [&](BoostedKenLm& twin, const BoostedKenLm::History& history) {
            add_state(twin.models().state(history.lm), models.kenlm->lm->state_size(), histories);
            return kept_history(models, History{0U, history.lm.small}, history.boost);
        };
        write_paths(BoostedKenLm(*models.kenlm), saved, graph, models, lm_context, places, links, apart);
    } else if (models.lms != nullptr) {
        const auto as_kept = [&](const BoostedAutomaton&, const BoostedAutomaton::History& history) {
            return kept_history(models, history.lm, history.boost);
        };
        write_paths(BoostedAutomaton(*models.lms), saved, graph, models, lm_context, places, links, as_kept);
    } else {
        const auto as_kept = [](const Boosted&, const Boosted::History& history) {
            return History{history.boost, 0U};
        };
        write_paths(Boosted(twin::NoModels::View{}), saved, graph, models, lm_context, places, links, as_kept);
    }
}

}  // namespace arcbeam
