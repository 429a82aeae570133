#include "arcbeam/ctc/_boost/lines.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace arcbeam::boost {

namespace {

// A space, or the end of a line.
unsigned char is_mark(char letter) { return static_cast<unsigned char>((letter == ' ') | (letter == '\n')); }

unsigned char is_control(char letter) {
    return static_cast<unsigned char>((static_cast<unsigned char>(letter) < ' ') & (letter != '\n'));
}

// White space beyond ASCII: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
bool begins_with_wide_space(std::string_view text) {
    constexpr std::array<std::string_view, 8> kSpaces{"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                                      "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                                      "\xE2\x81\x9F", "\xE3\x80\x80"};
    const auto begins = [text](std::string_view space) { return text.substr(0, space.size()) == space; };
    return std::any_of(kSpaces.begin(), kSpaces.end(), begins) ||
           (begins("\xE2\x80") && text.size() > 2 && static_cast<unsigned char>(text[2]) <= 0x8AU);
}

bool has_wide_space(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto lead = static_cast<unsigned char>(text[at]);
        if ((lead == 0xC2U || (lead >= 0xE1U && lead <= 0xE3U)) && begins_with_wide_space(text.substr(at))) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool has_plain_lines(std::string_view text, std::size_t lines) {
    if (text.empty()) {
        return lines == 0;
    }
    unsigned bad = is_mark(text.front()) | is_mark(text.back());  // no jump in the loop: it looks at many letters a step
    unsigned wide = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
        bad |= static_cast<unsigned>(is_control(text[at]));
        wide |= static_cast<unsigned char>(text[at]);
    }
    for (std::size_t at = 1; at < text.size(); ++at) {
        bad |= is_mark(text[at]) & is_mark(text[at - 1]);
    }
    const auto feeds = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    return bad == 0 && feeds + 1 == lines && (wide < 0x80U || !has_wide_space(text));
}

bool may_repeat_a_line(std::string_view text, std::size_t lines) {
    std::size_t places = 2;
    while (places < 2 * lines) {
        places *= 2;
    }
    std::vector<std::size_t> hashes(places);  // open addressing; 0 is an empty place
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::size_t hash = std::hash<std::string_view>{}(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        std::size_t at = hash & (places - 1);
        while (hashes[at] != 0 && hashes[at] != (hash | 1U)) {
            at = (at + 1) & (places - 1);
        }
        if (hashes[at] != 0) {
            return true;
        }
        hashes[at] = hash | 1U;
    }
    return false;
}

}  // namespace arcbeam::boost
