// The functions that Cython calls. An ArpaError becomes a value with its line; other exceptions pass through.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "arcbeam/lm/_arpa/layout.hpp"
#include "arcbeam/lm/_arpa/reader.hpp"

namespace arcbeam::arpa {

struct Outcome {
    bool failed = false;
    std::uint64_t line = 0;
    std::string message;
    const char* text() const { return message.c_str(); }
};

template <typename Step>
Outcome guarded(Step step) {
    Outcome outcome;
    try {
        step();
    } catch (const ArpaError& error) {
        outcome.failed = true;
        outcome.line = error.line;
        outcome.message = error.what();
    }
    return outcome;
}

inline Outcome feed(Reader& reader, const char* data, std::size_t size) {
    return guarded([&] { reader.feed(std::string_view(data, size)); });
}

inline Outcome finish(Reader& reader) {
    return guarded([&] { reader.finish(); });
}

inline Outcome lay_out(const Reader& reader, LmColumns& columns) {
    return guarded([&] { columns = lay_out(reader); });
}

}  // namespace arcbeam::arpa
