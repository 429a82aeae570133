// What lanes ask the host while they search, and how: plain structs that host and kernel share.
//
// A lane has a table of answers in the device's memory, and a mail box in mapped memory of the host. It writes
// questions there and releases `posted`; the host acquires it, writes an answer for each, and releases the same
// word as `answered`.
#pragma once

#include <cstdint>

namespace arcbeam {

// Whom lanes ask what the large model says.
enum class Asks : std::uint32_t {
    nobody = 0,  // its view is there
    arcs = 1,    // the index is there; the host has arcs and back-off weights
    model = 2,   // the host has the model, and numbers its states
};

struct alignas(16) Question {
    std::uint32_t state;
    std::uint32_t label;
    std::uint32_t arc;   // of Asks::arcs: which the word takes; kNoLmArc: the word is unknown
    std::uint32_t from;  // the state that it leaves
};

struct alignas(8) Answer {
    float cost;
    std::uint32_t next_state;
};

struct MailHead {
    std::uint64_t posted;  // number of the round << 32 | how many questions
    std::uint32_t used;    // entries of the table that are taken
    std::uint32_t open;    // the lane stopped before it has taken the answers
    std::uint32_t padding[12];
    std::uint64_t answered;  // in a cache line of its own
    std::uint64_t more_padding[7];
};

struct MailView {
    unsigned char* memory;  // mail_bytes(size) of the device, all bits 1 when it is new
    unsigned char* mapped;  // mapped_mail_bytes(size) of the host, the head all bits 0 when it is new
    std::uint32_t size;     // entries of the table
};

constexpr std::uint32_t kMailHeadBytes = 128U;
static_assert(sizeof(MailHead) == kMailHeadBytes, "the head takes two cache lines of the host");

constexpr std::uint64_t mail_bytes(std::uint64_t size) { return 20U * size; }
constexpr std::uint64_t mapped_mail_bytes(std::uint64_t size) { return kMailHeadBytes + 24U * size; }

}  // namespace arcbeam
