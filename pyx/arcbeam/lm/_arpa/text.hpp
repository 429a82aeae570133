// One line of an ARPA file: its fields and its numbers. The locale has no effect.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace arcbeam::arpa {

// Only spaces and tabs separate fields: other white space (such as U+0085 or U+00A0) may be part of a word.
inline void split(std::string_view line, std::vector<std::string_view>& fields) {
    fields.clear();
    std::size_t at = 0;
    while (at < line.size()) {
        while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
        std::size_t end = at;
        while (end < line.size() && line[end] != ' ' && line[end] != '\t') ++end;
        if (end > at) fields.push_back(line.substr(at, end - at));
        at = end;
    }
}

// True and the value, if the whole text is a count. Counts above 2^53 are refused: no file has so many.
inline bool parse_count(std::string_view text, std::uint64_t& value) {
    if (text.empty() || text.size() > 15) return false;
    value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        value = value * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return true;
}

inline double power_of_ten(int exponent) {
    double power = 1.0;
    double base = 10.0;
    for (unsigned rest = static_cast<unsigned>(exponent < 0 ? -exponent : exponent); rest != 0; rest >>= 1U) {
        if ((rest & 1U) != 0U) power *= base;
        base *= base;
    }
    return power;
}

// True and the value, if the whole text is a decimal number, "inf", "infinity" or "nan" (any case, any sign).
// Exact to a unit in the last place of a double, which is far finer than the float32 that it becomes.
inline bool parse_number(std::string_view text, double& value) {
    const bool negative = !text.empty() && text.front() == '-';
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    if (text.empty()) return false;
    const auto is_word = [text](std::string_view word) {
        if (text.size() != word.size()) return false;
        for (std::size_t i = 0; i < word.size(); ++i)
            if ((text[i] | 0x20) != word[i]) return false;
        return true;
    };
    if (is_word("inf") || is_word("infinity")) {
        value = negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
        return true;
    }
    if (is_word("nan")) {
        value = std::numeric_limits<double>::quiet_NaN();
        return true;
    }
    std::uint64_t digits = 0;
    int exponent = 0;
    bool any = false;
    bool point = false;
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            any = true;
            if (digits < 100'000'000'000'000'000ULL) {
                digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
                if (point && exponent > -100'000) --exponent;
            } else if (!point && exponent < 100'000) {
                ++exponent;
            }
        } else {
            break;
        }
    }
    if (!any) return false;
    if (at < text.size()) {
        if (text[at] != 'e' && text[at] != 'E') return false;
        ++at;
        const bool minus = at < text.size() && text[at] == '-';
        if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
        if (at == text.size()) return false;
        int written = 0;
        for (; at < text.size(); ++at) {
            if (text[at] < '0' || text[at] > '9') return false;
            if (written < 100'000) written = written * 10 + (text[at] - '0');
        }
        exponent += minus ? -written : written;
    }
    const auto whole = static_cast<double>(digits);
    if (digits == 0)
        value = 0.0;
    else
        value = exponent < 0 ? whole / power_of_ten(exponent) : whole * power_of_ten(exponent);
    if (negative) value = -value;
    return true;
}

}  // namespace arcbeam::arpa
