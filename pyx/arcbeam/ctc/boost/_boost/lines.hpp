// The phrases of a boost list as lines of a text, checked before any graph is known.
#pragma once

#include <cstddef>
#include <string_view>

namespace arcbeam::boost {

// Whether a text of UTF-8 has so many lines, all different, with a word in each, one space between two words, and
// neither other white space nor control characters. White space is what Python's str.split() takes for it.
// By chance false, too: where two lines have the same hash.
bool are_plain(std::string_view text, std::size_t lines);

}  // namespace arcbeam::boost
