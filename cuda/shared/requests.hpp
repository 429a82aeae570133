// How lanes request answers from the host while they search: plain structs that host and kernel share.
//
// A lane has a table of answers in the device's memory, and a request buffer in mapped memory of the host. It
// writes questions there and releases `posted`; the host acquires it and writes an answer for each. The answers
// reach the lane in one of two ways. Mapped: the host releases the same number as `answered`, and the lane reads
// the answers over the bus. Copied: the answers of several lanes travel in one batch of answers to the answer
// buffer that belongs to their half of the lanes. The lane releases the number as `taken` when it has read its own
// answers, or when it stops waiting for them.
#pragma once

#include <cstdint>

namespace arcbeam {

// What lanes request from the host.
enum class Requested : std::uint32_t {
    nothing = 0,  // nothing: the model's view is on the device
    arcs = 1,     // the index is on the device; the host has arcs and back-off weights
    model = 2,    // the host has the model, and numbers its states
    either = 3,   // of a kernel alone: the parameters have which of these
};

// With Requested::arcs, a question is for an arc (its cost and next state) or for a state's back-off weight; see
// single_arcs.cuh.
struct alignas(8) Question {
    std::uint32_t state;  // with Requested::arcs a state or the number of an arc
    std::uint32_t label;  // with Requested::arcs kOfState or kOfArc
};

constexpr std::uint32_t kOfState = 0U;  // the back-off weight of a state, which has no next state
constexpr std::uint32_t kOfArc = 1U;

struct alignas(8) Answer {
    float cost;
    std::uint32_t next_state;
};

struct RequestHead {
    std::uint64_t posted;  // number of the round << 32 | how many questions
    std::uint32_t used;    // entries of the table that are in use
    std::uint32_t open;    // the lane stopped before it took the answers
    std::uint64_t taken;   // for copied answers: the round that the lane has read, or no longer waits for
    std::uint32_t padding[10];
    std::uint64_t answered;  // in a cache line of its own
    std::uint64_t more_padding[7];
};

// The place of a lane's latest answers in the answer buffer of its half.
struct alignas(16) Arrival {
    std::uint32_t round;
    std::uint32_t answer_batch;  // that brought them; all of it has come once the answer buffer counts as many
    std::uint32_t first;         // in 8-byte words from the start of the answer buffer
    std::uint32_t padding;
};

struct RequestView {
    unsigned char* memory;  // request_table_bytes(size) of the device, all bits 1 when it is new
    unsigned char* mapped;  // request_buffer_bytes(size) of the host, the head all bits 0 when it is new
    unsigned char*
        answer_buffer;   // of the device, of the lane's half; null: answers are read where they are mapped
    std::uint32_t size;  // entries of the table
    std::uint32_t slot;  // the number of the lane's arrival in the answer buffer
};

// An answer buffer: the number of batches of answers that have come, as 32 bits in a line of its own; one arrival
// for each slot; answers. Head and arrivals are all bits 0 when the buffer is new. It has room for everything that
// all lanes of a half may request at once.
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
