// The structs, beyond those of rescoring_search.hpp, through which the host and a search kernel with new words
// talk to each other.
#pragma once

#include "rescore/rescoring_search.hpp"

namespace arcbeam {

// A state that an arc enters the open slot from. The k-th entrance is that of the k-th arc of each request.
struct Entrance {
    std::uint32_t state;
    std::uint32_t depth;  // of the state, see StateRecord
};

// The states and arcs of a request's new words, whose ids go on from the graph's: each address is where number 0 of
// its column would be.
struct NewWordsOnDevice {
    const StateRow* states;
    const ArcTarget* targets;
    const std::uint16_t* labels;  // begin with those of the graph that do not fill a chunk
    const float* finals;
    const std::uint32_t* words;
    const std::uint16_t* columns;  // as the twin has them
    std::uint32_t has_words;       // 0: the utterance has none, and no address
};

struct SlotView {
    const NewWordsOnDevice* of_utterances;  // [num_utterances]
    const Entrance* entrances;              // ascending, and one after the last, of the state kNoIndex
    std::uint32_t num_states;               // of the graph
    std::uint32_t num_arcs;
    std::uint32_t first_word;  // the id of the first new word, under which models have the unknown one
};

struct NewWordsParams {
    RescoringParams rescoring;
    SlotView slot;
};

}  // namespace arcbeam
