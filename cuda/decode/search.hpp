// The structs through which the host and the search kernel talk to each other; both compile them.
#pragma once

#include <cstdint>

#include "decode/device_graph.hpp"
#include "shared/endpoint.hpp"

namespace arcbeam {

constexpr std::uint32_t kNoIndex = 0xffffffffU;  // no arc, no source, no place in a table, no epsilon arc
constexpr std::uint32_t kLineBytes = 128U;       // size of a cache line; arriving log-probs are counted in lines

// Log-probs of one utterance: rows of `columns` contiguous values, `row_stride` values apart. An utterance that is
// still on its way from the host lies in pieces of SearchParams::piece_frames rows, each of which begins at a cache
// line. Piece i begins at line pieces[first_piece + i] of the memory at log_probs.
struct UtteranceView {
    const void* log_probs;
    std::int64_t row_stride;
    std::uint32_t frames;
    std::uint32_t is_half;
    std::uint32_t first_piece;  // kNoIndex: there is one piece, and it has arrived
    std::uint32_t start;        // the state in which the plain search begins
};

// The number of lines of a piece of `rows` rows.
constexpr std::uint32_t piece_lines(std::uint32_t rows, std::uint32_t columns, std::uint32_t value_bytes) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(rows) * columns * value_bytes + kLineBytes - 1U) /
                                      kLineBytes);
}

enum class Outcome : std::uint32_t {
    pending = 0,  // not taken yet, or stopped half-way in a lane that needs more room
    decoded = 1,
    bad_log_prob = 2,
};

struct UtteranceResult {
    double total_cost;         // offset + cost, final weight included if reached_final
    std::uint32_t path_begin;  // arcs of the path in the path pool, last one first
    std::uint32_t path_length;
    std::uint32_t end_state;
    std::uint32_t reached_final;
    Outcome outcome;
    std::uint32_t bad_frame;  // where bad_log_prob was found
    std::uint32_t bad_column;
    float bad_value;
    std::uint64_t frames;  // counters of the work done, as in the twin
    std::uint64_t tokens;
    std::uint64_t leaving_arcs;
    std::uint64_t admitted;
    std::uint32_t settled;  // of a stream: the arcs at the begin of the path that all later paths follow
    std::uint32_t alive;    // whether the search survived all frames
    // Of a stream, also while it is decoded: the frames that its sentence has, the rule that has ended it or
    // kNoEndpoint, and how many frames come before the next check of rules; kNoIndex: none
    std::uint32_t taken;
    std::uint32_t fired;
    std::uint32_t next_check;
};

// A survivor of the last frame, with the arcs of its state, so that they need no look-up.
struct Token {
    float cost;
    std::uint32_t first_emitting;
    std::uint32_t arcs_end;
    float smallest_weight;
};

// One entry of the token log: how a survivor was reached.
struct LogEntry {
    std::uint32_t source;
    std::uint32_t arc;
};

// The number of words that hold one bit for each of `entries` log entries.
constexpr std::uint32_t mark_words(std::uint32_t entries) {
    return entries / 32U + (entries % 32U != 0U ? 1U : 0U);
}

// A survivor of a frame. Milestones let threads follow a path in parallel: see backtrack.cuh.
struct Milestone {
    std::uint32_t entry;   // in the token log
    std::uint32_t before;  // the milestone that it descends from; kNoIndex: none is known
};

constexpr std::uint32_t milestones_of(std::uint32_t log_capacity) { return log_capacity / 16U; }

// Bytes of a token log: its entries, and after them the marks of a collection, their counts, and the milestones.
constexpr std::uint64_t log_bytes(std::uint32_t capacity) {
    return sizeof(LogEntry) * static_cast<std::uint64_t>(capacity) +
           8U * static_cast<std::uint64_t>(mark_words(capacity)) +
           sizeof(Milestone) * static_cast<std::uint64_t>(milestones_of(capacity));
}

// What a lane lacks to go on. The current frame was not committed. It is redone with more room, or once its
// log-probs have come. A lane that needs a launch lacks nothing: it stopped because another lane lacks something,
// or in order to go on in a cluster.
enum class Need : std::uint32_t { nothing = 0, spill = 1, log = 2, paths = 3, log_probs = 4, launch = 5 };

// What a lane lacks: room for the state of a stream.
constexpr Need kNeedsStreamRoom = Need{20U};

// How far a lane is with the state of its stream. dead_before: the search had died in an earlier chunk.
enum class StreamStep : std::uint32_t { none = 0, to_load = 1, loaded = 2, dead_before = 3 };

// What a stream keeps between two chunks, in this order: these words, the log, the tokens as in SpillView::tokens.
struct StreamCounts {
    std::uint32_t num_tokens;
    std::uint32_t log_size;  // the first entry has neither a source nor an arc
    // How many arcs after the first entry have been settled. Where lattices are requested, the log has all
    // entries, and this is the one that was settled last
    std::uint32_t known;
    std::uint32_t alive;
};

struct StreamState {
    StreamCounts counts;
    double offset;
    std::uint64_t dead_frames;      // of the sentence, since the search died
    std::uint64_t settled_silence;  // frames at the end of what has left the log; counted where there are rules
};

