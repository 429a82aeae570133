// A graph with the new words of an utterance in its open slot, as stages read it. The rule is the twin's,
// cpu_reference/graph/open_graph.hpp: ids of states and arcs go on from the graph's, so keys and ties are the
// twin's.
//
//     states, targets, finals, words    the graph's [0, n) . . . . . . . . the utterance's [n, ...)
//     labels                            the graph's whole chunks . . . . . the rest of them, then the utterance's
//
// A state of the graph that leads into the slot has a mark in its row. The search differs from that of its Variant,
// as boosted.cu has one, in the type of the graph alone.
#pragma once

#include "rescore/new_words.hpp"
#include "rescore/search.cuh"

namespace arcbeam {

// A column of the graph, followed by that of an utterance, whose address is where its number 0 would be.
template <class T>
struct OpenColumn {
    const T* graph;
    const T* own;
    std::uint32_t count;  // of the graph

    ARCBEAM_DEVICE const T* operator+(std::uint32_t i) const { return (i < count ? graph : own) + i; }
    ARCBEAM_DEVICE const T& operator[](std::uint32_t i) const { return *(*this + i); }
};

// Has the names of DeviceGraphView.
struct OpenGraphView {
    OpenColumn<StateRow> states;
    OpenColumn<ArcTarget> targets;
    OpenColumn<std::uint16_t> labels;
    OpenColumn<float> finals;
    std::uint32_t start;
    const Entrance* entrances;
    std::uint32_t num_arcs;   // of the graph
    std::uint32_t has_words;  // whether the utterance has any
};

ARCBEAM_DEVICE bool enters_slot(const OpenGraphView& graph, const StateEpsilon& epsilon) {
    return graph.has_words != 0U && (epsilon.entrance & ~kWritesWords) != 0U;
}

ARCBEAM_DEVICE StateRow load_row(const OpenGraphView& graph, std::uint32_t state) {
    const StateRow* const row = graph.states + state;
    StateRow found{simt::load_readonly(&row->arcs), simt::load_readonly(&row->epsilon)};
    if (enters_slot(graph, found.epsilon) && found.epsilon.depth == kNoIndex) {
        const std::uint32_t entrance = (found.epsilon.entrance & ~kWritesWords) - 1U;
        const ArcTarget target = simt::load_readonly(graph.targets + (graph.num_arcs + entrance));
        found.epsilon.next_state = target.next_state;
        found.epsilon.weight = target.weight;
        found.epsilon.depth = simt::load_readonly(&graph.entrances[entrance].depth);
    }
    return found;
}

// After the arcs of the state's own row come those that enter the slot.
template <class Work>
ARCBEAM_DEVICE bool more_epsilons(const OpenGraphView& graph, std::uint32_t key, const Work& work,
                                  std::uint32_t& arc, std::uint32_t& end) {
    if (graph.has_words == 0U || end > graph.num_arcs) {
        return false;
    }
    const std::uint32_t owner = work.key_owner()[key];
    const std::uint32_t state = simt::load(&work.candidate().at(owner)->place);
    const std::uint32_t entrance = simt::load_readonly(&(graph.states + state)->epsilon.entrance) & ~kWritesWords;
    if (entrance == 0U) {
        return false;
    }
    std::uint32_t last = entrance;
    while (simt::load_readonly(&graph.entrances[last].state) == state) {
        ++last;
    }
    arc = graph.num_arcs + entrance - 1U;
    end = graph.num_arcs + last;
    return true;
}

// What the stages get in place of SearchParams and of a Variant: names that are the same hide those of the base.
struct OpenSearchParams : SearchParams {
    OpenGraphView graph;
};

template <class Variant>
struct WithNewWords;

template <class Variant>
struct OpenVariant : Variant {
    static constexpr bool kIsOpened = true;
    OpenSearchParams search;
    OpenColumn<std::uint32_t> words;
    const WithNewWords<Variant>* of_kernel;
};

// The parameter of a kernel.
template <class Variant>
struct WithNewWords : Variant {
    static constexpr bool kHasNewWords = true;
    SlotView slot;
};

static_assert(sizeof(WithNewWords<Boosted<true>>) == sizeof(NewWordsParams), "the host passes NewWordsParams");

template <class Variant>
ARCBEAM_DEVICE OpenVariant<Variant> opened(const WithNewWords<Variant>& params, std::uint32_t utterance) {
    const SlotView& slot = params.slot;
    const NewWordsOnDevice own = slot.of_utterances[utterance];
    const DeviceGraphView& graph = params.search.graph;
    const std::uint32_t whole_labels = own.has_words != 0U ? slot.num_arcs / kChunk * kChunk : kNoIndex;
    OpenVariant<Variant> made{};
    static_cast<Variant&>(made) = params;
    static_cast<SearchParams&>(made.search) = params.search;
    made.search.graph = OpenGraphView{{graph.states, own.states, slot.num_states},
                                      {graph.targets, own.targets, slot.num_arcs},
                                      {graph.labels, own.labels, whole_labels},
                                      {graph.finals, own.finals, slot.num_states},
                                      graph.start,
                                      slot.entrances,
                                      slot.num_arcs,
                                      own.has_words};
    made.words = {params.words, own.words, slot.num_arcs};
    made.of_kernel = &params;
    made.epsilon_words = params.epsilon_words | own.has_words;
    return made;
}

// The search of a Variant that boosts, for utterances with new words and without.
template <class Variant>
struct NewWordsSearch : RescoringSearch<WithNewWords<Variant>> {
    using Params = WithNewWords<Variant>;
    using Lane = RescoringLane;
    using Opened = RescoringSearch<OpenVariant<Variant>>;
    using Counted = typename RescoringSearch<Params>::Counted;

    ARCBEAM_DEVICE static OpenColumn<std::uint16_t> columns(const Params& params, std::uint32_t utterance,
                                                            const StreamView& view) {
        return {view.columns, params.slot.of_utterances[utterance].columns, params.slot.num_arcs};
    }
    template <class Team>
    ARCBEAM_DEVICE static FrameEnd advance(const Params& params, Lane& lane, float cut, Room room) {
        return Opened::template advance<Team>(opened(params, lane.state.utterance), lane, cut, room);
    }
    ARCBEAM_DEVICE static bool find_end(const Params& params, Lane& lane, bool finals, bool& reached_final) {
        return Opened::find_end(opened(params, lane.state.utterance), lane, finals, reached_final);
    }
    ARCBEAM_DEVICE static std::uint64_t end_of(const Params& params, const Lane& lane, std::uint32_t index,
                                               bool is_token, bool final_only) {
        return Opened::end_of(opened(params, lane.state.utterance), lane, index, is_token, final_only);
    }
    ARCBEAM_DEVICE static TeamFrame team_frame(const Params& params, Counted& counted) {
        return make_team_frame<NewWordsSearch>(params, counted);
    }
};

}  // namespace arcbeam
