#include "arcbeam/ctc/gpu/_streams/state.hpp"

#include <vector>

#include "decode/boosted_models.hpp"
#include "decode/stream.hpp"
#include "rescore/rescoring_search.hpp"

namespace arcbeam {

namespace {

using Models = twin::BoostedModels<twin::NoModels>;
using State = twin::HistoryState<Models>;

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
    History* histories;  // `large` is the state of the boost
};

}  // namespace

twin::SavedSearch saved_search(const HostState& from) {
    const Places places(from);
    const StreamCounts counts = places.words->counts;
    State state(Models(twin::NoModels::View{}));
    state.tokens.resize(counts.num_tokens);
    state.histories.resize(counts.num_tokens);
    for (std::uint32_t i = 0; i < counts.num_tokens; ++i) {
        state.tokens[i] = {places.states[i], places.tokens[i].cost};
        state.histories[i] = {{}, places.histories[i].large};
    }
    twin::Buffer<twin::LogEntry> entries;
    entries.resize(counts.log_size);
    for (std::uint32_t i = 0; i < counts.log_size; ++i) {
        entries[i] = {places.log[i].source, places.log[i].arc};
    }
    state.log.begin(twin::TokenLog::kNever);
    state.log.resume(entries);
    std::vector<std::uint32_t> known;  // a device keeps some entries that are settled
    state.log.take_settled(counts.num_tokens, known);
    twin::SavedSearch saved;
    state.save(saved);
    saved.offset = places.words->offset;
    saved.dead_frames = places.words->dead_frames;
    saved.alive = counts.alive != 0U;
    return saved;
}

void resume_search(const twin::SavedSearch& saved, const GraphView& graph, const BoostView& boost,
                   const EndpointRules& rules, const HostState& into) {
    State state(Models(twin::NoModels::View{}));
    state.models.boost_with(boost);
    state.resume(graph, twin::Heard{}, saved, twin::TokenLog::kNever);
    twin::EndpointWatch watch(rules);
    watch.settle(graph, saved.settled.data(), saved.settled.size());
    const Places places(into);
    const auto num_tokens = static_cast<std::uint32_t>(state.tokens.size());
    *places.words = {{num_tokens, state.log.size(), 0U, saved.alive ? 1U : 0U},
                     saved.offset,
                     saved.dead_frames,
                     watch.settled_silence()};
    for (std::uint32_t i = 0; i < state.log.size(); ++i) {
        places.log[i] = {state.log[i].source, state.log[i].arc};
    }
    for (std::uint32_t i = 0; i < num_tokens; ++i) {
        const std::uint32_t of = state.tokens[i].state;
        const StateRecord& record = graph.states[of];
        places.tokens[i] = {state.tokens[i].cost, record.first_emitting, graph.arcs_end(of),
                            record.smallest_weight};
        places.states[i] = of;
        places.histories[i] = {state.histories[i].boost, 0U};
    }
}

}  // namespace arcbeam
