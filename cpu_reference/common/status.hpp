// The one way C++ of the graph layer reports a failure: a code that names the Python exception, and its message.
//
// Functions return a Status. They throw nothing but std::bad_alloc and std::system_error (if no thread can be
// started), which Cython maps. graph_error or format_error builds every message, which names the offender and
// states what was expected and what was got.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace arcbeam {

enum class Code : int { kOk = 0, kGraph = 1, kFormat = 2 };

struct Status {
    Code code = Code::kOk;
    std::string message;

    bool ok() const { return code == Code::kOk; }
};

inline Status make_status(Code code, const char* format, std::va_list arguments) {
    char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    return {code, text};
}

// The graph breaks a rule of decoding.
[[gnu::format(printf, 1, 2)]] inline Status graph_error(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    Status status = make_status(Code::kGraph, format, arguments);
    va_end(arguments);
    return status;
}

// The bytes do not follow their format.
[[gnu::format(printf, 1, 2)]] inline Status format_error(const char* format, ...) {
    std::va_list arguments;
    va_start(arguments, format);
    Status status = make_status(Code::kFormat, format, arguments);
    va_end(arguments);
    return status;
}

}  // namespace arcbeam
