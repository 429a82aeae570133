// What lanes ask the host while they search, and how: plain structs that host and kernel share.
//
// A lane has a table of answers in the device's memory, and a request buffer in mapped memory of the host. It
// writes questions there and releases `posted`; the host acquires it and writes an answer for each. These come to
// the lane in one of two ways. Mapped: the host releases the same word as `answered`, and the lane reads them over
// the bus. Copied: the answers of several lanes travel to the answer buffer of their half of the lanes, in one
// batch of answers; the lane releases the word as `taken` when it has read its own, or does not wait for them any
// more.
#pragma once

#include <cstdint>

namespace arcbeam {

// Whom lanes ask what the large model says.
enum class Asks : std::uint32_t {
    nobody = 0,  // its view is there
    arcs = 1,    // the index is there; the host has arcs and back-off weights
    model = 2,   // the host has the model, and numbers its states
};

// Of Asks::arcs: what an arc costs and where it leads, or what backing off from a state costs, see single_arcs.cuh.
struct alignas(8) Question {
    std::uint32_t state;  // of Asks::arcs: or the number of the arc
    std::uint32_t label;  // of Asks::arcs: kOfState, kOfArc
};

constexpr std::uint32_t kOfState = 0U;  // what backing off from a state costs: it has no next state
constexpr std::uint32_t kOfArc = 1U;

struct alignas(8) Answer {
    float cost;
    std::uint32_t next_state;
};

struct RequestHead {
    std::uint64_t posted;  // number of the round << 32 | how many questions
    std::uint32_t used;    // entries of the table that are taken
    std::uint32_t open;    // the lane stopped before it has taken the answers
    std::uint64_t taken;   // of answers that are copied: what the lane has read, or waits for no longer
    std::uint32_t padding[10];
    std::uint64_t answered;  // in a cache line of its own
    std::uint64_t more_padding[7];
};

// Where a lane's answers are in the answer buffer of its half, the last that came.
struct alignas(16) Arrival {
    std::uint32_t round;
    std::uint32_t answer_batch;  // which brought them: all of it has come once the answer buffer counts as many
    std::uint32_t first;         // 8-byte words behind the start of the answer buffer
    std::uint32_t padding;
};

struct RequestView {
    unsigned char* memory;  // request_table_bytes(size) of the device, all bits 1 when it is new
    unsigned char* mapped;  // request_buffer_bytes(size) of the host, the head all bits 0 when it is new
    unsigned char*
        answer_buffer;   // of the device, of the lane's half; null: answers are read where they are mapped
    std::uint32_t size;  // entries of the table
    std::uint32_t slot;  // the lane's arrival in the answer buffer
};

// An answer buffer: the number of batches of answers that have come, as 32 bits in a line of its own; an arrival a
// slot; answers. Head and arrivals are all bits 0 when it is new. There is room for all that all lanes of a half
// may ask at once.
constexpr std::uint32_t kHalves = 2U;  // of the lanes: the even ones, and the odd ones
constexpr std::uint32_t kAnswerBufferHeadBytes = 128U;
constexpr std::uint64_t answer_buffer_start_bytes(std::uint64_t slots) {
    return kAnswerBufferHeadBytes + 16U * slots;
}
constexpr std::uint64_t answer_buffer_bytes(std::uint64_t slots, std::uint64_t size) {
    return answer_buffer_start_bytes(slots) + 8U * slots * size;
}

constexpr std::uint32_t kRequestHeadBytes = 128U;
static_assert(sizeof(RequestHead) == kRequestHeadBytes, "the head takes two cache lines of the host");

constexpr std::uint64_t request_table_bytes(std::uint64_t size) { return 24U * size; }
constexpr std::uint64_t request_buffer_bytes(std::uint64_t size) { return kRequestHeadBytes + 16U * size; }

}  // namespace arcbeam
