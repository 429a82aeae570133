#include "arcbeam/ctc/boost/_boost/lines.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace arcbeam::boost {

namespace {

using Letter = unsigned char;

constexpr std::uint64_t kOnes = 0x0101010101010101U;

// A space, or the end of a line.
Letter is_mark(char letter) { return static_cast<Letter>((letter == ' ') | (letter == '\n')); }

Letter is_control(char letter) {
    return static_cast<Letter>((static_cast<Letter>(letter) < ' ') & (letter != '\n'));
}

// White space beyond ASCII: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
bool begins_with_wide_space(std::string_view text) {
    constexpr std::array<std::string_view, 8> kSpaces{"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80",
                                                      "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
                                                      "\xE2\x81\x9F", "\xE3\x80\x80"};
    const auto begins = [text](std::string_view space) { return text.substr(0, space.size()) == space; };
    return std::any_of(kSpaces.begin(), kSpaces.end(), begins) ||
           (begins("\xE2\x80") && text.size() > 2 && static_cast<Letter>(text[2]) <= 0x8AU);
}

bool has_wide_space(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto lead = static_cast<Letter>(text[at]);
        if ((lead == 0xC2U || (lead >= 0xE1U && lead <= 0xE3U)) && begins_with_wide_space(text.substr(at))) {
            return true;
        }
    }
    return false;
}

// Whether words and spaces are as they should be in all lines, however many they are. The loops have no jumps and
// collect bytes, so that they check many letters in a step.
bool has_plain_spaces(std::string_view text) {
    auto bad = static_cast<Letter>(is_mark(text.front()) | is_mark(text.back()));
    Letter all = 0;
    for (const char letter : text) {
        bad = static_cast<Letter>(bad | is_control(letter));
        all = static_cast<Letter>(all | static_cast<Letter>(letter));
    }
    for (std::size_t at = 1; at < text.size(); ++at) {
        bad = static_cast<Letter>(bad | (is_mark(text[at]) & is_mark(text[at - 1])));
    }
    return bad == 0 && (all < 0x80U || !has_wide_space(text));
}

// Up to eight letters from a place on, the first in the lowest byte; line feeds after the end.
std::uint64_t eight_letters(std::string_view text, std::size_t at) {
    std::uint64_t word = '\n' * kOnes;
    if (text.size() - at >= sizeof word) {
        std::memcpy(&word, text.data() + at, sizeof word);  // of a fixed size: one instruction
    } else {
        std::memcpy(&word, text.data() + at, text.size() - at);
    }
    return word;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ hash >> 32U;
}

// The lines' hashes, one after another.
class Hashes {
  public:
    explicit Hashes(std::string_view text) : text_(text) {}

    [[nodiscard]] bool at_end() const { return at_ > text_.size(); }

    std::uint64_t next() {
        std::uint64_t hash = 0;
        for (;;) {
            const std::uint64_t word = eight_letters(text_, at_);
            const std::uint64_t differs = word ^ '\n' * kOnes;
            const std::uint64_t feeds =
                (differs - kOnes) & ~differs & 0x80U * kOnes;  // its lowest bit is the first's
            if (feeds != 0) {
                const std::uint64_t below = (feeds & -feeds) >> 7U;  // 1 in the byte of the line feed
                at_ += 1 + static_cast<std::size_t>(__builtin_ctzll(feeds)) / 8;
                return mixed(mixed(hash, word & (below - 1)), below);
            }
            hash = mixed(hash, word);
            at_ += sizeof word;
        }
    }

  private:
    std::string_view text_;
    std::size_t at_ = 0;  // the begin of a line, or beyond the end of the text
};

}  // namespace

bool are_plain(std::string_view text, std::size_t lines) {
    if (text.empty()) {
        return lines == 0;
    }
    if (!has_plain_spaces(text)) {
        return false;
    }
    std::size_t places = 2;
    while (places < 2 * lines) {
        places *= 2;
    }
    std::vector<std::uint64_t> found(places);  // open addressing; 0 is an empty place
    std::size_t count = 0;
    for (Hashes hashes(text); !hashes.at_end(); ++count) {
        const std::uint64_t hash = hashes.next() | 1U;
        std::size_t at = hash >> 20U & (places - 1);
        while (found[at] != 0 && found[at] != hash) {
            at = (at + 1) & (places - 1);
        }
        if (found[at] != 0 || count == lines) {
            return false;
        }
        found[at] = hash;
    }
    return count == lines;
}

}  // namespace arcbeam::boost