// The stream that an utterance is a chunk of.
struct StreamView {
    unsigned char* before;        // its state; null: the chunk is the first
    unsigned char* after;         // where the next state is left
    std::uint32_t before_tokens;  // the room there, in tokens and in entries of the log
    std::uint32_t before_entries;
    std::uint32_t after_tokens;
    std::uint32_t after_entries;
    std::uint32_t is_last;
    std::uint32_t shows_lattice;   // not 0: the chunk gives the lattice so far, though the sentence goes on
    std::uint32_t fired;           // not kNoEndpoint: the sentence has ended before the chunk
    std::uint32_t next_check;      // as in UtteranceResult
    std::uint32_t large_start;     // the large language model's state before the sentence, where there is one
    std::uint64_t frames;          // of the sentence, before the chunk
    const std::uint16_t* columns;  // [num_arcs] of the graph, where there are rules
    EndpointRules rules;
};

// Room for frames that do not fit shared memory, in global memory.
struct SpillView {
    unsigned char* memory;   // workspace_bytes(capacity, candidates, table_size)
    unsigned char* tokens;   // tokens_bytes(capacity); the tokens of a stopped lane wait here, too
    std::uint32_t capacity;  // states of a frame
    std::uint32_t candidates;
    std::uint32_t table_size;
};

// A lane: the slot of the engine in which one block or cluster works, from launch to launch.
struct LaneState {
    SpillView spill;
    LogEntry* log;  // log_bytes(log_capacity)
    std::uint32_t log_capacity;
    std::uint32_t log_size;
    std::uint32_t settled;    // number of first entries from each of which all tokens descend; see collect.cuh
    std::uint32_t utterance;  // kNoIndex: none
    double offset;
    std::uint32_t frame;    // number of frames committed
    std::uint32_t started;  // whether the closure from the start state is done
    std::uint32_t alive;    // 0 once a frame admitted nothing
    std::uint32_t num_tokens;
    Need need;
    std::uint64_t tokens_seen;
    std::uint64_t leaving_arcs;
    std::uint64_t admitted;
    StreamStep stream;
    std::uint32_t known;  // of its StreamCounts
};

struct LatticeParams;  // decode/lattice_room.hpp

struct SearchParams {
    DeviceGraphView graph;
    const UtteranceView* utterances;  // [num_utterances]
    const std::uint32_t* order;       // [num_utterances]: longest first
    UtteranceResult* results;         // [num_utterances]
    LaneState* lanes;                 // [grid / cluster]
    std::uint32_t* next_in_order;     // the queue
    std::uint32_t* resting_lanes;     // how many lanes have nothing left to do in this launch
    std::uint32_t* stop;              // not 0: lanes stop soon, for another launch
    std::uint32_t* path_pool;
    std::uint32_t* path_pool_used;
    const std::uint32_t* pieces;  // of utterances that are still arriving: the lines at which their pieces begin
    // Number of lines that have arrived, updated while the kernel runs; kNoIndex: give up
    const std::uint32_t* arrived;
    std::uint32_t piece_frames;
    std::uint32_t wait_cycles;  // a lane stops when `arrived` has not changed for so long
    std::uint32_t path_pool_capacity;
    std::uint32_t num_utterances;
    std::uint32_t columns;
    std::int32_t blank_column;  // -1: none
    float beam;
    float acoustic_scale;
    float blank_penalty;
    std::uint32_t max_active;       // 0: no limit
    std::uint32_t shared_capacity;  // states of a frame in shared memory
    std::uint32_t shared_candidates;
    std::uint32_t shared_table_size;
    std::uint32_t team_tokens;  // the fewest tokens at the start of a frame for which a cluster works together
    // An utterance is hot if its frames have so many tokens on average; it should have a cluster
    std::uint32_t hot_tokens;
    std::uint32_t small_frame;  // the most tokens at the start of a frame that one warp decodes, up to 32; 0: none
    std::uint32_t hot_lanes;    // once at most so many lanes are at work; 0: never
    std::uint32_t hot_frames;   // and only if so many frames are left
    const LatticeParams* lattice;  // null: no lattices
    const StreamView* streams;     // [num_utterances]; null: utterances are whole
};

// Bytes of the arrays of one workspace. They are carved in this order, each padded to 16 bytes.
constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 15U) / 16U * 16U; }

constexpr std::uint64_t tokens_bytes(std::uint64_t capacity) { return 16U * capacity + 3U * padded(4U * capacity); }

// Bytes of a stream's state, where so many tokens take `of_tokens` bytes.
constexpr std::uint64_t stream_bytes(std::uint64_t of_tokens, std::uint64_t entries) {
    return padded(sizeof(StreamState)) + padded(sizeof(LogEntry) * entries) + of_tokens;
}

constexpr std::uint64_t table_bytes(std::uint64_t table_size) {
    return padded(8U * table_size) + 2U * padded(4U * table_size);
}

constexpr std::uint64_t workspace_bytes(std::uint64_t capacity, std::uint64_t candidates,
                                        std::uint64_t table_size) {
    return table_bytes(table_size) + 16U * candidates + 48U * capacity;
}

constexpr std::uint32_t kHistogramBins = 256U;  // of the cut-off; other stages use their memory, too
constexpr std::uint64_t kControlBytes = 240U;   // for the values that the threads of a block share

constexpr std::uint64_t kWarpRoomBytes = 1408U;  // for the arrays that a warp works in

constexpr std::uint32_t kSharedRounds = 512U;  // rounds of a frame's expansion that the warps of a block can share

// Dynamic shared memory of the search kernel.
constexpr std::uint64_t shared_bytes(std::uint64_t threads, std::uint64_t columns, std::uint64_t capacity,
                                     std::uint64_t candidates, std::uint64_t table_size) {
    return kControlBytes + 4U * kHistogramBins + 8U * kSharedRounds + (threads + 31U) / 32U * kWarpRoomBytes +
           padded(4U * columns) + tokens_bytes(capacity) + workspace_bytes(capacity, candidates, table_size);
}

}  // namespace arcbeam
