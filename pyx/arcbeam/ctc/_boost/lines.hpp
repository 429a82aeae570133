// The phrases of a boost list as lines of a text: checked at one pass over it, before any graph is known.
#pragma once

#include <cstddef>
#include <string_view>

namespace arcbeam::boost {

// Whether a text of UTF-8 has so many lines, with a word in each, one space between two words, and neither other
// white space nor control characters. White space is what Python's str.split() takes for it.
bool has_plain_lines(std::string_view text, std::size_t lines);

// False if no line occurs twice; true if one does, and also where two happen to have the same hash of 63 bits.
bool may_repeat_a_line(std::string_view text, std::size_t lines);

}  // namespace arcbeam::boost
